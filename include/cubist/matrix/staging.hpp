// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Communicates values in host memory through a communicator that sends from an engine's memory.

#include <span>

#include "cubist/comm/call.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist::CUBIST_ABI
{

/// Calls `communicate(span)` on the values themselves if the engine computes in host memory.
/// Otherwise calls it on a staging buffer in the engine's memory, and copies the values there
/// before and back after.
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

namespace detail
{

/// Reduces numbers in host memory over the ranks of a mesh. Every rank of the mesh calls it.
template <class M, Element T>
void all_reduce_numbers(const M& mesh, std::span<T> numbers, ReduceOp op = ReduceOp::sum)
{
  with_staging_buffer(mesh.engine(), numbers, [&](auto all) { mesh.world().all_reduce(all, op); });
}

/// Returns the reduction of the numbers of all ranks.
template <class M, Element T>
[[nodiscard]] T all_reduced(const M& mesh, T number, ReduceOp op = ReduceOp::sum)
{
  all_reduce_numbers(mesh, std::span{&number, 1}, op);
  return number;
}

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
