// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/dense/linear.hpp"
#include "cubist/nn/dense/lora.hpp"
#include "cubist/plan/lora_cost.hpp"

#include "nn.hpp"
#include "sent.hpp"

namespace cubist::test::lora_cost_test
{

/// The elements that all ranks send in forward and in backward, as counted.
template <SchemeType L, class Place>
SentByPasses counted(const Place& place, ProductSize size, std::size_t rank)
{
  using B = Counting<Threads>;
  return sum(on_mesh<B>(place, [&](const auto& mesh) {
    using M = AxisMesh<typename L::Axes, B>;
    Linear<L, B, float> layer{mesh, size.k, size.n, {.bias = false}};
    DistMatrix<float, typename L::Input, M> x{mesh, {size.m, size.k}};
    DistMatrix<float, typename L::Output, M> y{mesh, {size.m, size.n}};
    auto dx = x;
    const MatrixView<float> to = dx.padded();
    add_lora(layer, 0, {.rank = rank});
    detail::LoraPairs<float, M>& pairs = *layer.lora_pairs();
    std::unique_ptr<detail::AnyKept> kept;
    ImmediateSums<float, M> sums;
    const auto forward =
        sent_in(mesh.world(), [&] { pairs.forward(x.view(), {}, kept, y.padded()); });
    const auto backward = sent_in(mesh.world(), [&] {
      pairs.backward(x.view(), std::as_const(y).padded(), {}, sums, kept, &to);
    });
    return SentByPasses{forward, backward};
  }));
}

template <SchemeType L, class Place>
void check(const Place& place)
{
  const auto extents = Place::Scheme::extents(place.extents, place.ranks);
  CAPTURE(place.name());
  for (const ProductSize size : {ProductSize{48, 24, 36}, {13, 7, 11}, {2, 1, 3}})
    for (const std::size_t rank : {std::size_t{3}, std::size_t{8}})
    {
      const auto cost = lora_cost<L>(extents, size, rank);
      const auto [forward, backward] = counted<L>(place, size, rank);
      CHECK(forward == cost.forward.words_of_all(place.ranks));
      std::uint64_t wanted = 0;
      for (const Work& work : {cost.backward, cost.sum_a, cost.sum_b})
        wanted += work.words_of_all(place.ranks);
      CHECK(backward == wanted);
    }
}

TEST_CASE("LoRA on Megatron1D sends its thin product backward, and forward for the second layer")
{
  // By hand: an all_reduce of M r = 8 * 2 elements over 4 ranks.
  const auto first = lora_cost<Megatron1D>({4}, {.m = 8, .n = 12, .k = 4}, 2);
  CHECK(first.forward.words() == 0);
  CHECK(first.backward.words() == 2 * 3 * 8 * 2 / 4.0);
  const auto second = lora_cost<Megatron1D::Next>({4}, {.m = 8, .n = 4, .k = 12}, 2);
  CHECK(second.forward.words() == 2 * 3 * 8 * 2 / 4.0);
  CHECK(second.backward.words() == 0);
}

TEST_CASE("LoRA sends the elements of its formula on every scheme")
{
  for_each_scheme([]<class S>() {
    const auto on = [](const Place<S>& place) {
      check<S>(place);
      check<typename S::Next>(place);
    };
    if constexpr (S::Axes::count == 1)
      on({3, {}}), on({8, {}});
    else if constexpr (S::Axes::count == 2)
      on({4, {}}), on({6, {}});
    else
      on({8, {}});
  });
  check<DataParallel<Grid3D>>(Place<DataParallel<Grid3D>>{8, {2, {1, 2, 2}}});
}

}  // namespace cubist::test::lora_cost_test
