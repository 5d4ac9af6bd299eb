// SPDX-License-Identifier: BSD-3-Clause
// Checkpoints that are saved in the background from a device, on the mock of CUDA and NCCL.

#include "cubist/io/checkpoints.hpp"
#include "cubist/matrix/global.hpp"
#include "cubist/scheme/summa2d.hpp"
#include "cubist/trace/traced.hpp"

#include "fake.hpp"
#include "fake_engine.hpp"
#include "folder.hpp"
#include "ranks.hpp"
#include "watchdog.hpp"

namespace cubist::test::nccl_saves_test
{

/// Holds the compute stream just before each of its downloads beside other work, until this rank
/// opens the gate. The call named `fails`, if any, fails in the next of them.
struct HeldEngine : FakeCudaEngine
{
  static inline thread_local std::unique_ptr<fake::Gate> gate;
  static inline thread_local std::string fails;

  /// Opens the gate at the end of its scope, so that a test that fails does not wait for ever.
  struct OpensGate
  {
    OpensGate() = default;
    OpensGate(const OpensGate&) = delete;
    OpensGate& operator=(const OpensGate&) = delete;
    ~OpensGate() { gate.reset(); }
  };

  void download_beside(std::span<const cubist::detail::Download> all, Downloads& downloads) const
  {
    gate = std::make_unique<fake::Gate>(ComputeStream::get());
    if (!fails.empty())
    {
      gate->open();  // the host waits for what was enqueued before the error
      fake::fail(fails, cudaErrorIllegalAddress);
      fails.clear();
    }
    FakeCudaEngine::download_beside(all, downloads);
  }
};

struct HeldNccl : Nccl
{
  using Engine = HeldEngine;
};

}  // namespace cubist::test::nccl_saves_test

namespace cubist
{
template <>
inline constexpr bool in_host_memory<test::nccl_saves_test::HeldEngine> = false;
}  // namespace cubist

namespace cubist::test::nccl_saves_test
{

/// The elements of a matrix that begins with `first`.
static auto numbers(float first)
{
  return [first](std::size_t i, std::size_t j) { return first + static_cast<float>(16 * i + j); };
}

/// A state of matrices of two types, with blocks of several shapes.
template <class B>
struct SmallState
{
  using M = AxisMesh<Summa2D::Axes, B>;

  DistMatrix<bfloat16, Summa2D::Input, M> weight;
  DistMatrix<float, Summa2D::Input, M> mean;
  std::uint64_t steps = 0;

  explicit SmallState(const M& mesh)
      : weight{mesh, {5, 7}},
        mean{mesh, {5, 7}}
  {
  }
  /// Enqueues work that changes the state.
  void set(int value)
  {
    weight.generate(numbers(static_cast<float>(value)));
    mean.generate(numbers(static_cast<float>(value) + 0.5F));
    steps = static_cast<std::uint64_t>(value);
  }
  [[nodiscard]] State<bfloat16, M> state()
  {
    return {.matrices = {{"weight", weight.view()}},
            .numbers = {{"steps", &steps}},
            .accumulators = {{"mean", mean.view()}}};
  }
  [[nodiscard]] bool holds(int value) const
  {
    const auto all = gather(mean);
    return all.size() == 0 || all(4, 6) == numbers(static_cast<float>(value) + 0.5F)(4, 6);
  }
};

/// Runs a body on four ranks with a mesh and a state, which throws what it finds wrong.
template <class B, class F>
void run(F body)
{
  (void)on_ranks<B>(4, [&](auto& world) {
    const Mesh<Summa2D, B> mesh{world, {.q = 2}};
    SmallState<B> saved{mesh};
    body(mesh, saved);
    return 0;
  });
}

static std::string file_of(const std::filesystem::path& folder, int step)
{
  return contents(folder / ("step-00000000000" + std::to_string(step) + ".safetensors"));
}

TEST_CASE("a save in the background returns before the copies, and has the state at the call")
{
  const Watchdog watchdog;
  const auto before = fake::live();
  const int violations = fake::violations();
  const Folder folder;
  run<HeldNccl>([&](const auto& mesh, auto& saved) {
    Checkpoints at_once{mesh, folder / "save"};
    Checkpoints beside{mesh, folder / "background"};
    const HeldEngine::OpensGate opens;
    for (int step = 1; step <= 3; ++step)
    {
      saved.set(step);
      at_once.save(static_cast<std::uint64_t>(step), saved.state());
      beside.save_in_background(static_cast<std::uint64_t>(step), saved.state());
      // The compute stream is held, so no rank has copied anything.
      require<Error>(!std::filesystem::exists(beside.file(static_cast<std::uint64_t>(step))),
                     "the file is complete");
      saved.set(9);
      HeldEngine::gate->open();
      require<Error>(fake::live().pinned > 0, "nothing is pinned");
      if (step != 2) beside.wait();
    }
    ComputeStream::synchronize();
  });
  for (const int step : {1, 2, 3})
  {
    CAPTURE(step);
    CHECK(!file_of(folder / "save", step).empty());
    CHECK(file_of(folder / "background", step) == file_of(folder / "save", step));
  }
  CHECK(fake::live() == before);
  CHECK(fake::violations() == violations);
}

TEST_CASE("an error of the copy is thrown by the next call, on every rank")
{
  const Watchdog watchdog;
  const auto before = fake::live();
  for (const char* function : {"cudaMemcpyAsync", "cudaEventRecord", "cudaStreamCreateWithFlags"})
  {
    CAPTURE(function);
    const Folder folder;
    const bool creates = function == std::string{"cudaStreamCreateWithFlags"};
    run<HeldNccl>([&](const auto& mesh, auto& saved) {
      Checkpoints checkpoints{mesh, folder.path()};
      const HeldEngine::OpensGate opens;
      const auto save = [&](int step) {
        saved.set(step);
        checkpoints.save_in_background(static_cast<std::uint64_t>(step), saved.state());
        if (HeldEngine::gate) HeldEngine::gate->open();
      };
      const auto fails = [&](auto next) {
        const auto message = message_of<DataError>(next);
        require<Error>(mentions(message, function, "failed (cudaErrorIllegalAddress",
                                "in a save of", "step-000000000002.safetensors", "on rank 1"),
                       message);
      };
      if (!creates)
      {
        save(1);
        checkpoints.wait();
        if (mesh.rank() == 1) HeldEngine::fails = function;
      }
      else
      {
        checkpoints.save(1, saved.state());
        // The rank's first save in the background makes its stream.
        if (mesh.rank() == 1) fake::fail(function, cudaErrorIllegalAddress);
      }
      save(2);
      fails([&] { checkpoints.wait(); });
      if (!creates)
      {
        if (mesh.rank() == 1) HeldEngine::fails = function;
        save(2);
        fails([&] { save(3); });
      }
      require<Error>(checkpoints.load(saved.state()) == 1, "another checkpoint is the newest");
      save(4);
      checkpoints.wait();
      saved.set(0);
      require<Error>(checkpoints.load(saved.state()) == 4 && saved.holds(4),
                     "the save after the error is not loaded");
    });
  }
  ComputeStream::synchronize();
  CHECK(fake::live() == before);
}

TEST_CASE("where memory cannot be pinned, a save in the background still has the state at the call")
{
  const Watchdog watchdog;
  const Folder folder;
  run<FakeNccl>([&](const auto& mesh, auto& saved) {
    Checkpoints at_once{mesh, folder / "save"};
    Checkpoints beside{mesh, folder / "background"};
    saved.set(1);
    at_once.save(1, saved.state());
    fake::fail("cudaHostRegister", cudaErrorMemoryAllocation);
    beside.save_in_background(1, saved.state());
    saved.set(9);
    require<Error>(fake::live().pinned == 0, "memory is pinned");
    beside.wait();
  });
  CHECK(file_of(folder / "background", 1) == file_of(folder / "save", 1));
}

TEST_CASE("a trace of a save in the background shows the call that starts the copies")
{
  const Watchdog watchdog;
  const Folder folder;
  using B = Traced<FakeNccl>;
  B::options = {.file = (folder / "trace.json").string()};
  run<B>([&](const auto& mesh, auto& saved) {
    Checkpoints checkpoints{mesh, folder / "run"};
    saved.set(1);
    checkpoints.save_in_background(1, saved.state());
    saved.set(9);
    require<Error>(checkpoints.load(saved.state()) == 1 && saved.holds(1),
                   "the checkpoint has another state");
  });
  B::options = {};
  CHECK(mentions(contents(folder / "trace.json"), "download_beside"));
}

}  // namespace cubist::test::nccl_saves_test
