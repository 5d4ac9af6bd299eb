// SPDX-License-Identifier: BSD-3-Clause

// Batches of products of CudaEngine, which are one call of a library, compared with products one by
// one. No kernel of this library is among them, so any compiler does.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/philox.hpp"
#include "cubist/engine/batch.hpp"
#include "cubist/engine/cuda/engine.hpp"

#include "checks.hpp"

using namespace cubist;
using namespace cubist::test;

namespace
{

/// Five products in one call, compared with one by one.
template <RealScalar T>
void compare_batch(Comparison& found)
{
  constexpr Shape a{7, 9}, b{9, 6}, c{7, 6};
  constexpr std::size_t count = 5;
  std::vector<T> numbers(count * (a.size() + b.size() + c.size()));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = Philox{7, 1}.symmetric<Accumulator<T>>(i, 1);
  const MatrixView<const T> host{numbers.data(), {1, numbers.size()}};
  const auto multiplied = [&](bool at_once) {
    const CudaEngine engine;
    CudaBuffer<T> buffer(numbers.size());
    engine.upload(host, MatrixView<T>{buffer.data(), host.shape()});
    cubist::detail::ProductBatch<T> batch;
    T* next = buffer.data();
    for (std::size_t i = 0; i < count; ++i)
    {
      // A is stored transposed.
      const MatrixView<const T> at{std::exchange(next, next + a.size()), {a.cols, a.rows}};
      const MatrixView<const T> bi{std::exchange(next, next + b.size()), b};
      const MatrixView<T> ci{std::exchange(next, next + c.size()), c};
      if (at_once)
        batch.add({at, Op::transpose}, bi, ci);
      else
        engine.gemm(Op::transpose, Op::none, T{2}, at, bi, T{3}, ci);
    }
    batch.multiply(engine, T{2}, T{3});
    std::vector<T> result(numbers.size());
    engine.download(MatrixView<const T>{buffer.data(), host.shape()},
                    MatrixView<T>{result.data(), host.shape()});
    return result;
  };
  const auto got = multiplied(true);
  const auto wanted = multiplied(false);
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(got[i]) - static_cast<double>(wanted[i])));
  found.check(most <= 64 * static_cast<double>(std::numeric_limits<T>::epsilon()),
              "a batch of products in " + element_name<T>() + ": off by " + std::to_string(most));
}

}  // namespace

void cubist::test::check_products(Comparison& found)
{
  compare_batch<float>(found);
  compare_batch<bfloat16>(found);
}
