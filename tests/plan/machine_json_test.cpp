// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>
#include <fstream>
#include <string>

#include "cubist/plan/machine_json.hpp"

#include "catch.hpp"
#include "ranks.hpp"

namespace plan_machine_json_test
{

using namespace cubist;
using namespace cubist::test;
using nlohmann::json;

namespace
{

std::string error(const char* text)
{
  return message_of<DataError>([&] { (void)machine_from_json(json::parse(text)); });
}

/// Results in the form of cubist_bench collectives.
json measured(int nodes, int ranks)
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

}  // namespace

TEST_CASE("A machine reads back what it wrote")
{
  Machine machine;
  machine.flops = 1.5e9;
  machine.cores = 0.5;
  machine.ranks_per_node = 3;
  machine.inside = {1e-5, 2e9};
  machine.across = {1e-4, 1e8};
  machine.memory = 7e9;
  machine.gemm.copy = 0.25;
  machine.gemm.cache_bytes = 4096;
  const auto text = to_json(machine).dump();
  CHECK(to_json(machine_from_json(json::parse(text))).dump() == text);
  const auto measured = json{{"benchmark", "machine"}, {"machine", to_json(machine)}};
  CHECK(to_json(machine_from_json(measured)).dump() == text);
}

TEST_CASE("Figures that are left out keep their values")
{
  Machine base;
  base.cores = 3;
  const auto machine = machine_from_json(json::parse(R"({"across": {"bandwidth": 1.25e8}})"), base);
  CHECK(machine.across.bandwidth == 1.25e8);
  CHECK(machine.across.latency == base.across.latency);
  CHECK(machine.cores == 3);
}

TEST_CASE("JSON that describes no machine is refused")
{
  CHECK(mentions(error(R"({"flop": 1})"), "\"flop\"", "does not know", "use flops"));
  CHECK(mentions(error(R"({"inside": {"speed": 1}})"), "\"inside.speed\"", "latency or bandwidth"));
  CHECK(mentions(error(R"({"gemm": {"speed": 1}})"), "\"gemm.speed\"", "use products, result"));
  CHECK(mentions(error(R"({"flops": "fast"})"), "got \"fast\" for a machine's flops", "no number"));
  CHECK(mentions(error(R"({"across": 3})"), "got 3 for a machine's across", "use an object"));
  CHECK(mentions(error("[1, 2]"), "got [1,2] for a machine", "use an object"));
  CHECK(mentions(error(R"({"benchmark": "matmul", "rows": []})"), "cubist_bench", "lack something",
                 "collectives --json"));
  CHECK_THROWS_AS(machine_from_json(json::parse(R"({"memory": 0})")), ArgumentError);
  for (const char* number : {"1.5", "1e12", "-1e300"})
    CHECK(mentions(error((R"({"ranks_per_node": )" + std::string{number} + "}").c_str()),
                   "a machine's ranks_per_node", "no whole number"));
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
  CHECK(machine.ranks_per_node == 8);
  CHECK(machine.flops == Approx(20e9 / 0.5));
  CHECK(machine.inside.latency == Approx((2e-6 + 8e-9) / 2 * 0.5));
  CHECK(machine.inside.bandwidth == Approx(8000 / (2e-6 + 8e-6) / 0.5));
  CHECK(machine.across.bandwidth == Machine{}.across.bandwidth);
}

TEST_CASE("Collectives measured on several nodes describe the links between them")
{
  const auto machine = machine_from_json(measured(2, 4));
  CHECK(machine.cores == 4);
  CHECK(machine.ranks_per_node == 2);
  CHECK(machine.across.latency == Approx((2e-6 + 8e-9) / 2));
  CHECK(machine.across.bandwidth == Approx(8000 / (2e-6 + 8e-6)));
  CHECK(machine.inside.bandwidth == Machine{}.inside.bandwidth);
}

TEST_CASE("A machine is read from a file")
{
  const std::string path = "cubist_plan_machine.json";
  std::ofstream{path} << R"({"cores": 2})";
  CHECK(read_machine(path).cores == 2);
  std::ofstream{path} << "{cores";
  CHECK(mentions(message_of<DataError>([&] { (void)read_machine(path); }), path, "is no JSON"));
  std::ofstream{path} << R"({"cores": 2, "memory": 4e9, "cores": 3})";
  CHECK(mentions(message_of<DataError>([&] { (void)read_machine(path); }), path,
                 "two values for \"cores\""));
  std::ofstream{path} << std::string(500'000, '[') + std::string(500'000, ']');
  CHECK(mentions(message_of<DataError>([&] { (void)read_machine(path); }), path, "nested"));
  std::remove(path.c_str());
  CHECK(mentions(message_of<DataError>([&] { (void)read_machine(path); }), "cannot read " + path));
}

}  // namespace plan_machine_json_test
