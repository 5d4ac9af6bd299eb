// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/algorithm/summa/summa.hpp"
#include "cubist/backend/threads.hpp"

#include "far.hpp"
#include "scheme_conformance.hpp"

namespace cubist::test::algorithm_summa_summa_test
{

/// SUMMA on axes with other names, in the other order, and with a third axis that holds replicas.
/// The algorithm knows only its two axes.
struct ColumnsFirst
{
  static constexpr const char* name = "ColumnsFirst";

  using Axes = cubist::Axes<AxisY, AxisZ, AxisX>;
  using Input = Layout<Rows<AxisX>, Cols<AxisY>>;
  using Weight = Layout<Rows<AxisX>, Cols<AxisY>>;
  using Output = Input;
  using Next = ColumnsFirst;
  using Algorithm = Summa<AxisX, AxisY>;

  struct Extents
  {
    int y;
    int z;
    int x;
  };
  static Axes::Array extents(const Extents& e, int) { return {e.y, e.z, e.x}; }
  static bool fits(const Axes::Array&) { return true; }
  static std::size_t quantum(const Axes::Array& e)
  {
    return static_cast<std::size_t>(std::lcm(e[0], e[2]));
  }
};

using Types = AllOrFirst<
    std::tuple<Subject<ColumnsFirst, TestBackend, std::complex<float>>,
               Subject<ColumnsFirst, Far<TestBackend>, double>>,
    std::tuple<Subject<ColumnsFirst, TestBackend, double>,
               Subject<ColumnsFirst, Far<TestBackend>, double, Op::transpose, Op::none>>>;

const TestMeshes<ColumnsFirst> meshes = {{1, {1, 1, 1}},  {6, {2, 1, 3}}, {6, {3, 1, 2}},
                                         {12, {2, 3, 2}}, {4, {1, 2, 2}}, {10, {5, 1, 2}}};

TEMPLATE_LIST_TEST_CASE("SUMMA multiplies on any two axes of a mesh", "", Types)
{
  conform_exactly<TestType>(meshes, 5);
  conform_within_rounding<TestType>(meshes);
}

/// The number of messages that all ranks send in forward, grad_input and grad_weight.
static std::array<std::uint64_t, 3> messages(const TestMesh<ColumnsFirst>& on, ProductSize size)
{
  using B = Counting<TestBackend>;
  std::array<std::uint64_t, 3> sum{};
  for (const auto& sent : on_ranks<B>(on.ranks, [&](B::Communicator& world) {
         const Mesh<ColumnsFirst, B> mesh{world, on.extents};
         using Product = DistMatMul<ColumnsFirst, B, float>;
         Product plan{mesh, size};
         typename Product::Input x{mesh, {size.m, size.k}};
         typename Product::Weight w{mesh, {size.k, size.n}};
         typename Product::Output y{mesh, {size.m, size.n}};
         std::array<std::uint64_t, 3> count{};
         const auto counted = [&](auto call) {
           world.traffic().reset();
           call();
           return world.traffic().total().messages;
         };
         count[0] = counted([&] { plan.forward(x, w, y); });
         count[1] = counted([&] { plan.grad_input(y, w, x); });
         count[2] = counted([&] { plan.grad_weight(x, y, w); });
         return count;
       }))
    for (std::size_t i = 0; i < 3; ++i) sum[i] += sent[i];
  return sum;
}

TEST_CASE("SUMMA cuts K into lcm(r, c) panels, each sent along a row and along a column")
{
  // For every panel of X all ranks but one in each of the r rows send a message, and for every
  // panel of W all but one in each of the c columns.
  const auto expected = [](std::uint64_t r, std::uint64_t c) {
    const std::uint64_t all = std::lcm(r, c) * (r * (c - 1) + c * (r - 1));
    return std::array{all, all, all};
  };
  const ProductSize size{.m = 7, .n = 5, .k = 31};
  for (const auto& mesh : those_that_fit<TestBackend, ColumnsFirst>(
           {{6, {3, 1, 2}}, {6, {2, 1, 3}}, {8, {4, 1, 2}}, {9, {3, 1, 3}}, {1, {1, 1, 1}}}))
  {
    const auto [c, _, r] = mesh.extents;
    CAPTURE(r, c);
    CHECK(messages(mesh, size) ==
          expected(static_cast<std::uint64_t>(r), static_cast<std::uint64_t>(c)));
  }
}

TEST_CASE("SUMMA on several nodes cuts a long K more finely, and sends as many elements")
{
  if (!fits(4)) return;
  // K is 1100. Each of 2 blocks of 550 has 3 panels, of which the last is thinner.
  const ProductSize size{.m = 7, .n = 5, .k = 1100};
  const auto layer = random_layer<double>(size, 3);
  using B = Counting<Far<TestBackend>>;
  using Near = Counting<Threads>;
  const auto run = [&]<class Backend>(std::type_identity<Backend>) {
    return on_ranks<Backend>(4, [&](auto& world) {
      const Mesh<ColumnsFirst, Backend> mesh{world, {2, 1, 2}};
      Findings found;
      Conformance<Subject<ColumnsFirst, Backend, double>> products{mesh, size, ways<Backend>()[0]};
      world.traffic().reset();
      products.check_exactly(layer, found);
      return std::pair{found, world.traffic().total()};
    });
  };
  const auto far = run(std::type_identity<B>{});
  const auto near = run(std::type_identity<Near>{});
  Sent far_sent;
  Sent near_sent;
  for (const auto& [found, sent] : far) require_clear({found}), far_sent += sent;
  for (const auto& [found, sent] : near) require_clear({found}), near_sent += sent;
  CHECK(far_sent.elements == near_sent.elements);
  CHECK(far_sent.messages == 3 * near_sent.messages);
}

}  // namespace cubist::test::algorithm_summa_summa_test
