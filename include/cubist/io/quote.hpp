// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Quotes excerpts of files in messages.

#include <cstddef>
#include <string>
#include <string_view>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI
{

/// Returns at most `limit` bytes of `text` in quotes, and writes bytes that are not printable ASCII
/// as \xNN.
[[nodiscard]] inline std::string quote(std::string_view text, std::size_t limit = 40)
{
  constexpr std::string_view digits = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text.substr(0, limit))
  {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F)
      quoted += c;
    else
      (quoted += "\\x") += {digits[byte >> 4], digits[byte & 15U]};
  }
  quoted += text.size() > limit ? "...\"" : "\"";
  return quoted;
}

}  // namespace cubist::CUBIST_ABI
