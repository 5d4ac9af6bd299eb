// SPDX-License-Identifier: BSD-3-Clause
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "cubist/simulation/machine_json.hpp"

#include "catch.hpp"

namespace simulation_machine_json_test
{

using namespace cubist;
using nlohmann::json;

TEST_CASE("a machine is read as it was written")
{
  SimulatedMachine machine;
  machine.name = "two racks";
  machine.source = "a test";
  machine.cores = 8;
  machine.nodes_sharing = 2;
  machine.shared_memory = false;
  machine.algorithms = SimulatedAlgorithms::nccl;
  machine.links = {{"NVLink", 8, 1e-6, 4e11, 0, 0, 0, true},
                   {"network", 64, 3e-6, 4e11, 5e10, 1e-12, 2e-7, true},
                   {"spine", 0, 5e-6, 1e12, 0, 0, 0, true}};
  machine.rates = {{"float", RateTable::constant(5e13)},
                   {"bfloat16", {{64, 4096}, {64}, {64}, {1e13, 7e14}}}};
  const json written = to_json(machine);
  CHECK(to_json(simulated_machine_from_json(written)) == written);
  CHECK(simulated_machine_from_json(written).links[1].rank_bandwidth == 5e10);
  CHECK(simulated_machine_from_json(written).rates.at("bfloat16").rates.back() == 7e14);
}

TEST_CASE("what is left out keeps its value")
{
  const auto machine = simulated_machine_from_json(json::parse(R"({"cores": 64})"));
  auto expected = to_json(SimulatedMachine{});
  expected["cores"] = 64.0;
  CHECK(to_json(machine) == expected);
}

TEST_CASE("what the simulator does not know is refused, with what it knows")
{
  for (const std::string text :
       {R"({"core": 64})", R"({"cores": "many"})", R"({"name": 3})", R"({"shared_memory": 1})",
        R"([1])", R"({"links": [{"speed": 3}]})", R"({"algorithms": "gossip"})", R"({"rates": 3})",
        R"({"rates": {"float": {"m": [1]}}})", R"({"nodes_sharing": 1.5})",
        R"({"nodes_sharing": 1e12})", R"({"links": 3})", R"({"links": {"ranks": {}}})",
        R"({"links": [{"ranks": 1.5}]})"})
  {
    CAPTURE(text);
    CHECK_THROWS_AS(simulated_machine_from_json(json::parse(text)), DataError);
  }
  CHECK_THROWS_WITH(simulated_machine_from_json(json::parse(R"({"core": 64})")),
                    Catch::Matchers::ContainsSubstring("cores") &&
                        Catch::Matchers::ContainsSubstring("links"));
  CHECK_THROWS_AS(simulated_machine_from_json(json::parse(R"({"cores": 0})")), ArgumentError);
  CHECK_THROWS_AS(read_simulated_machine("/nowhere/machine.json"), DataError);
}

TEST_CASE("a machine's file that is nested half a million deep is refused")
{
  const auto path = std::filesystem::temp_directory_path() / "cubist_deep_machine.json";
  std::ofstream{path} << R"({"name": )" + std::string(500'000, '[') + std::string(500'000, ']') +
                             "}";
  CHECK_THROWS_WITH(read_simulated_machine(path.string()),
                    Catch::Matchers::ContainsSubstring("nested more than 64 deep"));
  std::filesystem::remove(path);
}

TEST_CASE("every file in machines is a machine")
{
  namespace fs = std::filesystem;
  std::set<std::string> names;
  for (const auto& entry :
       fs::directory_iterator{fs::path{__FILE__}.parent_path() / "../../machines"})
  {
    CAPTURE(entry.path());
    CHECK(entry.path().extension() == ".json");
    SimulatedMachine machine;
    REQUIRE_NOTHROW(machine = read_simulated_machine(entry.path().string()));
    CHECK(!machine.source.empty());
    CHECK(names.insert(machine.name).second);
    // Ranks of several nodes share at least the links between them.
    CHECK(machine.links.size() >= 2);
    CHECK(machine.rates.count("float") == 1);
    CHECK(simulated_machine_from_json(to_json(machine)).links.size() == machine.links.size());
  }
  CHECK(names.size() >= 7);
}

}  // namespace simulation_machine_json_test
