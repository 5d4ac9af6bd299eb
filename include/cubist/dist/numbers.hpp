// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A few numbers in host memory, on their way through a communicator: it carries what lies in the
// memory of the engine.

#include <cstddef>
#include <span>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist
{

/// Calls `carry` with the numbers where a communicator can carry them, and brings back what it
/// made of them.
template <Engine E, Element T, class F>
void carry_numbers(const E& engine, std::span<T> numbers, F carry)
{
  if constexpr (in_host_memory<E>)
    carry(numbers);
  else
  {
    const MatrixView<T> here{numbers.data(), {1, numbers.size()}};
    typename E::template Buffer<T> buffer(numbers.size());
    const MatrixView<T> there{buffer.data(), here.shape()};
    engine.upload(MatrixView<const T>{here}, there);
    carry(there.elements());
    engine.download(MatrixView<const T>{there}, here);
  }
}

}  // namespace cubist
