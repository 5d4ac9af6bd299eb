// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The measurement behind matmul.hpp, for any backend and any peer.
//
// A peer is another library that multiplies the same matrices on the same ranks, in one or several
// variants: `count()`, `block(i)`, `multiply(i)`, and `equals(i, world, Y)`, which every rank
// calls.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <cubist/cubist.hpp>
#include <cubist/plan/cost.hpp>

#include "matmul.hpp"
#include "meter.hpp"
#include "scalars.hpp"
#include "schemes.hpp"

namespace bench
{

/// The elements of X and W: small integers, whose products are exact in any order of summation.
template <class T>
struct XAt
{
  CUBIST_HOST_DEVICE T operator()(std::size_t i, std::size_t j) const
  {
    return static_cast<T>(static_cast<float>((3 * i + 5 * j) % 7) - 3);
  }
};
template <class T>
struct WAt
{
  CUBIST_HOST_DEVICE T operator()(std::size_t i, std::size_t j) const
  {
    return static_cast<T>(static_cast<float>((2 * i + 3 * j) % 5) - 2);
  }
};

/// Of products of whole matrices, on ranks of a backend that has no library for them.
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

template <class B, class S, class T, class Peer>
std::optional<Row> measure_matmul(const MatmulTask& task)
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
    cubist::Mesh<S, Backend> mesh{world, Known<S>::extents(task.on.mesh, world.size())};
    cubist::DistMatMul<S, Backend, T> product{mesh, task.size, cubist::Gathered::again,
                                              task.on.method};
    using Product = decltype(product);
    typename Product::Input x{mesh, {m, k}};
    typename Product::Weight w{mesh, {k, n}};
    typename Product::Output y{mesh, {m, n}};
    x.generate(XAt<T>{});
    w.generate(WAt<T>{});
    const auto plain = [](const auto& global) { return Here::plain(global.data(), global.size()); };
    const auto X = plain(cubist::gather(x));
    const auto W = plain(cubist::gather(w));
    auto Y = plain(std::vector<T>(first ? m * n : 0));

    // What needs nothing of others: products as large as a share of Y's rows where it has replicas,
    // as an owner makes it, and as many words as the scheme's.
    const bool local = task.local || task.apart;
    const auto block = y.block().padded();
    const std::size_t replicas = block.size() * static_cast<std::size_t>(world.size()) / (m * n);
    const cubist::Shape own{cubist::ceil_div(block.rows, std::max<std::size_t>(1, replicas)),
                            block.cols};
    using Buffer = typename B::Engine::template Buffer<T>;
    const auto ones = [&](bool wanted, std::size_t size) {
      Buffer all(wanted ? size : 0);
      mesh.engine().fill(MatrixView<T>{all.data(), {1, all.size()}}, T{1});
      return all;
    };
    const auto own_x = ones(local, own.rows * k);
    const auto own_w = ones(local, own.cols * k);
    Buffer own_y(local ? own.size() : 0);
    const auto ranks = static_cast<std::size_t>(world.size());
    const double formula_words = cubist::cost<S>(mesh.extents(), task.size).forward.words();
    const auto words =
        task.apart && ranks > 1 ? static_cast<std::size_t>(formula_words) / (ranks - 1) : 0;
    const auto sent = ones(task.apart, words);
    auto received = ones(task.apart, words * ranks);
    // The whole product in memory of the engine's, for BLAS on all cores.
    const auto all_x = ones(task.local && first, m * k);
    const auto all_w = ones(task.local && first, k * n);
    Buffer all_y(task.local && first ? m * n : 0);

    std::vector<double> blas;
    std::vector<double> paged;
    Meter ours{world};
    Meter by_themselves{world};
    Meter apart{world};
    std::vector theirs(peer.count(), Meter{world});
    const typename B::Engine engine;
    const auto multiply_whole = [&](const auto& a, const auto& b, auto& c) {
      Here::multiply(engine, cubist::Op::none, cubist::Op::none,
                     MatrixView<const T>{a.data(), {m, k}}, MatrixView<const T>{b.data(), {k, n}},
                     MatrixView<T>{c.data(), {m, n}});
    };
    const auto multiply_own = [&] {
      mesh.engine().gemm(cubist::Op::none, cubist::Op::none, T{1},
                         MatrixView<const T>{own_x.data(), {own.rows, k}},
                         MatrixView<const T>{own_w.data(), {k, own.cols}}, T{},
                         MatrixView<T>{own_y.data(), own});
    };
    // Short products are called several times in a row: a core that has slept, as they do between
    // the measurements, is slow at first.
    std::vector<double> once;
    alone(world, once, true, [&] { multiply_whole(X, W, Y); });
    std::array calls{first ? std::clamp(static_cast<int>(0.05 / once[0]), 1, 100) : 0};
    cubist::carry_numbers(engine, std::span<int>{calls},
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
          counts, [&] { product.forward(x, w, y); }, calls[0]);
      if (task.local) by_themselves.run(counts, multiply_own, calls[0]);
      if (task.apart)
        apart.run(
            counts,
            [&] {
              auto under_way =
                  world.async_all_gather(std::span<const T>{sent.data(), sent.size()},
                                         std::span<T>{received.data(), received.size()});
              multiply_own();
              under_way.wait();
            },
            calls[0]);
      for (std::size_t v = 0; v < theirs.size(); ++v)
        theirs[v].run(
            counts, [&] { peer.multiply(v); }, calls[0]);
    }

    const auto gathered = cubist::gather(y);
    const std::vector<T> expected = Here::on_host(Y);
    if (first)
      cubist::require<cubist::Error>(
          std::equal(expected.begin(), expected.end(), gathered.data()), S::name, " on ",
          task.on.ranks,
          " ranks and BLAS disagree, so their times mean nothing; one of the two is broken");
    for (std::size_t v = 0; v < theirs.size(); ++v)
      cubist::require<cubist::Error>(
          peer.equals(v, world, expected), "ScaLAPACK with blocks of ", peer.block(v),
          " and BLAS disagree, so their times mean nothing; one of the two is broken, or "
          "ScaLAPACK is of another MPI than cubist");

    Row result{
        .scheme = S::name, .mesh = S::Axes::to_string(mesh.extents()), .method = product.method()};
    result.giga_operations = giga_operations(task.size);
    result.cost = ours.cost();
    if (task.local) result.local = by_themselves.cost().total;
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

/// The measurement for the scheme and the scalar of the task.
template <class B, template <class> class Peer, class List = Scalars>
std::optional<Row> measure_matmul(const MatmulTask& task)
{
  return with_scheme(task.on.scheme, [&]<class S>() {
    return List::with(task.on.scalar,
                      [&]<class T>() { return measure_matmul<B, S, T, Peer<T>>(task); });
  });
}

}  // namespace bench
