// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/plan/plan.hpp"
#include "cubist/scheme/catalogue.hpp"

#include "ranks.hpp"

namespace cubist::test::plan_plan_test
{

const PlanOptions collectives_only{.method = Method::collectives};

TEST_CASE("A plan says which matrices are sent, and how many ranks hold the same weights")
{
  const auto layers = mlp_layers(48, {48, 48, 48});
  const auto weight = plan_on<Summa2DWeight>({2, 2}, layers, 4, {}, collectives_only);
  CHECK_FALSE(weight.moves_weights);
  CHECK(weight.moves_activations);
  CHECK(weight.weight_copies == 1);
  const auto data_parallel = plan_on<Summa25D>({4, 1, 1}, layers, 4, {}, collectives_only);
  CHECK_FALSE(data_parallel.moves_weights);
  CHECK_FALSE(data_parallel.moves_activations);
  CHECK(data_parallel.weight_copies == 4);
  CHECK(data_parallel.words > 0);
  CHECK(plan_on<Cube3D>({2, 2, 2}, layers, 8, {}, collectives_only).moves_weights);
}

TEST_CASE("A plan is the sum of its layers, every other one on Next")
{
  const auto layers = mlp_layers(96, {24, 48, 24});
  const Grid3D::Axes::Array e{1, 2, 3};
  const auto plan = plan_on<Grid3D>(e, layers, 8, {}, collectives_only);
  const auto first = cost<Grid3D>(e, layers[0]);
  const auto second = cost<Grid3D::Next>(e, layers[1]);
  CHECK(plan.scheme == "Grid3D");
  CHECK(plan.extents == std::vector{1, 2, 3});
  CHECK(plan.ranks == 6);
  CHECK(plan.idle == 2);
  const auto total = [&](auto figure) {
    return figure(first.forward) + figure(first.backward_weight) + figure(second.forward) +
           figure(second.backward);
  };
  CHECK(plan.words == Approx(total([](const Work& w) { return w.words(); })));
  CHECK(plan.messages == Approx(total([](const Work& w) { return w.messages(); })));
  CHECK(plan.flops == Approx(total([](const Work& w) { return w.flops(); })));
  CHECK(plan.padding == Approx(0).margin(1e-12));
  CHECK(plan.memory == plan.memory_parts.total());
  const std::size_t biases_in_buckets = 48 / 2 + 24;
  CHECK(plan.memory_parts.workspace ==
        4.0 * double(first.near_workspace + second.near_workspace + biases_in_buckets));
  CHECK(plan.seconds() > 0);
  SECTION("forward alone costs less, and holds no gradients")
  {
    const auto forward =
        plan_on<Grid3D>(e, layers, 8, {}, {.training = false, .method = Method::collectives});
    CHECK(forward.words == Approx(first.forward.words() + second.forward.words()));
    CHECK(forward.flops == Approx(plan.flops * 2 / 5));
    CHECK(forward.memory < plan.memory);
    CHECK(forward.seconds() < plan.seconds());
  }
  SECTION("the gradient of the first input costs one more product")
  {
    PlanOptions options = collectives_only;
    options.input_gradient = true;
    const auto whole = plan_on<Grid3D>(e, layers, 8, {}, options);
    CHECK(whole.words == Approx(total([](const Work& w) { return w.words(); }) +
                                first.backward.words() - first.backward_weight.words()));
    CHECK(whole.flops == Approx(plan.flops * 6 / 5));
    CHECK(whole.seconds() > plan.seconds());
    options.method = Method::direct;
    Machine node;
    node.links.front().ranks = 8;
    const auto direct = plan_on<Grid3D>(e, layers, 8, node, options);
    CHECK(direct.flops == Approx(whole.flops));
    CHECK(direct.seconds() > plan_on<Grid3D>(e, layers, 8, node).seconds());
  }
  SECTION("what is gathered again is sent again")
  {
    const PlanOptions again{.gathered = Gathered::again, .method = Method::collectives};
    CHECK(plan_on<Grid3D>(e, layers, 8, {}, again).words > plan.words);
  }
  SECTION("padding is work")
  {
    const auto padded = plan_on<Summa2D>({2, 2}, mlp_layers(3, {4, 4}), 4, {}, collectives_only);
    CHECK(padded.padding == Approx(1.0 / 3));
  }
}

TEST_CASE("A plan of several layers has the passes for their biases and activations")
{
  const Machine machine;
  const auto pass = [&](std::size_t elements) {
    return pass_seconds(double(elements), {1, 1}, machine, 4);
  };
  const auto planned = [&](std::vector<std::size_t> sizes, bool training = true) {
    const PlanOptions options{.training = training, .method = Method::collectives};
    return plan_on<Summa2D>({1, 1}, mlp_layers(96, std::move(sizes)), 1, machine, options).time;
  };
  constexpr std::size_t hidden = 96 * 24;
  constexpr std::size_t last = 96 * 12;
  // Forward reads and writes once an element; backward of an activation reads dY and X W + b, too.
  CHECK(planned({48, 24, 12}, false).passes == Approx(pass(2 * hidden + last)));
  const Time both = planned({48, 24, 12});
  CHECK(both.passes == Approx(pass(5 * hidden + 2 * last)));
  CHECK(both.total == Approx(both.products + both.passes));
  // Backward computes the three products that remain, and its passes.
  CHECK(both.backward == Approx(both.total - planned({48, 24, 12}, false).total));
  CHECK(both.room == Approx(both.backward));
  // A single layer is planned as a product, without a bias.
  CHECK(planned({48, 24}).passes == 0);
}

TEST_CASE("A plan has the method that will run")
{
  const auto layers = mlp_layers(48, {48, 48, 48});
  Machine machine;
  machine.links.front().ranks = 8;
  const auto shared = plan_on<Cube3D>({2, 2, 2}, layers, 8, machine);
  CHECK(shared.method == Method::direct);
  CHECK(shared.words == 0);
  CHECK(shared.messages == 0);
  CHECK(shared.time.across == 0);
  CHECK(shared.padding == Approx(0).margin(1e-12));
  CHECK(shared.seconds() > 0);
  CHECK(plan_on<Cube3D>({2, 2, 2}, layers, 8, machine, collectives_only).method ==
        Method::collectives);
  machine.links.front().ranks = 4;
  CHECK(plan_on<Cube3D>({2, 2, 2}, layers, 8, machine).method == Method::collectives);
  CHECK(mentions(message_of<ArgumentError>([&] {
                   (void)plan_on<Cube3D>({2, 2, 2}, layers, 8, machine, {.method = Method::direct});
                 }),
                 "Method::direct for 8 ranks on nodes of 4", "use Method::automatic"));
}

TEST_CASE("A plan that needs more memory than a rank has does not fit")
{
  Machine machine;
  machine.memory = 1e6;
  machine.links.front().ranks = 4;
  const auto layers = mlp_layers(64, {64, 64});
  const auto plan = plan_on<Summa2D>({2, 2}, layers, 4, machine);
  CHECK(plan.fits_memory);
  machine.memory = 4 * plan.memory - 1;
  CHECK_FALSE(plan_on<Summa2D>({2, 2}, layers, 4, machine).fits_memory);
}

TEST_CASE("Extents that a scheme or the ranks do not allow are refused")
{
  const auto layers = mlp_layers(8, {8, 8});
  CHECK(mentions(message_of<MeshError>([&] {
                   (void)plan_on<Summa25D>({2, 2, 1}, layers, 8);
                 }),
                 "Summa25D", "no such mesh", "use the nearest, depth 2 x row 1 x col 1"));
  CHECK(mentions(message_of<MeshError>([&] {
                   (void)plan_on<Summa2D>({2, 4}, layers, 6);
                 }),
                 "need 8 ranks, but there are only 6", "use smaller extents"));
  CHECK(mentions(message_of<MeshError>([&] {
                   (void)plan_on<Summa2D>({100'000, 100'000}, layers, 6);
                 }),
                 "need 1e+10 ranks"));
}

TEST_CASE("The extents of a plan are for its scheme alone")
{
  const auto plan = plan_on<Grid3D>({1, 2, 3}, mlp_layers(8, {8, 8}), 6);
  CHECK(extents_of<Grid3D>(plan) == Grid3D::Axes::Array{1, 2, 3});
  CHECK(mentions(message_of<MeshError>([&] { (void)extents_of<Cube3D>(plan); }),
                 "got a plan for Grid3D for a mesh of Cube3D", "other axes",
                 "plan with .scheme = \"Cube3D\""));
}

}  // namespace cubist::test::plan_plan_test
