// SPDX-License-Identifier: BSD-3-Clause
// Replaces the *_mpi.cpp files where MPI was not found. The program then runs on threads only, and
// calls only the first of these functions.

#include <cstdlib>

#include <cubist/core/error.hpp>

#include "comm/calls.hpp"
#include "comm/collectives.hpp"
#include "common/job.hpp"
#include "networks/generate.hpp"
#include "networks/mlp.hpp"
#include "networks/muon.hpp"
#include "networks/transformer.hpp"
#include "planner/machine.hpp"
#include "planner/planner.hpp"
#include "products/layers.hpp"
#include "products/matmul.hpp"
#include "scalapack/pgemm.hpp"

namespace bench
{

bool started_by_mpi()
{
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* processes = std::getenv(name))
      cubist::require<cubist::CommunicationError>(
          std::atoi(processes) <= 1, "got ", processes,
          " processes, but this cubist_bench was built without MPI, so each would run alone; build "
          "it where CMake finds MPI and Boost.MPI, or start it without mpiexec");
  return false;
}
Job find_mpi_job() { return {}; }
std::optional<Row> matmul_on_mpi(const MatmulTask&) { return {}; }
std::optional<Row> mlp_on_mpi(const MlpTask&) { return {}; }
std::optional<Row> muon_on_mpi(const MuonTask&) { return {}; }
std::optional<Row> transformer_on_mpi(const TransformerTask&) { return {}; }
std::optional<GenerateRow> generate_on_mpi(const GenerateTask&) { return {}; }
std::optional<PgemmRow> pgemm_on_mpi(const PgemmTask&) { return {}; }
std::optional<PlannerResult> planner_on_mpi(const PlannerTask&) { return {}; }
std::optional<std::vector<double>> layers_on_mpi(const LayersTask&) { return {}; }
std::optional<cubist::Machine> machine_on_mpi(const MachineTask&) { return {}; }
std::optional<CollectivesResult> collectives_on_mpi(const CollectivesTask&) { return {}; }
std::optional<std::vector<CallRow>> calls_on_mpi(const CallsTask&) { return {}; }

}  // namespace bench
