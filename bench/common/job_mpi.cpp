// SPDX-License-Identifier: BSD-3-Clause

#include <array>
#include <cstdint>
#include <vector>

#include <cubist/backend/mpi.hpp>

#include "common/job.hpp"

namespace bench
{

bool started_by_mpi() { return cubist::Mpi::started(); }

Job find_mpi_job()
{
  Job job{.mpi = true};
  cubist::launch<cubist::Mpi>({}, [&](auto& world) {
    const auto different = [&](std::uint64_t mine) {
      std::vector<std::uint64_t> all(static_cast<std::size_t>(world.size()));
      world.all_gather(std::array{mine}, all);
      return count_different(all);
    };
    job.first = world.rank() == 0;
    job.processes = world.size();
    job.nodes = different(node_id());
    job.machines = different(machine_id());
  });
  return job;
}

}  // namespace bench
