// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/plan/time.hpp"

#include "catch.hpp"

namespace cubist::test::plan_time_test
{

/// A machine with round figures: 4 ranks and 4 cores on each node.
static Machine round_machine()
{
  Machine machine;
  machine.rates = {{"float", RateTable::peak(200)}, {"double", RateTable::peak(100)}};
  machine.cores = 4;
  machine.links.front().ranks = 4;
  machine.links.front() = {.ranks = 4, .latency = 1, .bandwidth = 80, .overlaps = false};
  machine.links.back() = {.latency = 2, .bandwidth = 40};
  machine.memory_bandwidth = 16;
  return machine;
}

constexpr LocalGemm gemm{.m = 5, .n = 5, .k = 2, .times = 1};  // 100 operations, 80 elements
constexpr Transfer inside{CallKind::all_gather, LayerMatrix::x, 2, 1, 20, 1};

static Work work(std::initializer_list<LocalGemm> products,
                 std::initializer_list<Transfer> transfers)
{
  Work w;
  for (const auto& p : products) w.products.add(p), w.far_products.add(p);
  for (const auto& t : transfers) w.transfers.add(t);
  return w;
}

TEST_CASE("Inside a node the times add up")
{
  const auto machine = round_machine();
  CHECK(seconds(inside, 4, machine, 8) == Approx(1 + 20 * 8 / 80.0));
  const auto time = time_of(work({gemm}, {inside}), {4, 4}, machine, 8);
  CHECK(time.inside == Approx(3));
  CHECK(time.across == 0);
  CHECK(time.total == Approx(time.products + 3));
  // Inside a node, reduce_scatter adds the pieces up; only its own time counts.
  const Transfer sums{CallKind::reduce_scatter, LayerMatrix::y, 2, 1, 20, 1};
  CHECK(time_of(work({gemm}, {sums}), {4, 4}, machine, 8).passes == 0);
}

TEST_CASE("Inside a node, messages on their own links overlap with products")
{
  auto machine = round_machine();
  machine.links.front().overlaps = true;
  const auto time = time_of(work({gemm}, {inside}), {4, 4}, machine, 8);
  CHECK(time.inside == Approx(3));
  // The operand is gathered as a whole.
  CHECK(time.total == Approx(3 + time.products));
  const Transfer panels{CallKind::broadcast, LayerMatrix::x, 2, 1, 20, 4};
  const double wire = seconds(panels, 4, machine, 8);
  CHECK(time_of(work({gemm}, {panels}), {4, 4}, machine, 8).total ==
        Approx(std::max(time.products + wire / 4, wire + time.products / 4)));
}

TEST_CASE("Sums of gradients overlap with backward, except for those of the last layer")
{
  const auto machine = round_machine();
  const Transfer sum{CallKind::all_reduce, LayerMatrix::w, 2, 8, 20, 1};
  const auto time = time_of(work({gemm}, {sum}), {16, 16}, machine, 8);
  const double wire = seconds(sum, 16, machine, 8);
  CHECK(time.total == Approx(time.products));
  CHECK((time.sums == Approx(wire) && time.room == Approx(time.products)));
  CHECK(with_gradient_sums(time, wire, 1).total == Approx(time.products + wire));
  const Time two = 2 * time;
  CHECK(with_gradient_sums(two, wire, 1).total ==
        Approx(two.total + std::max(wire, 2 * wire - two.room)));
  // Nothing is hidden where messages occupy the processors.
  CHECK(with_gradient_sums(two, wire, 0).total == Approx(two.total + 2 * wire));
}

TEST_CASE("Each layer's sums of gradients begin when its backward has ended and the link is free")
{
  // The second layer's backward pass ends at 3, and its sums end at 7; the first layer's ends at 5.
  std::vector<Time> layers{{.sums = 5, .room = 2, .backward = 2},
                           {.sums = 4, .room = 3, .backward = 3}};
  CHECK(rest_of_gradient_sums(layers) == Approx(7 + 5 - 5));
  layers[0].room = 1.5;  // the first layer's messages take 0.5 s of the link, after the sums
  CHECK(rest_of_gradient_sums(layers) == Approx(7 + 0.5 + 5 - 5));
  layers[1].sums = 0;
  CHECK(rest_of_gradient_sums(layers) == Approx(5));
  CHECK(rest_of_gradient_sums({}) == 0);
}

TEST_CASE("A group that does not fill its nodes has a node with fewer network cards")
{
  auto machine = round_machine();
  machine.algorithms = CollectiveAlgorithms::nccl;
  machine.links.back().rank_bandwidth = 1;
  const auto across = [&](int ranks) {
    const Transfer t{CallKind::all_gather, LayerMatrix::x, ranks, 1, 10, 1};
    return seconds(t, 4 * ranks, machine, 4) - 2 * t.messages();
  };
  CHECK(across(8) == Approx(70 * 4 / 4.0));
  // Ranks 6 to 11 are on two nodes, the first of which has two of them.
  CHECK(across(6) == Approx(50 * 4 / 2.0));
  CHECK(across(7) == Approx(60 * 4 / 1.0));
}

TEST_CASE("NCCL's panels take the latencies of their chain, of which four are in flight")
{
  auto machine = round_machine();
  const Transfer panels{CallKind::broadcast, LayerMatrix::w, 4, 4, 20, 4, 2};
  CHECK(seconds(panels, 16, machine, 8) == Approx(4 * 2 * 3.0 / 4 * 2 + 60 * 8 / 10.0));
  machine.algorithms = CollectiveAlgorithms::nccl;
  // Three edges between nodes; a slice of a panel is no longer than a segment.
  CHECK(seconds(panels, 16, machine, 8) == Approx(4 * 2 * (3 * 2) / 4.0 + 60 * 8 / 10.0));
}

TEST_CASE("Products take the time of their operations and of the elements that they touch")
{
  const auto time = time_of(work({gemm}, {}), {4, 4}, round_machine(), 8);
  CHECK(time.products == Approx(100 / 100.0 + 80 * 8 / 16.0));
  CHECK(time.total == Approx(time.products));
  SECTION("float needs half of both")
  {
    CHECK(time_of(work({gemm}, {}), {4, 4}, round_machine(), 4).products ==
          Approx(time.products / 2));
  }
  SECTION("ranks without their own core take longer")
  {
    auto machine = round_machine();
    machine.cores = 1;
    CHECK(time_of(work({gemm}, {}), {4, 4}, machine, 8).products == Approx(4 * time.products));
  }
  SECTION("with several, BLAS has threads, but not those of idle ranks")
  {
    const auto products = [](Ranks ranks) {
      return time_of(work({gemm}, {}), ranks, round_machine(), 8).products;
    };
    CHECK(products({2, 2}) == Approx(time.products / 2));
    CHECK(products({1, 1}) == Approx(time.products / 4));
    CHECK(products({2, 4}) == Approx(time.products));
  }
  SECTION("thin products take longer for the same operations")
  {
    const LocalGemm thin{.m = 5, .n = 5, .k = 1, .times = 2};
    CHECK(thin.flops() == gemm.flops());
    CHECK(time_of(work({thin}, {}), {4, 4}, round_machine(), 8).total > time.total);
  }
}

TEST_CASE("Across nodes, ranks of a node share its link")
{
  const auto machine = round_machine();
  const auto across = [&](int ranks, int stride) {
    return seconds({CallKind::all_gather, LayerMatrix::x, ranks, stride, 10, 1}, 16, machine, 4);
  };
  CHECK(across(4, 4) == Approx(3 * 2 + 30 * 4 / (40.0 / 4)));
  CHECK(across(16, 1) == Approx(15 * 2 + 150 * 4 / 40.0));
  CHECK(across(8, 2) == Approx(7 * 2 + 70 * 4 / (40.0 / 2)));
}

TEST_CASE("Across nodes a rank sends no faster than its own part of the link")
{
  auto machine = round_machine();
  const Transfer gather{CallKind::all_gather, LayerMatrix::x, 16, 1, 10, 1};
  machine.links.back().rank_bandwidth = 10;
  CHECK(seconds(gather, 16, machine, 4) == Approx(15 * 2 + 150 * 4 / 10.0));
}

TEST_CASE("The terms of a sum leave a node through the network card of their own rank")
{
  auto machine = round_machine();
  machine.links.back().rank_bandwidth = 1;
  machine.algorithms = CollectiveAlgorithms::nccl;
  // A rank sends 15 blocks, 12 of them to other nodes.
  const Transfer sums{CallKind::reduce_scatter, LayerMatrix::w, 16, 1, 10, 1};
  CHECK(seconds(sums, 16, machine, 4) == Approx(15 * 2 + 12 * 10 * 4 / 1.0));
  const Transfer gather{CallKind::all_gather, LayerMatrix::w, 16, 1, 10, 1};
  CHECK(seconds(gather, 16, machine, 4) == Approx(15 * 2 + 15 * 10 * 4 / 4.0));
}

TEST_CASE("Across nodes operands overlap with products, except for the last piece")
{
  const auto machine = round_machine();
  const Transfer panels{CallKind::broadcast, LayerMatrix::w, 2, 8, 20, 4};
  const double wire = seconds(panels, 16, machine, 8);
  const auto time = time_of(work({gemm}, {panels}), {16, 16}, machine, 8);
  CHECK(time.across == Approx(wire));
  CHECK(time.total == Approx(std::max(time.products + wire / 4, wire + time.products / 4)));
  SECTION("in thinner slices, the last one is shorter, but messages are more")
  {
    const Transfer sliced{CallKind::broadcast, LayerMatrix::w, 2, 8, 20, 4, 5};
    const double more = seconds(sliced, 16, machine, 8);
    CHECK(more == Approx(wire + 4 * panels.messages() * machine.across().latency));
    const auto thin = time_of(work({gemm}, {sliced}), {16, 16}, machine, 8);
    CHECK(thin.total == Approx(std::max(thin.products + more / 20, more + thin.products / 20)));
  }
  SECTION("an all_reduce begins when they are done")
  {
    const Transfer sum{CallKind::all_reduce, LayerMatrix::y, 2, 8, 20, 1};
    const auto late = time_of(work({gemm}, {sum}), {16, 16}, machine, 8);
    CHECK(late.total == Approx(late.products + seconds(sum, 16, machine, 8)));
  }
}

TEST_CASE("Across nodes pieces are multiplied one by one")
{
  const auto machine = round_machine();
  const Transfer panels{CallKind::broadcast, LayerMatrix::w, 2, 8, 20, 4};
  Work w = work({}, {panels});
  w.products.add(gemm);
  w.far_products.add({.m = 5, .n = 5, .k = 1, .times = 2});
  const auto near = time_of(w, {4, 4}, machine, 8);
  const auto far = time_of(w, {16, 16}, machine, 8);
  CHECK(near.products == Approx(time_of(work({gemm}, {}), {4, 4}, machine, 8).products));
  CHECK(far.products > near.products);
}

TEST_CASE("The time in which messages between nodes occupy processors is not hidden")
{
  auto machine = round_machine();
  const Transfer panels{CallKind::broadcast, LayerMatrix::w, 2, 8, 20, 4};
  const auto total = [&](double hidden) {
    machine.links.back().core_seconds_per_byte = (1 - hidden) * 4 / 40 / 2;
    return time_of(work({gemm}, {panels}), {16, 16}, machine, 8).total;
  };
  const auto time = time_of(work({gemm}, {panels}), {16, 16}, machine, 8);
  CHECK(total(0) == Approx(time.products + time.across));
  CHECK(total(1) < total(0));
  CHECK(total(0.25) == Approx(0.25 * total(1) + 0.75 * total(0)));
}

TEST_CASE("Across nodes a result is sent while the rest of it and the next product are multiplied")
{
  const auto machine = round_machine();
  const Transfer dx{CallKind::reduce_scatter, LayerMatrix::x, 4, 4, 30, 1};
  const Transfer dw{CallKind::reduce_scatter, LayerMatrix::w, 4, 4, 50, 1};
  const auto one = time_of(work({gemm}, {}), {16, 16}, machine, 8).products;
  const auto time = time_of(work({gemm, gemm}, {dx, dw}), {16, 16}, machine, 8);
  const double first = seconds(dx, 16, machine, 8);
  const double second = seconds(dw, 16, machine, 8);
  CHECK(time.products == Approx(2 * one));
  // Each piece that arrives is added to a sum: two matrices are read, and one is written.
  const double added = pass_seconds(3 * (dx.words() + dw.words()), {16, 16}, machine, 8);
  CHECK(time.passes == Approx(added));
  // dX is sent when a quarter of it is complete; dW as soon as it may, when the link is free.
  CHECK(time.total == Approx(std::max(one / 4 + first, one + one / 4) + second + added));
}

TEST_CASE("A time is printed as its seconds")
{
  std::ostringstream out;
  out << Time{.total = 0.25, .products = 0.125};
  CHECK(out.str() == "0.25 s");
}

TEST_CASE("Times can be repeated, and passes take the bandwidth of memory")
{
  const Time once{.total = 10, .products = 4, .inside = 3, .across = 2, .passes = 1};
  const Time three = 3 * once;
  CHECK(three.total == 30);
  CHECK((three.products == 12 && three.inside == 9 && three.across == 6 && three.passes == 3));
  Time sum = once;
  sum += once;
  CHECK(sum.passes == 2);
  Machine machine;
  machine.cores = 4;
  machine.memory_bandwidth = 1e9;
  // On one of the 2 cores of a rank; on a half, where 8 ranks share 4 cores.
  CHECK(pass_seconds(1e9, {2, 2}, machine, sizeof(float)) == Approx(4));
  CHECK(pass_seconds(1e9, {8, 8}, machine, sizeof(float)) == Approx(8));
  CHECK(seconds(LocalGemm{100, 100, 100, 1}, {1, 1}, machine, sizeof(float)) <
        seconds(LocalGemm{100, 100, 100, 1}, {4, 4}, machine, sizeof(float)));
}

}  // namespace cubist::test::plan_time_test
