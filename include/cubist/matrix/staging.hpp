// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Sends values in host memory by a communicator whose data is in an engine's memory.

#include <span>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist::CUBIST_ABI
{

/// Calls `communicate(span)` on the values themselves if the engine computes in host memory, else
/// on a staging buffer in the engine's memory that they are copied to before and from after.
template <Engine E, Element T, class F>
void with_staging_buffer(const E& engine, std::span<T> values, F communicate)
{
  if constexpr (in_host_memory<E>)
    communicate(values);
  else
  {
    const MatrixView<T> host{values.data(), {1, values.size()}};
    typename E::template Buffer<T> buffer(values.size());
    const MatrixView<T> staged{buffer.data(), host.shape()};
    engine.upload(MatrixView<const T>{host}, staged);
    communicate(staged.elements());
    engine.download(MatrixView<const T>{staged}, host);
  }
}

}  // namespace cubist::CUBIST_ABI
