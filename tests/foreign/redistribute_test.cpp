// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/foreign/add.hpp"
#include "cubist/foreign/redistribute.hpp"
#include "cubist/scheme/cube3d.hpp"
#include "cubist/scheme/summa2d.hpp"

#include "foreign_matrices.hpp"
#include "ranks.hpp"

namespace cubist::test::foreign_redistribute_test
{

using Counted = Counting<TestBackend>;

TEMPLATE_TEST_CASE("a block-cyclic matrix becomes a DistMatrix and returns, bit for bit", "",
                   TestBackend, Counted)
{
  using B = TestType;
  if (!fits<B>(8)) return;
  require_clear(on_ranks<B>(8, [](typename B::Communicator& world) {
    Findings found;
    const Mesh<Cube3D, B> cube{world};
    const Mesh<Summa2D, B> grid{world, {2, 3}, IdleRanks::allowed};
    const Shape shape{150, 131};
    const Distribution d{
        BlockCyclic{.shape = shape, .block = {16, 8}, .grid = {2, 3}, .col_source = 1}};
    const Shape local = d.local_shape(world.rank());
    std::vector<double> memory(local.size());
    for (std::size_t k = 0; k < memory.size(); ++k)
      memory[k] = Fractions::element<double>(hash(7, static_cast<std::size_t>(world.rank()), k));
    std::vector<double> copy(memory.size(), -1.0);
    const ForeignMatrix a{world, d, std::as_const(memory).data(),
                          std::max<std::size_t>(1, local.rows)};
    const ForeignMatrix b{world, d, copy.data(), std::max<std::size_t>(1, local.rows)};
    DistMatrix<double, Cube3D::Weight, AxisMesh<Cube3D::Axes, B>> w{cube, shape};
    redistribute(a, w);
    DistMatrix<double, Summa2D::Input, AxisMesh<Summa2D::Axes, B>> x{grid, {131, 150}};
    redistribute(a, x, {.op = Op::transpose});
    redistribute(w, b);
    found.check(copy == memory, "another matrix returned from ", Cube3D::name);
    std::fill(copy.begin(), copy.end(), -1.0);
    redistribute(x, b, {.op = Op::transpose});
    found.check(copy == memory, "another matrix returned from ", Summa2D::name);
    return found;
  }));
}

template <class T>
T nan_of()
{
  return scalar<T>(std::numeric_limits<double>::quiet_NaN(),
                   std::numeric_limits<double>::quiet_NaN());
}

template <class T>
T conjugate(T x)
{
  if constexpr (ComplexScalar<T>)
    return std::conj(x);
  else
    return x;
}

/// What a conversion must do.
template <class T>
struct Task
{
  ConversionOptions<T> how;
  MatrixPart part = MatrixPart::all;

  [[nodiscard]] bool reads(std::size_t i, std::size_t j) const
  {
    return part == MatrixPart::all || (part == MatrixPart::upper ? i <= j : i >= j);
  }
};

template <class T>
Task<T> any_task(Dice& dice)
{
  Task<T> task;
  constexpr std::array ops{Op::none, Op::transpose, Op::adjoint};
  task.how.op = ops[dice(3)];
  if (dice(2) == 0)
  {
    const auto factor = [&](std::size_t k) {
      return std::array{T{0}, T{1}, scalar<T>(2, -1), scalar<T>(-1, 3)}[k];
    };
    task.how.alpha = factor(dice(4));
    task.how.beta = factor(dice(4));
  }
  if (dice(3) == 0) task.part = dice(2) == 0 ? MatrixPart::upper : MatrixPart::lower;
  return task;
}

/// The number of elements that one rank sent, and that it had to receive.
struct ElementCounts
{
  std::uint64_t sent = 0;
  std::uint64_t missing = 0;
  std::uint64_t cost = 0;  // elements that all ranks send by the formula

  [[nodiscard]] auto members() { return std::tie(sent, missing, cost); }
  [[nodiscard]] auto members() const { return std::tie(sent, missing, cost); }
};

constexpr std::array<std::size_t, 11> sizes{0, 1, 1, 2, 3, 5, 7, 12, 19, 24, 31};

/// Checks one conversion between random sub-matrices of random matrices: every element of the
/// target, what is around it in memory, and the number of elements sent.
template <class T, class B>
ElementCounts convert_and_check(typename B::Communicator& world, std::uint64_t seed,
                                Findings& found)
{
  Dice dice{seed};
  const Task<T> task = any_task<T>(dice);
  const Shape shape{sizes[dice(sizes.size())], sizes[dice(sizes.size())]};
  const Shape source_shape = op_shape(task.how.op, shape);
  const auto offset = [&] { return dice(2) == 0 ? 0 : dice(9); };
  const std::size_t si = offset(), sj = offset(), ti = offset(), tj = offset();
  AnyDistributed<T, B> source{
      world, {source_shape.rows + si + offset(), source_shape.cols + sj + offset()}, dice};
  AnyDistributed<T, B> target{
      world, {shape.rows + ti + offset(), shape.cols + tj + offset()}, dice};

  const int me = world.rank();
  const auto value = [&](std::size_t i, std::size_t j) {
    return SmallIntegers::element<T>(hash(seed, i, j));
  };
  const auto old_value = [&](std::size_t i, std::size_t j) {
    return task.how.beta == T{} ? nan_of<T>() : SmallIntegers::element<T>(hash(seed + 1, i, j));
  };
  const T unused = scalar<T>(77, 78);
  source.for_each_in_memory([&](T& x) { x = nan_of<T>(); });
  target.for_each_in_memory([&](T& x) { x = unused; });
  // (i, j) of op(source) and of the target's sub-matrix.
  std::vector<std::optional<std::pair<Place, T>>> wanted;
  ElementCounts counts;
  for (std::size_t i = 0; i < shape.rows; ++i)
    for (std::size_t j = 0; j < shape.cols; ++j)
    {
      const auto [si0, sj0] = task.how.op == Op::none ? std::pair{i, j} : std::pair{j, i};
      const auto from = source.place(me, si + si0, sj + sj0);
      const auto to = target.place(me, ti + i, tj + j);
      if (from && task.how.alpha != T{} && task.reads(i, j)) source.at(*from) = value(i, j);
      if (!to) continue;
      if (!task.reads(i, j)) continue;
      target.at(*to) = old_value(i, j);
      const T x = task.how.op == Op::adjoint ? conjugate(value(i, j)) : value(i, j);
      T y = task.how.alpha == T{} ? T{} : task.how.alpha * x;
      if (task.how.beta != T{}) y += task.how.beta * old_value(i, j);
      wanted.push_back(std::pair{*to, y});
      counts.missing += !from && task.how.alpha != T{} ? 1U : 0U;
    }
  const auto from = source.matrix().submatrix(si, sj, source_shape);
  const auto to = target.matrix().submatrix(ti, tj, shape);
  if constexpr (requires { world.traffic(); }) world.traffic().reset();
  add(world, from, to, task.how, task.part);
  if constexpr (requires { world.traffic(); })
  {
    const Sent sent = world.traffic().total();
    counts.sent = sent.elements;
    found.check(sent.messages < static_cast<std::uint64_t>(world.size()),
                "more than one message to a rank: ", sent.messages);
    if (task.how.alpha != T{})
      counts.cost =
          conversion_cost(from.distribution(), to.distribution(), task.how.op, task.part).total;
  }

  std::ostringstream name;
  name << "seed " << seed << ", " << shape << " from " << source.name() << " to " << target.name()
       << ", rank " << me;
  std::size_t wrong = 0;
  for (const auto& w : wanted)
  {
    T& y = target.at(w->first);
    wrong += y == w->second ? 0U : 1U;
    y = unused;
  }
  found.check(wrong == 0, wrong, " wrong elements: ", name.str());
  // The rest of memory must not have been written.
  bool touched = false;
  target.for_each_in_memory([&](T& x) { touched = touched || !(x == unused); });
  found.check(!touched, "wrote elsewhere: ", name.str());
  return counts;
}

template <class T, class B>
void check_conversions(int ranks, std::uint64_t first, std::uint64_t cases)
{
  const auto results = on_ranks<B>(ranks, [&](typename B::Communicator& world) {
    Findings found;
    std::vector<ElementCounts> counts;
    for (std::uint64_t seed = first; seed < first + cases; ++seed)
      counts.push_back(convert_and_check<T, B>(
          world, 1000 * seed + static_cast<std::uint64_t>(world.size()), found));
    return std::tuple{found, counts};
  });
  std::vector<Findings> found;
  for (const auto& result : results) found.push_back(std::get<0>(result));
  require_clear(found);
  if constexpr (requires(typename B::Communicator & c) { c.traffic(); })
  {
    std::uint64_t total = 0;
    for (std::size_t k = 0; k < cases; ++k)
    {
      ElementCounts sum;
      for (const auto& [_, counts] : results)
      {
        sum.sent += counts[k].sent;
        sum.missing += counts[k].missing;
        CHECK(counts[k].cost == std::get<1>(results[0])[k].cost);
      }
      CAPTURE(ranks, k);
      CHECK(sum.sent == sum.missing);
      CHECK(sum.sent == std::get<1>(results[0])[k].cost);
      total += sum.sent;
    }
    CHECK((ranks == 1 || cases < 20 || total > 300));
  }
}

TEST_CASE("a conversion between any two layouts sends each element once to each rank that lacks it")
{
  for (const int ranks : those_that_fit<Counted>(std::array{1, 2, 3, 4, 6, 8}))
    check_conversions<double, Counted>(ranks, 0, 40);
}

TEST_CASE("a conversion between any two layouts is right where ranks share memory")
{
  for (const int ranks : those_that_fit(std::array{1, 2, 4, 6, 8}))
    check_conversions<double, TestBackend>(ranks, 0, 40);
}

TEMPLATE_TEST_CASE("conversions work for all scalars", "", float, std::complex<float>,
                   std::complex<double>)
{
  if (!fits(4)) return;
  check_conversions<TestType, Counted>(4, 100, 12);
  check_conversions<TestType, TestBackend>(4, 200, 12);
}

TEST_CASE("many transfers between the same two ranks and rectangles arrive in their places")
{
  // Ranks 0 and 2 hold 24 strips of columns each, in turn, which all go to one rectangle of rank 1.
  // Counted sends them in one message from each rank.
  if (!fits<Counted>(3)) return;
  constexpr std::size_t strips = 48;
  const Shape shape{3, 2 * strips};
  require_clear(on_ranks<Counted>(3, [&](auto& world) {
    std::vector<RankRectangle> all;
    for (std::size_t k = 0; k < strips; ++k) all.push_back({k % 2 == 0 ? 0 : 2, 0, 2 * k, {3, 2}});
    const auto element = [](std::size_t i, std::size_t j) { return double(100 * i + j); };
    std::vector<std::vector<double>> mine;
    std::vector<LocalArray<const double>> arrays;
    for (const RankRectangle& r : all)
      if (r.rank == world.rank())
      {
        auto& strip = mine.emplace_back();
        for (std::size_t i = 0; i < 3; ++i)
          for (std::size_t j = 0; j < 2; ++j) strip.push_back(element(i, r.j + j));
      }
    for (const auto& strip : mine) arrays.push_back({strip.data(), 2});
    std::vector<double> target(world.rank() == 1 ? shape.size() : 0);
    std::vector<LocalArray<double>> to;
    if (world.rank() == 1) to.push_back({target.data(), shape.cols});
    redistribute(world, ForeignMatrix<const double>{world, Distribution{shape, all}, arrays},
                 ForeignMatrix<double>{world, Distribution{shape, {{1, 0, 0, shape}}}, to});
    Findings found;
    found.check(mine.size() == (world.rank() == 1 ? 0 : strips / 2), mine.size(), " strips");
    for (std::size_t k = 0; k < target.size(); ++k)
      found.check(target[k] == element(k / shape.cols, k % shape.cols), "element ", k, " is ",
                  target[k]);
    return found;
  }));
}

/// Counts messages, and passes on the windows of what it decorates.
template <Communicator C>
class WatchedCommunicator : public CommunicatorDecorator<WatchedCommunicator<C>, C>
{
 public:
  explicit WatchedCommunicator(C inner)
      : CommunicatorDecorator<WatchedCommunicator, C>{std::move(inner)}
  {
  }
  template <Element T, class Begin>
  [[nodiscard]] auto on_call(const Call<T>& call, Begin begin)
  {
    if (is_message(call.kind)) ++*messages_;
    return begin(call);
  }
  [[nodiscard]] int messages() const { return *messages_; }

 private:
  std::shared_ptr<int> messages_ = std::make_shared<int>(0);
};

TEST_CASE("a conversion on shared memory sends no message")
{
  if (!fits(4) || !exposes<TestBackend>()) return;
  require_clear(on_ranks<TestBackend>(4, [](auto& world) {
    Findings found;
    WatchedCommunicator watched{world};
    const Shape shape{60, 50};
    const Distribution cyclic{BlockCyclic{.shape = shape, .block = {4, 5}, .grid = {2, 2}}};
    const Distribution other{
        BlockCyclic{.shape = shape, .block = {7, 6}, .grid = {1, 4}, .col_source = 2}};
    std::vector<double> a(cyclic.stored(world.rank()));
    std::vector<double> b(other.stored(world.rank()));
    redistribute(
        watched,
        ForeignMatrix<const double>{world, cyclic, a.data(), cyclic.local_shape(world.rank()).rows},
        ForeignMatrix<double>{world, other, b.data(), other.local_shape(world.rank()).rows});
    found.check(watched.messages() == 0, "sent ", watched.messages(), " messages");
    return found;
  }));
}

TEST_CASE("conversions refuse other shapes and other communicators on all ranks alike")
{
  if (!fits(4)) return;
  require_clear(on_ranks<TestBackend>(4, [](auto& world) {
    Findings found;
    const Distribution d{BlockCyclic{.shape = {8, 6}, .block = {2, 2}, .grid = {2, 2}}};
    std::vector<double> memory(12);
    const ForeignMatrix<double> a{world, d, memory.data(), 4};
    std::vector<double> other(12);
    const ForeignMatrix<double> b{world, d, other.data(), 4};
    const auto shapes =
        message_of<ShapeError>([&] { redistribute(world, a, b, {.op = Op::transpose}); });
    found.check(mentions(shapes, "(8, 6), transposed,", "(8, 6)", "same shape"), shapes);
    auto half = world.split(world.rank() % 2, world.rank());
    const auto ranks = message_of<MeshError>([&] { redistribute(half, a, b); });
    found.check(mentions(ranks, "of 4", "of 2", "make both matrices on the communicator") ||
                    world.rank() % 2 != 0,
                ranks);
    found.check(!ranks.empty(), "another communicator is accepted");
    const auto few =
        message_of<MeshError>([&] { (void)ForeignMatrix<double>(half, d, memory.data(), 4); });
    found.check(mentions(few, "4 ranks on a communicator of 2"), few);
    return found;
  }));
}

}  // namespace cubist::test::foreign_redistribute_test
