// SPDX-License-Identifier: BSD-3-Clause
// Compares the memory and the time of a plan with those of the step that it plans: what the ranks
// of a simulated world allocate, and how long they take. It also compares some plans with the
// buffers of ranks that are threads.

#include "cubist/backend/simulated.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/transformer/transformer.hpp"
#include "cubist/plan/transformer_plan.hpp"
#include "cubist/training/sharded_optimizer.hpp"

#include "counted_memory.hpp"
#include "llama_like.hpp"
#include "ranks.hpp"

namespace plan_memory_test
{

using namespace cubist;
using namespace cubist::test;

namespace
{

/// The most bytes that a rank has allocated.
template <class B, class Body>
double peak_memory(int ranks, const Body& body)
{
  if constexpr (std::is_same_v<B, Simulated>)
  {
    launch<Simulated>({.ranks = ranks, .rethrow = true}, body);
    return static_cast<double>(Simulated::report().peak_memory());
  }
  else
  {
    const auto peaks = on_ranks<B>(ranks, [&](typename B::Communicator& world) {
      counted_bytes = {};
      body(world);
      return counted_bytes.peak;
    });
    return static_cast<double>(*std::max_element(peaks.begin(), peaks.end()));
  }
}

/// Takes two steps of AdamW; the second allocates nothing that the first does not.
template <class Net, class Step>
void train(Net& net, bool sharded, const Step& compute_gradients)
{
  using W = std::decay_t<decltype(net.parameters())>;
  using Unsharded = decltype(AdamW{std::declval<const W&>()});
  if (sharded)
  {
    cubist::Sharded<Unsharded> optimizer{net.parameters()};
    for (int i = 0; i < 2; ++i)
    {
      compute_gradients();
      optimizer.step();
    }
    return;
  }
  Unsharded optimizer{net.parameters()};
  for (int i = 0; i < 2; ++i)
  {
    compute_gradients();
    optimizer.step(net.parameters());
  }
}

template <SchemeType S, class B>
double step_memory(const typename S::Axes::Array& e, std::size_t tokens,
                   const std::vector<std::size_t>& sizes, const PlanOptions& options)
{
  return peak_memory<B>(S::Axes::ranks(e), [&](typename B::Communicator& world) {
    const Mesh<S, B> mesh{world, e, IdleRanks::refused};
    MLP<S, B, float> mlp{
        mesh, sizes, {.activation = gelu, .gathered = options.gathered, .method = options.method}};
    const DistMatrix<float, typename S::Input, AxisMesh<typename S::Axes, B>> x{
        mesh, {tokens, sizes.front()}};
    train(mlp, options.sharded, [&] {
      const auto& y = mlp.forward(x);
      const auto dy = zeros_like(y);
      mlp.backward(dy);
    });
  });
}

/// The most bytes that a rank allocates when it makes and trains a network.
/// @param train_on  called with each rank's network
template <SchemeType S, class B, class Train>
double step_memory(const typename S::Axes::Array& e, const TransformerStep& step,
                   const PlanOptions& options, const Train& train_on)
{
  return peak_memory<B>(S::Axes::ranks(e), [&](typename B::Communicator& world) {
    const Mesh<S, B> mesh{world, e, IdleRanks::refused};
    Transformer<S, B, float> net{
        mesh, step.model, {.gathered = options.gathered, .method = options.method}};
    train_on(net);
  });
}

template <SchemeType S, class B>
double step_memory(const typename S::Axes::Array& e, const TransformerStep& step,
                   const PlanOptions& options)
{
  const std::vector<int> ids(step.batch.tokens());
  return step_memory<S, B>(e, step, options, [&](auto& net) {
    train(net, options.sharded, [&] { (void)net.compute_gradients(ids, step.batch.length); });
  });
}

/// Compares for both methods, also with each simulated rank on its own node, and with optimizers
/// that are sharded among replicas.
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

}  // namespace

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

namespace
{

/// The seconds in which simulated ranks compute gradients.
template <SchemeType S>
double gradient_seconds(const typename S::Axes::Array& e, const TransformerStep& step)
{
  const std::vector<int> ids(step.batch.tokens());
  double begin = 0;
  double end = 0;
  step_memory<S, Simulated>(e, step, {}, [&](auto& net) {
    net.mesh().world().barrier();
    begin = Simulated::now();
    (void)net.compute_gradients(ids, step.batch.length);
    end = std::max(end, Simulated::now());
  });
  return end - begin;
}

/// Nodes with 8 GPUs. Messages between nodes overlap with products, as those inside a node do.
Machine gpu_nodes()
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

}  // namespace

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
    Simulated::machine = machine;
    const double seconds = gradient_seconds<S>(e, step);
    Simulated::machine = {};
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

}  // namespace plan_memory_test
