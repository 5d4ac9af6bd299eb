// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/plan/cost.hpp"

#include "words.hpp"

namespace cubist::test::plan_cost_test
{

/// Elements that one rank sends, by the published formulas.
struct Formula
{
  double forward;
  double backward;
  double backward_weight;
};

template <class S>
void check(const typename S::Axes::Array& extents, ProductSize size, Gathered policy, Formula f)
{
  CAPTURE(S::name, S::Axes::to_string(extents), size.m, size.n, size.k);
  const auto c = cost<S>(extents, size, policy);
  CHECK(c.forward.words() == Approx(f.forward).margin(1e-9));
  CHECK(c.backward.words() == Approx(f.backward).margin(1e-9));
  CHECK(c.backward_weight.words() == Approx(f.backward_weight).margin(1e-9));
}

TEST_CASE("A pair of Megatron1D layers sends the elements of the published formulas")
{
  for (const int p : {1, 2, 4, 7})
  {
    const std::size_t m = 28;
    const std::size_t h = 56;
    const ProductSize up{.m = m, .n = 4 * h, .k = h};
    const ProductSize down{.m = m, .n = h, .k = 4 * h};
    const double f = 2.0 * (p - 1) / p * static_cast<double>(m * h);
    check<Megatron1D>({p}, up, Gathered::kept, {0, f, 0});
    check<Megatron1D::Next>({p}, down, Gathered::kept, {f, 0, 0});
    check<Megatron1DSequence>({p}, up, Gathered::kept, {f / 2, f / 2, 0});
    check<Megatron1DSequence::Next>({p}, down, Gathered::kept, {f / 2, f / 2, f / 2});
    check<Megatron1DSequence>({p}, up, Gathered::again, {f / 2, f, f / 2});
  }
}

const std::vector<ProductSize> sizes = {{24, 36, 48}, {37, 101, 23}, {1, 1, 1}};

static double area(std::size_t a, std::size_t b, std::size_t quantum)
{
  return static_cast<double>(pad(a, quantum) * pad(b, quantum));
}

/// SUMMA on d layers of r x c ranks; in each, p elements travel along rows and q along columns.
static Formula summa(double d, double r, double c, double p, double q, double kn)
{
  const double f = (c - 1) / (r * c) * p + (r - 1) / (r * c) * q;
  const double sum = 2 * (d - 1) / (d * r * c) * kn;
  return {f, 2 * f + sum, f + sum};
}

TEST_CASE("SUMMA sends the elements of the published formulas, whichever matrix stays")
{
  const auto on = [](int d, int r, int c, ProductSize s) {
    const auto flat = [&]<class S>(double p, double q, double kn) {
      check<S>({r, c}, s, Gathered::kept, summa(1, r, c, p, q, kn));
    };
    const auto deep = [&]<class S>(double p, double q, double kn) {
      check<S>({d, r, c}, s, Gathered::kept, summa(d, r, c, p, q, kn));
    };
    const std::size_t quantum = Summa2D::quantum({r, c});
    const double mk = area(s.m, s.k, quantum);
    const double kn = area(s.k, s.n, quantum);
    const double mn = area(s.m, s.n, quantum);
    flat.template operator()<Summa2D>(mk, kn, kn);
    flat.template operator()<Summa2DInput>(mn, kn, kn);
    flat.template operator()<Summa2DWeight>(mk, mn, kn);
    if (r != c) return;
    const std::size_t deep_quantum = Summa25D::quantum({d, r, c});
    const double deep_kn = area(s.k, s.n, deep_quantum);
    const double mk_d = area(s.m, s.k, deep_quantum) / d;
    const double mn_d = area(s.m, s.n, deep_quantum) / d;
    deep.template operator()<Summa25D>(mk_d, deep_kn, deep_kn);
    deep.template operator()<Summa25DInput>(mn_d, deep_kn, deep_kn);
    deep.template operator()<Summa25DWeight>(mk_d, mn_d, deep_kn);
  };
  for (const auto& size : sizes)
    for (const auto& [d, r, c] : {std::array{1, 2, 2},
                                  {1, 2, 3},
                                  {1, 3, 2},
                                  {1, 1, 4},
                                  {1, 4, 1},
                                  {2, 2, 2},
                                  {3, 2, 2},
                                  {2, 3, 3},
                                  {4, 1, 1},
                                  {1, 1, 1}})
      on(d, r, c, size);
}

static Formula grid(double x, double y, double z, double mk, double kn, double mn, Gathered policy)
{
  const double p = x * y * z;
  const double operands = ((y - 1) * mk + (z - 1) * kn) / p;
  const double f = operands + (x - 1) * mn / p;
  if (policy == Gathered::kept) return {f, f, f - (y - 1) * mk / p};
  return {f, f + operands, f};
}

TEST_CASE("Grids send the elements of the published formulas")
{
  const auto on = [](int x, int y, int z, ProductSize s, Gathered policy) {
    const auto words = [&](std::size_t quantum, std::size_t m, int layers) {
      return grid(x, y, layers, static_cast<double>(m * pad(s.k, quantum)), area(s.k, s.n, quantum),
                  static_cast<double>(m * pad(s.n, quantum)), policy);
    };
    const std::size_t quantum = Grid3D::quantum({x, y, z});
    check<Grid3D>({x, y, z}, s, policy, words(quantum, pad(s.m, quantum), z));
    if (x == y && y == z) check<Cube3D>({x, y, z}, s, policy, words(quantum, pad(s.m, quantum), z));
    if (z == 1) check<Grid2D>({x, y}, s, policy, words(Grid2D::quantum({x, y}), s.m, 1));
  };
  for (const auto& size : sizes)
    for (const auto policy : {Gathered::kept, Gathered::again})
      for (const auto& [x, y, z] : {std::array{1, 2, 3},
                                    {3, 2, 1},
                                    {2, 3, 2},
                                    {1, 1, 6},
                                    {4, 2, 1},
                                    {2, 2, 2},
                                    {3, 3, 3},
                                    {1, 1, 1}})
        on(x, y, z, size, policy);
}

/// Compares with the elements that the ranks of a mesh send, as counted.
template <class S>
void check_counted(const std::vector<TestMesh<S>>& meshes)
{
  for (const auto& on : those_that_fit(meshes))
    for (const auto& size : sizes)
      for (const auto policy : {Gathered::kept, Gathered::again})
      {
        const auto extents = S::extents(on.extents, on.ranks);
        CAPTURE(S::name, S::Axes::to_string(extents), size.m, size.n, size.k);
        const auto c = cost<S>(extents, size, policy);
        const auto counted = counted_words<S>(on, size, policy);
        CHECK(c.forward.words() * on.ranks == Approx(double(counted.forward)).margin(1e-6));
        CHECK(c.backward.words() * on.ranks == Approx(double(counted.backward)).margin(1e-6));
        CHECK(c.backward_weight.words() * on.ranks ==
              Approx(double(counted.backward_weight)).margin(1e-6));
      }
}

// tests/scheme compares the formulas above with counted elements for every scheme.
TEST_CASE("The elements of a cost are those that ranks send")
{
  check_counted<Summa25D>({{8, {.q = 2, .d = 2}}});
  check_counted<Summa2DWeight::Next>({{6, {.rows = 2, .cols = 3}}});
  check_counted<Grid3D::Next>({{6, {.x = 3, .y = 2, .z = 1}}, {12, {.x = 2, .y = 3, .z = 2}}});
}

TEST_CASE("Ranks share the operations of the padded product")
{
  for_each_scheme([]<class S>() {
    typename S::Axes::Array extents{};
    extents.fill(2);
    const ProductSize size{.m = 64, .n = 128, .k = 32};
    const auto c = cost<S>(extents, size);
    const double all = 2.0 * 64 * 128 * 32 / S::Axes::ranks(extents);
    CAPTURE(S::name);
    CHECK(c.forward.flops() == Approx(all));
    CHECK(c.backward.flops() == Approx(2 * all));
    CHECK(c.backward_weight.flops() == Approx(all));
  });
  CHECK(cost<Grid3D>({1, 2, 3}, {.m = 5, .n = 6, .k = 6}).forward.flops() == 2 * 2 * 6 * 6 / 2.0);
}

TEST_CASE("The workspace of a rank is the buffers of gathered and summed matrices")
{
  // X, W, Y: 64, 128, 256 elements on each of 8 ranks; gathered or summed in pairs.
  const auto cube = cost<Cube3D>({2, 2, 2}, {.m = 16, .n = 64, .k = 32});
  const std::size_t x = 64;
  const std::size_t w = 256;
  const std::size_t y = 128;
  CHECK(cube.near_workspace == 2 * (2 * x + x) + 2 * (2 * w + w) + (2 * y + y));
  CHECK(cube.far_workspace == 8 * x + 8 * w + 4 * y);
  SECTION("nothing is gathered on one rank")
  {
    CHECK(cost<Grid3D>({1, 1, 1}, {2, 3, 4}).near_workspace == 0);
  }
  SECTION("SUMMA has buffers for panels")
  {
    // 2 x 4 ranks, 4 panels of 8 of K: of X 8 x 8, of W 8 x 16; coalesced, all of K.
    const std::size_t coalesced = (8 + 16) * 32;
    const auto summa = cost<Summa2D>({2, 4}, {.m = 16, .n = 64, .k = 32});
    CHECK(summa.near_workspace == 8 * (64 + 128) + coalesced);
    CHECK(summa.far_workspace == 16 * (64 + 128) + coalesced);
  }
  SECTION("the larger workspace is that of ranks on several nodes")
  {
    CHECK(cube.workspace(8, 8) == cube.near_workspace);
    CHECK(cube.workspace(4, 8) == cube.far_workspace);
    const auto meshes = cost<DataParallel<Summa2D>>({4, 2, 2}, {.m = 16, .n = 64, .k = 32});
    CHECK(meshes.workspace(4, 16) == meshes.near_workspace);
    CHECK(meshes.workspace(6, 16) == meshes.far_workspace);
  }
}

TEST_CASE("Between nodes, SUMMA sends panels in slices of 256")
{
  const auto deep = cost<Summa2D>({2, 2}, {.m = 8, .n = 8, .k = 1026});
  REQUIRE(deep.forward.transfers.size() == 2);
  for (const auto& t : deep.forward.transfers) CHECK(t.slices == 3);
  for (const auto& t : cost<Summa2D>({2, 2}, {8, 8, 512}).forward.transfers) CHECK(t.slices == 1);
  for (const auto& t : cost<Summa2DInput>({2, 2}, {.m = 8, .n = 1024, .k = 8}).forward.transfers)
    CHECK(t.slices == 2);
  for (const auto& t : cost<Summa2DWeight>({2, 2}, {.m = 1024, .n = 8, .k = 8}).forward.transfers)
    CHECK(t.slices == 2);
}

TEST_CASE("The messages of a cost are those of the collectives")
{
  const auto cube = cost<Cube3D>({3, 3, 3}, {27, 27, 27}, Gathered::again);
  CHECK(cube.forward.messages() == 6);
  CHECK(cube.backward.messages() == 10);
  // 6 panels of X along 3 ranks, of W along 2.
  CHECK(cost<Summa2D>({2, 3}, {24, 24, 24}).forward.messages() == Approx(6 * 2 / 3.0 + 6 / 2.0));
}

TEST_CASE("Between nodes, products are those of the pieces that arrive")
{
  const auto far = [](const Work& work) {
    const auto& p = work.far_products[0];
    return std::array{p.m, p.n, p.k, p.times};
  };
  using Sizes = std::array<std::size_t, 4>;
  const ProductSize size{.m = 64, .n = 48, .k = 96};
  // X arrives in 2 pieces of rows, W in 4; Y is sent in 2 pieces of rows, those of X.
  const auto grid = cost<Grid3D>({2, 2, 4}, size).forward;
  CHECK(far(grid) == Sizes{8, 24, 12, 8});
  CHECK(grid.far_products[0].flops() == grid.products[0].flops());
  // K is cut into panels of 2048 / 2 indices, and these into slices of 256.
  const auto summa = cost<Summa2D>({2, 2}, {.m = 64, .n = 48, .k = 2048}).forward;
  CHECK(far(summa) == Sizes{32, 24, 256, 8});
  CHECK(summa.products[0].k == 1024);
}

}  // namespace cubist::test::plan_cost_test
