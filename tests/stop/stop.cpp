// SPDX-License-Identifier: BSD-3-Clause
// stop FOLDER LAST PAUSE: loops over steps of PAUSE ms up to step LAST. It goes on from the newest
// checkpoint, prints each step, and saves a checkpoint in the background, which the program's end
// completes. In the end it prints a checksum.
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "cubist/io/checkpoints.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/global.hpp"
#include "cubist/scheme/mesh.hpp"
#include "cubist/scheme/summa2d.hpp"
#include "cubist/training/stop_signal.hpp"
#ifdef CUBIST_TEST_MPI
#include "cubist/backend/mpi.hpp"
using Backend = cubist::Mpi;
#else
#include "cubist/backend/threads.hpp"
using Backend = cubist::Threads;
#endif

using namespace cubist;

int main(int argc, char** argv)
{
  const StopSignal stop;
  const std::uint64_t last = std::strtoull(argv[2], nullptr, 10);
  const std::chrono::milliseconds pause{std::strtoll(argv[3], nullptr, 10)};
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::atomic<bool> stopped = false;
  launch<Backend>(argc, argv, {.ranks = 4}, [&](auto& world) {
    const Mesh<Summa2D, Backend> mesh{world, {.q = 2}};
    using M = AxisMesh<Summa2D::Axes, Backend>;
    DistMatrix<double, Summa2D::Input, M> x{mesh, {7, 5}};
    Checkpoints checkpoints{mesh, argv[1], {.keep = 1}};
    const State<double, M> state{.matrices = {{"x", x.view()}}, .numbers = {}, .accumulators = {}};
    std::uint64_t step = checkpoints.load(state).value_or(0);
    if (world.rank() == 0) std::printf("starts after step %" PRIu64 "\n", step);
    for (bool stops = false; step < last && !stops;)
    {
      std::this_thread::sleep_for(pause);
      ++step;
      auto mine = x.local();
      for (std::size_t i = 0; i < mine.size(); ++i)
        mine.flat(i) = mine.flat(i) / 2 + static_cast<double>(step);
      stops = stop.requested(mesh);
      if (world.rank() == 0)
        std::printf("%s step %" PRIu64 "\n", stops ? "stops after" : "did", step);
      checkpoints.save_in_background(step, state);
      if (stops) stopped = true;
    }
    double sum = 0;
    for (const double element : gather(x)) sum += element;
    if (world.rank() == 0 && !stopped) std::printf("sum %a\n", sum);
  });
  return stopped ? requeue_exit_code : 0;
}
