// SPDX-License-Identifier: BSD-3-Clause
#include <vector>

#include "cubist/core/scalar.hpp"
#include "cubist/engine/cuda/chunks.hpp"

#include "catch.hpp"

namespace cubist::test::engine_cuda_chunks_test
{

TEST_CASE("a chunk has 16 bytes of the smallest elements, and at most 8 of them")
{
  STATIC_REQUIRE(detail::chunk_width_of<float> == 4);
  STATIC_REQUIRE(detail::chunk_width_of<double> == 2);
  STATIC_REQUIRE(detail::chunk_width_of<bfloat16> == 8);
  STATIC_REQUIRE(detail::chunk_width_of<std::complex<double>> == 1);
  STATIC_REQUIRE(detail::chunk_width_of<bfloat16, const float> == 8);
  STATIC_REQUIRE(detail::chunk_width_of<char> == 8);
  STATIC_REQUIRE(detail::chunk_width_of<double, const int> == 4);
}

TEST_CASE("chunks are accessed at once where data and rows are aligned")
{
  alignas(16) float x[100] = {};
  const auto aligned = [&](std::size_t offset, std::size_t rows, std::size_t ld) {
    return detail::chunks_are_aligned<4>(MatrixView<float>{x + offset, rows, 4, ld});
  };
  CHECK(aligned(0, 3, 4));
  CHECK(aligned(4, 3, 8));
  CHECK(aligned(0, 3, 0));
  CHECK(aligned(0, 1, 5));
  CHECK_FALSE(aligned(0, 2, 5));
  CHECK_FALSE(aligned(1, 3, 4));
  // Eight floats are two accesses of 16 bytes.
  CHECK(detail::chunks_are_aligned<8>(MatrixView<float>{x + 4, {2, 4}}));
  CHECK_FALSE(detail::chunks_are_aligned<1>(MatrixView<float>{x, {2, 4}}));
}

/// Adds 10 x to y for a chunk that begins at column j of a row of 10.
static std::vector<float> add(bool aligned, std::size_t j)
{
  alignas(16) const float x[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  alignas(16) float y[10] = {};
  detail::for_chunk<4>(
      aligned, 0, j, 10,
      [](unsigned k, float& to, const float& from) { to += 10 * from + float(k); },
      MatrixView<float>{y, {1, 10}}, MatrixView<const float>{x, {1, 10}});
  return {y, y + 10};
}

TEST_CASE("a function gets each element of a chunk, and writes those that are not const")
{
  const std::vector<float> first{0, 11, 22, 33, 0, 0, 0, 0, 0, 0};
  const std::vector<float> last{0, 0, 0, 0, 0, 0, 0, 0, 80, 91};
  for (const bool aligned : {true, false})
  {
    CHECK(add(aligned, 0) == first);
    CHECK(add(aligned, 8) == last);
  }
}

TEST_CASE("elements of several accesses, and of 16 bits, are loaded and stored")
{
  alignas(16) double x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  alignas(16) bfloat16 y[8] = {};
  detail::for_chunk<8>(
      true, 0, 0, 8, [](unsigned, bfloat16& to, double& from) { to = bfloat16{from++}; },
      MatrixView<bfloat16>{y, {1, 8}}, MatrixView<double>{x, {1, 8}});
  for (std::size_t i = 0; i < 8; ++i)
  {
    CHECK(static_cast<float>(y[i]) == static_cast<float>(i + 1));
    CHECK(x[i] == static_cast<double>(i + 2));
  }
}

}  // namespace cubist::test::engine_cuda_chunks_test
