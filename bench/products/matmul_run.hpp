// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The measurement behind matmul.hpp, for any backend and any peer.
//
// A peer is another library that multiplies the same matrices on the same ranks, in one or several
// variants. It has `count()`, `block(i)`, `multiply(i)`, and `equals(i, world, Y)`, which every
// rank calls.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "common/scalars.hpp"
#include "meter/meter.hpp"
#include "products/matmul.hpp"
#include "products/product.hpp"

namespace bench
{

/// The peer of a backend that has no other library for distributed products.
template <class T>
struct NoPeer
{
  explicit NoPeer(const MatmulTask&) {}
  static std::size_t count() { return 0; }
  static int block(std::size_t) { return 0; }
  static void multiply(std::size_t) {}
  template <class World>
  static bool equals(std::size_t, World&, const std::vector<T>&)
  {
    return true;
  }
};

template <class B, class T, class Peer, class SchemeList>
std::optional<Row> measure_matmul_on(const MatmulTask& task)
{
  using cubist::MatrixView;
  using Backend = Measured<B>;
  using Here = Site<typename B::Engine>;
  const std::size_t m = task.size.m;
  const std::size_t n = task.size.n;
  const std::size_t k = task.size.k;
  Peer peer{task};
  std::optional<Row> row;
  cubist::launch<Backend>({.ranks = task.on.ranks}, [&](auto& world) {
    const bool first = world.rank() == 0;
    const ThreadsPerRank<B> threads{world, task.on.threads_per_rank};
    const auto product = make_product<Backend, T, SchemeList>(world, {.scheme = task.on.scheme,
                                                                      .mesh = task.on.mesh,
                                                                      .size = task.size,
                                                                      .method = task.on.method});
    const auto plain = [](const auto& global) { return Here::plain(global.data(), global.size()); };
    const auto X = plain(product->gather_x());
    const auto W = plain(product->gather_w());
    auto Y = plain(std::vector<T>(first ? m * n : 0));

    // Without other ranks: a product as large as a rank's share of the rows of Y, and a message of
    // as many elements as the scheme sends.
    const bool local = task.local || task.apart;
    const auto block = product->block();
    const std::size_t replicas = block.size() * static_cast<std::size_t>(world.size()) / (m * n);
    const cubist::Shape own{cubist::ceil_div(block.rows, std::max<std::size_t>(1, replicas)),
                            block.cols};
    using Buffer = typename B::Engine::template Buffer<T>;
    const auto ones = [&](bool wanted, std::size_t size) {
      Buffer all(wanted ? size : 0);
      product->engine().fill(MatrixView<T>{all.data(), {1, all.size()}}, T{1});
      return all;
    };
    const auto own_x = ones(local, own.rows * k);
    const auto own_w = ones(local, own.cols * k);
    Buffer own_y(local ? own.size() : 0);
    const auto ranks = static_cast<std::size_t>(world.size());
    const double formula_words = product->formula_words();
    const auto words =
        task.apart && ranks > 1 ? static_cast<std::size_t>(formula_words) / (ranks - 1) : 0;
    const auto sent = ones(task.apart, words);
    auto received = ones(task.apart, words * ranks);
    // The whole product in the engine's memory, for BLAS on all cores.
    const auto all_x = ones(task.local && first, m * k);
    const auto all_w = ones(task.local && first, k * n);
    Buffer all_y(task.local && first ? m * n : 0);

    std::vector<double> blas;
    std::vector<double> paged;
    Meter ours{world};
    Meter local_products{world};
    Meter apart{world};
    std::vector theirs(peer.count(), Meter{world});
    const typename B::Engine engine;
    const auto multiply_whole = [&](const auto& a, const auto& b, auto& c) {
      Here::multiply(engine, cubist::Op::none, cubist::Op::none,
                     MatrixView<const T>{a.data(), {m, k}}, MatrixView<const T>{b.data(), {k, n}},
                     MatrixView<T>{c.data(), {m, n}});
    };
    const auto multiply_own = [&] {
      product->engine().gemm(cubist::Op::none, cubist::Op::none, T{1},
                             MatrixView<const T>{own_x.data(), {own.rows, k}},
                             MatrixView<const T>{own_w.data(), {k, own.cols}}, T{},
                             MatrixView<T>{own_y.data(), own});
    };
    // Short products run several times in a row, because a core that has slept between measurements
    // is slow at first.
    std::vector<double> once;
    alone(world, once, true, [&] { multiply_whole(X, W, Y); });
    std::array calls{first ? std::clamp(static_cast<int>(0.05 / once[0]), 1, 100) : 0};
    cubist::with_staging_buffer(engine, std::span<int>{calls},
                                [&](auto numbers) { world.broadcast(numbers, 0); });
    for (int i = -task.on.warm_up; i < task.on.repeats; ++i)
    {
      const bool counts = i >= 0;
      alone(
          world, blas, counts, [&] { multiply_whole(X, W, Y); }, calls[0]);
      if (task.local)
        alone(
            world, paged, counts, [&] { multiply_whole(all_x, all_w, all_y); }, calls[0]);
      ours.run(
          counts, [&] { product->forward(); }, calls[0]);
      if (task.local) local_products.run(counts, multiply_own, calls[0]);
      if (task.apart)
        apart.run(
            counts,
            [&] {
              auto request = world.async_all_gather(std::span<const T>{sent.data(), sent.size()},
                                                    std::span<T>{received.data(), received.size()});
              multiply_own();
              request.wait();
            },
            calls[0]);
      for (std::size_t v = 0; v < theirs.size(); ++v)
        theirs[v].run(
            counts, [&] { peer.multiply(v); }, calls[0]);
    }

    const auto gathered = product->gather_y();
    const std::vector<T> expected = Here::on_host(Y);
    if (first)
      cubist::require<cubist::Error>(
          expected == gathered, product->scheme(), " on ", task.on.ranks,
          " ranks and BLAS disagree, so their times mean nothing; one of the two is broken");
    for (std::size_t v = 0; v < theirs.size(); ++v)
      cubist::require<cubist::Error>(
          peer.equals(v, world, expected), "ScaLAPACK with blocks of ", peer.block(v),
          " and BLAS disagree, so their times mean nothing; one of the two is broken, or "
          "ScaLAPACK was built for another MPI than cubist");

    Row result{.scheme = product->scheme(), .mesh = product->mesh(), .method = product->method()};
    result.giga_operations = giga_operations(task.size);
    result.cost = ours.cost();
    if (task.local) result.local = local_products.cost().total;
    if (task.apart) result.apart = apart.cost().total;
    if (result.method == cubist::Method::collectives) result.formula_words = formula_words;
    for (std::size_t v = 0; v < theirs.size(); ++v)
      if (const Times times = theirs[v].cost().total;
          v == 0 || times.median < result.scalapack.median)
      {
        result.scalapack = times;
        result.scalapack_block = peer.block(v);
      }
    if (!first) return;
    result.blas = Times{blas};
    if (task.local) result.paged = Times{paged};
    row = result;
  });
  return row;
}

/// Measures with the scheme and the scalar of the task.
template <class B, template <class> class Peer, class List = Scalars,
          class SchemeList = cubist::Catalogue>
std::optional<Row> measure_matmul(const MatmulTask& task)
{
  return List::with(task.on.scalar,
                    [&]<class T>() { return measure_matmul_on<B, T, Peer<T>, SchemeList>(task); });
}

/// Measures with one scheme and scalar, which the task must name.
template <class B, class S, class T, class Peer>
std::optional<Row> measure_matmul(const MatmulTask& task)
{
  return measure_matmul_on<B, T, Peer, cubist::Schemes<S>>(task);
}

}  // namespace bench
