// SPDX-License-Identifier: BSD-3-Clause
// Training steps that are captured and replayed, on the mock of CUDA and NCCL.

#include "cubist/backend/nccl.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/training/step.hpp"

#include "fake.hpp"
#include "fake_engine.hpp"
#include "ranks.hpp"
#include "replayed_steps.hpp"
#include "watchdog.hpp"

namespace cubist::test::nccl_step_test
{

template <SchemeType S, class B, bool sharded>
ReplayedRun train(int ranks, const typename S::Extents& extents, bool captures)
{
  return on_ranks<B>(ranks, [&](auto& world) {
    const Mesh<S, B> mesh{world, extents};
    return train_in_steps<S, B, sharded>(mesh, captures);
  })[0];
}

template <SchemeType S, bool sharded = false>
void compare(int ranks, const typename S::Extents& extents)
{
  CAPTURE(S::name, ranks);
  const ReplayedRun eager = train<S, FakeNccl, sharded>(ranks, extents, false);
  const ReplayedRun replayed = train<S, FakeNccl, sharded>(ranks, extents, true);
  CHECK(eager.captures == 0);
  CHECK(replayed.captures == 2);
  CHECK(replayed.losses == eager.losses);
  CHECK(replayed.parameters == eager.parameters);
}

TEST_CASE("replayed steps have the same bits as steps that are not captured")
{
  compare<Summa2D>(1, {});
  compare<Summa2D>(4, {.q = 2});
  compare<Cube3D>(8, {.q = 2});
  compare<Megatron1D>(4, {4});
}

TEST_CASE(
    "replayed steps on a data axis, with a sharded optimizer, have the same bits as steps that are not captured")
{
  compare<DataParallel<Megatron1D>, true>(4, {.data = 2});
}

/// Launches a body on FakeNccl, and returns the message of what it throws on rank 0.
template <class F>
std::string error_of(int ranks, F body)
{
  return on_ranks<FakeNccl>(ranks, [&](auto& world) {
    const Mesh<Summa2D, FakeNccl> mesh{world, {}};
    DistMatrix<double, Summa2D::Input, AxisMesh<Summa2D::Axes, FakeNccl>> x{mesh, {4, 4}}, y = x;
    x.generate(ReplayedNumbers{1});
    auto message = message_of<CaptureError>([&] { body(mesh, x, y); });
    // The communicators and the stream can still be used, and a step can be captured.
    Step step{mesh, [&] {
                mesh.engine().copy(MatrixView<const double>{x.valid()}, y.valid());
                mesh.world().all_reduce(y.valid().elements());
              }};
    for (int i = 0; i < 3; ++i) step();
    const auto sum = gather(y);
    if (step.captures() != 1) message += "; not captured";
    if (world.rank() == 0 && sum.size() == 0) message += "; nothing computed";
    return message;
  })[0];
}

struct Difference
{
  template <class T>
  double operator()(std::size_t, std::size_t, T a, T b) const
  {
    return static_cast<double>(a - b);
  }
};

TEST_CASE("what cannot be captured is an error, and then the step still runs")
{
  using Catch::Matchers::ContainsSubstring;
  const auto twice = [](auto& step) {
    step();
    step();
  };
  CHECK_THAT(error_of(4,
                      [&](const auto& mesh, auto& x, auto& y) {
                        Step step{mesh, [&] {
                                    const std::vector<int> labels(4, 1);
                                    static_cast<void>(softmax_cross_entropy(x, labels, y));
                                  }};
                        twice(step);
                      }),
             ContainsSubstring(
                 "got an upload of (2, 1) elements from the host in a step that is captured"));
  CHECK_THAT(error_of(4,
                      [&](const auto& mesh, auto& x, auto& y) {
                        Step step{mesh, [&] {
                                    const double loss = mean_squared_error(x, x, y);
                                    static_cast<void>(loss);
                                  }};
                        twice(step);
                      }),
             ContainsSubstring("got a download of (1, 1) elements to the host in a step"));
  CHECK_THAT(error_of(4,
                      [&](const auto& mesh, auto& x, auto& y) {
                        Step step{mesh, [&] {
                                    static_cast<void>(mesh.engine().fold(0.0, cubist::detail::Sum{},
                                                                         Difference{}, x.valid(),
                                                                         y.valid()));
                                  }};
                        twice(step);
                      }),
             ContainsSubstring("got a wait for the device"));
  CHECK_THAT(error_of(4,
                      [&](const auto& mesh, auto&, auto&) {
                        Step step{mesh, [&] { static_cast<void>(mesh.world().split(0, 0)); }};
                        twice(step);
                      }),
             ContainsSubstring("got a split of a communicator in a step that is captured"));
  CHECK_THAT(
      error_of(4,
               [&](const auto& mesh, auto& x, auto&) {
                 using Request = decltype(mesh.world().async_all_reduce(x.valid().elements()));
                 std::optional<Request> request;
                 Step step{mesh, [&] {
                             request.emplace(mesh.world().async_all_reduce(x.valid().elements()));
                             while (!request->test()) continue;
                           }};
                 twice(step);
               }),
      ContainsSubstring("cudaErrorStreamCaptureUnjoined"));
}

TEST_CASE("a step is captured again when memory that it may use is freed")
{
  const auto captures = on_ranks<FakeNccl>(1, [](auto& world) {
    const Mesh<Summa2D, FakeNccl> mesh{world, {}};
    using Matrix = DistMatrix<double, Summa2D::Input, AxisMesh<Summa2D::Axes, FakeNccl>>;
    std::optional<Matrix> x;
    x.emplace(mesh, Shape{3, 3});
    Matrix y = *x;
    Step step{mesh, [&] { mesh.engine().copy(MatrixView<const double>{x->valid()}, y.valid()); }};
    std::vector<std::size_t> found;
    for (int i = 0; i < 8; ++i)
    {
      if (i == 4) x.emplace(mesh, Shape{3, 3});
      x->generate(ReplayedNumbers{static_cast<std::size_t>(i)});
      step();
      const Matrix later = *x;  // memory that was freed later
      found.push_back(step.captures());
      found.push_back(gather(y) == gather(*x) ? 1 : 0);
    }
    return found;
  })[0];
  CHECK(captures == std::vector<std::size_t>{0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 1, 2, 1, 2, 1});
}

TEST_CASE("a step stays captured when losses are computed between its replays")
{
  const auto captures = on_ranks<FakeNccl>(1, [](auto& world) {
    const Mesh<Summa2D, FakeNccl> mesh{world, {}};
    using Matrix = DistMatrix<float, Summa2D::Output, AxisMesh<Summa2D::Axes, FakeNccl>>;
    Matrix y{mesh, {3, 3}}, target{mesh, {3, 3}}, dy{mesh, {3, 3}};
    y.generate(ReplayedNumbers{1});
    LossValue loss, other;
    Step step{mesh, [&] { loss = mean_squared_error(y, target, dy); }};
    std::vector<double> found;
    for (int i = 0; i < 5; ++i)
    {
      other = mean_squared_error(target, target, dy);
      step();
      found.push_back(static_cast<double>(step.captures()));
      found.push_back(double(other) == 0 && double(loss) > 0 ? 1 : 0);
    }
    loss = other;  // frees the loss that the step computes
    step();
    found.push_back(static_cast<double>(step.captures()));
    return found;
  })[0];
  CHECK(captures == std::vector<double>{0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("a replay that waits for a rank that makes none ends at the time limit")
{
  const Watchdog watchdog;
  int argc = 0;
  char** argv = nullptr;
  std::string message;
  try
  {
    FakeNccl::launch(argc, argv, {.ranks = 2, .time_limit = std::chrono::milliseconds{300}},
                     [&](auto& world) {
                       using S = Summa2D;
                       const Mesh<S, FakeNccl> mesh{world, {.rows = 1, .cols = 2}};
                       DistMatrix<double, S::Input, AxisMesh<S::Axes, FakeNccl>> x{mesh, {2, 2}};
                       Step step{mesh, [&] { mesh.world().all_reduce(x.valid().elements()); }};
                       for (int i = 0; i < (world.rank() == 0 ? 3 : 2); ++i) step();
                       world.synchronize();
                       if (world.rank() == 1) ComputeStream::synchronize();
                     });
  }
  catch (const Error& e)
  {
    message = e.what();
  }
  CHECK_THAT(message,
             Catch::Matchers::ContainsSubstring("ms for other ranks in a replay of a step"));
}

}  // namespace cubist::test::nccl_step_test
