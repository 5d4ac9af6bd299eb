// SPDX-License-Identifier: BSD-3-Clause
#include <set>

#include "cubist/plan/planner.hpp"

#include "eight_blocks.hpp"
#include "ranks.hpp"

namespace cubist::test::plan_planner_test
{

const PlanOptions by_collectives{.method = Method::collectives};

/// A scheme's plan that sends the fewest elements on all ranks, on these extents if given.
static Plan least_words(const std::vector<Plan>& plans, const std::string& scheme,
                        const std::vector<int>& extents = {})
{
  const Plan* least = nullptr;
  for (const auto& plan : plans)
    if (plan.scheme == scheme && plan.idle == 0 && (extents.empty() || plan.extents == extents) &&
        (least == nullptr || plan.words < least->words))
      least = &plan;
  REQUIRE(least != nullptr);
  return *least;
}

TEST_CASE("An MLP of 8192 features on 64 ranks sends the elements of the published formulas")
{
  struct Row
  {
    std::size_t tokens;
    double megatron, summa, cube, grid;
    std::vector<int> best;
  };
  const std::vector<Row> table = {{2048, 3.94, 12.14, 3.94, 1.69, {4, 16, 1}},
                                  {16'384, 3.94, 2.95, 1.31, 1.06, {2, 8, 4}},
                                  {131'072, 3.94, 1.805, 0.98, 0.42, {1, 4, 16}}};
  const std::size_t h = 8192;
  for (const auto& row : table)
  {
    const auto plans = plan(mlp_layers(row.tokens, {h, 4 * h, h}), 64, {},
                            {.input_gradient = true, .method = Method::collectives});
    const auto units = [&](const Plan& p) { return p.words / double(row.tokens * h); };
    CAPTURE(row.tokens);
    CHECK(units(least_words(plans, "Megatron1D")) == Approx(row.megatron).margin(0.006));
    CHECK(units(least_words(plans, "Summa2D", {8, 8})) == Approx(row.summa).margin(0.006));
    CHECK(units(least_words(plans, "Cube3D")) == Approx(row.cube).margin(0.006));
    const auto best = least_words(plans, "Grid3D");
    CHECK(units(best) == Approx(row.grid).margin(0.006));
    CHECK(best.extents == row.best);
  }
}

TEST_CASE("There is a plan for every scheme and mesh, the fastest first, with a reason")
{
  const auto layers = mlp_layers(1024, {1024, 4096, 1024});
  const auto plans = plan(layers, 12);
  std::set<std::string> schemes;
  std::set<std::pair<std::string, std::vector<int>>> meshes;
  for (const auto& p : plans)
  {
    schemes.insert(p.scheme);
    meshes.insert({p.scheme, p.extents});
    CHECK(p.ranks + p.idle == 12);
    CHECK_FALSE(p.reason.empty());
  }
  CHECK(schemes.size() == Catalogue::size);
  CHECK(meshes.size() == plans.size());
  CHECK(std::is_sorted(plans.begin(), plans.end(),
                       [](const Plan& a, const Plan& b) { return a.seconds() < b.seconds(); }));
  const auto of_same = std::count_if(plans.begin(), plans.end(),
                                     [&](const Plan& p) { return p.ranks == plans.front().ranks; });
  CHECK(mentions(plans.front().reason,
                 std::string{"the fastest of "} + std::to_string(of_same) + " meshes of "));
  CHECK(mentions(plans.front().reason, " than " + plans[1].scheme + " " + mesh_text(plans[1])));
  CHECK_FALSE(mentions(plans.back().reason, "fastest"));
  SECTION("a tie is called a tie")
  {
    const auto equal = plan(mlp_layers(4096, {1024, 4096, 1024}), 12);
    CHECK(equal[0].seconds() == Approx(equal[1].seconds()));
    CHECK(mentions(equal[0].reason, "as fast as " + equal[1].scheme + " " + mesh_text(equal[1])));
  }
  SECTION("the fastest few are the first of all, with the same reasons")
  {
    for (const std::size_t top : {std::size_t{1}, std::size_t{3}})
    {
      const auto few = plan(layers, 12, {}, {.top = top});
      REQUIRE(few.size() == top);
      for (std::size_t i = 0; i < top; ++i)
      {
        CHECK((few[i].scheme == plans[i].scheme && few[i].extents == plans[i].extents));
        CHECK(few[i].reason == plans[i].reason);
      }
    }
    // So many that slower ones are erased several times.
    const PlanOptions options{.data_parallel = true, .method = Method::collectives};
    auto of_two = options;
    of_two.top = 2;
    const auto all = plan({.m = 512, .n = 512, .k = 512}, 100, {}, options);
    const auto two = plan({.m = 512, .n = 512, .k = 512}, 100, {}, of_two);
    REQUIRE((all.size() > 4096 && two.size() == 2));
    for (std::size_t i = 0; i < 2; ++i)
      CHECK((two[i].extents == all[i].extents && two[i].reason == all[i].reason));
  }
}

TEST_CASE(
    "Over slow links the plan with the fewest words is the fastest, over fast ones all ranks work")
{
  Machine slow;
  slow.links.front().ranks = 1;
  slow.links.back() = {.latency = 0, .bandwidth = 1e6};
  const auto plans = plan(mlp_layers(2048, {1024, 4096, 1024}), 16, slow);
  for (const auto& p : plans)
    if (p.idle == 0) CHECK(plans.front().words <= p.words);
  SECTION("one rank, which sends nothing, is the fastest over links of no bandwidth")
  {
    slow.links.back().bandwidth = 1;
    CHECK(plan(mlp_layers(64, {64, 64, 64}), 16, slow).front().ranks == 1);
  }
  SECTION("all ranks work where messages take no time")
  {
    Machine fast;
    fast.links.front().ranks = 1;
    fast.links.back() = {.latency = 0, .bandwidth = 1e15};
    CHECK(plan(mlp_layers(4096, {1024, 1024}), 16, fast).front().idle == 0);
  }
}

TEST_CASE("Ranks are left idle where they would only add padding")
{
  // 5 ranks can share 4 x 4 x 4 only by padding it.
  Machine machine;
  machine.links.front() = {.ranks = 16, .latency = 0, .bandwidth = 1e15};
  const auto best = plan({.m = 4, .n = 4, .k = 4}, 5, machine, by_collectives).front();
  CHECK(best.ranks == 4);
  CHECK(best.idle == 1);
  CHECK(best.padding == 0);
  CHECK(mentions(best.reason, "1 rank idle"));
}

TEST_CASE("Plans that do not fit in memory are the last, the smallest of them first")
{
  const auto layers = mlp_layers(4096, {1024, 4096, 1024});
  const auto all = plan(layers, 16, {}, by_collectives);
  Machine small;
  small.memory = small.ranks_per_node() * all.front().memory * 0.999;
  const auto plans = plan(layers, 16, small, by_collectives);
  REQUIRE(plans.size() == all.size());
  const auto first_without =
      std::find_if(plans.begin(), plans.end(), [](const Plan& p) { return !p.fits_memory; });
  REQUIRE(first_without != plans.begin());
  REQUIRE(first_without != plans.end());
  CHECK(std::none_of(first_without, plans.end(), [](const Plan& p) { return p.fits_memory; }));
  CHECK(std::is_sorted(first_without, plans.end(),
                       [](const Plan& a, const Plan& b) { return a.memory < b.memory; }));
  for (auto p = first_without; p != plans.end(); ++p)
    CHECK(p->reason.find("does not fit: needs ") == 0);
}

TEST_CASE("With a data axis there is a plan for d meshes of every scheme, for every divisor d")
{
  const auto layers = mlp_layers(4096, {1024, 4096, 1024});
  const auto without = plan(layers, 8);
  std::size_t expected = without.size();
  for (const int d : {2, 4, 8})
    for_each_scheme([&]<class S>() { for_each_mesh<S>(8 / d, [&](const auto&) { ++expected; }); });
  const auto plans = plan(layers, 8, {}, {.data_parallel = true});
  CHECK(plans.size() == expected);
  const auto of_one = plan(layers, 8, {}, {.scheme = "Grid2D", .data_parallel = true});
  std::set<std::string> schemes;
  for (const auto& p : of_one) schemes.insert(p.scheme);
  CHECK(schemes == std::set<std::string>{"Grid2D", "DataParallel<Grid2D>"});
}

TEST_CASE("The largest batch fits in the memory of a rank, and one more does not")
{
  Machine machine;
  machine.links.front().ranks = 4;
  machine.memory = 4.0 * (48 << 20);
  const auto layers = mlp_layers(16, {256, 1024, 256});
  const TransformerStep step{
      {.vocabulary = 1000, .positions = 128, .width = 128, .layers = 4, .heads = 8},
      {.sequences = 1, .length = 128}};
  const auto check = [&](const auto& network, const auto& with_batch) {
    for (const auto method : {Method::automatic, Method::collectives})
      for (const bool sharded : {false, true})
      {
        const PlanOptions options{.data_parallel = true, .method = method, .sharded = sharded};
        const auto plans = plan(network, 8, machine, options);
        for (const char* scheme : {"Summa2D", "DataParallel<Summa2D>", "DataParallel<Grid3D>"})
        {
          const auto p = *std::find_if(plans.begin(), plans.end(),
                                       [&](const Plan& q) { return q.scheme == scheme; });
          const std::size_t batch = largest_batch(p, network, machine, options);
          CAPTURE(p.scheme, p.extents, batch);
          CHECK(batch > 1);
          const auto fits = [&](std::size_t n) {
            return with_scheme<WholeCatalogue>(p.scheme, [&]<class S>() {
              return plan_on<S>(extents_of<S>(p), with_batch(n), 8, machine, options).fits_memory;
            });
          };
          CHECK(fits(batch));
          CHECK_FALSE(fits(batch + 1));
        }
      }
  };
  check(layers, [](std::size_t n) { return mlp_layers(n, {256, 1024, 256}); });
  check(step, [&](std::size_t n) { return TransformerStep{step.model, {n, step.batch.length}}; });
  machine.memory = 4.0 * (1 << 20);  // less than the parameters and their moments
  const auto small = plan(layers, 8, machine);
  CHECK(largest_batch(small.front(), layers, machine) == 0);
}

TEST_CASE("The largest batch has matrices that 64 bits can count, however large the memory")
{
  Machine machine;
  machine.memory = 1e30;
  const auto layers = mlp_layers(64, {1 << 20, 1 << 20});
  const auto plans = plan(layers, 4, machine, {.scheme = "Summa2D"});
  CHECK(largest_batch(plans.front(), layers, machine) == std::size_t{1} << 30U);
}

TEST_CASE("The planner sorts pipelines among the other meshes")
{
  const auto step = eight_blocks(16);
  PlanOptions options;
  options.scheme = "Summa2D";
  const auto without = plan(step, 8, {}, options);
  options.pipeline = true;
  const auto all = plan(step, 8, {}, options);
  std::vector<Plan> pipelines;
  for (const auto& p : all)
    if (p.stages > 1) pipelines.push_back(p);
  CHECK(all.size() == without.size() + pipelines.size());
  // Stages x data x rows x columns: 2 x (4 in three factors), 4 x (2 in three), 8.
  CHECK(pipelines.size() == 6 + 3 + 1);
  for (const auto& p : pipelines)
  {
    CHECK(p.scheme == "Pipeline<DataParallel<Summa2D>>");
    CHECK(p.ranks == 8);
    CHECK(p.idle == 0);
    CHECK(mentions(p.reason, "micro-batch", "; stages wait ", " of the time"));
  }
  options.scheme = pipelines.front().scheme;
  CHECK(plan(step, 8, {}, options).size() == pipelines.size());
}

TEST_CASE("The largest batch of a pipeline fits, and one more sequence does not")
{
  using Stages = Pipeline<DataParallel<Summa2D>>;
  const auto step = eight_blocks(16);
  const PlanOptions in{.method = Method::collectives, .micro_batches = 8, .pieces = 2};
  const Plan plan = plan_on<Stages>({4, 1, 1, 1}, step, 4, {}, in);
  Machine machine;
  machine.memory = 4 * 1.5 * plan.memory;
  PlanOptions free = in;
  free.micro_batches = free.pieces = 0;
  const std::size_t most = largest_batch(plan, step, machine, free);
  CHECK(most > 16);
  CHECK(most % 8 == 0);
  const auto fits = [&](std::size_t sequences) {
    return plan_on<Stages>({4, 1, 1, 1}, eight_blocks(sequences), 4, machine, in).fits_memory;
  };
  CHECK(fits(most));
  CHECK_FALSE(fits(most + 8));
}

TEST_CASE("Ranks of one node are planned by the direct method, those of several by collectives")
{
  Machine machine;
  machine.links.front().ranks = 4;
  for (const auto& p : plan(mlp_layers(512, {256, 256}), 8, machine))
    CHECK(p.method == (p.ranks <= 4 ? Method::direct : Method::collectives));
}

TEST_CASE("A plan can be requested within one scheme")
{
  const auto layers = mlp_layers(131'072, {8192, 32'768, 8192});
  for (const auto& p : plan(layers, 12, {}, {.scheme = "summa25d"})) CHECK(p.scheme == "Summa25D");
  const auto best = plan(layers, 12, {}, {.scheme = "Grid3D"}).front();
  const auto extents = auto_mesh<Grid3D>(layers, 12);
  CHECK(std::equal(extents.begin(), extents.end(), best.extents.begin(), best.extents.end()));
}

TEST_CASE("The mesh of a plan leaves the same ranks idle as the plan")
{
  if (!fits(5)) return;
  Machine machine;
  machine.links.front() = {.ranks = 16, .latency = 0, .bandwidth = 1e15};
  const auto best = plan({.m = 4, .n = 4, .k = 4}, 5, machine,
                         {.scheme = "Grid3D", .method = Method::collectives})
                        .front();
  const auto active = on_ranks<TestBackend>(5, [&](TestBackend::Communicator& world) {
    return Mesh<Grid3D, TestBackend>{world, best}.active();
  });
  CHECK(active == std::vector<bool>{true, true, true, true, false});
}

TEST_CASE("Invalid arguments of the planner are refused")
{
  const auto layers = mlp_layers(8, {8, 8});
  CHECK(mentions(message_of<ArgumentError>([] { (void)plan(std::vector<ProductSize>{}, 4); }),
                 "got no layers"));
  CHECK(mentions(message_of<ShapeError>([] { (void)plan({.m = 8, .n = 0, .k = 8}, 4); }), "n = 0",
                 "use positive sizes"));
  CHECK(mentions(message_of<MeshError>([&] { (void)plan(layers, 0); }), "got 0 ranks",
                 "at least one", "use a positive number"));
  CHECK(mentions(message_of<MeshError>([&] { (void)plan(layers, 1 << 30); }),
                 "got 1073741824 ranks", "more meshes than can be planned", "at most 65536"));
  CHECK(mentions(message_of<ArgumentError>([&] { (void)plan(layers, 4, {}, {.scheme = "Foo"}); }),
                 "\"Foo\"", "use Megatron1D"));
  CHECK(mentions(message_of<ArgumentError>([&] { (void)plan(layers, 4, {}, {.scalar_bytes = 0}); }),
                 "0 bytes", "use the size of the scalar"));
  Machine broken;
  broken.rates["float"] = RateTable::peak(-1);
  CHECK_THROWS_AS(plan(layers, 4, broken), ArgumentError);
}

}  // namespace cubist::test::plan_planner_test
