// SPDX-License-Identifier: BSD-3-Clause
#include <filesystem>
#include <fstream>
#include <set>

#include "cubist/machine/machine_json.hpp"

#include "ranks.hpp"

namespace cubist::test::machine_machine_json_test
{

using nlohmann::json;

TEST_CASE("A machine is read as it was written")
{
  Machine machine;
  machine.name = "two racks";
  machine.source = "a test";
  machine.cores = 8;
  machine.nodes_sharing = 2;
  machine.memory = 7e9;
  machine.write_bandwidth = 5e9;
  machine.idle_watts = 100, machine.busy_watts = 700, machine.hour_price = 3;
  machine.shared_memory = false;
  machine.algorithms = CollectiveAlgorithms::nccl;
  machine.links = {{"NVLink", 8, 1e-6, 4e11, 0, 0, 0, true},
                   {"network", 64, 3e-6, 4e11, 5e10, 1e-12, 2e-7, true},
                   {"spine", 0, 5e-6, 1e12, 0, 0, 0, true}};
  machine.rates = {{"float", RateTable::constant(5e13)},
                   {"double", RateTable::peak(3e12)},
                   {"bfloat16", {{64, 4096}, {64}, {64}, {1e13, 7e14}}}};
  machine.gemm.copy = 0.25;
  machine.gemm.cache_bytes = 4096;
  const json written = to_json(machine);
  const auto read = machine_from_json(written);
  CHECK(to_json(read) == written);
  CHECK(read.write_bandwidth == 5e9);
  CHECK((read.idle_watts == 100 && read.busy_watts == 700 && read.hour_price == 3));
  CHECK(read.links[1].rank_bandwidth == 5e10);
  CHECK(read.rates.at("bfloat16").rates.back() == 7e14);
  CHECK(read.rates.at("double").is_peak);
  CHECK(read.gemm == machine.gemm);
  CHECK(to_json(machine_from_json({{"benchmark", "machine"}, {"machine", written}})) == written);
}

TEST_CASE("Figures that are left out keep their values")
{
  Machine base;
  base.cores = 3;
  const auto machine = machine_from_json(json::parse(R"({"memory": 1e9})"), base);
  auto expected = to_json(base);
  expected["memory"] = 1e9;
  CHECK(to_json(machine) == expected);
}

TEST_CASE("A planner's file from an earlier release is read")
{
  const auto machine = machine_from_json(json::parse(R"({
    "flops": 1.5e9, "float_factor": 3, "cores": 4, "ranks_per_node": 3, "nodes_sharing": 2,
    "inside": {"latency": 1e-5, "bandwidth": 2e9}, "across": {"latency": 1e-4, "bandwidth": 1e8},
    "hidden": 0.25, "memory_bandwidth": 5e9, "memory": 7e9,
    "gemm": {"products": 40, "cache_bytes": 4096}})"));
  CHECK(machine.rates_of(sizeof(double)).largest() == 1.5e9);
  CHECK(machine.rates_of(sizeof(float)).largest() == 4.5e9);
  CHECK(machine.rates_of(sizeof(float)).is_peak);
  CHECK(machine.ranks_per_node() == 3);
  CHECK(machine.inside().latency == 1e-5);
  CHECK(machine.inside().bandwidth == 2e9);
  CHECK(machine.across().latency == 1e-4);
  CHECK(machine.across().bandwidth == 1e8);
  CHECK(machine.hidden(6) == Approx(0.25));
  CHECK(machine.memory_bandwidth == 5e9);
  CHECK(machine.gemm.products == 40);
  CHECK(machine.gemm.cache_bytes == 4096);
  CHECK(to_json(machine_from_json(to_json(machine))) == to_json(machine));
}

TEST_CASE("Short names change what a machine has, and leave the rest")
{
  const auto read = [](const char* text, const Machine& base = {}) {
    return machine_from_json(json::parse(text), base);
  };
  const Machine base;
  const auto slow = read(R"({"across": {"bandwidth": 1.25e8}})");
  CHECK(slow.across().bandwidth == 1.25e8);
  CHECK(slow.across().latency == base.across().latency);
  CHECK(slow.inside().bandwidth == base.inside().bandwidth);
  CHECK(read(R"({"hidden": 0.5, "nodes_sharing": 4})").hidden(64) == Approx(0.5));
  CHECK(read(R"({"float_factor": 4})").rates_of(sizeof(float)).largest() == Approx(160e9));
  CHECK(read(R"({"flops": 1e9})").rates_of(sizeof(float)).largest() == Approx(2e9));
  Machine one_level;
  one_level.links = {{.latency = 1e-6, .bandwidth = 4e9}};
  const auto nodes = read(R"({"ranks_per_node": 4, "across": {"bandwidth": 1e9}})", one_level);
  CHECK(nodes.ranks_per_node() == 4);
  CHECK(nodes.inside().bandwidth == 4e9);
  CHECK(nodes.across().bandwidth == 1e9);
}

static std::string error(const char* text)
{
  return message_of<DataError>([&] { (void)machine_from_json(json::parse(text)); });
}

TEST_CASE("JSON that describes no machine is refused")
{
  for (const char* text :
       {R"({"core": 64})", R"({"cores": "many"})", R"({"name": 3})", R"({"shared_memory": 1})",
        R"([1])", R"({"links": [{"speed": 3}]})", R"({"algorithms": "gossip"})", R"({"rates": 3})",
        R"({"rates": {"float": {"m": [1]}}})", R"({"rates": {"float": {"peak": "high"}}})",
        R"({"nodes_sharing": 1.5})", R"({"nodes_sharing": 1e12})", R"({"links": 3})",
        R"({"links": {"ranks": {}}})", R"({"links": [{"ranks": 1.5}]})"})
  {
    CAPTURE(text);
    CHECK_FALSE(error(text).empty());
  }
  CHECK(
      mentions(error(R"({"flop": 1})"), "\"flop\"", "would be ignored", "cores", "links", "flops"));
  CHECK(
      mentions(error(R"({"inside": {"speed": 1}})"), "inside", "\"speed\"", "latency, bandwidth"));
  CHECK(mentions(error(R"({"gemm": {"speed": 1}})"), "gemm", "\"speed\"", "use products, result"));
  CHECK(mentions(error(R"({"flops": "fast"})"), "got \"fast\" for flops of a machine",
                 "use a number"));
  CHECK(mentions(error(R"({"across": 3})"), "got 3 for a machine's across", "use an object"));
  CHECK(mentions(error("[1, 2]"), "got [1,2] for a machine", "use an object"));
  CHECK(mentions(error(R"({"benchmark": "matmul", "rows": []})"), "cubist_bench", "incomplete",
                 "collectives --json"));
  for (const char* number : {"1.5", "1e12", "-1e300"})
    CHECK(mentions(error((R"({"ranks_per_node": )" + std::string{number} + "}").c_str()),
                   "for ranks_per_node of a machine", "use a whole number"));
  const auto invalid = [](const char* text) {
    return message_of<ArgumentError>([&] { (void)machine_from_json(json::parse(text)); });
  };
  CHECK(mentions(invalid(R"({"hidden": 1.5})"), "got hidden = 1.5", "use a number from 0 to 1"));
  for (const char* text :
       {R"({"memory": 0})", R"({"cores": 0})", R"({"flops": 0})", R"({"links": []})",
        R"({"ranks_per_node": -1})", R"({"inside": {"latency": -1}})", R"({"hidden": -0.5})"})
  {
    CAPTURE(text);
    CHECK_FALSE(invalid(text).empty());
  }
}

/// Results in the format of `cubist_bench collectives`.
static json measured(int nodes, int ranks)
{
  json rows = json::array();
  for (const double words : {1.0, 1000.0})
    for (const char* collective : {"broadcast", "all_gather", "reduce_scatter"})
      rows.push_back({{"collective", collective},
                      {"ranks", ranks},
                      {"words", words},
                      {"seconds", 2e-6 + words * 8e-9},
                      {"bytes_per_word", 8},
                      {"most_words_per_rank", words},
                      {"messages_per_rank", 2},
                      {"gemm_gflops_per_rank", 20.0}});
  return {{"benchmark", "collectives"},
          {"nodes", nodes},
          {"machines", nodes},
          {"cores", 4},
          {"rows", rows}};
}

TEST_CASE("Results of collectives with impossible counts are refused")
{
  const auto with = [](const char* name, const json& value) {
    auto results = measured(2, 4);
    results[name] = value;
    return message_of<DataError>([&] { (void)machine_from_json(results); });
  };
  CHECK(mentions(with("nodes", 0), "got results of cubist_bench with 0 for nodes"));
  CHECK(mentions(with("nodes", 1.5), "with 1.5 for nodes"));
  CHECK(mentions(with("machines", -1), "with -1 for machines"));
  auto results = measured(2, 4);
  results["rows"][1]["words"] = -1;
  CHECK(mentions(message_of<DataError>([&] { (void)machine_from_json(results); }),
                 "with -1 for words"));
  results = measured(2, 4);
  results["cores"] = -1e300;
  CHECK_THROWS_AS(machine_from_json(results), ArgumentError);
}

TEST_CASE("Collectives measured on one node describe its inside")
{
  const auto machine = machine_from_json(measured(1, 8));
  CHECK(machine.cores == 4);
  CHECK(machine.ranks_per_node() == 8);
  CHECK(machine.rates_of(sizeof(double)).largest() == Approx(20e9 / 0.5));
  CHECK(machine.rates_of(sizeof(float)).largest() == Approx(40e9 / 0.5));
  CHECK(machine.inside().latency == Approx((2e-6 + 8e-9) / 2 * 0.5));
  CHECK(machine.inside().bandwidth == Approx(8000 / (2e-6 + 8e-6) / 0.5));
  CHECK(machine.across().bandwidth == Machine{}.across().bandwidth);
}

TEST_CASE("Collectives measured on several nodes describe the links between them")
{
  const auto machine = machine_from_json(measured(2, 4));
  CHECK(machine.cores == 4);
  CHECK(machine.ranks_per_node() == 2);
  CHECK(machine.across().latency == Approx((2e-6 + 8e-9) / 2));
  CHECK(machine.across().bandwidth == Approx(8000 / (2e-6 + 8e-6)));
  CHECK(machine.inside().bandwidth == Machine{}.inside().bandwidth);
}

TEST_CASE("A machine is read from a file")
{
  const std::string path = "cubist_plan_machine.json";
  std::ofstream{path} << R"({"cores": 2})";
  CHECK(read_machine(path).cores == 2);
  std::ofstream{path} << "{cores";
  CHECK(mentions(message_of<DataError>([&] { (void)read_machine(path); }), path, "is not JSON"));
  std::ofstream{path} << R"({"cores": 2, "memory": 4e9, "cores": 3})";
  CHECK(mentions(message_of<DataError>([&] { (void)read_machine(path); }), path,
                 "two values for \"cores\""));
  std::ofstream{path} << std::string(500'000, '[') + std::string(500'000, ']');
  CHECK(mentions(message_of<DataError>([&] { (void)read_machine(path); }), path, "nested"));
  std::remove(path.c_str());
  CHECK(mentions(message_of<DataError>([&] { (void)read_machine(path); }), "cannot read " + path));
}

TEST_CASE("Every file in machines is a machine")
{
  namespace fs = std::filesystem;
  std::set<std::string> names;
  for (const auto& entry :
       fs::directory_iterator{fs::path{__FILE__}.parent_path() / "../../machines"})
  {
    CAPTURE(entry.path());
    CHECK(entry.path().extension() == ".json");
    Machine machine;
    REQUIRE_NOTHROW(machine = read_machine(entry.path().string()));
    CHECK(!machine.source.empty());
    CHECK(names.insert(machine.name).second);
    // Ranks on several nodes have at least the links between nodes.
    CHECK(machine.links.size() >= 2);
    CHECK(machine.rates.count("float") == 1);
    CHECK(machine_from_json(to_json(machine)).links.size() == machine.links.size());
  }
  CHECK(names.size() >= 7);
}

}  // namespace cubist::test::machine_machine_json_test
