// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Finds the file of a machine, for programs that are started in any folder. A machine is named by a
// path, or by the name of a file of machines/, with its ending or without it: "dgx_h100".
//
// A name is looked up in these folders, in this order:
//
//   1. the folder that the environment variable CUBIST_MACHINES names
//   2. machines/ and share/cubist/machines/ in the program's folder and in its parent folders,
//      which finds those of a build in the source tree, and of an installation
//   3. machines/ in the current folder and in its parent folders
//   4. both in the parent folders of this header, which finds those of the cubist that the program
//      was compiled with. If an installation keeps its headers under another prefix, one header
//      names the folder
//   5. the folders that the caller names

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "cubist/core/error.hpp"
#if __has_include("cubist/machine/installed_machines.hpp")
#include "cubist/machine/installed_machines.hpp"  // CUBIST_INSTALLED_MACHINES
#endif

namespace cubist::CUBIST_ABI
{

/// Returns the folders in which machines are looked up; they need not exist.
[[nodiscard]] inline std::vector<std::filesystem::path> machine_folders()
{
  namespace fs = std::filesystem;
  std::vector<fs::path> folders;
  if (const char* named = std::getenv("CUBIST_MACHINES")) folders.emplace_back(named);
  std::error_code none;
  const auto add_around = [&folders](fs::path folder, bool installed) {
    while (!folder.empty())
    {
      folders.push_back(folder / "machines");
      if (installed) folders.push_back(folder / "share" / "cubist" / "machines");
      if (folder == folder.parent_path()) return;
      folder = folder.parent_path();
    }
  };
  add_around(fs::read_symlink("/proc/self/exe", none).parent_path(), true);
  add_around(fs::current_path(none), false);
#ifdef CUBIST_INSTALLED_MACHINES
  folders.emplace_back(CUBIST_INSTALLED_MACHINES);
#endif
  add_around(fs::path{__FILE__}.lexically_normal().parent_path(), true);
  return folders;
}

/// Returns the path of a machine's file: `name`, if there is such a file, or else the first file of
/// this name in machine_folders() or in `more`.
/// @throws DataError if there is none
[[nodiscard]] inline std::string find_machine(const std::string& name,
                                              const std::vector<std::filesystem::path>& more = {})
{
  namespace fs = std::filesystem;
  std::error_code none;
  if (fs::is_regular_file(name, none)) return name;
  auto folders = machine_folders();
  folders.insert(folders.end(), more.begin(), more.end());
  const fs::path file = fs::path{name}.filename();
  for (const auto& folder : folders)
    for (const auto& path : {folder / file, folder / (file.string() + ".json")})
      if (fs::is_regular_file(path, none)) return path.string();
  throw DataError{
      "got the machine \"" + name +
      "\", which is neither a file nor a machine in a machines/ folder above the program, the "
      "current folder or cubist's headers, so its figures are unknown; give the path of a file, or "
      "set CUBIST_MACHINES to the folder that holds it"};
}

}  // namespace cubist::CUBIST_ABI
