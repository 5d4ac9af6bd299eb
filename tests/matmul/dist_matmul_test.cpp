// SPDX-License-Identifier: BSD-3-Clause
#include <thread>

#include "cubist/matmul/dist_matmul.hpp"

#include "scheme_conformance.hpp"

namespace cubist::test::matmul_dist_matmul_test
{

using World = TestBackend::Communicator;
using Product = DistMatMul<Summa2D, TestBackend, double>;
using TestMesh2 = Mesh<Summa2D, TestBackend>;

TEST_CASE("a product of two matrices on one rank, and its gradients")
{
  // X = (1 2), W = (5 6), Y = (19 22)
  //     (3 4)      (7 8)      (43 50)
  require_clear(on_ranks<TestBackend>(1, [](World& world) {
    using Matrix = xt::xtensor<double, 2>;
    const TestMesh2 mesh{world, {.q = 1}};
    Product product{mesh, {.m = 2, .n = 2, .k = 2}};
    const auto x = scatter<Summa2D::Input>(mesh, Matrix{{1, 2}, {3, 4}});
    const auto w = scatter<Summa2D::Weight>(mesh, Matrix{{5, 6}, {7, 8}});
    auto y = product.forward(x, w);
    Product::Input dx{mesh, {2, 2}};
    Product::Weight dw{mesh, {2, 2}};
    product.backward(x, w, y, dx, dw);
    Findings found;
    found.check(gather(y) == Matrix{{19, 22}, {43, 50}}, "Y = X W");
    found.check(gather(dx) == Matrix{{227, 309}, {515, 701}}, "dX = Y W^T");
    found.check(gather(dw) == Matrix{{148, 172}, {210, 244}}, "dW = X^T Y");
    return found;
  }));
}

constexpr ProductSize size{.m = 4, .n = 8, .k = 6};

TEST_CASE("A plan knows its mesh and size")
{
  require_clear(on_ranks<TestBackend>(4, [](World& world) {
    const TestMesh2 mesh{world, {.q = 2}};
    const Product plan{mesh, size};
    Findings found;
    found.check(plan.mesh() == mesh, "mesh");
    found.check(!plan.is_local(), "ranks exchange blocks");
    found.check(plan.size().m == 4 && plan.size().n == 8 && plan.size().k == 6, "size");
    return found;
  }));
}

TEST_CASE("A plan has the requested method")
{
  require_clear(on_ranks<TestBackend>(4, [](World& world) {
    const TestMesh2 mesh{world, {.q = 2}};
    const bool exposes = can_expose(world);
    const auto method = [&](Method requested) {
      return Product{mesh, size, Gathered::again, requested}.method();
    };
    Findings found;
    found.check(method(Method::collectives) == Method::collectives, "collectives");
    found.check(method(Method::automatic) == (exposes ? Method::direct : Method::collectives),
                "automatic");
    if (exposes) found.check(method(Method::direct) == Method::direct, "direct");
    return found;
  }));
}

TEST_CASE("Where ranks cannot expose memory, a plan uses collectives and refuses the direct method")
{
  using B = Counting<TestBackend>;
  require_clear(on_ranks<B>(4, [](B::Communicator& world) {
    const Mesh<Summa2D, B> mesh{world, {.q = 2}};
    using P = DistMatMul<Summa2D, B, double>;
    Findings found;
    found.check(P{mesh, size}.method() == Method::collectives, "the method");
    const auto message = message_of<ArgumentError>([&] {
      const P plan{mesh, size, Gathered::again, Method::direct};
    });
    found.check(mentions(message, "cannot all read", "use Method::automatic"), message);
    return found;
  }));
}

/// The operands of a product; tests replace one of them.
struct Matrices
{
  explicit Matrices(const Product::Mesh& mesh)
      : x{mesh, {4, 6}},
        w{mesh, {6, 8}},
        y{mesh, {4, 8}},
        dx{x},
        dw{w}
  {
  }
  Product::Input x;
  Product::Weight w;
  Product::Output y;
  Product::Input dx;
  Product::Weight dw;
};

/// An operand of another size, or on another mesh, and the calls that refuse it.
struct Refusal
{
  char operand;  // x, w, y, X for dX, W for dW
  Shape shape;
  std::string message;
  std::vector<std::string> calls;
};

static void replace(Matrices& o, char operand, const Product::Mesh& mesh, Shape shape)
{
  if (operand == 'x') o.x = {mesh, shape};
  if (operand == 'w') o.w = {mesh, shape};
  if (operand == 'y') o.y = {mesh, shape};
  if (operand == 'X') o.dx = {mesh, shape};
  if (operand == 'W') o.dw = {mesh, shape};
}

/// Checks that every call of each refusal throws its message, and says what to do.
template <class E>
void check_refused(bool on_another_mesh, const std::string& fix,
                   const std::vector<Refusal>& refusals)
{
  require_clear(on_ranks<TestBackend>(4, [&](World& world) {
    const TestMesh2 mesh{world, {.q = 2}};
    const TestMesh2 other{world, {.q = 2}};
    Product plan{mesh, size};
    Findings found;
    for (const auto& refusal : refusals)
    {
      Matrices o{mesh};
      replace(o, refusal.operand, on_another_mesh ? other : mesh, refusal.shape);
      for (const auto& call : refusal.calls)
      {
        const auto message = message_of<E>([&] {
          if (call == "forward") plan.forward(o.x, o.w, o.y);
          if (call == "grad_input") plan.grad_input(o.y, o.w, o.dx);
          if (call == "grad_weight") plan.grad_weight(o.x, o.y, o.dw);
          if (call == "backward") plan.backward(o.x, o.w, o.y, o.dx, o.dw);
          if (call == "without dX") plan.backward(o.x, o.y, o.dw);
        });
        found.check(mentions(message, refusal.message, fix), call, " said '", message, "'");
      }
      // The plan can still be used.
      Matrices fresh{mesh};
      plan.forward(fresh.x, fresh.w, fresh.y);
    }
    return found;
  }));
}

TEST_CASE("Every operand of another size is refused, on every rank, by every call that takes it")
{
  check_refused<ShapeError>(
      false, "make the plan for these matrices, or the matrices for this plan",
      {{'x', {4, 7}, "X is (4, 7)", {"forward", "grad_weight", "backward", "without dX"}},
       {'w',
        {5, 8},
        "W is (5, 8), but a product with m = 4, n = 8, k = 6 needs (6, 8)",
        {"forward", "grad_input", "backward"}},
       {'y', {8, 4}, "Y is (8, 4)", {"forward"}},
       {'y', {8, 4}, "dY is (8, 4)", {"grad_input", "grad_weight", "backward", "without dX"}},
       {'X', {5, 6}, "dX is (5, 6)", {"grad_input", "backward"}},
       {'W', {6, 7}, "dW is (6, 7)", {"grad_weight", "backward", "without dX"}}});
}

TEST_CASE("A matrix on another mesh is refused by every call that takes it")
{
  check_refused<MeshError>(
      true, "make it on the product's mesh",
      {{'x',
        {4, 6},
        "got X of (4, 6) on a different mesh",
        {"forward", "grad_weight", "backward", "without dX"}},
       {'w', {6, 8}, "got W of (6, 8) on a different mesh", {"forward", "grad_input", "backward"}},
       {'y',
        {4, 8},
        "got dY of (4, 8) on a different mesh",
        {"grad_input", "grad_weight", "backward", "without dX"}},
       {'X', {4, 6}, "got dX of (4, 6) on a different mesh", {"grad_input", "backward"}},
       {'W',
        {6, 8},
        "got dW of (6, 8) on a different mesh",
        {"grad_weight", "backward", "without dX"}}});
}

TEST_CASE("A matrix of other padding is refused")
{
  require_clear(on_ranks<TestBackend>(4, [](World& world) {
    const TestMesh2 mesh{world, {.q = 2}};
    Product plan{mesh, size, Gathered::again, Method::automatic, {.m = 4, .n = 0, .k = 6}};
    Findings found;
    found.check(plan.quanta() == ProductQuanta{.m = 4, .n = 2, .k = 6}, "quanta");
    Matrices o{mesh};
    const auto message = message_of<ShapeError>([&] { plan.forward(o.x, o.w, o.y); });
    found.check(mentions(message, "got X of (4, 6) padded to multiples of 2 rows and 2 columns",
                         "needs multiples of 4 and 6", "with the quanta of the matrices"),
                message);
    return found;
  }));
}

TEST_CASE("A refused product leaves its result as it was")
{
  require_clear(on_ranks<TestBackend>(4, [](World& world) {
    const TestMesh2 mesh{world, {.q = 2}};
    Product plan{mesh, size};
    Matrices o{mesh};
    o.x = {mesh, {4, 7}};
    mesh.engine().fill(o.y.valid(), 3.0);
    (void)message_of<ShapeError>([&] { plan.forward(o.x, o.w, o.y); });
    Findings found;
    check_shard(found, "Y", o.y, [](auto, auto, double v) { return v == 3.0; });
    return found;
  }));
}

TEST_CASE("The outputs of a cube's layers are the inputs of its next ones")
{
  const auto x = random_matrix<double>({13, 10}, 1);
  const auto w1 = random_matrix<double>({10, 17}, 2);
  const auto w2 = random_matrix<double>({17, 6}, 3);
  const auto w3 = random_matrix<double>({6, 11}, 4);
  const auto y = product(product(product(x, w1), w2), w3);
  require_clear(on_ranks<TestBackend>(8, [&](World& world) {
    const Mesh<Cube3D, TestBackend> mesh{world};
    using First = DistMatMul<Cube3D, TestBackend, double>;
    using Second = DistMatMul<Cube3D::Next, TestBackend, double>;
    First::Input in{mesh, x.shape};
    First::Weight a{mesh, w1.shape};
    Second::Weight b{mesh, w2.shape};
    First::Weight c{mesh, w3.shape};
    load(in, x);
    load(a, w1);
    load(b, w2);
    load(c, w3);
    First::Output y1{mesh, {13, 17}};
    Second::Output y2{mesh, {13, 6}};
    First::Output y3{mesh, {13, 11}};
    First{mesh, {.m = 13, .n = 17, .k = 10}}.forward(in, a, y1);
    Second{mesh, {.m = 13, .n = 6, .k = 17}}.forward(y1, b, y2);
    First{mesh, {.m = 13, .n = 11, .k = 6}}.forward(y2, c, y3);
    Findings found;
    check_shard(found, "Y", y3,
                [&](std::size_t i, std::size_t j, double v) { return v == y(i, j); });
    return found;
  }));
}

TEST_CASE("Plans of several sizes on one mesh do not change each other's results")
{
  const auto layer = random_layer<double>({.m = 9, .n = 14, .k = 11}, 1);
  const auto narrow = random_layer<double>({.m = 9, .n = 2, .k = 5}, 2);
  const auto large = random_layer<double>({.m = 21, .n = 30, .k = 17}, 3);
  require_clear(on_ranks<TestBackend>(8, [&](World& world) {
    using Sub = Subject<Summa25D, TestBackend, double>;
    const Mesh<Summa25D, TestBackend> mesh{world, {.q = 2, .d = 2}};
    Findings found;
    for (const auto& way : ways<TestBackend>())
    {
      Conformance<Sub> a{mesh, {.m = 9, .n = 14, .k = 11}, way};
      Conformance<Sub> b{mesh, {.m = 9, .n = 2, .k = 5}, way};
      Conformance<Sub> c{mesh, {.m = 21, .n = 30, .k = 17}, way};
      for (int repeat = 0; repeat < 5; ++repeat)
      {
        a.check_exactly(layer, found);
        b.check_exactly(narrow, found);
        c.check_exactly(large, found);
      }
    }
    return found;
  }));
}

TEST_CASE("A plan of Summa25D sums dW over the layers, and adds beta dW once")
{
  const auto layer = random_layer<double>({.m = 16, .n = 5, .k = 3}, 1);
  require_clear(on_ranks<TestBackend>(16, [&](World& world) {
    using P = DistMatMul<Summa25D, TestBackend, double>;
    const Mesh<Summa25D, TestBackend> mesh{world, {.q = 2, .d = 4}};
    P plan{mesh, {.m = 16, .n = 5, .k = 3}};
    P::Input x{mesh, {16, 3}};
    P::Output dy{mesh, {16, 5}};
    P::Weight dw{mesh, {3, 5}};
    load(x, layer.x);
    load(dy, layer.dy);
    Findings found;
    for (int times = 1; times <= 3; ++times)
    {
      plan.grad_weight(x, dy, dw, 1.0, 1.0);
      check_shard(found, "dW", dw, [&](std::size_t i, std::size_t j, double v) {
        return v == times * layer.dw(i, j);
      });
    }
    return found;
  }));
}

static std::atomic<int> buffers_allocated{0};

/// The host's engine, but it counts buffers.
struct CountingEngine : HostEngine
{
  template <class T>
  struct Allocator : std::allocator<T>
  {
    Allocator() = default;
    template <class U>
    Allocator(const Allocator<U>&)
    {
    }
    template <class U>
    struct rebind
    {
      using other = Allocator<U>;
    };
    T* allocate(std::size_t n)
    {
      ++buffers_allocated;
      return std::allocator<T>::allocate(n);
    }
  };

  template <class T>
  using Buffer = std::vector<T, Allocator<T>>;
};

struct CountedBuffers : TestBackend
{
  using Engine = CountingEngine;
};

/// How many buffers a rank needs for direct products: for results outside C, and for the panels of
/// A or B that it assembles.
template <SchemeType S>
int buffers_of_direct(const Mesh<S, CountedBuffers>& mesh, ProductSize s)
{
  using M = AxisMesh<typename S::Axes, CountedBuffers>;
  const auto placement = [&]<class L>(L, Shape shape) {
    return cubist::detail::OperandBlocks<L, M>{mesh, shape, mesh.quantum()}.placement();
  };
  const auto x = placement(typename S::Input{}, {s.m, s.k});
  const auto w = placement(typename S::Weight{}, {s.k, s.n});
  const auto y = placement(typename S::Output{}, {s.m, s.n});
  int workspaces = 0;
  bool panels_of_a = false;
  bool panels_of_b = false;
  const auto count = [&](const auto& a, const auto& b, const auto& c) {
    const auto work =
        cubist::detail::assign_work(a, b, c, mesh.rank(), mesh.world().cores(), sizeof(float));
    workspaces += work.in_workspace && !work.products.empty() ? 1 : 0;
    for (const auto& p : work.products)
    {
      panels_of_a = panels_of_a || p.a.size() > 1;
      panels_of_b = panels_of_b || p.b.size() > 1;
    }
  };
  count(x, w, y);
  count(y, w.t(), x);
  count(x.t(), y, w);
  return workspaces + (panels_of_a ? 1 : 0) + (panels_of_b ? 1 : 0);
}

/// How many buffers the ranks of a process need and allocate.
struct Buffers
{
  int needed_by_direct = 0;
  int by_plans = 0;
  int by_calls = 0;
};

template <SchemeType S>
Buffers buffers(int ranks, typename S::Extents extents, const Way& way, ProductSize s)
{
  std::atomic<int> needed{0};
  return on_ranks<CountedBuffers>(ranks, [&](World& world) {
    Buffers of_process;
    using P = DistMatMul<S, CountedBuffers, float>;
    const Mesh<S, CountedBuffers> mesh{world, extents};
    needed += buffers_of_direct<S>(mesh, s);
    typename P::Input x{mesh, {s.m, s.k}};
    typename P::Weight w{mesh, {s.k, s.n}};
    typename P::Output y{mesh, {s.m, s.n}};
    auto dx = x;
    auto dw = w;
    world.barrier();
    if (world.rank() == 0) buffers_allocated = 0;
    world.barrier();
    P plan{mesh, s, way.policy, way.method};
    world.barrier();
    if (world.rank() == 0) of_process.by_plans = buffers_allocated.exchange(0);
    world.barrier();
    for (int repeat = 0; repeat < 3; ++repeat)
    {
      plan.forward(x, w, y, 2.0F, 1.0F);
      plan.backward(x, w, y, dx, dw, 1.0F);
      plan.grad_input(y, w, dx, 1.0F, 1.0F);
      plan.grad_weight(x, y, dw);
    }
    world.barrier();
    if (world.rank() == 0) of_process.by_calls = buffers_allocated;
    of_process.needed_by_direct = needed;
    return of_process;
  })[0];
}

TEST_CASE("A plan allocates its workspace when it is made, and nothing when it multiplies")
{
  constexpr std::size_t large = repeats(512, 128);
  const auto check = []<class S>(std::type_identity<S>, const TestMesh<S>& on) {
    if (!fits(on.ranks)) return;
    for (const auto& way : ways<TestBackend>())
    {
      CAPTURE(S::name, on.ranks, way.name);
      for (const ProductSize s : {ProductSize{9, 8, 7}, ProductSize{large, large, large}})
      {
        const auto found = buffers<S>(on.ranks, on.extents, way, s);
        if (way.method == Method::collectives)
          CHECK((found.by_plans > 0) == (on.ranks > 1));
        else
          CHECK(found.by_plans == found.needed_by_direct);
        CHECK(found.by_calls == 0);
      }
    }
  };
  check(std::type_identity<Summa2D>{}, {2, {.rows = 1, .cols = 2}});
  check(std::type_identity<Summa2D>{}, {6, {.rows = 2, .cols = 3}});
  check(std::type_identity<Summa25D>{}, {8, {.q = 2, .d = 2}});
  check(std::type_identity<Cube3D>{}, {1, {.q = 1}});
  check(std::type_identity<Cube3D>{}, {8, {.q = 2}});
}

TEST_CASE("A result that is also an operand is refused by every call, and no operand changes")
{
  require_clear(on_ranks<TestBackend>(4, [](World& world) {
    const TestMesh2 mesh{world, {.q = 2}};
    Product plan{mesh, {.m = 4, .n = 4, .k = 4}};
    // In Summa2D, if X, W and Y have the same size, they have the same type.
    Product::Output a{mesh, {4, 4}};
    Product::Output b{mesh, {4, 4}};
    Product::Output c{mesh, {4, 4}};
    for (auto* m : {&a, &b, &c})
      m->generate([](std::size_t i, std::size_t j) { return static_cast<double>(4 * i + j); });
    Findings found;
    const auto refused = [&](const char* result, auto call) {
      const auto text = message_of<ArgumentError>(call);
      found.check(mentions(text, std::string{"got the same matrix for "} + result,
                           "another operand", "pass a separate matrix"),
                  result, ": ", text);
    };
    refused("Y", [&] { plan.forward(a, b, a); });
    refused("Y", [&] { plan.forward(a, b, b); });
    refused("dX", [&] { plan.grad_input(a, b, a); });
    refused("dX", [&] { plan.grad_input(a, b, b); });
    refused("dW", [&] { plan.grad_weight(a, b, a); });
    refused("dW", [&] { plan.grad_weight(a, b, b); });
    refused("dX", [&] { plan.backward(a, b, b, a, c); });
    refused("dX", [&] { plan.backward(a, a, b, c, c); });
    refused("dW", [&] { plan.backward(a, a, b, c, b); });
    refused("dW", [&] { plan.backward(a, b, b); });
    for (const auto* m : {&a, &b, &c})
      found.check(m->valid()(1, 1) == 4.0 * static_cast<double>(m->block().rows.offset + 1) +
                                          static_cast<double>(m->block().cols.offset + 1),
                  "an operand changed");
    plan.forward(a, a, c);  // it only reads both operands
    return found;
  }));
}

TEST_CASE("A plan of sizes that 64 bits cannot count is refused")
{
  constexpr std::size_t large = std::size_t{1} << 33;
  for (const ProductSize s :
       {ProductSize{large, large, 0}, ProductSize{large, 0, large}, ProductSize{0, large, large}})
    for (const auto& m : on_ranks<TestBackend>(1, [&](World& world) {
           return message_of<ShapeError>([&] { Product{TestMesh2{world, {.q = 1}}, s}; });
         }))
      CHECK(mentions(m, "(8589934592, 8589934592)", "64 bits"));
}

TEST_CASE("If two threads of a rank call one plan, one multiplies and the other gets an error")
{
  if (on_processes<TestBackend>) SKIP_TEST("the threads of this test are not processes");
  std::atomic<bool> refused = false;
  const auto refusals_per_rank = on_ranks<TestBackend>(2, [&](World& world) {
    const TestMesh2 mesh{world, {.rows = 1, .cols = 2}};
    Product plan{mesh, size};
    Matrices o{mesh};
    std::atomic<int> refusals = 0;
    const auto multiply = [&] {
      if (mentions(message_of<ArgumentError>([&] { plan.forward(o.x, o.w, o.y); }),
                   "another call is in"))
      {
        ++refusals;
        refused = true;
      }
    };
    if (world.rank() == 0)
    {
      const std::jthread other{multiply};
      multiply();
    }
    else
    {
      // The first call of rank 0 waits for this one, so the second call of rank 0 meets it.
      while (!refused) std::this_thread::yield();
      multiply();
    }
    return refusals.load();
  });
  CHECK(refusals_per_rank == std::vector<int>{1, 0});
}

// Each of two panels or parts is rounded to bfloat16, and so is their sum.
TEST_CASE("Products in bfloat16 are float's, rounded where they are stored")
{
  using T = bfloat16;
  constexpr ProductSize s{.m = 9, .n = 7, .k = 40};
  const auto x = random_matrix<T, Fractions>({s.m, s.k}, 1);
  const auto w = random_matrix<T, Fractions>({s.k, s.n}, 2);
  const auto dy = random_matrix<T, Fractions>({s.m, s.n}, 3);
  require_clear(on_ranks<TestBackend>(4, [&](World& world) {
    const TestMesh2 mesh{world, {.q = 2}};
    const auto matrix_of = [&]<class Matrix>(std::type_identity<Matrix>,
                                             const GlobalMatrix<T>& all) {
      Matrix m{mesh, all.shape};
      m.generate([&](std::size_t i, std::size_t j) { return all(i, j); });
      return m;
    };
    Findings found;
    const auto check = [&](const auto& got, const GlobalMatrix<T>& a, const GlobalMatrix<T>& b,
                           auto what) {
      const auto expected = product(widened(a), widened(b));
      const auto sizes = product(magnitudes(a), magnitudes(b));
      const auto mine = got.valid();
      for (std::size_t i = 0; i < mine.rows(); ++i)
        for (std::size_t j = 0; j < mine.cols(); ++j)
        {
          const std::size_t gi = got.block().rows.offset + i;
          const std::size_t gj = got.block().cols.offset + j;
          const auto error = std::abs(mine(i, j) - expected(gi, gj));
          const auto bound = 1.5F * std::numeric_limits<T>::epsilon() * sizes(gi, gj);
          found.check(error <= bound, what, " is off by ", error, ", more than ", bound);
        }
    };
    for (const Method method : {Method::collectives, Method::automatic})
    {
      using P = DistMatMul<Summa2D, TestBackend, T>;
      P plan{mesh, s, Gathered::kept, method};
      const auto xs = matrix_of(std::type_identity<typename P::Input>{}, x);
      const auto ws = matrix_of(std::type_identity<typename P::Weight>{}, w);
      const auto given = matrix_of(std::type_identity<typename P::Output>{}, dy);
      auto y = given;
      auto dx = xs;
      auto dw = ws;
      plan.forward(xs, ws, y);
      plan.backward(xs, ws, given, dx, dw);
      check(y, x, w, "Y");
      check(dx, dy, transposed(w), "dX");
      check(dw, transposed(x), dy, "dW");
    }
    return found;
  }));
}

}  // namespace cubist::test::matmul_dist_matmul_test
