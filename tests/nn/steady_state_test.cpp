// SPDX-License-Identifier: BSD-3-Clause
#include "sanitized.hpp"

// Sanitizers have an operator new of their own.
#if !CUBIST_SANITIZED

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <numeric>
#include <vector>

#include "cubist/cubist.hpp"
#include "cubist/scheme/grid3d.hpp"

#include "catch.hpp"
#include "ranks.hpp"
#include "scheme_conformance.hpp"

// Once a network has made its first steps, a step takes nothing from the heap. Every `operator new`
// of this program is counted, those of all ranks; what MPI takes with malloc is its own.

namespace
{

std::atomic<long> taken = 0;

void* take(std::size_t bytes)
{
  ++taken;
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc{};
}

}  // namespace

void* operator new(std::size_t bytes) { return take(bytes); }
void* operator new[](std::size_t bytes) { return take(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment)
{
  ++taken;
  const auto a = static_cast<std::size_t>(alignment);
  if (void* p = std::aligned_alloc(a, (bytes + a - 1) / a * a)) return p;
  throw std::bad_alloc{};
}
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

using namespace cubist;
using namespace cubist::test;

namespace
{

/// How often ranks took from the heap in the steps after the first ones, all of them together.
template <Scheme S>
long taken_in_steps(int ranks, const typename S::Extents& extents, const Way& way)
{
  const auto all = on_ranks<TestBackend>(ranks, [&](TestBackend::Communicator& world) {
    using Net = MLP<S, TestBackend, float>;
    const Mesh<S, TestBackend> mesh{world, extents};
    Net mlp{mesh,
            {12, 20, 9},
            {.activation = gelu, .dropout = 0.1, .gathered = way.policy, .method = way.method}};
    const auto parameters = mlp.parameters();
    Adam optimizer{parameters};
    typename Net::Activations x{
        DistMatrix<float, typename S::Input, typename Net::Mesh>{mesh, {16, 12}}};
    auto dy = zeros_like(mlp.forward(x));
    const std::vector<int> labels(16, 3);
    const auto step = [&] {
      const auto& y = mlp.forward(x);
      softmax_cross_entropy(y, labels, dy);
      mlp.backward(dy);
      optimizer.step(parameters);
    };
    for (int i = 0; i < 3; ++i) step();
    world.barrier();
    const long before = taken;
    world.barrier();
    for (int i = 0; i < 4; ++i) step();
    world.barrier();
    const long after = taken;
    world.barrier();
    return after - before;
  });
  return std::accumulate(all.begin(), all.end(), 0L);
}

}  // namespace

TEST_CASE("After its first steps a network takes nothing from the heap")
{
  for (const auto& way : ways<TestBackend>())
  {
    CAPTURE(way.name);
    if (fits(4)) CHECK(taken_in_steps<Summa2D>(4, {.rows = 2, .cols = 2}, way) == 0);
    if (fits(8)) CHECK(taken_in_steps<Summa25D>(8, {.q = 2, .d = 2}, way) == 0);
    if (fits(8)) CHECK(taken_in_steps<Cube3D>(8, {.q = 2}, way) == 0);
    if (fits(6)) CHECK(taken_in_steps<Grid3D>(6, {.x = 1, .y = 2, .z = 3}, way) == 0);
  }
}

TEST_CASE("What is taken from the heap is counted")
{
  const long before = taken;
  const std::vector<double> some(10);
  CHECK(taken > before);
}

#endif
