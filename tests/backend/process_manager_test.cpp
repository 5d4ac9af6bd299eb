// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/process_manager.hpp"

#include "ranks.hpp"

namespace cubist::test::backend_process_manager_test
{

using cubist::detail::JobProcesses;

/// Sets only the given variables of process managers in the environment, for its lifetime.
class Environment
{
 public:
  explicit Environment(const std::vector<std::pair<const char*, const char*>>& variables)
  {
    for (std::size_t i = 0; i < names.size(); ++i)
    {
      if (const char* value = std::getenv(names[i])) before_[i] = value;
      unsetenv(names[i]);
    }
    for (const auto& [name, value] : variables) setenv(name, value, 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment()
  {
    for (std::size_t i = 0; i < names.size(); ++i)
      if (before_[i])
        setenv(names[i], before_[i]->c_str(), 1);
      else
        unsetenv(names[i]);
  }

 private:
  static constexpr std::array names{
      "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE",    "PMI_RANK", "PMIX_RANK",
      "MPI_LOCALNRANKS",      "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"};
  std::array<std::optional<std::string>, names.size()> before_;
};

TEST_CASE("a process manager has started a process that has one of its variables")
{
  {
    const Environment none{{}};
    CHECK_FALSE(cubist::detail::started_by_process_manager());
  }
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "MPI_LOCALNRANKS"})
  {
    const Environment one{{{name, "4"}}};
    CHECK(cubist::detail::started_by_process_manager());
  }
}

TEST_CASE("the environment has the size of the job, and the rank of the process")
{
  const auto size_and_rank = [] {
    const auto job = JobProcesses::of_environment();
    return std::pair{job.size, job.rank};
  };
  const Environment none{{}};
  CHECK(size_and_rank() == std::pair{1, 0});
  {
    const Environment open_mpi{{{"OMPI_COMM_WORLD_SIZE", "3"}, {"OMPI_COMM_WORLD_RANK", "2"}}};
    CHECK(size_and_rank() == std::pair{3, 2});
  }
  {
    const Environment mpich{{{"PMI_SIZE", "4"}, {"PMI_RANK", "0"}}};
    CHECK(size_and_rank() == std::pair{4, 0});
  }
  {
    const Environment slurm{{{"SLURM_STEP_NUM_TASKS", "64"}, {"SLURM_PROCID", "63"}}};
    CHECK(size_and_rank() == std::pair{64, 63});
  }
  // An sbatch script, which is one process, or values that are not numbers.
  for (const auto& [size, rank] :
       {std::pair{"", "0"}, {"8x", "0"}, {"0", "0"}, {"-3", "0"}, {"99999999999", "0"}, {"3", "3"}})
  {
    const Environment odd{{{"SLURM_STEP_NUM_TASKS", size}, {"SLURM_PROCID", rank}}};
    CHECK(size_and_rank() == std::pair{1, 0});
  }
  const Environment script{{{"SLURM_PROCID", "0"}}};
  CHECK(size_and_rank() == std::pair{1, 0});
}

TEST_CASE("a job of several processes that run threads is worth a warning")
{
  CHECK(cubist::detail::copies_warning({1, 0}).empty());
  CHECK(mentions(cubist::detail::copies_warning({3, 0}), "got 3 processes",
                 "runs a copy of the whole program", "start it without mpiexec"));
}

}  // namespace cubist::test::backend_process_manager_test
