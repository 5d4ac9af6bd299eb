// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include <boost/mpi/communicator.hpp>
#include <dlfcn.h>
#include <mpi.h>

#include <cubist/backend/mpi.hpp>
#include <cubist/foreign/pgemm.hpp>

#include "meter/all_cores.hpp"
#include "meter/meter.hpp"
#include "products/product.hpp"
#include "scalapack/pgemm.hpp"
#include "scalapack/scalapack.hpp"

namespace bench
{

namespace
{

/// Loads COSMA's p?gemm, without letting its symbols replace ScaLAPACK's.
template <class T>
void* cosma_routine(const std::string& library)
{
  if (library.empty()) return nullptr;
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  cubist::require<cubist::Error>(loaded != nullptr, "got ", library,
                                 ", but it does not load: ", dlerror(),
                                 "; name COSMA's libcosma_pxgemm.so");
  void* const routine = dlsym(loaded, std::is_same_v<T, float> ? "cosma_psgemm_" : "cosma_pdgemm_");
  if (routine != nullptr) return routine;
  return dlsym(loaded, std::is_same_v<T, float> ? "psgemm_" : "pdgemm_");
}

/// The elements of a matrix that is its own inverse, so that trsm can solve for its result again.
template <class T>
T minus_one_at(std::size_t i, std::size_t j)
{
  return i == j ? T{-1} : T{};
}

template <class T>
std::optional<PgemmRow> measure_pgemm(const PgemmTask& task)
{
  const bool is_gemm = task.routine == "gemm";
  const bool is_in_place = task.routine == "trmm" || task.routine == "trsm";
  const std::size_t m = task.size.m;
  const std::size_t n = task.size.n;
  const std::size_t k = task.size.k;
  const boost::mpi::communicator all;
  const boost::mpi::communicator members = all.split(all.rank() < task.ranks ? 0 : 1);
  const BlacsGrid grid{task.ranks};
  std::optional<PgemmRow> row;
  cubist::launch<Measured<cubist::Mpi>>({.ranks = task.ranks}, [&](auto& world) {
    const cubist::Shape of_b = task.transposed_b ? cubist::Shape{n, k} : cubist::Shape{k, n};
    const auto a = is_in_place ? local_array<T>(grid, {m, k}, task.block, minus_one_at<T>)
                               : local_array<T>(grid, {m, k}, task.block, XAt<T>{});
    const auto b = local_array<T>(grid, of_b, task.block, [&](std::size_t i, std::size_t j) {
      return task.transposed_b ? WAt<T>{}(j, i) : WAt<T>{}(i, j);
    });
    const auto zeros = local_array<T>(grid, {m, n}, task.block, [](auto...) { return T{}; });
    std::vector<T> c = is_in_place ? b : zeros;
    std::vector<T> reference = c;

    const auto matrix = [&](cubist::Shape shape, auto* data) {
      const auto layout = layout_on(grid, shape, task.block);
      return cubist::BlockCyclicMatrix<std::remove_pointer_t<decltype(data)>>{
          {layout},
          data,
          std::max<std::size_t>(1, cubist::Distribution{layout}.local_shape(grid.rank()).rows)};
    };
    cubist::PgemmReport report;
    std::vector<double> conversions;
    std::vector<double> products;
    const auto ours = [&] {
      const cubist::PgemmOptions options{.machine = task.machine, .report = &report};
      const auto matrix_a = matrix({m, k}, a.data());
      const auto matrix_c = matrix({m, n}, c.data());
      if (task.routine == "symm")
        cubist::psymm<T>(members, {}, {m, n}, T{1}, matrix_a, matrix(of_b, b.data()), T{}, matrix_c,
                         options);
      else if (task.routine == "trmm")
        cubist::ptrmm<T>(members, {}, {m, n}, T{1}, matrix_a, matrix_c, options);
      else if (task.routine == "trsm")
        cubist::ptrsm<T>(members, {}, {m, n}, T{1}, matrix_a, matrix_c, options);
      else if (task.routine == "syrk")
        cubist::psyrk<T>(members, cubist::Triangle::lower, cubist::Op::none,
                         cubist::Symmetry::symmetric, {m, k}, T{1}, matrix_a, T{}, matrix_c,
                         options);
      else
        cubist::pgemm<T>(members, cubist::Op::none,
                         task.transposed_b ? cubist::Op::transpose : cubist::Op::none, task.size,
                         T{1}, matrix_a, matrix(of_b, b.data()), T{}, matrix_c, options);
      conversions.push_back(report.conversion);
      products.push_back(report.product);
    };
    const auto others = [&](void* routine) {
      if (!is_gemm)
        return scalapack_triangle<T>(grid, task.routine, task.size, task.block, a, b, reference);
      scalapack_multiply<T>(grid, task.size, task.block, a, b, reference, task.transposed_b,
                            routine);
    };
    void* const cosma = is_gemm ? cosma_routine<T>(task.cosma) : nullptr;

    const bool first = world.rank() == 0;
    std::vector<T> X(first ? m * k : 0, T{1});
    std::vector<T> W(first ? k * n : 0, T{1});
    std::vector<T> Y(first ? m * n : 0);
    std::vector<double> blas;
    const auto multiply_whole = [&] {
      const cubist::HostEngine engine;
      engine.gemm(cubist::Op::none, task.transposed_b ? cubist::Op::transpose : cubist::Op::none,
                  T{1}, cubist::MatrixView<const T>{X.data(), {m, k}},
                  cubist::MatrixView<const T>{W.data(), of_b}, T{},
                  cubist::MatrixView<T>{Y.data(), {m, n}});
    };
    std::vector<double> once;
    alone(world, once, true, multiply_whole);
    std::array calls{first ? std::clamp(static_cast<int>(0.05 / once[0]), 1, 100) : 0};
    world.broadcast(calls, 0);

    Meter our_times{world};
    Meter scalapack_times{world};
    Meter cosma_times{world};
    for (int i = -task.warm_up; i < task.repeats; ++i)
    {
      const bool counts = i >= 0;
      alone(world, blas, counts, multiply_whole, calls[0]);
      our_times.run(counts, ours, calls[0]);
      if (has_scalapack())
        scalapack_times.run(
            counts, [&] { others(nullptr); }, calls[0]);
      if (cosma != nullptr)
        cosma_times.run(
            counts, [&] { others(cosma); }, calls[0]);
      const bool same = !has_scalapack() || c == reference;
      cubist::require<cubist::Error>(same, "pgemm and ScaLAPACK disagree on rank ", world.rank(),
                                     ", so their times mean nothing; one of the two is broken");
    }
    std::array apart{median(conversions), median(products)};
    world.all_reduce(apart, cubist::ReduceOp::max);
    PgemmRow result{.ours = our_times.cost().total,
                    .conversion = apart[0],
                    .product = apart[1],
                    .chosen = report.chosen};
    if (has_scalapack()) result.scalapack = scalapack_times.cost().total;
    if (cosma != nullptr) result.cosma = cosma_times.cost().total;
    if (!first) return;
    result.blas = Times{blas};
    row = result;
  });
  return row;
}

}  // namespace

std::optional<PgemmRow> pgemm_on_mpi(const PgemmTask& task)
{
  return task.scalar == "float" ? measure_pgemm<float>(task) : measure_pgemm<double>(task);
}

}  // namespace bench
