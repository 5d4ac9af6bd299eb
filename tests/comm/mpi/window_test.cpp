// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/mpi.hpp"
#include "cubist/comm/mpi/window.hpp"

#include "ranks.hpp"

namespace cubist::test::comm_mpi_window_test
{

// Tests what windows between processes guarantee beyond the guarantees of every window, which
// comm/window_test.cpp tests.

using World = MpiCommunicator;

template <class T>
using Shared = SharedEngine::Buffer<T>;

TEST_CASE("processes of one machine share memory, unless the options forbid it")
{
  const auto exposes = [](bool share) {
    const MpiOptions before = Mpi::options;
    Mpi::options.share_memory = share;
    const auto all = on_ranks<Mpi>(1, [](World& world) { return world.exposes(); });
    Mpi::options = before;
    return all[0];
  };
  CHECK(exposes(true));
  CHECK_FALSE(exposes(false));
}

TEST_CASE("a block in the arena is read in place, another one from a copy")
{
  if (!exposes<Mpi>()) SKIP_TEST("these processes share no memory");
  require_clear(on_ranks<Mpi>(2, [](World& world) {
    Findings found;
    Shared<double> shared(2000, 1.0 + world.rank());
    std::vector<double> heap(2000, 3.0 + world.rank());
    const int other = 1 - world.rank();
    auto in_place = world.expose(shared);
    auto copied = world.expose(heap);
    found.check(in_place[other][1999] == 1.0 + other, "in place");
    found.check(copied[other][1999] == 3.0 + other, "a copy");
    // Peers see what is now written to the first block, but not what is written to the other.
    world.barrier();
    shared[0] = 10.0 + world.rank();
    heap[0] = 20.0 + world.rank();
    world.barrier();
    found.check(in_place[other][0] == 10.0 + other, "the block of rank ", other, " is a copy");
    found.check(copied[other][0] == 3.0 + other, "the block of rank ", other, " is not a copy");
    found.check(copied[world.rank()].data() == heap.data(),
                "a rank's own block is not read in place");
    in_place.close(), copied.close();
    in_place.wait(), copied.wait();
    return found;
  }));
}

TEST_CASE("a block that peers write to follows copies of small blocks in the same memory")
{
  if (!exposes<Mpi>()) SKIP_TEST("these processes share no memory");
  require_clear(on_ranks<Mpi>(2, [](World& world) {
    Findings found;
    const int other = 1 - world.rank();
    std::vector<double> heap(10, 1.0 + world.rank());
    auto read = world.expose(std::span<const double>{heap});
    found.check(read[other][9] == 1.0 + other, "a small block");
    read.close(), read.wait();
    auto written = world.expose_writable(std::span{heap});
    written[other][3] = 5.0 + other;
    written.close(), written.wait();
    found.check(heap[3] == 5.0 + world.rank(), "what a peer has written");
    return found;
  }));
}

TEST_CASE(
    "a process that fails while it exposes a block ends the launch, and peers may still read it")
{
  if (!exposes<Mpi>()) SKIP_TEST("these processes share no memory");
  if (!fits<Mpi>(4)) return;
  const auto message = message_of<DataError>([] {
    static_cast<void>(on_ranks<Mpi>(4, [](World& world) {
      double sum = 0;
      {
        const Shared<double> mine(100'000, 1.0);
        auto window = world.expose(mine);
        const auto theirs = window[2];
        world.barrier();
        if (world.rank() == 2) throw DataError{"the file ended"};
        for (int again = 0; again < 100; ++again)
          for (const double x : theirs) sum += x;
        window.close();
        window.wait();
      }
      return sum;
    }));
  });
  CHECK(message == "rank 2: the file ended");
}

}  // namespace cubist::test::comm_mpi_window_test
