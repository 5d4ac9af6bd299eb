// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matmul/dist_batch_matmul.hpp"

#include "batching_engine.hpp"
#include "scheme_conformance.hpp"

namespace cubist::test::matmul_dist_batch_matmul_test
{

TEST_CASE("each of two groups of ranks multiplies two matrices of 2 x 2")
{
  // (1 2) (5 6) = (19 22)
  // (3 4) (7 8)   (43 50)
  require_clear(on_ranks<TestBackend>(2, [](TestBackend::Communicator& world) {
    using Product = DistBatchMatMul<Grid3D, TestBackend, double>;
    const BatchMesh<Grid3D, TestBackend> mesh{world, 2, {}};
    Product product{mesh, {.b = 2, .m = 2, .n = 2, .k = 2}};
    typename Product::Input x{mesh, 2, {2, 2}};
    typename Product::Weight w{mesh, 2, {2, 2}};
    typename Product::Output y{mesh, 2, {2, 2}};
    const auto scale = [](std::size_t b) { return b == 0 ? 1.0 : 10.0; };
    x.generate([&](std::size_t b, std::size_t i, std::size_t j) {
      return scale(b) * static_cast<double>(1 + 2 * i + j);
    });
    w.generate([](std::size_t, std::size_t i, std::size_t j) {
      return static_cast<double>(5 + 2 * i + j);
    });
    product.forward(x, w, y);
    const double s = scale(y.offset());
    Findings found;
    found.check(y.size() == 1 &&
                    padded_block(y[0]).data == std::vector{19 * s, 22 * s, 43 * s, 50 * s},
                "the product of group ", y.offset());
    return found;
  }));
}

template <class S>
struct Case
{
  int ranks;
  int groups;
  typename S::Extents extents;
};

const std::tuple<std::vector<Case<Grid3D>>, std::vector<Case<Summa25D>>> cases{
    {{6, 1, {1, 2, 3}}, {8, 2, {2, 1, 2}}, {4, 4, {}}},
    {{8, 2, {.q = 2, .d = 1}}, {4, 2, {.q = 1, .d = 2}}}};

template <class F>
void for_each_case(F f)
{
  std::apply(
      [&](const auto&... lists) {
        const auto each = [&](const auto& list) {
          for (const auto& c : list)
            if (fits(c.ranks)) f(c);
        };
        (each(lists), ...);
      },
      cases);
}

constexpr BatchSize size{.b = 5, .m = 7, .n = 6, .k = 9};
constexpr ProductSize one{.m = size.m, .n = size.n, .k = size.k};

template <Op op_x, Op op_w, class S>
void check_batch(const Case<S>& c)
{
  CAPTURE(S::name, c.ranks, c.groups, op_x == Op::none, op_w == Op::none);
  std::vector<Layer<double>> layers;
  for (std::size_t b = 0; b < size.b; ++b) layers.push_back(random_layer<double>(one, b + 1));
  require_clear(on_ranks<TestBackend>(c.ranks, [&](TestBackend::Communicator& world) {
    using Product = DistBatchMatMul<S, TestBackend, double, op_x, op_w>;
    const BatchMesh<S, TestBackend> mesh{world, c.groups, c.extents};
    Findings found;
    Product plan{mesh, size};
    typename Product::Input x{mesh, size.b, op_shape(op_x, {size.m, size.k})};
    typename Product::Weight w{mesh, size.b, op_shape(op_w, {size.k, size.n})};
    typename Product::Output dy{mesh, size.b, {size.m, size.n}};
    for (std::size_t i = 0; i < x.size(); ++i)
    {
      const auto& layer = layers[x.offset() + i];
      load(x[i], stored(op_x, layer.x));
      load(w[i], stored(op_w, layer.w));
      load(dy[i], layer.dy);
    }
    auto y = dy;
    auto dx = x;
    auto dw = w;
    plan.forward(x, w, y);
    plan.grad_input(dy, w, dx);
    plan.grad_weight(x, dy, dw);
    for (std::size_t i = 0; i < x.size(); ++i)
    {
      const auto& layer = layers[x.offset() + i];
      const auto is = [&](const char* what, const auto& shard,
                          const GlobalMatrix<double>& expected) {
        check_shard(found, what, shard, [&](std::size_t r, std::size_t s, double got) {
          return got == expected(r, s);
        });
      };
      is("Y", y[i], layer.y);
      is("dX", dx[i], stored(op_x, layer.dx));
      is("dW", dw[i], stored(op_w, layer.dw));
    }
    return found;
  }));
}

TEST_CASE("Each product of a batch is the oracle's, with transposed operands too")
{
  for_each_case([](const auto& c) {
    check_batch<Op::none, Op::none>(c);
    check_batch<Op::none, Op::transpose>(c);
  });
}

TEST_CASE("A shared weight multiplies the whole batch, and its gradient is the sum")
{
  const auto w_global = random_matrix<double>({size.k, size.n}, 50);
  std::vector<Layer<double>> layers;
  GlobalMatrix<double> sum{{size.k, size.n}};
  for (std::size_t b = 0; b < size.b; ++b)
  {
    layers.emplace_back(random_matrix<double>({size.m, size.k}, 60 + b), w_global,
                        random_matrix<double>({size.m, size.n}, 70 + b));
    for (std::size_t i = 0; i < sum.data.size(); ++i) sum.data[i] += layers[b].dw.data[i];
  }
  for_each_case([&]<class S>(const Case<S>& c) {
    CAPTURE(S::name, c.ranks, c.groups);
    for (const std::size_t batch : {std::size_t{1}, size.b})
      require_clear(on_ranks<TestBackend>(c.ranks, [&](TestBackend::Communicator& world) {
        using Product = DistBatchMatMul<S, TestBackend, double>;
        const BatchMesh<S, TestBackend> mesh{world, c.groups, c.extents};
        Findings found;
        Product plan{mesh, {.b = batch, .m = size.m, .n = size.n, .k = size.k}};
        typename Product::Input x{mesh, batch, {size.m, size.k}};
        typename Product::SharedWeight w{mesh.group(), {size.k, size.n}};
        typename Product::Output dy{mesh, batch, {size.m, size.n}};
        load(w, w_global);
        for (std::size_t i = 0; i < x.size(); ++i)
        {
          load(x[i], layers[x.offset() + i].x);
          load(dy[i], layers[x.offset() + i].dy);
        }
        auto y = dy;
        auto dx = x;
        auto dw = w;
        plan.forward(x, w, y);
        plan.grad_input(dy, w, dx);
        plan.grad_weight(x, dy, dw, 1.0, 2.0);
        for (std::size_t i = 0; i < x.size(); ++i)
        {
          const auto& layer = layers[x.offset() + i];
          check_shard(found, "Y", y[i], [&](std::size_t r, std::size_t s, double got) {
            return got == layer.y(r, s);
          });
          check_shard(found, "dX", dx[i], [&](std::size_t r, std::size_t s, double got) {
            return got == layer.dx(r, s);
          });
        }
        check_shard(found, "dW + 2 dW", dw, [&](std::size_t r, std::size_t s, double got) {
          return got == (batch == 1 ? layers[0].dw : sum)(r, s) + 2 * w_global(r, s);
        });
        return found;
      }));
  });
}

TEST_CASE("A batch sends the elements of its products, and of the sum of a shared gradient")
{
  if (!fits(8)) return;
  using B = Counting<TestBackend>;
  // Two groups of 2 x 1 x 2 ranks, 4 products of 8 x 8 times 8 x 8.
  const auto sent = on_ranks<B>(8, [](B::Communicator& world) {
    using Product = DistBatchMatMul<Grid3D, B, double>;
    const BatchMesh<Grid3D, B> mesh{world, 2, {2, 1, 2}};
    Product plan{mesh, {.b = 4, .m = 8, .n = 8, .k = 8}};
    Product::Input x{mesh, 4, {8, 8}};
    Product::SharedWeight w{mesh.group(), {8, 8}};
    Product::Output y{mesh, 4, {8, 8}};
    const auto counted = [&](auto call) {
      world.traffic().reset();
      call();
      return world.traffic().total().elements;
    };
    const auto forward = counted([&] { plan.forward(x, w, y); });
    return std::pair{forward, counted([&] { plan.grad_weight(x, y, w); })};
  });
  std::uint64_t forward = 0;
  std::uint64_t gradient = 0;
  for (const auto& [f, g] : sent)
  {
    forward += f;
    gradient += g;
  }
  // Each product sends (z-1) KN + (x-1) MN = 128, and the sum 2 (g-1) KN.
  CHECK(forward == 4 * 128);
  CHECK(gradient == 4 * 128 + 2 * 64);
}

TEST_CASE("A batch that does not match is refused")
{
  for (const auto& m : on_ranks<TestBackend>(2, [](TestBackend::Communicator& world) {
         using Product = DistBatchMatMul<Grid3D, TestBackend, double>;
         const BatchMesh<Grid3D, TestBackend> mesh{world, 2};
         Product plan{mesh, size};
         Product::Input x{mesh, 4, {size.m, size.k}};
         Product::Weight w{mesh, 5, {size.k, size.n}};
         Product::Output y{mesh, 5, {size.m, size.n}};
         return message_of<ShapeError>([&] { plan.forward(x, w, y); });
       }))
    CHECK(mentions(m, "got X of 4 matrices in 2 groups", "batch of 5 products",
                   "make the plan for this batch"));
}

struct Batching
{
  using Communicator = TestBackend::Communicator;
  using Engine = BatchingEngine;
};

/// Lists the elements of all matrices of this rank's group.
template <class Batch>
std::vector<double> elements(Batch& batch)
{
  std::vector<double> all;
  for (auto& m : batch)
    for (std::size_t i = 0; i < m.valid().rows(); ++i)
      all.insert(all.end(), m.valid().row(i), m.valid().row(i) + m.valid().cols());
  return all;
}

/// Checks Y, dX and dW of batches that are stored as the operations say, with factors.
template <class B, Op op_x, Op op_w>
std::vector<std::vector<double>> products(TestBackend::Communicator& world, int groups)
{
  using Product = DistBatchMatMul<Grid3D, B, double, op_x, op_w>;
  const BatchMesh<Grid3D, B> mesh{world, groups, {}};
  Product plan{mesh, size};
  typename Product::Input x{mesh, size.b, op_shape(op_x, {size.m, size.k})};
  typename Product::Weight w{mesh, size.b, op_shape(op_w, {size.k, size.n})};
  typename Product::Output y{mesh, size.b, {size.m, size.n}};
  const auto fill = [&](auto& batch, double scale) {
    batch.generate([scale](std::size_t b, std::size_t i, std::size_t j) {
      return scale * static_cast<double>(1 + b + 2 * i) - static_cast<double>(j * j % 5);
    });
  };
  fill(x, 1), fill(w, 2), fill(y, 3);
  auto dx = x;
  auto dw = w;
  plan.forward(x, w, y, 2, 3);
  plan.grad_input(y, w, dx, 2, 3);
  plan.grad_weight(x, y, dw, 2, 3);
  return {elements(y), elements(dx), elements(dw)};
}

TEST_CASE("An engine's call for batches gives what one product after the other gives")
{
  const auto same = []<Op op_x, Op op_w>(int ranks, int groups, int calls) {
    require_clear(on_ranks<TestBackend>(ranks, [&](TestBackend::Communicator& world) {
      Findings found;
      const auto expected = products<TestBackend, op_x, op_w>(world, groups);
      BatchingEngine::calls = 0;
      const auto got = products<Batching, op_x, op_w>(world, groups);
      found.check(BatchingEngine::calls == calls, BatchingEngine::calls, " calls");
      found.check(got == expected, "the products");
      return found;
    }));
  };
  same.operator()<Op::none, Op::none>(4, 4, 3);
  same.operator()<Op::transpose, Op::none>(4, 4, 3);
  same.operator()<Op::transpose, Op::transpose>(4, 4, 3);
  same.operator()<Op::none, Op::none>(4, 2, 0);
}

}  // namespace cubist::test::matmul_dist_batch_matmul_test
