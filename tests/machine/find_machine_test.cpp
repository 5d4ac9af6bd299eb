// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/machine/find_machine.hpp"

#include "folder.hpp"
#include "ranks.hpp"

namespace cubist::test::machine_find_machine_test
{

namespace fs = std::filesystem;

/// Changes the current folder until the end of the scope.
class CurrentFolder
{
 public:
  explicit CurrentFolder(const fs::path& folder)
      : before_{fs::current_path()}
  {
    fs::current_path(folder);
  }
  CurrentFolder(const CurrentFolder&) = delete;
  CurrentFolder& operator=(const CurrentFolder&) = delete;
  ~CurrentFolder() { fs::current_path(before_); }

 private:
  fs::path before_;
};

TEST_CASE("a machine is found by its name from any folder below the one that has machines/")
{
  const Folder folder;
  fs::create_directories(folder / "machines");
  fs::create_directories(folder / "build" / "bench");
  std::ofstream{folder / "machines" / "abacus_of_a_test.json"} << "{}";
  const CurrentFolder here{folder / "build" / "bench"};
  for (const char* name : {"abacus_of_a_test", "abacus_of_a_test.json",
                           "machines/abacus_of_a_test.json", "elsewhere/abacus_of_a_test"})
    CHECK(fs::equivalent(find_machine(name), folder / "machines" / "abacus_of_a_test.json"));
}

TEST_CASE("the path of a file is the machine, and a folder of the caller comes last")
{
  const Folder folder;
  fs::create_directories(folder / "more");
  std::ofstream{folder / "one_of_a_test.json"} << "{}";
  std::ofstream{folder / "more" / "two_of_a_test.json"} << "{}";
  const std::string path = (folder / "one_of_a_test.json").string();
  CHECK(find_machine(path) == path);
  CHECK(fs::equivalent(find_machine("two_of_a_test", {folder / "more"}),
                       folder / "more" / "two_of_a_test.json"));
  CHECK(message_of<DataError>([] {
          (void)find_machine("three_of_a_test");
        }).find("CUBIST_MACHINES") != std::string::npos);
}

TEST_CASE("the folder that the environment names comes first")
{
  const Folder folder;
  for (const char* name : {"machines", "named"})
  {
    fs::create_directories(folder / name);
    std::ofstream{folder / name / "abacus_of_a_test.json"} << "{}";
  }
  const CurrentFolder here{folder / "machines"};
  setenv("CUBIST_MACHINES", (folder / "named").c_str(), 1);
  const std::string found = find_machine("abacus_of_a_test");
  unsetenv("CUBIST_MACHINES");
  CHECK(fs::equivalent(found, folder / "named" / "abacus_of_a_test.json"));
}

}  // namespace cubist::test::machine_find_machine_test
