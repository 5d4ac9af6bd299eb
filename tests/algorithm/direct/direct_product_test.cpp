// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/algorithm/direct/direct_product.hpp"

#include "placements.hpp"
#include "scheme_conformance.hpp"

namespace cubist::test::algorithm_direct_direct_product_test
{

// Tests reads of peers' blocks, and products that a rank does not compute in its own block: those
// whose result has so few elements that the inner indices are cut, and those of thin pieces, which
// are assembled. Each scheme's conformance suite tests all other products.

using World = TestBackend::Communicator;
using Peers = cubist::detail::PeerMatrix<double, World>;

/// Rank r's block of 3 x 4 elements, which count up from 100 r, row by row.
static std::vector<double> block_of_rank(int rank)
{
  std::vector<double> all;
  for (int i = 0; i < 12; ++i) all.push_back(100 * rank + i);
  return all;
}

TEST_CASE("Pieces of every rank's block are read, as stored or transposed")
{
  if (!exposes<TestBackend>()) SKIP_TEST("ranks of this backend do not read each other's memory");
  require_clear(on_ranks<TestBackend>(3, [](World& world) {
    Findings found;
    const auto mine = block_of_rank(world.rank());
    for (const bool transposed : {false, true})
    {
      const Operand<const double> stored{MatrixView<const double>{mine.data(), {3, 4}},
                                         transposed ? Op::transpose : Op::none};
      Peers matrix{world, stored, true};
      for (int r = 0; r < 3; ++r)
      {
        // Element (1, 2) of the stored block.
        const std::size_t i = transposed ? 2 : 1;
        const auto one = matrix.all().piece({r, i, 3 - i}, {1, 1});
        const auto turned = matrix.all().t().piece({r, 3 - i, i}, {1, 1});
        const double expected = 100 * r + 4 * 1 + 2;
        found.check(*one.stored().data() == expected, "rank ", r, ": ", *one.stored().data());
        found.check(*turned.stored().data() == expected, "rank ", r, ", turned");
        found.check(one.transposed() == transposed && turned.transposed() != transposed,
                    "how it is stored");
      }
      matrix.close();
      matrix.wait();
    }
    return found;
  }));
}

TEST_CASE("A matrix that no rank reads is not exposed, and no rank waits")
{
  if (!exposes<TestBackend>()) SKIP_TEST("ranks of this backend do not read each other's memory");
  require_clear(on_ranks<TestBackend>(2, [](World& world) {
    Findings found;
    const auto mine = block_of_rank(world.rank());
    const int ranks = world.size();
    found.check(ranks == 2, ranks, " ranks");
    if (world.rank() == 0)
    {
      // Rank 1 does not take part.
      Peers matrix{world, {MatrixView<const double>{mine.data(), {3, 4}}}, false};
      const auto piece = matrix.all().piece({0, 2, 3}, {1, 1});
      found.check(*piece.stored().data() == 11, "the own block");
      matrix.close();
      matrix.wait();
    }
    world.barrier();
    return found;
  }));
}

template <class Sub>
void check_sums_and_merged_pieces(const TestMesh<typename Sub::Scheme>& mesh)
{
  if (!exposes<TestBackend>()) SKIP_TEST("ranks of this backend do not read each other's memory");
  std::uint64_t seed = 1;
  constexpr std::size_t many = 60013;
  const std::vector<Way> direct{{"direct", Gathered::again, Method::direct}};
  const auto ranks = static_cast<std::size_t>(mesh.ranks);
  for (const int cores : {1, mesh.ranks})
    REQUIRE(cubist::detail::assign_work(blocks({9, many}, 2, ranks / 2),
                                        blocks({many, 7}, ranks / 2, 2),
                                        blocks({9, 7}, 2, ranks / 2), 0, cores, sizeof(double))
                .in_workspace);
  // Y, dX or dW has few elements; one factor, the other, or both have thin pieces.
  conform_exactly<Sub>(mesh, {{9, 7, many}}, seed, direct);
  constexpr bool one_suffices = !std::is_same_v<typename Sub::Scheme, Summa25D>;
  if (!sanitized && !one_suffices)
    conform_exactly<Sub>(mesh, {{9, many, 7}, {many, 7, 9}}, seed, direct);
  conform_exactly<Sub>(mesh, {{530, 40, 40}, {40, 530, 40}, {40, 40, 530}, {21, 22, 43}}, seed,
                       direct);
}

TEST_CASE("Direct products add up sums and multiply merged pieces exactly")
{
  check_sums_and_merged_pieces<Subject<Summa25D, TestBackend, double>>({8, {.q = 2, .d = 2}});
  if (sanitized) return;
  check_sums_and_merged_pieces<Subject<Grid3D, TestBackend, double>>({6, {.x = 1, .y = 2, .z = 3}});
}

TEST_CASE("Direct products of transposed operands are exact, too")
{
  check_sums_and_merged_pieces<Subject<Cube3D, TestBackend, double, Op::transpose, Op::none>>(
      {8, {.q = 2}});
  if (sanitized) return;
  check_sums_and_merged_pieces<Subject<Cube3D, TestBackend, double, Op::none, Op::transpose>>(
      {8, {.q = 2}});
}

/// Compares large products with those by collectives, which compute the same bits from integers. As
/// many ranks work as there are cores, in each other's blocks or in workspaces.
template <Op op_x = Op::none, SchemeType S>
void compare_methods(const Mesh<S, TestBackend>& mesh, ProductSize size, Findings& found)
{
  using P = DistMatMul<S, TestBackend, double, op_x>;
  const Shape x_shape = op_shape(op_x, {size.m, size.k});
  std::vector<std::vector<double>> results;
  for (const auto method : {Method::collectives, Method::direct})
  {
    P product{mesh, size, Gathered::again, method};
    typename P::Input x{mesh, x_shape}, dx{mesh, x_shape};
    typename P::Weight w{mesh, {size.k, size.n}}, dw{mesh, {size.k, size.n}};
    typename P::Output y{mesh, {size.m, size.n}}, dy{mesh, {size.m, size.n}};
    const auto fill = [&](auto&... all) {
      (all.generate([&](std::size_t i, std::size_t j) {
        return static_cast<double>((7 * i + 3 * j) % 11) - 5;
      }),
       ...);
    };
    fill(x, w, dy, y, dw);
    product.forward(x, w, y, 2.0, 3.0);
    product.backward(x, w, dy, dx, dw, 1.0);
    auto& all = results.emplace_back();
    for (const auto& m : {y.valid(), dx.valid(), dw.valid()})
      for (std::size_t i = 0; i < m.rows(); ++i)
        all.insert(all.end(), m.row(i), m.row(i) + m.cols());
  }
  found.check(results[0] == results[1], S::name, ", ", text(size), ": the methods differ");
}

TEST_CASE("Ranks that compute blocks of their peers get the same results as collectives")
{
  if (!exposes<TestBackend>()) SKIP_TEST("ranks of this backend do not read each other's memory");
  if (!fits(8)) return;
  // With two cores, workers compute the first product in blocks of C, the second in strips of
  // these, and the last in workspaces.
  for (const ProductSize size : {ProductSize{900, 701, 803}, {9001, 130, 131}, {130, 131, 9001}})
    require_clear(on_ranks<TestBackend>(8, [&](auto& world) {
      Findings found;
      if (!sanitized)
        compare_methods(Mesh<Summa25D, TestBackend>{world, {2, 2, 2}, IdleRanks::refused}, size,
                        found);
      const Mesh<Cube3D, TestBackend> cube{world, {2, 2, 2}, IdleRanks::refused};
      compare_methods(cube, size, found);
      if (!sanitized) compare_methods<Op::transpose>(cube, size, found);
      return found;
    }));
}

/// Records for how many workers its rank spreads over the cores.
class Spreading : public CommunicatorDecorator<Spreading, World>
{
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  void spread_over_cores(int workers) const { calls_->push_back(workers); }
  [[nodiscard]] const std::vector<int>& calls() const { return *calls_; }

 private:
  std::shared_ptr<std::vector<int>> calls_ = std::make_shared<std::vector<int>>();
};

/// For how many workers each of two ranks spreads over the cores in a product of n^3.
static std::vector<std::vector<int>> spreads(std::size_t n)
{
  return on_ranks<TestBackend>(2, [n](World& inner) {
    Spreading world{inner};
    const TestBackend::Engine engine{};
    const auto rows = blocks({n, n}, 2, 1);
    DirectProduct<double, Spreading, TestBackend::Engine> product{world, engine, {},
                                                                  rows,  rows,   rows};
    const auto mine = rows[world.rank()].padded();
    const std::vector<double> x(mine.size(), 1), w(mine.size(), 1);
    std::vector<double> y(mine.size());
    product.forward(1, {x.data(), mine}, {w.data(), mine}, 0, {y.data(), mine});
    return world.calls();
  });
}

TEST_CASE("Ranks spread over the cores once before they multiply for long, and never for less")
{
  if (!exposes<TestBackend>()) SKIP_TEST("ranks of this backend do not read each other's memory");
  if (!fits(2)) return;
  for (const auto& calls : spreads(16)) CHECK(calls.empty());
  // One core has one worker, and that may be either rank.
  if (std::thread::hardware_concurrency() < 2) return;
  for (const auto& calls : spreads(512)) CHECK(calls == std::vector{2});
}

}  // namespace cubist::test::algorithm_direct_direct_product_test
