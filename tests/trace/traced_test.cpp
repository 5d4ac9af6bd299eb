// SPDX-License-Identifier: BSD-3-Clause
#include <set>
#include <thread>

#include "cubist/backend/simulated.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/trace/traced.hpp"

#include "folder.hpp"
#include "ranks.hpp"

namespace cubist::test::trace_traced_test
{

using nlohmann::json;

TEST_CASE("calls share a row of a trace one after the other, and a product names its operands")
{
  const auto call = [](double begin, double end) {
    return TraceEvent{.category = TraceCategory::communication, .begin = begin, .end = end};
  };
  using Rows = std::vector<std::size_t>;
  CHECK(detail::rows_of({call(0, 2), call(1, 3), call(2, 4), {}, call(4, 5), call(2.5, 6)}) ==
        Rows{1, 2, 1, 0, 1, 3});
  const auto operands = [](bool a, bool b) {
    return detail::call_arguments(
        {.category = TraceCategory::product, .transposes_a = a, .transposes_b = b})["operands"];
  };
  CHECK(operands(true, false) == "tn");
  CHECK(operands(false, true) == "nt");
}

template <class B>
void train(typename B::Communicator& world)
{
  using S = Summa2D;
  const Mesh<S, B> mesh{world, {.q = 2}};
  MLP<S, B, float> mlp{mesh, {32, 64, 32}, {.activation = relu}};
  Sgd optimizer{mlp.parameters(), {}};
  const DistMatrix<float, S::Input, AxisMesh<S::Axes, B>> x{mesh, {16, 32}};
  const auto y = mlp.forward(x);
  mlp.backward(y);
  optimizer.step(mlp.parameters());
}

/// The events of a trace of a training step.
template <class B>
json trace(const std::string& file, int ranks = 64)
{
  Traced<B>::options = {.file = file, .ranks = ranks};
  launch<Traced<B>>({.ranks = 4, .rethrow = true}, [](auto& world) { train<Traced<B>>(world); });
  Traced<B>::options = {};
  std::ifstream in{file};
  return json::parse(in).at("traceEvents");
}

/// Checks the format's rules: what each event has, and that the spans of a row nest.
static void check_format(const json& events)
{
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> rows;
  std::set<std::pair<int, int>> named;
  for (const auto& e : events)
  {
    REQUIRE(e.at("pid").is_number_integer());
    const std::pair row{e.at("pid").get<int>(), e.value("tid", 0)};
    if (e.at("ph") == "M")
    {
      if (e.at("name") == "thread_name") named.insert(row);
      continue;
    }
    REQUIRE(e.at("ph") == "X");
    REQUIRE(e.at("name").is_string());
    REQUIRE(e.at("cat").is_string());
    const double begin = e.at("ts");
    const double length = e.at("dur");
    CHECK(begin >= 0);
    CHECK(length >= 0);
    rows[row].emplace_back(begin, begin + length);
  }
  for (auto& [place, spans] : rows)
  {
    CHECK(named.count(place) == 1);
    std::sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
      return a.first < b.first || (a.first == b.first && a.second > b.second);
    });
    constexpr double rounding = 1e-3;  // microseconds
    std::vector<double> open;
    for (const auto& [begin, end] : spans)
    {
      while (!open.empty() && open.back() <= begin + rounding) open.pop_back();
      CHECK((open.empty() || end <= open.back() + rounding));
      open.push_back(end);
    }
  }
}

static std::multiset<std::string> names(const json& events, const std::string& category, int rank)
{
  std::multiset<std::string> all;
  for (const auto& e : events)
    if (e.at("ph") == "X" && e.at("cat") == category && e.at("pid") == rank)
      all.insert(e.at("name").get<std::string>());
  return all;
}

/// Checks that every product of matrices is inside the part of a distributed product.
static void check_products(const json& events, int rank)
{
  for (const auto& e : events)
  {
    if (e.at("ph") != "X" || e.at("pid") != rank || e.at("cat") != "product") continue;
    const double begin = e.at("ts");
    const double end = begin + e.at("dur").get<double>();
    bool inside = false;
    for (const auto& p : events)
      if (p.at("ph") == "X" && p.at("pid") == rank && p.at("cat") == "part" &&
          p.at("name").get<std::string>().rfind("Summa2D ", 0) == 0)
      {
        const double from = p.at("ts");
        constexpr double rounding = 1e-3;  // microseconds
        inside = inside ||
                 (from <= begin + rounding && end <= from + p.at("dur").get<double>() + rounding);
      }
    CHECK(inside);
  }
}

TEST_CASE("a trace has the program's parts, products and communication, on each rank")
{
  if (!fits(4)) return;
  const Folder folder;
  const auto events = trace<TestBackend>((folder / "trace.json").string());
  check_format(events);
  for (int rank = 0; rank < 4; ++rank)
  {
    const auto parts = names(events, "part", rank);
    for (const char* part :
         {"forward of layer 0", "forward of layer 1", "backward of layer 1", "backward of layer 0",
          "update of parameter 3", "Summa2D forward 16x64x32", "Summa2D forward 16x32x64",
          "Summa2D backward 16x32x64", "Summa2D backward of the weight 16x64x32"})
      CHECK(parts.count(part) == 1);
    CHECK(names(events, "product", rank).size() >= 5);
    CHECK(names(events, "pass", rank).size() >= 4);
    check_products(events, rank);
  }
}

TEST_CASE("a trace shows for which peer a direct product waits")
{
  if (!fits(2)) return;
  const Folder folder;
  const auto file = (folder / "trace.json").string();
  bool exposes = false;
  Traced<TestBackend>::options = {.file = file};
  launch<Traced<TestBackend>>({.ranks = 2, .rethrow = true}, [&](auto& world) {
    if (!can_expose(world)) return;
    if (world.rank() == 0) exposes = true;
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds{20});
    const std::vector<float> mine(4);
    auto window = world.expose(mine);
    static_cast<void>(window[1 - world.rank()]);
    window.close();
    window.wait();
  });
  Traced<TestBackend>::options = {};
  if (!exposes) return;
  std::ifstream in{file};
  const auto events = json::parse(in).at("traceEvents");
  CHECK(names(events, "wait", 0).count("wait for a block of rank 1") == 1);
}

#ifndef CUBIST_TEST_MPI
TEST_CASE("a trace of simulated time shows every element that is sent, and repeats")
{
  const Folder folder;
  const auto events = trace<Simulated>((folder / "trace.json").string());
  check_format(events);
  // On one node products are direct; with one rank on each node they use panels.
  Simulated::machine.links.front().ranks = 1;
  const auto apart = trace<Simulated>((folder / "trace.json").string());
  check_format(apart);
  CHECK(apart == trace<Simulated>((folder / "trace.json").string()));
  launch<Counting<Simulated>>({.ranks = 4}, [](auto& world) { train<Counting<Simulated>>(world); });
  for (int rank = 0; rank < 4; ++rank)
  {
    std::uint64_t sent = 0;
    for (const auto& e : apart)
      if (e.at("ph") == "X" && e.at("cat") == "communication" && e.at("pid") == rank)
        sent += e.at("args").at("elements sent").get<std::uint64_t>();
    CHECK(sent ==
          Simulated::report().ranks[static_cast<std::size_t>(rank)].traffic.total().elements);
    CHECK(sent > 0);
  }
  Simulated::machine = {};
}

TEST_CASE("without overlap the time of a message is a wait where it starts")
{
  const auto waited = [](bool overlap) {
    const Folder folder;
    Simulated::machine.links.front().ranks = 1;
    Simulated::options.overlap = overlap;
    const auto events = trace<Simulated>((folder / "trace.json").string());
    check_format(events);
    Simulated::options = {};
    Simulated::machine = {};
    double sum = 0;
    for (const auto& e : events)
      if (e.at("ph") == "X" && e.at("cat") == "wait" && e.at("pid") == 0)
        sum += e.at("dur").get<double>();
    return sum;
  };
  CHECK(waited(false) > waited(true));
}

TEST_CASE("only the first ranks are recorded")
{
  const Folder folder;
  const auto events = trace<Simulated>((folder / "trace.json").string(), 2);
  CHECK_FALSE(names(events, "part", 1).empty());
  CHECK(names(events, "part", 2).empty());
}

TEST_CASE("chosen ranks are recorded")
{
  using Backend = Traced<Simulated>;
  const Folder folder;
  const auto file = (folder / "trace.json").string();
  const auto recorded = [&](const std::vector<int>& only) {
    Backend::options = {.file = file, .only = only};
    launch<Backend>({.ranks = 512, .rethrow = true}, [](auto& world) {
      const typename Backend::Engine engine;
      const Span span{engine, "part"};
      world.barrier();
    });
    Backend::options = {};
    std::ifstream in{file};
    const auto events = json::parse(in).at("traceEvents");
    check_format(events);
    std::set<int> ranks;
    for (const auto& e : events) ranks.insert(e.at("pid").get<int>());
    for (const int rank : ranks) CHECK(names(events, "part", rank).count("part") == 1);
    return ranks;
  };
  CHECK(recorded({511, 17}) == std::set<int>{17, 511});
  CHECK(recorded({0, 256}) == std::set<int>{0, 256});
  CHECK_THROWS_AS(recorded({512}), ArgumentError);
  CHECK_THROWS_AS(recorded({-1}), ArgumentError);
  Backend::options = {};
}

TEST_CASE("a trace shows processor time on request, and what calls do")
{
  if (!fits(4)) return;
  const Folder folder;
  const auto file = (folder / "trace.json").string();
  Traced<TestBackend>::options = {.file = file, .processor_time = true};
  launch<Traced<TestBackend>>({.ranks = 4, .rethrow = true},
                              [](auto& world) { train<Traced<TestBackend>>(world); });
  Traced<TestBackend>::options = {};
  std::ifstream in{file};
  const auto events = json::parse(in).at("traceEvents");
  check_format(events);
  std::set<std::string> operands;
  bool has_function = false;
  for (const auto& e : events)
  {
    if (e.at("ph") != "X") continue;
    const std::string category = e.at("cat");
    CHECK(e.contains("tdur") == (category != "communication"));
    if (category == "product") operands.insert(e.at("args").at("operands").get<std::string>());
    if (category != "pass") continue;
    const auto name = e.at("name").get<std::string>();
    CAPTURE(name);
    CHECK((e.at("args").at("bytes") > 0) != name.ends_with(" 0x0"));
    has_function = has_function || e.at("args").contains("function");
  }
  CHECK(operands.count("nn") == 1);
  CHECK(operands.count("tn") == 1);
  CHECK(has_function);
}

TEST_CASE("nothing is recorded in a pause")
{
  const Folder folder;
  const auto file = (folder / "trace.json").string();
  using Backend = Traced<Simulated>;
  Backend::options = {.file = file};
  launch<Backend>({.ranks = 4, .rethrow = true}, [](auto& world) {
    {
      const TracePause pause;
      train<Backend>(world);
    }
    const typename Backend::Engine engine;
    const Span span{engine, {"after", 1}};
  });
  Backend::options = {};
  std::ifstream in{file};
  const auto events = json::parse(in).at("traceEvents");
  for (int rank = 0; rank < 4; ++rank)
  {
    CHECK(names(events, "part", rank) == std::multiset<std::string>{"after 1"});
    CHECK(names(events, "communication", rank).empty());
  }
}

TEST_CASE("a trace that cannot be written is an error")
{
  CHECK_THROWS_AS(trace<Simulated>("/nowhere/trace.json"), DataError);
}
#endif

}  // namespace cubist::test::trace_traced_test
