// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/dense/merged_linear.hpp"
#include "cubist/plan/transformer_parts.hpp"

#include "nn.hpp"

namespace cubist::test::plan_transformer_parts_test
{

/// A model with two query heads for each head of keys and values.
static TransformerConfig small_model()
{
  return {.vocabulary = 10,
          .positions = 8,
          .width = 12,
          .layers = 2,
          .heads = 6,
          .key_value_heads = 3,
          .feed_forward = 20};
}

TEST_CASE("On one rank nothing is padded and nothing is sent")
{
  const auto model = small_model();
  const TransformerParts<Summa25D> parts{{1, 1, 1}, {3, 5}, model};
  CHECK(parts.products()[0].size.n == 24);
  CHECK(parts.attention().heads == 6);
  CHECK(parts.embedding_words() == 0);
  CHECK(parts.norm_statistics().words == 0);
}

using Counted = Counting<TestBackend>;

/// The elements that this rank sends in each of a block's products, forward and backward.
template <class S>
std::vector<std::uint64_t> counted(const Mesh<S, Counted>& mesh, Counted::Communicator& world,
                                   TokenBatch batch, const TransformerConfig& model)
{
  const std::size_t rows = batch.length * mesh.quantum();
  const std::size_t pieces = MergedLinear<S, Counted, float>::pieces(mesh);
  const std::size_t kv = std::lcm(mesh.quantum(), model.head_size * pieces);
  const std::size_t q = model.group() * kv;
  std::vector<std::uint64_t> words;
  const auto count = [&](auto call) {
    world.traffic().reset();
    call();
    words.push_back(world.traffic().total().elements);
  };
  const auto merged = [&](const std::vector<MergedOutput>& outputs) {
    using Layer = MergedLinear<S, Counted, float>;
    Layer layer{mesh, model.width, outputs, {.method = Method::collectives}};
    const typename Layer::Input x{mesh, {batch.tokens(), model.width}, {rows, mesh.quantum()}};
    auto dx = x;
    typename Layer::Kept kept;
    ImmediateSums<float, typename Layer::Mesh> sums;
    count([&] { layer.forward(x, kept); });
    (void)layer.output_gradient(kept);
    count([&] { layer.backward(x, sums, kept, &dx); });
  };
  const auto linear = [&]<class Of>(std::size_t in, std::size_t out, std::size_t quantum) {
    using Layer = Linear<Of, Counted, float>;
    Layer layer{mesh, in, out, {.method = Method::collectives, .in_quantum = quantum}};
    const typename Layer::Input x{mesh, {batch.tokens(), in}, {rows, quantum}};
    auto dx = x;
    auto y = layer.make_output(x);
    count([&] { layer.forward(x, y); });
    count([&] { layer.backward(x, y, dx); });
  };
  const std::size_t d = model.width;
  const std::size_t f = model.feed_forward;
  merged(
      {{"query", d, q}, {"key", model.key_value_width(), kv}, {"v", model.key_value_width(), kv}});
  linear.template operator()<typename S::Next>(d, d, q);
  if (model.is_gated())
    merged({{"gate", f, 0}, {"up", f, 0}});
  else
    linear.template operator()<S>(d, f, mesh.quantum());
  linear.template operator()<typename S::Next>(f, d, mesh.quantum());
  return words;
}

template <class S>
void sends_as_counted(const Place<S>& place, TokenBatch batch, const TransformerConfig& model)
{
  if (!fits(place)) return;
  CAPTURE(place.name(), batch.sequences, batch.length, model.is_gated());
  const auto ranks = on_ranks<Counted>(place.ranks, [&](Counted::Communicator& world) {
    return counted<S>(Mesh<S, Counted>{world, place.extents}, world, batch, model);
  });
  std::vector<std::uint64_t> all(8);
  for (const auto& mine : ranks)
    for (std::size_t i = 0; i < all.size(); ++i) all[i] += mine[i];
  const auto extents = S::extents(place.extents, place.ranks);
  const TransformerParts<S> parts{extents, batch, model, 1};
  std::size_t i = 0;
  for (const auto& p : parts.products())
  {
    CAPTURE(i);
    const auto c = parts.cost(p, Gathered::kept);
    CHECK(all[i++] == c.forward.words_of_all(place.ranks));
    CHECK(all[i++] == c.backward.words_of_all(place.ranks) + parts.bias_sum(p).words);
  }
}

TEST_CASE("The products of a block send what is counted, padding included")
{
  const auto check = [](const auto& place) {
    auto model = small_model();
    sends_as_counted(place, {3, 5}, model.completed());
    model.kind = TransformerKind::llama;
    model.key_value_heads = 6;
    sends_as_counted(place, {4, 2}, model.completed());
  };
  check(two_two_two);
  check(cube);
  check(Place<Megatron1D>{4});
  check(Place<Summa25D>{4, {.q = 2, .d = 1}});
}

TEST_CASE("Every rank has whole sequences and whole groups of heads")
{
  const auto model = small_model();
  const TransformerParts<Cube3D> parts{{2, 2, 2}, {3, 5}, model, 1};
  const auto [qkv, output, up, down] = parts.products();
  CHECK(qkv.is_merged());
  // 3 heads of 2 columns are padded to 4, so that both parts have the same number.
  CHECK(qkv.n == 24);
  CHECK(qkv.size.n == 16 + 8 + 8);
  const auto share = parts.attention();
  CHECK(share.heads == 4);
  CHECK(share.sequences == 1);
  CHECK((share.row_parts == 4 && share.rows_in_use == 3));
  CHECK((share.col_parts == 2 && share.cols_in_use == 2));
  CHECK(parts.cut(qkv).y.block == Shape{5, 16});
  CHECK(parts.cut(output).x.block == Shape{5, 8});
  CHECK(output.is_next);
  CHECK((up.size == ProductSize{.m = 15, .n = 20, .k = 12}));
  CHECK((down.size == ProductSize{.m = 15, .n = 12, .k = 20}));
  CHECK(parts.stream().block == Shape{5, 6});
  CHECK_FALSE(parts.logits().has_bias);
}

}  // namespace cubist::test::plan_transformer_parts_test
