// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/simulated.hpp"
#include "cubist/backend/threads.hpp"
#include "cubist/matmul/stored_product.hpp"
#include "cubist/plan/meshes.hpp"
#include "cubist/scheme/catalogue.hpp"

#include "nn.hpp"
#include "stored.hpp"

namespace cubist::test::matmul_stored_product_test
{

/// Computes Y on a mesh; returns what rank 0 gathers, and how many times W was read.
template <class S, class B>
Global<float> multiplied(const Mesh<S, B>& mesh, StoredWeights type, const Global<float>& x,
                         const Global<float>& w, bool by_columns)
{
  using M = AxisMesh<typename S::Axes, B>;
  const Shape shape{w.shape(0), w.shape(1)};
  const Quanta quanta{mesh.quantum(), mesh.quantum()};
  const auto product = make_stored_product<S, B, float>(mesh, type, shape, quanta);
  const auto source = [&](const Block& block, MatrixView<float> to) {
    for (std::size_t i = 0; i < to.rows(); ++i)
      for (std::size_t j = 0; j < to.cols(); ++j)
        to(i, j) = w(block.rows.offset + i, block.cols.offset + j);
  };
  product->set(0, product->columns().offset, product->columns().valid, {"w", by_columns, source});
  DistMatrix<float, typename S::Input, M> a{mesh, {x.shape(0), shape.rows}};
  DistMatrix<float, typename S::Output, M> y{mesh, {x.shape(0), shape.cols}};
  scatter(x, a);
  mesh.engine().fill(y.valid(), 77.0F);
  std::unique_ptr<typename StoredProduct<float, M>::Workspace> workspace;
  // Twice, because the second call finds the buffers of the first.
  for (int i = 0; i < 2; ++i) product->forward(a.view(), y.view(), workspace);
  return gather(y);
}

/// Compares with a product in double, on every mesh of scheme S.
template <class S, class B = TestBackend>
void equals_product(int most)
{
  for_each_mesh<S>(most, [&](const typename S::Axes::Array& extents) {
    const int ranks = S::Axes::ranks(extents);
    if (!fits<B>(ranks)) return;
    for (const ProductSize size :
         {ProductSize{.m = 1, .n = 33, .k = 70}, ProductSize{.m = 19, .n = 40, .k = 100},
          ProductSize{.m = 3, .n = 5, .k = 1}})
      for (const auto type : {StoredWeights::q8, StoredWeights::bfloat16})
      {
        const std::size_t m = size.m, n = size.n, k = size.k;
        CAPTURE(S::name, S::Axes::to_string(extents), m, n, k, to_string(type));
        const auto x = uniform<float>(m, k, 1), w = uniform<float>(k, n, 2);
        const auto rows = on_ranks<B>(ranks, [&](typename B::Communicator& world) {
          return multiplied<S, B>(Mesh<S, B>{world, extents, IdleRanks::refused}, type, x, w,
                                  m > 1);
        });
        if (rows.empty()) return;
        const auto& y = rows[0];
        const auto stored = as_stored(converted<double>(w), type);
        for (std::size_t i = 0; i < m; ++i)
          for (std::size_t j = 0; j < n; ++j)
          {
            double sum = 0, terms = 0;
            for (std::size_t l = 0; l < k; ++l)
            {
              const double term = double{x(i, l)} * stored(l, j);
              sum += term;
              terms += std::abs(term);
            }
            REQUIRE(std::abs(y(i, j) - sum) <= 1e-6 * terms);
          }
      }
  });
}

#ifndef CUBIST_TEST_MPI
TEST_CASE("a weight that is stored in fewer bits multiplies on every scheme and mesh")
{
  for_each_scheme<WholeCatalogue>([]<class S>() { equals_product<S, Threads>(8); });
}
#endif

TEST_CASE("a stored weight multiplies on every backend")
{
  equals_product<Megatron1D>(3);
  equals_product<Grid3D>(4);
}

TEST_CASE("a stored weight is set in pieces of at most 256 KiB, by rows and by columns")
{
  for (const bool by_columns : {false, true})
  {
    const auto largest = on_ranks<Threads>(1, [&](Threads::Communicator& world) {
      const Mesh<Megatron1D, Threads> mesh{world};
      const auto product =
          make_stored_product<Megatron1D, Threads, float>(mesh, StoredWeights::q8, {900, 800}, 1);
      std::size_t most = 0;
      product->value().set({"w", by_columns, [&](const Block&, MatrixView<float> to) {
                              most = std::max(most, to.size());
                              mesh.engine().fill(to, 0.0F);
                            }});
      return most * sizeof(float);
    });
    // Whole blocks of 32 rows may exceed it by one.
    CHECK(largest[0] > (1 << 17));
    CHECK(largest[0] <= (1 << 18) + 32 * 800 * sizeof(float));
  }
}

TEST_CASE(
    "a stored weight is refused on engines that cannot multiply by it, and so are wrong shapes")
{
  std::string message;
  launch<Simulated>({.ranks = 1}, [&](auto& world) {
    const Mesh<Megatron1D, Simulated> mesh{world};
    message = message_of<ArgumentError>([&] {
      (void)make_stored_product<Megatron1D, Simulated, float>(mesh, StoredWeights::q8, {3, 4}, 1);
    });
  });
  CHECK(mentions(message, "got weights to be stored as q8 on an engine", "store scalars"));
  const auto other = on_ranks<Threads>(1, [](Threads::Communicator& world) {
    const Mesh<Megatron1D, Threads> mesh{world};
    const auto product =
        make_stored_product<Megatron1D, Threads, float>(mesh, StoredWeights::q8, {3, 4}, 1);
    DistMatrix<float, Megatron1D::Input, AxisMesh<Megatron1D::Axes, Threads>> x{mesh, {2, 4}};
    DistMatrix<float, Megatron1D::Output, AxisMesh<Megatron1D::Axes, Threads>> y{mesh, {2, 4}};
    std::unique_ptr<StoredProduct<float, decltype(x)::Mesh>::Workspace> workspace;
    return message_of<ShapeError>([&] { product->forward(x.view(), y.view(), workspace); });
  });
  CHECK_FALSE(other[0].empty());
}

}  // namespace cubist::test::matmul_stored_product_test
