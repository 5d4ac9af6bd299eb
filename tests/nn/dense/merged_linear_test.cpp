// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/dense/merged_linear.hpp"

#include "nn.hpp"
#include "words.hpp"

namespace cubist::test::merged_linear_test
{

/// A layer, whose rows are padded to groups of `unit`, and outputs to groups of 3, 1 and 4 columns.
struct Case
{
  std::size_t rows, unit, in;
  std::vector<std::size_t> out;
  bool bias;
};

const std::vector<Case> cases{{15, 5, 7, {12, 5, 8}, true},      // uneven
                              {24, 1, 12, {36, 24, 48}, false},  // nothing to pad on most meshes
                              {2, 2, 3, {3}, true}};             // ranks without a row or a column

constexpr std::size_t units[] = {3, 1, 4};

struct Results
{
  std::vector<Global<double>> y, w, dw, db;
  Global<double> dx;
};

/// Copies Y_i from `merged` to an ordinary matrix or, if `back`, from there to `merged`.
template <class Output>
void copy_columns(const MergedColumns& columns, Output& merged, Output& y, bool back)
{
  std::size_t left = columns.valid;
  for (std::size_t piece = 0; left > 0; ++piece)
  {
    const Shape shape{y.valid().rows(), std::min(columns.width, left)};
    const auto in_merged = merged.valid().block(0, columns.first + piece * columns.stride, shape);
    const auto in_y = y.valid().block(0, piece * columns.width, shape);
    const MatrixView<const double> from = back ? in_y : in_merged;
    y.mesh().engine().copy(from, back ? in_merged : in_y);
    left -= shape.cols;
  }
}

/// Runs a merged layer, and returns its results.
/// @param gradients  without these, the weights of all outputs may be in one matrix
template <class S, class B>
Results run(const Mesh<S, B>& mesh, const Case& c, bool gradients,
            StoredWeights weights = StoredWeights::scalar)
{
  using Layer = MergedLinear<S, B, double>;
  std::vector<MergedOutput> outputs;
  for (std::size_t i = 0; i < c.out.size(); ++i)
    outputs.push_back(
        {std::to_string(i), c.out[i], std::lcm(mesh.quantum(), units[i] * Layer::pieces(mesh))});
  Layer layer{mesh, c.in, outputs, {.bias = c.bias, .gradients = gradients}, weights};
  Parameters<double, typename Layer::Mesh> parameters;
  layer.append_parameters(parameters, "p.");
  std::uint64_t seed = 0;
  for (const auto& p : parameters)
    set_value(p, integers<double>(p.shape().rows, p.shape().cols, ++seed));

  typename Layer::Input x{mesh, {c.rows, c.in}, {c.unit * mesh.quantum(), mesh.quantum()}};
  scatter(integers<double>(c.rows, c.in, 50), x);
  typename Layer::Input dx = x;
  typename Layer::Kept kept;
  ImmediateSums<double, typename Layer::Mesh> sums;
  auto& merged = layer.forward(x, kept);
  Results r;
  for (std::size_t i = 0; i < c.out.size(); ++i)
  {
    typename Layer::Output y{mesh, {c.rows, c.out[i]}, {x.quanta().rows, outputs[i].quantum}};
    copy_columns(layer.columns(i), merged, y, false);
    r.y.push_back(gather(y));
    if (!gradients) continue;
    scatter(integers<double>(c.rows, c.out[i], 60 + i), y);
    copy_columns(layer.columns(i), layer.output_gradient(kept), y, true);
  }
  for (const auto& p : parameters)
    if (p.name.ends_with("weight")) r.w.push_back(gather(p.value));
  if (!gradients) return r;
  layer.backward(x, sums, kept, &dx);
  r.dx = gather(dx);
  for (const auto& p : parameters)
    (p.name.find("bias") == std::string::npos ? r.dw : r.db).push_back(gather(p.gradient));
  return r;
}

template <class S>
void equals_oracle(const Place<S>& place)
{
  if (!fits(place)) return;
  for (const auto& c : cases)
  {
    CAPTURE(place.name(), c.rows, c.in, c.bias);
    const auto got = on_root(place, [&](const auto& mesh) { return run<S>(mesh, c, true); });
    const auto inference = on_root(place, [&](const auto& mesh) { return run<S>(mesh, c, false); });
    CHECK(inference.y == got.y);
    // 16-bit scalars hold these integers exactly.
    const auto stored = on_root(
        place, [&](const auto& mesh) { return run<S>(mesh, c, false, StoredWeights::half); });
    CHECK(stored.y == got.y);
    CHECK(inference.w == got.w);
    const auto x = integers<double>(c.rows, c.in, 50);
    auto dx = generate<double>(c.rows, c.in, [](std::size_t, std::size_t) { return 0.0; });
    REQUIRE(got.y.size() == c.out.size());
    std::uint64_t seed = 0;
    for (std::size_t i = 0; i < c.out.size(); ++i)
    {
      const auto w = integers<double>(c.in, c.out[i], ++seed);
      const auto dy = integers<double>(c.rows, c.out[i], 60 + i);
      auto y = product(x, w);
      if (c.bias)
      {
        const auto b = integers<double>(1, c.out[i], ++seed);
        for (std::size_t r = 0; r < c.rows; ++r)
          for (std::size_t j = 0; j < c.out[i]; ++j) y(r, j) += b(0, j);
        CHECK(difference(got.db[i], column_sums(dy)) == 0);
      }
      CHECK(difference(got.y[i], y) == 0);
      CHECK(difference(got.w[i], w) == 0);
      CHECK(difference(got.dw[i], product(transposed(x), dy)) == 0);
      const auto part = product(dy, transposed(w));
      for (std::size_t e = 0; e < dx.size(); ++e) dx.data()[e] += part.data()[e];
    }
    CHECK(difference(got.dx, dx) == 0);
  }
}

TEST_CASE("merged layers compute what separate ones do")
{
  equals_oracle(Place<Summa2D>{6, {.rows = 2, .cols = 3}});
  equals_oracle(Place<Summa2DInput>{6, {.rows = 2, .cols = 3}});  // W and Y cut in 2 and 3
  equals_oracle(two_two_two);
  equals_oracle(cube);
  equals_oracle(Place<Grid2D>{6, {.x = 2, .y = 3}});
  equals_oracle(Place<Megatron1DSequence>{3, {.p = 3}});
  equals_oracle(Place<Megatron1DSequence::Next>{3, {.p = 3}});
}

#if !CUBIST_SANITIZED  // counts of elements do not change under a sanitizer
TEST_CASE("merged layers gather X once: they send as many elements as one product")
{
  using B = Counting<Threads>;
  const auto words = [](const auto& place, std::size_t m, std::size_t n, std::size_t k) {
    using S = typename std::decay_t<decltype(place)>::Scheme;
    const auto sent = on_mesh<B>(place, [&](const Mesh<S, B>& mesh) {
      MergedLinear<S, B, float> layer{mesh, k, {{"a", n}, {"b", 2 * n}, {"c", n}}, {.bias = false}};
      typename MergedLinear<S, B, float>::Input x{mesh, {m, k}};
      auto dx = x;
      auto& traffic = mesh.world().traffic();
      traffic.reset();
      typename MergedLinear<S, B, float>::Kept kept;
      ImmediateSums<float, typename MergedLinear<S, B, float>::Mesh> sums;
      layer.forward(x, kept);
      const std::uint64_t forward = traffic.total().elements;
      layer.backward(x, sums, kept, &dx);
      return std::vector<std::uint64_t>{forward, traffic.total().elements - forward};
    });
    Words sum;
    for (const auto& rank : sent) sum.forward += rank[0], sum.backward += rank[1];
    const auto one = counted_words<S>({place.ranks, place.extents}, {.m = m, .n = 4 * n, .k = k},
                                      Gathered::kept);
    CHECK(sum.forward == one.forward);
    CHECK(sum.backward == one.backward);
    CHECK(sum.forward > 0);
  };
  words(Place<Summa2D>{4, {.q = 2}}, 12, 8, 16);
  words(cube, 8, 16, 32);
}
#endif

}  // namespace cubist::test::merged_linear_test
