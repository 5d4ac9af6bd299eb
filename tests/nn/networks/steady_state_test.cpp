// SPDX-License-Identifier: BSD-3-Clause
#include "llama_like.hpp"
#include "sanitized.hpp"

// Sanitizers have their own operator new.
#if !CUBIST_SANITIZED

#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/nn/sequential.hpp"
#include "cubist/nn/transformer/transformer.hpp"
#include "cubist/training/numerics_monitor.hpp"

#include "scheme_conformance.hpp"

// Tests that a training step after the first ones allocates nothing. Every `operator new` of this
// program is counted, on all ranks; MPI's own calls of malloc are not.

static std::atomic<long> allocations = 0;

static void* counted_malloc(std::size_t bytes)
{
  ++allocations;
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc{};
}

void* operator new(std::size_t bytes) { return counted_malloc(bytes); }
void* operator new[](std::size_t bytes) { return counted_malloc(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment)
{
  ++allocations;
  const auto a = static_cast<std::size_t>(alignment);
  if (void* p = std::aligned_alloc(a, (bytes + a - 1) / a * a)) return p;
  throw std::bad_alloc{};
}
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

namespace cubist::test::steady_state_test
{

TEST_CASE("Allocations are counted")
{
  const long before = allocations;
  const std::vector<double> some(10);
  CHECK(allocations > before);
}

/// The number of allocations in this process during the steps after the first ones.
template <class World, class Step>
long allocations_in_steps(World& world, Step step)
{
  for (int i = 0; i < 3; ++i) step();
  world.barrier();
  const long before = allocations;
  world.barrier();
  for (int i = 0; i < 4; ++i) step();
  world.barrier();
  const long after = allocations;
  world.barrier();
  return after - before;
}

/// The number of allocations in an MLP's steps after the first ones, in all processes together.
template <SchemeType S>
long allocations_in_steps(int ranks, const typename S::Extents& extents, const Way& way,
                          std::size_t recompute = 0)
{
  const auto all = on_ranks<TestBackend>(ranks, [&](TestBackend::Communicator& world) {
    using Net = MLP<S, TestBackend, double>;
    const Mesh<S, TestBackend> mesh{world, extents};
    Net mlp{mesh,
            {9, 20, 9, 20, 9},
            {.activation = gelu,
             .dropout = 0.1,
             .gathered = way.policy,
             .method = way.method,
             .recompute = recompute}};
    const auto parameters = mlp.parameters();
    Adam optimizer{parameters};
    typename Net::Activations x{
        DistMatrix<double, typename S::Input, typename Net::Mesh>{mesh, {16, 9}}};
    auto dy = zeros_like(mlp.forward(x));
    const std::vector<int> labels(16, 3);
    const long found = allocations_in_steps(world, [&] {
      const auto& y = mlp.forward(x);
      softmax_cross_entropy(y, labels, dy);
      mlp.backward(dy);
      optimizer.step(parameters);
    });
    check_replicas(parameters);
    return found;
  });
  return std::accumulate(all.begin(), all.end(), 0L);
}

/// The number of allocations in a transformer's steps after the first ones, with different tokens
/// in every step.
template <SchemeType S>
long allocations_of_transformer(int ranks, const typename S::Extents& extents, bool llama,
                                std::size_t recompute = 0)
{
  const auto all = on_ranks<TestBackend>(ranks, [&](TestBackend::Communicator& world) {
    const Mesh<S, TestBackend> mesh{world, extents};
    TransformerConfig config{
        .vocabulary = 11, .positions = 4, .width = 12, .layers = 2, .heads = 6, .feed_forward = 20};
    if (llama)
    {
      config.key_value_heads = 2;
      config = llama_like(config);
    }
    Transformer<S, TestBackend, double> model{
        mesh, config, {.dropout = 0.1, .attention_dropout = 0.1, .recompute = recompute}};
    const auto parameters = model.parameters();
    AdamW optimizer{parameters};
    std::vector<int> ids(20);
    int step = 0;
    const long found = allocations_in_steps(world, [&] {
      ++step;
      for (int i = 0; i < 20; ++i) ids[static_cast<std::size_t>(i)] = (i * step + i * i) % 11;
      model.compute_gradients(ids, 4);
      optimizer.step(parameters);
    });
    check_replicas(parameters);
    return found;
  });
  return std::accumulate(all.begin(), all.end(), 0L);
}

TEST_CASE("After its first steps a transformer allocates nothing")
{
  if (!fits(8)) return;
  for (const bool llama : {false, true})
  {
    CAPTURE(llama);
    CHECK(allocations_of_transformer<Summa25D>(8, {.q = 2, .d = 2}, llama) == 0);
    CHECK(allocations_of_transformer<Grid3D>(6, {.x = 1, .y = 2, .z = 3}, llama) == 0);
  }
}

TEST_CASE("After its first steps a network allocates nothing")
{
  for (const auto& way : ways<TestBackend>())
  {
    CAPTURE(way.name);
    if (fits(8)) CHECK(allocations_in_steps<Summa25D>(8, {.q = 2, .d = 2}, way) == 0);
    if (fits(6)) CHECK(allocations_in_steps<Grid3D>(6, {.x = 1, .y = 2, .z = 3}, way) == 0);
  }
}

TEST_CASE("After its first steps a network that recomputes activations allocates nothing")
{
  if (!fits(8)) return;
  for (const auto& way : ways<TestBackend>())
  {
    CAPTURE(way.name);
    CHECK(allocations_in_steps<Summa25D>(8, {.q = 2, .d = 2}, way, 2) == 0);
  }
  CHECK(allocations_of_transformer<Summa25D>(8, {.q = 2, .d = 2}, true, 1) == 0);
}

/// The number of allocations in steps of layers with a residual connection, on all ranks.
template <SchemeType S>
long allocations_beside(int ranks, const typename S::Extents& extents)
{
  const auto all = on_ranks<TestBackend>(ranks, [&](TestBackend::Communicator& world) {
    const Mesh<S, TestBackend> mesh{world, extents};
    using Up = cubist::Dense<S, TestBackend, double>;
    using Down = cubist::Dense<typename S::Next, TestBackend, double>;
    Residual net{Sequential{LayerNorm<S, TestBackend, double>{mesh, 12}, Up{mesh, 12, 20, {}, gelu},
                            Down{mesh, 20, 12, {.index = 1}}},
                 Dropout{0.1}};
    typename decltype(net)::Kept kept;
    GradientBuckets<double, typename Up::Mesh> buckets{mesh};
    const auto parameters = parameters_of(net);
    Adam optimizer{parameters};
    const typename Up::Input x{mesh, {16, 12}};
    auto dy = x;
    const std::vector<int> labels(16, 3);
    Pass pass{.training_step = 0};
    const long found = allocations_in_steps(world, [&] {
      ++*pass.training_step;
      softmax_cross_entropy(net.forward(x, pass, kept), labels, dy);
      buckets.begin();
      (void)net.backward(x, dy, {pass, buckets}, kept, true);
      buckets.finish();
      optimizer.step(parameters);
    });
    check_replicas(parameters);
    return found;
  });
  return std::accumulate(all.begin(), all.end(), 0L);
}

TEST_CASE("After their first steps layers with a residual connection allocate nothing")
{
  if (fits(8)) CHECK(allocations_beside<Summa25D>(8, {.q = 2, .d = 2}) == 0);
  if (fits(6)) CHECK(allocations_beside<Grid3D>(6, {.x = 1, .y = 2, .z = 3}) == 0);
}

}  // namespace cubist::test::steady_state_test

#endif

namespace nn_steady_state_test
{

}  // namespace nn_steady_state_test
