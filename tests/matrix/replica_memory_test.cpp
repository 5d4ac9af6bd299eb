// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matrix/replica_memory.hpp"
#include "cubist/scheme/megatron1d.hpp"

#include "nn.hpp"

namespace cubist::test::matrix_replica_memory_test
{

using Engine = TestBackend::Engine;

template <class C>
std::shared_ptr<double> common(C& world, std::size_t size)
{
  return memory_of_ranks<double, Engine>(world, size);
}

TEST_CASE("ranks read in common memory what each of them wrote, and zeros elsewhere")
{
  if (!fits(3)) return;
  for (const std::size_t size : {std::size_t{4}, std::size_t{5000}})
  {
    CAPTURE(size);
    const auto seen = on_ranks<TestBackend>(3, [&](auto& world) {
      const auto memory = common(world, size);
      if (!memory) return std::vector<double>{};
      memory.get()[world.rank()] = 1 + world.rank();
      world.barrier();
      std::vector<double> all{memory.get()[0], memory.get()[1], memory.get()[2], memory.get()[3],
                              memory.get()[size - 1]};
      world.barrier();
      return all;
    });
    for (const auto& s : seen) CHECK(s == std::vector<double>{1, 2, 3, 0, 0});
  }
}

TEST_CASE("common memory lasts until the last rank drops it, in any order")
{
  if (!fits(3)) return;
  for (int last = 0; last < 3; ++last)
  {
    CAPTURE(last);
    const auto seen = on_ranks<TestBackend>(3, [&](auto& world) {
      auto memory = common(world, 5000);
      if (world.rank() == 0) memory.get()[4999] = 7;
      world.barrier();
      if (world.rank() != last) memory.reset();
      world.barrier();
      // Memory that had been freed would be handed out again.
      const typename Engine::Buffer<double> other(5000);
      const double found = memory ? memory.get()[4999] : other[4999] + 7;
      world.barrier();
      return found;
    });
    for (const double s : seen) CHECK(s == 7);
  }
}

TEST_CASE("a copy of a matrix with common memory has its own memory")
{
  if (!fits(2)) return;
  const auto seen =
      on_mesh(Place<Megatron1D>{2, {}}, [](const Mesh<Megatron1D, TestBackend>& mesh) {
        using Matrix = DistMatrix<double, Megatron1D::Input, AxisMesh<Axes<Tensor>, TestBackend>>;
        const Shape shape{2, 2};
        const std::size_t quantum = mesh.quantum();
        Matrix a{mesh, shape, {quantum, quantum}, common(mesh.world(), 4)};
        if (mesh.rank() == 0) a.valid()(1, 1) = 5;
        mesh.world().barrier();
        Matrix copy = a;
        Matrix assigned{mesh, {3, 3}};
        assigned = a;
        mesh.world().barrier();
        a.valid()(1, mesh.rank() == 0 ? 0 : 1) = 9;
        copy.valid()(0, 0) = mesh.rank();
        mesh.world().barrier();
        const Matrix moved = std::move(a);
        mesh.world().barrier();
        return std::vector<double>{moved.valid()(1, 0),
                                   moved.valid()(1, 1),
                                   copy.valid()(0, 0),
                                   copy.valid()(1, 1),
                                   assigned.valid()(1, 1),
                                   double(moved.has_common_memory()),
                                   double(copy.has_common_memory()),
                                   double(assigned.has_common_memory())};
      });
  CHECK(seen[0] == std::vector<double>{9, 9, 0, 5, 5, 1, 0, 0});
  CHECK(seen[1] == std::vector<double>{9, 9, 1, 5, 5, 1, 0, 0});
}

}  // namespace cubist::test::matrix_replica_memory_test
