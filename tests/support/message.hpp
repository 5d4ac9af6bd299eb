// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Catches the message of an error, and searches it.

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

}  // namespace cubist::test
