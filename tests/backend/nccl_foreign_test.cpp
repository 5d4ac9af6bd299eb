// SPDX-License-Identifier: BSD-3-Clause
// Converts between block-cyclic matrices in host memory and matrices on devices. It runs on the
// mock of CUDA and NCCL, whose random delays reveal missing synchronization.

#include "cubist/backend/nccl.hpp"
#include "cubist/foreign/redistribute.hpp"
#include "cubist/scheme/summa2d.hpp"

#include "fake.hpp"
#include "fake_engine.hpp"
#include "ranks.hpp"

namespace cubist::test::backend_nccl_foreign_test
{

using T = std::complex<float>;
using Matrix = DistMatrix<T, Summa2D::Input, AxisMesh<Summa2D::Axes, FakeNccl>>;

static T value(std::size_t i, std::size_t j)
{
  return {static_cast<float>(31 * i + j), static_cast<float>(i) - static_cast<float>(j)};
}

/// A block-cyclic matrix on all ranks but the last, and its local array.
struct Foreign
{
  explicit Foreign(const NcclCommunicator& world, T fill)
      : held{Distribution{layout}.local_shape(world.rank())},
        array(held.size(), fill),
        matrix{world, layout, array.data(), std::max<std::size_t>(1, held.rows)}
  {
  }

  BlockCyclic layout{.shape = {29, 23}, .block = {3, 4}, .grid = {5, 1}, .row_source = 2};
  Shape held;
  std::vector<T> array;
  ForeignMatrix<T> matrix;
};

TEST_CASE("a block-cyclic matrix becomes one on devices and returns, with op, alpha and beta")
{
  ComputeStream::synchronize();
  const int violations = fake::violations();
  require_clear(on_ranks<FakeNccl>(6, [](NcclCommunicator& world) {
    Findings found;
    const Mesh<Summa2D, FakeNccl> mesh{world, {2, 2}, IdleRanks::allowed};  // two ranks are idle
    Foreign a{world, T{}};
    // The rows of a rank, by the definition of the layout.
    std::vector<std::size_t> rows;
    for (std::size_t i = 0; i < 29; ++i)
      if ((2 + i / 3) % 5 == static_cast<std::size_t>(world.rank())) rows.push_back(i);
    found.check(a.array.size() == rows.size() * 23, "another number of elements");
    for (std::size_t j = 0; j < 23; ++j)
      for (std::size_t i = 0; i < rows.size(); ++i)
        a.array[j * rows.size() + i] = value(rows[i], j);
    const auto is_each = [&](const std::vector<T>& array, auto wanted) {
      bool right = true;
      for (std::size_t j = 0; j < 23; ++j)
        for (std::size_t i = 0; i < rows.size(); ++i)
          right = right && array[j * rows.size() + i] == wanted(rows[i], j);
      return right;
    };
    for (int run = 0; run < 3; ++run)
    {
      Matrix x{mesh, {29, 23}};
      redistribute(a.matrix, x);
      Foreign back{world, T{-1}};
      redistribute(std::as_const(x), back.matrix);
      found.check(back.array == a.array, "another matrix returned");
      redistribute(std::as_const(x), back.matrix, {Op::none, T{0, 1}, T{2}});
      found.check(is_each(back.array,
                          [](std::size_t i, std::size_t j) {
                            return T{0, 1} * value(i, j) + T{2} * value(i, j);
                          }),
                  "wrong sums in host memory");
      Matrix y{mesh, {23, 29}};
      redistribute(a.matrix, y, {.op = Op::adjoint});
      redistribute(a.matrix, y, {Op::transpose, T{3}, T{2}});
      redistribute(std::as_const(y), back.matrix, {.op = Op::transpose});
      found.check(is_each(back.array,
                          [](std::size_t i, std::size_t j) {
                            return T{3} * value(i, j) + T{2} * std::conj(value(i, j));
                          }),
                  "wrong sums on devices");
    }
    return found;
  }));
  ComputeStream::synchronize();
  CHECK(fake::violations() == violations);
}

}  // namespace cubist::test::backend_nccl_foreign_test
