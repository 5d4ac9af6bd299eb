// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Work that is done many times with the same sizes. An engine that computes nothing takes the time
// that the first run took (RemembersTimes in engine/engine.hpp); any other engine does the work.

#include "cubist/core/repeated_work.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Does the work f(), or takes the time that it took before.
/// @pre f calls only the engine, and the time of its calls depends only on what `work` names
template <class E, class F>
void repeat(const E& engine, const RepeatedWork& work, const F& f)
{
  if constexpr (RemembersTimes<E>)
    engine.repeat(work, f);
  else
    f();
}

}  // namespace cubist::CUBIST_ABI::detail
