// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Catches the message of an error, and searches texts.

#include <cstddef>
#include <string>

namespace cubist::test
{

/// The message of the `E` that `f` throws, or "" if it throws nothing; other errors propagate.
template <class E, class F>
[[nodiscard]] std::string message_of(F&& f)
{
  try
  {
    f();
  }
  catch (const E& e)
  {
    return e.what();
  }
  return "";
}

/// Whether `text` contains all of `parts`.
template <class... Parts>
[[nodiscard]] bool mentions(const std::string& text, const Parts&... parts)
{
  return ((text.find(parts) != std::string::npos) && ...);
}

/// How often `part` stands in `text`.
[[nodiscard]] inline std::size_t count_in(const std::string& text, const std::string& part)
{
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace cubist::test
