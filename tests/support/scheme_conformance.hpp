// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What every scheme must do, on every backend: its products are those of a serial oracle, for every
// size on every mesh. A scheme's own test file hands its meshes to these functions:
//
//   TEMPLATE_LIST_TEST_CASE("…", "", (Subjects<MyScheme, TestBackend>))
//   {
//     conform_exactly<TestType>(meshes, 10);
//     conform_within_rounding<TestType>(meshes);
//   }

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/backend/backend.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/mesh/mesh.hpp"
#include "cubist/scheme/scheme.hpp"

#include "backend.hpp"
#include "catch.hpp"
#include "matrices.hpp"
#include "ranks.hpp"
#include "sanitized.hpp"

namespace cubist::test
{

/// What conforms: a scheme with the numbers that it multiplies and the backend that carries them.
template <Scheme S, Backend B, Scalar T, Op x = Op::none, Op w = Op::none>
struct Subject
{
  static constexpr Op op_x = x;
  static constexpr Op op_w = w;

  using Scheme = S;
  using Backend = B;
  using Value = T;
  using Product = DistMatMul<S, B, T, x, w>;
  using Mesh = typename Product::Mesh;
};

/// The first subjects, and the others where they are cheap.
template <class First, class Others>
using AllOrFirst =
    std::conditional_t<few_suffice<TestBackend>, First,
                       decltype(std::tuple_cat(std::declval<First>(), std::declval<Others>()))>;

/// A scheme with all scalars, or with a real and a complex one.
template <Scheme S, Backend B>
using Subjects = AllOrFirst<std::tuple<Subject<S, B, double>, Subject<S, B, std::complex<float>>>,
                            std::tuple<Subject<S, B, float>, Subject<S, B, std::complex<double>>>>;

/// A mesh to conform on.
template <Scheme S>
struct TestMesh
{
  int ranks;
  typename S::Extents extents;
};

template <Scheme S>
using TestMeshes = std::vector<TestMesh<S>>;

/// Those of some meshes that fit.
template <Backend B = TestBackend, Scheme S>
[[nodiscard]] TestMeshes<S> those_that_fit(const std::vector<TestMesh<S>>& meshes)
{
  TestMeshes<S> fitting;
  for (const auto& mesh : meshes)
    if (fits<B>(mesh.ranks)) fitting.push_back(mesh);
  return fitting;
}

/// The operands of a layer and, worked out serially, its three products.
template <class T>
struct Layer
{
  Dense<T> x;
  Dense<T> w;
  Dense<T> dy;
  Dense<T> y;
  Dense<T> dx;
  Dense<T> dw;

  Layer(Dense<T> x_, Dense<T> w_, Dense<T> dy_)
      : x{std::move(x_)}, w{std::move(w_)}, dy{std::move(dy_)}, y{product(x, w)},
        dx{product(dy, transposed(w))}, dw{product(transposed(x), dy)}
  {
  }
};

template <Scalar T, class Values = SmallIntegers>
[[nodiscard]] Layer<T> random_layer(ProductSize s, std::uint64_t seed)
{
  return {random_matrix<T, Values>({s.m, s.k}, 3 * seed),
          random_matrix<T, Values>({s.k, s.n}, 3 * seed + 1),
          random_matrix<T, Values>({s.m, s.n}, 3 * seed + 2)};
}

/// Sizes that are hard on blocks, then random ones, mostly uneven, some smaller than the mesh.
[[nodiscard]] inline std::vector<ProductSize> hard_sizes(std::size_t random, std::uint64_t seed)
{
  std::vector<ProductSize> sizes = {{1, 1, 1}, {0, 5, 3}, {5, 0, 3}, {5, 3, 0},
                                    {0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  const auto extent = [&](std::size_t i, std::uint64_t which) {
    const auto h = hash(seed, i, which);
    return 1 + (h >> 8) % (h % 3 == 0 ? 5 : 40);
  };
  for (std::size_t i = 0; i < random; ++i)
    sizes.push_back({.m = extent(i, 0), .n = extent(i, 1), .k = extent(i, 2)});
  return sizes;
}

[[nodiscard]] inline std::string text(ProductSize s)
{
  return "m = " + std::to_string(s.m) + ", n = " + std::to_string(s.n) +
         ", k = " + std::to_string(s.k);
}

/// Copies this rank's slice of `global` to its shard.
template <class T, class L, class M>
void load(DistMatrix<T, L, M>& shard, const Dense<T>& global)
{
  const auto& b = shard.block();
  const MatrixView<const T> all{global.data.data(), global.shape};
  shard.mesh().engine().upload(all.block(b.rows.offset, b.cols.offset, b.valid()), shard.valid());
}

/// This rank's block with its padding, on the host.
template <class T, class L, class M>
[[nodiscard]] Dense<T> padded_block(const DistMatrix<T, L, M>& shard)
{
  Dense<T> block{shard.padded().shape()};
  shard.mesh().engine().download(shard.padded(), MatrixView<T>{block.data.data(), block.shape});
  return block;
}

/// Whether the shard is what `accept(i, j, element)` wants, i and j global, and its padding is
/// zero.
template <class T, class L, class M, class F>
void check_shard(Findings& found, const std::string& what, const DistMatrix<T, L, M>& shard,
                 F accept)
{
  const Block& b = shard.block();
  const auto block = padded_block(shard);
  for (std::size_t i = 0; i < block.shape.rows; ++i)
    for (std::size_t j = 0; j < block.shape.cols; ++j)
    {
      const bool valid = i < b.rows.valid && j < b.cols.valid;
      const bool good =
          valid ? accept(b.rows.offset + i, b.cols.offset + j, block(i, j)) : block(i, j) == T{};
      if (!good)
        return found.check(false, what, ": rank ", shard.mesh().rank(), " has ", block(i, j),
                           valid ? " at (" : " in the padding at (", i, ", ", j, ") of its block");
    }
  found.check(true, what);
}

/// The matrix A for which op(A) is `x`.
template <class T>
[[nodiscard]] Dense<T> stored(Op op, const Dense<T>& x)
{
  if (op == Op::none) return x;
  auto a = transposed(x);
  if constexpr (ComplexScalar<T>)
    if (op == Op::adjoint)
      for (auto& v : a.data) v = std::conj(v);
  return a;
}

/// How a plan does its products.
struct Way
{
  const char* name;
  Gathered policy;
  Method method;
};

/// All ways that the backend has.
template <Backend B>
[[nodiscard]] std::vector<Way> ways()
{
  std::vector<Way> all{{"again", Gathered::again, Method::collectives},
                       {"kept", Gathered::kept, Method::collectives}};
  if (exposes<B>()) all.push_back({"owner computes", Gathered::again, Method::direct});
  return all;
}

template <class Sub>
class Conformance
{
  using S = typename Sub::Scheme;
  using T = typename Sub::Value;
  using Product = typename Sub::Product;
  using Mesh = typename Sub::Mesh;

 public:
  Conformance(const Mesh& mesh, ProductSize size, const Way& way)
      : plan_{mesh, size, way.policy, way.method}, x_{mesh, op_shape(Sub::op_x, {size.m, size.k})},
        w_{mesh, op_shape(Sub::op_w, {size.k, size.n})}, dy_{mesh, {size.m, size.n}}, y_{dy_},
        dx_{x_}, dw_{w_}, what_{text(size) + ", " + way.name + ": "}
  {
  }

  void take(const Layer<T>& layer)
  {
    load(x_, stored(Sub::op_x, layer.x));
    load(w_, stored(Sub::op_w, layer.w));
    load(dy_, layer.dy);
  }

  /// All products are equal to the oracle's, with and without factors.
  void check_exactly(const Layer<T>& layer, Findings& found)
  {
    const T alpha = scalar<T>(2, -1);
    const T beta = scalar<T>(-3, 2);
    take(layer);
    const auto is = [&](const char* what, const auto& shard, const Dense<T>& wanted, T factor) {
      check_shard(found, what_ + what, shard, [&](std::size_t i, std::size_t j, T got) {
        return got == factor * wanted(i, j);
      });
    };

    forget(y_);
    plan_.forward(x_, w_, y_);
    is("Y = X W", y_, layer.y, T{1});
    plan_.forward(x_, w_, y_, alpha, beta);
    is("Y = alpha X W + beta Y", y_, layer.y, alpha + beta);

    if constexpr (has_gradients) check_gradients(layer, alpha, beta, is);
  }

  /// All products are near the oracle's; gives back what this rank got, padding included.
  std::vector<T> check_within_rounding(const Layer<T>& layer, const Layer<Wide<T>>& exact,
                                       const Layer<long double>& magnitude, Findings& found)
  {
    take(layer);
    std::vector<T> all;
    const auto is = [&](const char* what, const auto& shard, const Dense<Wide<T>>& wanted,
                        const Dense<long double>& size, std::size_t inner) {
      const auto unit = 2 * static_cast<long double>(inner + 1) *
                        static_cast<long double>(std::numeric_limits<Real<T>>::epsilon());
      check_shard(found, what_ + what, shard, [&](std::size_t i, std::size_t j, T got) {
        return std::abs(Wide<T>{got} - wanted(i, j)) <= unit * size(i, j);
      });
      const auto block = padded_block(shard);
      all.insert(all.end(), block.data.begin(), block.data.end());
    };
    const auto [m, n, k] = plan_.size();
    const auto dx = stored(Sub::op_x, exact.dx);
    const auto dw = stored(Sub::op_w, exact.dw);
    const auto dx_magnitude = stored(Sub::op_x, magnitude.dx);
    const auto dw_magnitude = stored(Sub::op_w, magnitude.dw);
    plan_.forward(x_, w_, y_);
    plan_.backward(x_, w_, dy_, dx_, dw_);
    is("Y", y_, exact.y, magnitude.y, k);
    is("backward's dX", dx_, dx, dx_magnitude, n);
    is("backward's dW", dw_, dw, dw_magnitude, m);
    plan_.grad_input(dy_, w_, dx_);
    plan_.grad_weight(x_, dy_, dw_);
    is("dX", dx_, dx, dx_magnitude, n);
    is("dW", dw_, dw, dw_magnitude, m);
    return all;
  }

 private:
  static constexpr bool has_gradients =
      !ComplexScalar<T> || (Sub::op_x != Op::adjoint && Sub::op_w != Op::adjoint);

  template <class Check>
  void check_gradients(const Layer<T>& layer, T alpha, T beta, Check is)
  {
    const auto dx = stored(Sub::op_x, layer.dx);
    const auto dw = stored(Sub::op_w, layer.dw);

    forget(dx_);
    plan_.grad_input(dy_, w_, dx_);
    is("dX = dY W^T", dx_, dx, T{1});
    plan_.grad_input(dy_, w_, dx_, alpha, beta);
    is("dX = alpha dY W^T + beta dX", dx_, dx, alpha + beta);

    forget(dw_);
    plan_.grad_weight(x_, dy_, dw_);
    is("dW = X^T dY", dw_, dw, T{1});
    plan_.grad_weight(x_, dy_, dw_, T{1}, T{1});
    is("dW = X^T dY + dW", dw_, dw, T{2});
    plan_.grad_weight(x_, dy_, dw_, alpha, beta);
    is("dW = alpha X^T dY + beta dW", dw_, dw, alpha + T{2} * beta);

    plan_.forward(x_, w_, y_);
    forget(dx_);
    forget(dw_);
    plan_.backward(x_, w_, dy_, dx_, dw_);
    is("backward's dX", dx_, dx, T{1});
    is("backward's dW", dw_, dw, T{1});
    plan_.backward(x_, w_, dy_, dx_, dw_, beta);
    is("backward's dX, again", dx_, dx, T{1});
    is("backward's dW + beta dW", dw_, dw, T{1} + beta);
  }

  /// Fills a shard with what no result may depend on.
  template <class D>
  static void forget(D& shard)
  {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    shard.mesh().engine().fill(shard.valid(), scalar<T>(nan, nan));
  }

  Product plan_;
  typename Product::Input x_;
  typename Product::Weight w_;
  typename Product::Output dy_;
  typename Product::Output y_;
  typename Product::Input dx_;
  typename Product::Weight dw_;
  std::string what_;
};

/// On one mesh, at these sizes: all products of small integers equal the serial oracle's.
template <class Sub>
void conform_exactly(const TestMesh<typename Sub::Scheme>& on,
                     const std::vector<ProductSize>& sizes, std::uint64_t& seed)
{
  using S = typename Sub::Scheme;
  using B = typename Sub::Backend;
  using T = typename Sub::Value;
  if (!fits<B>(on.ranks)) return;
  CAPTURE(S::name, S::Axes::to_string(S::extents(on.extents, on.ranks)), element_name<T>());
  std::vector<std::vector<Layer<T>>> layers;
  for (const auto& s : sizes)
    layers.push_back({random_layer<T>(s, ++seed), random_layer<T>(s, ++seed)});

  require_clear(on_ranks<B>(on.ranks, [&](typename B::Communicator& world) {
    const Mesh<S, B> mesh{world, on.extents};
    Findings found;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      for (const auto& way : ways<B>())
      {
        Conformance<Sub> products{mesh, sizes[i], way};
        for (const auto& layer : layers[i]) products.check_exactly(layer, found);
      }
    return found;
  }));
}

/// On each mesh, at `random` random sizes and some hard ones.
template <class Sub>
void conform_exactly(const TestMeshes<typename Sub::Scheme>& meshes, std::size_t random)
{
  std::uint64_t seed = 0;
  for (const auto& on : meshes)
  {
    const auto sizes =
        hard_sizes(few_suffice<typename Sub::Backend> ? (random + 2) / 3 : random, ++seed);
    conform_exactly<Sub>(on, sizes, seed);
  }
}

/// On each mesh: products of fractions are as near the serial ones as rounding allows, and have the
/// same bits on every run and whether or not the plan keeps what it gathered.
template <class Sub>
void conform_within_rounding(const TestMeshes<typename Sub::Scheme>& meshes)
{
  using S = typename Sub::Scheme;
  using B = typename Sub::Backend;
  using T = typename Sub::Value;
  const ProductSize size{.m = 53, .n = 37, .k = 101};
  const auto layer = random_layer<T, Fractions>(size, 7);
  const Layer<Wide<T>> exact{widened(layer.x), widened(layer.w), widened(layer.dy)};
  const Layer<long double> magnitude{magnitudes(layer.x), magnitudes(layer.w),
                                     magnitudes(layer.dy)};
  for (const auto& on : those_that_fit<B>(meshes))
  {
    CAPTURE(S::name, S::Axes::to_string(S::extents(on.extents, on.ranks)), element_name<T>());
    // What each rank got, by the way and the run.
    std::map<Method, std::vector<std::vector<std::vector<T>>>> runs;
    auto all_ways = ways<B>();
    all_ways.insert(all_ways.begin(), all_ways.front());
    if (exposes<B>()) all_ways.push_back(all_ways.back());
    for (const auto& way : all_ways)
    {
      std::vector<Findings> found;
      auto& run = runs[way.method].emplace_back();
      for (auto& [findings, result] : on_ranks<B>(on.ranks, [&](typename B::Communicator& world) {
             const Mesh<S, B> mesh{world, on.extents};
             Conformance<Sub> products{mesh, size, way};
             std::pair<Findings, std::vector<T>> r;
             r.second = products.check_within_rounding(layer, exact, magnitude, r.first);
             return r;
           }))
      {
        found.push_back(findings);
        run.push_back(result);
      }
      require_clear(found);
    }
    const auto same_bits = [](const std::vector<T>& a, const std::vector<T>& b) {
      return !a.empty() && a.size() == b.size() &&
             std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
    };
    for (const auto& [_, same] : runs)
    {
      REQUIRE(same.size() >= 2);
      for (const auto& run : same)
        CHECK(std::equal(run.begin(), run.end(), same[0].begin(), same[0].end(), same_bits));
    }
  }
}

}  // namespace cubist::test
