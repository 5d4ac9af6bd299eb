// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A temporary folder for a test, removed at its end. The processes of one test share it.

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ios>
#include <sstream>
#include <stdexcept>
#include <string>

#include "backend.hpp"
#ifdef CUBIST_TEST_MPI
#include <mpi.h>
#endif

namespace cubist::test
{

/// Whether this process does what must be done only once.
[[nodiscard]] inline bool first_process()
{
#ifdef CUBIST_TEST_MPI
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank == 0;
#else
  return true;
#endif
}

/// Calls f on one process, between two barriers.
template <class F>
void once(F f)
{
#ifdef CUBIST_TEST_MPI
  MPI_Barrier(MPI_COMM_WORLD);
#endif
  if (first_process()) f();
#ifdef CUBIST_TEST_MPI
  MPI_Barrier(MPI_COMM_WORLD);
#endif
}

class Folder
{
 public:
  Folder()
  {
    std::array<char, 256> name{};
    once([&] {
      const auto requested = (std::filesystem::temp_directory_path() / "cubist-XXXXXX").string();
      requested.copy(name.data(), name.size() - 1);
      if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error{"no folder for the test"};
    });
#ifdef CUBIST_TEST_MPI
    MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
#endif
    path_ = name.data();
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder()
  {
#ifdef CUBIST_TEST_MPI
    MPI_Barrier(MPI_COMM_WORLD);  // others may be reading
#endif
    std::error_code ignored;
    if (first_process()) std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const
  {
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

[[nodiscard]] inline std::string contents(const std::filesystem::path& path)
{
  std::ifstream file{path, std::ios::binary};
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}

inline void write_contents(const std::filesystem::path& path, const std::string& bytes)
{
  std::ofstream{path, std::ios::binary} << bytes;
}

}  // namespace cubist::test
