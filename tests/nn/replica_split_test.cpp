// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/norm/row_norm.hpp"
#include "cubist/nn/replica_split.hpp"
#include "cubist/nn/residual.hpp"
#include "cubist/scheme/megatron1d.hpp"

#include "nn.hpp"
#include "passes.hpp"

namespace cubist::test::replica_split_test
{

constexpr std::size_t width = 250, few = 7, many = 301;  // 301 x 250 elements are shared

/// Whether work is shared, and the numbers of rows and columns that this rank computes.
template <class B>
std::vector<std::size_t> rows_of(const Mesh<Megatron1D, B>& mesh, std::size_t m)
{
  using Matrix = DistMatrix<float, Megatron1D::Input, AxisMesh<Axes<Tensor>, B>>;
  const Matrix x{mesh, {m, width}};
  ReplicaSplit shared{x};
  std::optional<Matrix> kept;
  const Matrix& y = shared.fit(kept, x);
  return {static_cast<std::size_t>(y.has_common_memory()), shared.mine(x.valid()).rows(),
          shared.my_columns(x.valid()).cols()};
}

TEST_CASE("replicas share out the rows of large matrices, and compute all rows of small ones")
{
  if (!fits(3)) return;
  const Place<Megatron1D> place{3, {}};
  const auto large = on_mesh(place, [](const auto& mesh) { return rows_of(mesh, many); });
  std::vector<std::size_t> rows;
  std::size_t columns = 0;
  for (const auto& rank : large)
  {
    CHECK(rank[0] == 1);
    rows.push_back(rank[1]);
    columns += rank[2];
  }
  CHECK(rows == std::vector<std::size_t>{100, 100, 101});
  CHECK(columns == width);
  for (const auto& rank : on_mesh(place, [](const auto& mesh) { return rows_of(mesh, few); }))
    CHECK(rank == std::vector<std::size_t>{0, few, width});
}

/// The outputs and gradients of a layer's steps, with other numbers of rows in between.
/// @param frozen  the index of a frozen parameter
template <template <class, class, class> class Norm, class S>
std::vector<Global<double>> steps(const Mesh<S, TestBackend>& mesh,
                                  std::optional<std::size_t> frozen)
{
  Residual layer{Norm<S, TestBackend, double>{mesh, width, NormOptions{}}};
  if (frozen) parameters_of(layer)[*frozen].freeze();
  const auto list = parameters_of(layer);
  for (std::size_t i = 0; i < list.size(); ++i)
    scatter(uniform<double>(1, width, 3 + i), list[i].value);
  std::vector<Global<double>> all;
  Passes passes{layer};
  for (std::size_t m : {many, few, many, many + 1})
  {
    const auto x = scatter<typename S::Input>(mesh, uniform<double>(m, width, m + all.size()));
    const auto dy = scatter<typename S::Input>(mesh, uniform<double>(m, width, m));
    all.push_back(gather(passes.forward(x, {})));
    all.push_back(gather(*passes.backward(x, dy, {}, true)));
    for (const auto& p : list)
      if (!p.frozen) all.push_back(gather(p.gradient));
  }
  return all;
}

template <template <class, class, class> class Norm>
void has_the_bits_of_one_rank(std::optional<std::size_t> frozen = {})
{
  const auto of = [&](const auto& mesh) { return steps<Norm>(mesh, frozen); };
  const auto one = on_root(Place<Megatron1D>{1, {}}, of);
  for (const int ranks : those_that_fit(std::vector{2, 3}))
  {
    CAPTURE(ranks);
    const auto shared = on_root(Place<Megatron1D>{ranks, {}}, of);
    REQUIRE(shared.size() == one.size());
    for (std::size_t i = 0; i < one.size(); ++i)
    {
      CAPTURE(i);
      CHECK(difference(shared[i], one[i]) == 0);
    }
  }
}

TEST_CASE("a norm beside its input, whose rows replicas share out, has the same bits as one rank")
{
  has_the_bits_of_one_rank<LayerNorm>();
  has_the_bits_of_one_rank<RmsNorm>();
  for (const std::size_t frozen : {0U, 1U})  // the weight or the bias
  {
    CAPTURE(frozen);
    has_the_bits_of_one_rank<LayerNorm>(frozen);
  }
}

TEST_CASE("replicas that cannot access each other's memory compute all rows, and send nothing")
{
  using B = Counting<TestBackend>;  // this backend has no windows
  if (!fits<B>(2)) return;
  const auto sent = on_mesh<B>(Place<Megatron1D>{2, {}}, [&](const Mesh<Megatron1D, B>& mesh) {
    Residual layer{LayerNorm<Megatron1D, B, float>{mesh, width, NormOptions{}}};
    Passes passes{layer};
    DistMatrix<float, Megatron1D::Input, AxisMesh<Axes<Tensor>, B>> x{mesh, {many, width}};
    auto& traffic = mesh.world().traffic();
    traffic.reset();
    const bool is_common = passes.forward(x, {}).has_common_memory();
    passes.backward(x, x, {}, true);
    return std::vector<std::uint64_t>{is_common, traffic.total().elements};
  });
  for (const auto& rank : sent) CHECK(rank == std::vector<std::uint64_t>{0, 0});
}

}  // namespace cubist::test::replica_split_test
