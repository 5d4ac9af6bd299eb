// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How a call ended, as text: which error it threw, if any, with its message. Ranks return it, and
// the main thread asserts it.

#include <string>

#include "cubist/core/error.hpp"

namespace cubist::test
{

/// The type of the error that a call threw, and the message.
struct Outcome
{
  std::string type = "nothing";
  std::string text;
};

/// How `f()` ends; "completed" if it throws nothing.
template <class F>
[[nodiscard]] Outcome outcome_of(F&& f)
{
  try
  {
    f();
    return {"completed", ""};
  }
  catch (const PeerFailed& e)
  {
    return {"PeerFailed", e.what()};
  }
  catch (const CollectiveMismatch& e)
  {
    return {"CollectiveMismatch", e.what()};
  }
  catch (const DeadlockError& e)
  {
    return {"DeadlockError", e.what()};
  }
  catch (const TimeLimitError& e)
  {
    return {"TimeLimitError", e.what()};
  }
  catch (const CommunicationError& e)
  {
    return {"CommunicationError", e.what()};
  }
  catch (const Error& e)
  {
    return {"Error", e.what()};
  }
}

}  // namespace cubist::test
