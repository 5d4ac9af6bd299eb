// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/algorithm/gram/packed_triangle.hpp"
#include "cubist/engine/host/engine.hpp"

#include "catch.hpp"
#include "matrices.hpp"

namespace cubist::test::algorithm_gram_packed_triangle_test
{

using cubist::detail::PackedTriangle;

TEST_CASE("six elements are the triangle of a matrix of 3 x 3")
{
  // The rows of A are 1, 2 and 3: C = (1 2 3; 2 4 6; 3 6 9), C11 = (1 2; 2 4), C21 = (3 6),
  // C22 = (9).
  const std::vector<double> a{1, 2, 3};
  std::vector<double> packed(PackedTriangle<double>::size(3));
  PackedTriangle<double>{packed.data(), 3}.multiply(HostEngine{}, 1,
                                                    MatrixView<const double>{a.data(), {3, 1}});
  CHECK(packed == std::vector<double>{1, 9, 2, 4, 3, 6});
}

TEST_CASE("a packed triangle is the product of the oracle, whole and added to another matrix")
{
  const HostEngine engine;
  for (const std::size_t n : {0U, 1U, 2U, 3U, 4U, 7U, 16U, 33U})
    for (const std::size_t k : {0U, 5U})
    {
      CAPTURE(n, k);
      const auto x = random_matrix<double>({n, k}, 1);
      const auto y = random_matrix<double>({n, k}, 2);
      const auto wanted = product(x, transposed(x));
      auto before = product(y, transposed(y));
      const double nan = std::numeric_limits<double>::quiet_NaN();
      // Elements after the triangle do not change.
      std::vector<double> memory(PackedTriangle<double>::size(n) + 2, nan);
      memory[memory.size() - 2] = memory[memory.size() - 1] = 7;
      const PackedTriangle<double> packed{memory.data(), n};
      packed.multiply(engine, 2, MatrixView<const double>{x.data.data(), {n, k}});
      CHECK(memory[memory.size() - 2] == 7);
      CHECK(memory[memory.size() - 1] == 7);

      std::vector<double> c(n * (n + 1), nan);
      const MatrixView<double> out{c.data(), n, n, n + 1};
      packed.unpack(engine, 0.0, MatrixView<const double>{out}, out);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j) wrong += out(i, j) == 2 * wanted(i, j) ? 0 : 1;
      CHECK(wrong == 0);
      // In another matrix, and in place.
      const MatrixView<double> c0{before.data.data(), {n, n}};
      packed.unpack(engine, 3.0, MatrixView<const double>{c0}, out);
      const auto old = before;
      packed.unpack(engine, 3.0, MatrixView<const double>{c0}, c0);
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j)
          wrong += out(i, j) == 2 * wanted(i, j) + 3 * old(i, j) && out(i, j) == c0(i, j) ? 0 : 1;
      CHECK(wrong == 0);
    }
}

}  // namespace cubist::test::algorithm_gram_packed_triangle_test
