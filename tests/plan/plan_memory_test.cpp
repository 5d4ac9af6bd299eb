// SPDX-License-Identifier: BSD-3-Clause
#include "llama_like.hpp"
#include "machine_scope.hpp"
#include "step_memory.hpp"

// Compares the memory and the time of a plan with those of the step that it plans: what the ranks
// of a simulated world allocate, and how long they take. It also compares some plans with the
// buffers of ranks that are threads.

namespace cubist::test::plan_memory_test
{

/// Compares both methods, each simulated rank on its own node as well, and optimizers that are
/// sharded among replicas.
template <SchemeType S, class B = Simulated, class... Network>
void compare(const typename S::Axes::Array& e, const Network&... network)
{
  const int ranks = S::Axes::ranks(e);
  const auto check = [&](int ranks_per_node, Method method, bool sharded) {
    Machine machine;
    machine.links.front().ranks = ranks_per_node;
    if (!std::is_same_v<B, Simulated>) machine.cores = std::thread::hardware_concurrency();
    Simulated::machine.links.front().ranks = ranks_per_node;
    const PlanOptions options{.method = method, .sharded = sharded};
    CAPTURE(S::name, e, ranks_per_node, method == Method::automatic, sharded);
    const double planned = [&] {
      if constexpr (sizeof...(Network) == 1)
        return plan_on<S>(e, network..., ranks, machine, options).memory;
      else
        return plan_on<S>(e, mlp_layers(network...), ranks, machine, options).memory;
    }();
    CHECK(planned == Approx(step_memory<S, B>(e, network..., options)).epsilon(0.05));
    Simulated::machine = {};
  };
  for (const bool sharded : {false, true})
  {
    check(ranks, Method::collectives, sharded);
    check(ranks, Method::automatic, sharded);
    if (std::is_same_v<B, Simulated>) check(1, Method::collectives, sharded);
  }
}

const std::vector<std::size_t> sizes{256, 1024, 256, 1024, 256};
const TransformerConfig gpt{
    .vocabulary = 1001, .positions = 128, .width = 128, .layers = 4, .heads = 8};
const TransformerConfig llama = llama_like({.vocabulary = 400,
                                            .positions = 128,
                                            .width = 128,
                                            .layers = 4,
                                            .heads = 8,
                                            .key_value_heads = 4,
                                            .feed_forward = 352});

TEST_CASE("The memory planned for an MLP is that of its steps within a twentieth")
{
  compare<Megatron1D>({4}, std::size_t{512}, sizes);
  compare<Summa2D>({2, 2}, std::size_t{512}, sizes);
  compare<Cube3D>({2, 2, 2}, std::size_t{512}, sizes);
  compare<Grid2D>({2, 3}, std::size_t{512}, sizes);
  compare<Summa25D>({2, 2, 2}, std::size_t{512}, sizes);
  compare<DataParallel<Megatron1D>>({4, 2}, std::size_t{512}, sizes);
  compare<DataParallel<Summa2D>>({2, 2, 2}, std::size_t{512}, sizes);
}

TEST_CASE("The memory planned for a transformer is that of its steps within a twentieth")
{
  for (const auto& model : {gpt, llama})
  {
    const TransformerStep step{model, {.sequences = 8, .length = 128}};
    compare<DataParallel<Summa2D>>({1, 2, 2}, step);
    compare<DataParallel<Megatron1D>>({4, 2}, step);
  }
}

/// The seconds in which simulated ranks compute gradients.
template <SchemeType S>
double gradient_seconds(const typename S::Axes::Array& e, const TransformerStep& step)
{
  const std::vector<int> ids(step.batch.tokens());
  double begin = 0;
  double end = 0;
  using Net = Transformer<S, Simulated, float>;
  memory_of<Net, S, Simulated>(e, step.model, TransformerOptions{}, [&](Net& net) {
    net.mesh().world().barrier();
    begin = Simulated::now();
    (void)net.compute_gradients(ids, step.batch.length);
    end = std::max(end, Simulated::now());
  });
  return end - begin;
}

/// Nodes with 8 GPUs. Messages between nodes overlap with products, as those inside a node do.
static Machine gpu_nodes()
{
  Machine machine{.name = "nodes of 8 GPUs", .cores = 8, .memory = 6.4e11};
  machine.memory_bandwidth = 2.7e12;
  machine.segment_bytes = 131'072;
  machine.shared_memory = false;
  machine.algorithms = CollectiveAlgorithms::nccl;
  machine.links = {
      {.name = "NVLink", .ranks = 8, .latency = 3e-6, .bandwidth = 3.6e11},
      {.name = "InfiniBand", .latency = 5e-6, .bandwidth = 3.6e11, .rank_bandwidth = 4.5e10}};
  machine.rates = {{"float", RateTable::constant(4e13)}};
  return machine;
}

TEST_CASE("The time planned for a transformer on GPUs is that of its steps within a twelfth")
{
  const Machine machine = gpu_nodes();
  TransformerConfig model = gpt;
  model.width = 1600;
  model.heads = 25;
  model.feed_forward = 6400;
  model.positions = 1024;
  model.vocabulary = 8000;
  const TransformerStep step{model, {.sequences = 64, .length = 1024}};
  const auto compare_times = [&]<class S>(const typename S::Axes::Array& e) {
    const PlanOptions options{.moments = 0};
    const MachineScope scope{machine};
    const double seconds = gradient_seconds<S>(e, step);
    CAPTURE(S::name, e);
    CHECK(plan_on<S>(e, step, S::Axes::ranks(e), machine, options).seconds() ==
          Approx(seconds).epsilon(1.0 / 12));
  };
  // Sums of gradients that overlap with backward, panels inside nodes, and panels and chains across
  // nodes.
  for (const auto& e : {std::array{16, 2, 2}, std::array{4, 4, 4}, std::array{2, 8, 4}})
    compare_times.operator()<DataParallel<Summa2D>>(e);
  compare_times.operator()<DataParallel<Megatron1D>>({16, 4});
}

TEST_CASE("The memory planned is that of buffers of ranks as threads within a twentieth")
{
  compare<DataParallel<Megatron1D>, CountedThreads>({2, 2}, std::size_t{64},
                                                    std::vector<std::size_t>{64, 256, 64});
  TransformerConfig small = gpt;
  small.vocabulary = 200;
  small.width = 64;
  small.feed_forward = 256;
  small.layers = 1;
  compare<DataParallel<Megatron1D>, CountedThreads>({2, 2}, TransformerStep{small, {2, 64}});
}

}  // namespace cubist::test::plan_memory_test
