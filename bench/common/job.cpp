// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <array>
#include <fstream>
#include <iostream>
#include <thread>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cubist/core/error.hpp>
#include <cubist/engine/host/blas_threads.hpp>

#include "common/job.hpp"

namespace bench
{

namespace
{
std::string host_name()
{
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}
}  // namespace

std::string Job::blas() const
{
  if (gpus > 0) return "cuBLAS on " + std::to_string(gpus) + " x " + gpu;
  return "BLAS kernels " + cubist::blas_core_name() + ", " +
         std::to_string(std::thread::hardware_concurrency()) + " cores";
}

Job find_job() { return started_by_mpi() ? find_mpi_job() : Job{}; }

int count_different(std::vector<std::uint64_t> values)
{
  std::sort(values.begin(), values.end());
  return static_cast<int>(std::unique(values.begin(), values.end()) - values.begin());
}

std::uint64_t node_id() { return std::hash<std::string>{}(host_name()); }

std::uint64_t machine_id()
{
  std::string id;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> id;
  return std::hash<std::string>{}(id.empty() ? host_name() : id);
}

nlohmann::json describe(const Job& job, const char* benchmark)
{
  return {{"benchmark", benchmark},
          {"backend", job.backend()},
          {"host", host_name()},
          {"processes", job.processes},
          {"nodes", job.nodes},
          {"machines", job.machines},
          {"gpus", job.gpus},
          {"gpu", job.gpu},
          {"cores", std::thread::hardware_concurrency()},
          {"blas_kernels", cubist::blas_core_name()},
          {"rows", nlohmann::json::array()}};
}

void write_json(const nlohmann::json& json, const std::string& path)
{
  if (path.empty()) return;
  if (path == "-")
  {
    std::cout << json.dump(2) << '\n';
    return;
  }
  std::ofstream file{path};
  file << json.dump(2) << '\n';
  file.flush();
  cubist::require<cubist::DataError>(file.good(), "cannot write ", path,
                                     ", so the results would be lost; pass --json another path");
}

}  // namespace bench
