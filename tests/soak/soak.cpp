// SPDX-License-Identifier: BSD-3-Clause
// Trains under faults: a network trains and saves checkpoints while one rank has a fault, which a
// seed selects. The run must either end soon, with an error that names a rank, or complete. A
// failed run starts again without the fault, from the newest checkpoint. In the end the loss must
// have the same bits as an undisturbed run.
//
//   soak COUNT [FIRST]                          runs COUNT seeds, with ranks as threads
//   mpiexec -n 4 soak faulty|whole SEED FOLDER  one run, and prints the loss: ranks that are
//                                               processes end with the job, so check.sh does the
//                                               rest
#include <algorithm>
#include <array>
#include <chrono>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "cubist/io/checkpoints.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/nn/losses/loss.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/scheme/mesh.hpp"
#include "cubist/scheme/summa2d.hpp"
#include "cubist/testing/faulty.hpp"
#ifdef CUBIST_TEST_MPI
#include "cubist/backend/mpi.hpp"
#else
#include "cubist/backend/threads.hpp"
#include "cubist/scheme/grid3d.hpp"
#endif

using namespace cubist;
using namespace std::chrono_literals;

namespace
{

#ifdef CUBIST_TEST_MPI
using Backend = Faulty<Mpi>;
constexpr std::chrono::milliseconds limit = 250ms;
#else
using Backend = Faulty<Threads>;
constexpr std::chrono::milliseconds limit = 100ms;
#endif

constexpr std::uint64_t steps = 12;
constexpr std::uint64_t every = 4;
constexpr std::uint64_t calls = 200;  // about as many as a rank makes in a run
constexpr auto bound = 20s;           // for a run that takes milliseconds

/// A seed's ranks, scheme and method.
struct Case
{
  int ranks;
  int scheme;
  Method method;

  explicit Case(std::uint64_t seed)
      : ranks{4},
        scheme{0},
        method{seed % 2 == 0 ? Method::automatic : Method::collectives}
  {
#ifndef CUBIST_TEST_MPI
    scheme = static_cast<int>(seed / 2 % 2);
    ranks = scheme == 0 ? 4 : 6;
#endif
  }
};

/// A seed's fault, somewhere in the run.
Fault fault_of(std::uint64_t seed)
{
  std::mt19937_64 random{seed};
  const auto below = [&](auto n) {
    return static_cast<decltype(n)>(random() % static_cast<std::uint64_t>(n));
  };
  return {.kind = static_cast<Fault::Kind>(below(5)),
          .rank = below(Case{seed}.ranks),
          .collective = {},
          .call = below(calls),
          .delay = below(2) == 0 ? 20ms : 2 * limit};
}

/// Trains from the newest checkpoint, and returns the last loss on rank 0.
template <class S>
std::optional<double> train(const Case& c, const typename S::Extents& extents,
                            const std::filesystem::path& folder,
                            std::optional<std::chrono::milliseconds> time_limit)
{
  std::optional<double> last;
  launch<Backend>({.ranks = c.ranks, .rethrow = false, .time_limit = time_limit},
                  [&](typename Backend::Communicator& world) {
                    const Mesh<S, Backend> mesh{world, extents};
                    MLP<S, Backend, double> mlp{
                        mesh, {19, 23, 7}, {.dropout = 0.2, .seed = 1, .method = c.method}};
                    Adam optimizer{mlp.parameters(), {.learning_rate = 0.01}};
                    Checkpoints checkpoints{mesh, folder};
                    const auto state = state_of(mlp, optimizer);
                    DistMatrix<double, typename S::Input, AxisMesh<typename S::Axes, Backend>> x{
                        mesh, {21, 19}};
                    x.generate([](std::size_t i, std::size_t j) {
                      return static_cast<double>((i * 5 + j * 3) % 11) - 5;
                    });
                    std::vector<int> labels(21);
                    for (std::size_t i = 0; i < labels.size(); ++i)
                      labels[i] = static_cast<int>(i % 7);
                    double loss = 0;
                    for (std::uint64_t step = checkpoints.load(state).value_or(0); step < steps;)
                    {
                      const auto& y = mlp.forward(x);
                      auto dy = zeros_like(y);
                      loss = softmax_cross_entropy(y, labels, dy);
                      mlp.backward(dy);
                      optimizer.step(mlp.parameters());
                      // Does not save after the last step, so that a restarted run has a step to
                      // do.
                      if (++step % every == 0 && step < steps) checkpoints.save(step, state);
                    }
                    if (world.rank() == 0) last = loss;
                  });
  return last;
}

std::optional<double> train(std::uint64_t seed, const std::filesystem::path& folder,
                            std::optional<std::chrono::milliseconds> time_limit = {})
{
  const Case c{seed};
#ifndef CUBIST_TEST_MPI
  if (c.scheme == 1) return train<Grid3D>(c, {.x = 1, .y = 2, .z = 3}, folder, time_limit);
#endif
  return train<Summa2D>(c, {.q = 2}, folder, time_limit);
}

#ifndef CUBIST_TEST_MPI
constexpr const char* kinds[] = {"delay", "error", "death", "wrong size", "wrong order"};

/// The outcomes of all seeds with one kind of fault.
struct Tally
{
  int completed = 0;
  std::map<std::string, int> errors;
};

const char* type_of(const Error& e)
{
  const auto is = [&]<class E>(std::type_identity<E>) {
    return dynamic_cast<const E*>(&e) != nullptr;
  };
  if (is(std::type_identity<TimeLimitError>{})) return "TimeLimitError";
  if (is(std::type_identity<CollectiveMismatch>{})) return "CollectiveMismatch";
  if (is(std::type_identity<DeadlockError>{})) return "DeadlockError";
  if (is(std::type_identity<PeerFailed>{})) return "PeerFailed";
  if (is(std::type_identity<CommunicationError>{})) return "CommunicationError";
  return "another Error";
}

[[noreturn]] void fail(std::uint64_t seed, const std::string& what)
{
  const Fault fault = fault_of(seed);
  std::printf("seed %" PRIu64 ", %s in call %" PRIu64 " of rank %d: %s\n", seed,
              kinds[static_cast<int>(fault.kind)], fault.call, fault.rank, what.c_str());
  std::exit(1);
}

void soak(std::uint64_t first, std::uint64_t count)
{
  const auto folder = std::filesystem::temp_directory_path() /
                      ("cubist-soak-" + std::to_string(std::random_device{}()));
  std::map<std::uint64_t, double> undisturbed;
  for (std::uint64_t seed = 0; seed < 4; ++seed)
  {
    undisturbed[seed] = *train(seed, folder);
    std::filesystem::remove_all(folder);
  }
  std::array<Tally, 5> tallies;
  double longest = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed)
  {
    const Fault fault = fault_of(seed);
    auto& tally = tallies[static_cast<std::size_t>(fault.kind)];
    Backend::faults = {fault};
    std::optional<double> loss;
    const auto begin = std::chrono::steady_clock::now();
    try
    {
      loss = train(seed, folder, limit);
      ++tally.completed;
    }
    catch (const Error& e)
    {
      const std::string message = e.what();
      ++tally.errors[type_of(e)];
      if (message.find("rank ") == std::string::npos)
        fail(seed, "the error names no rank: " + message);
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    longest = std::max(longest, time.count());
    if (time > bound) fail(seed, "the run took " + std::to_string(time.count()) + " s");
    Backend::faults.clear();
    if (!loss) loss = train(seed, folder);
    if (*loss != undisturbed[seed % 4]) fail(seed, "the loss is " + std::to_string(*loss));
    std::filesystem::remove_all(folder);
  }
  for (std::size_t kind = 0; kind < tallies.size(); ++kind)
  {
    std::printf("%-12s completed %4d", kinds[kind], tallies[kind].completed);
    for (const auto& [error, times] : tallies[kind].errors)
      std::printf("  %s %d", error.c_str(), times);
    std::printf("\n");
  }
  std::printf("%" PRIu64 " faults; the longest run took %.1f s\n", count, longest);
}

#endif

}  // namespace

int main(int argc, char** argv)
try
{
  const std::vector<std::string> words(argv + 1, argv + argc);
#ifdef CUBIST_TEST_MPI
  const std::uint64_t seed = std::stoull(words.at(1));
  if (words.at(0) == "faulty") Backend::faults = {fault_of(seed)};
  const auto loss =
      train(seed, words.at(2), words[0] == "faulty" ? std::optional{limit} : std::nullopt);
  if (loss) std::printf("%a\n", *loss);
#else
  soak(words.size() > 1 ? std::stoull(words[1]) : 0, std::stoull(words.at(0)));
#endif
}
catch (const std::exception& e)
{
  std::fprintf(stderr, "soak: %s\n", e.what());
  return 1;
}
