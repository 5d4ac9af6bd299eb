// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Checks the three products of a layer against a serial oracle. The checks see a plan and its
// matrices as `Products`, whatever the scheme, the mesh and the backend, so they are compiled once
// for each scalar.

#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/scheme/scheme.hpp"

#include "backend.hpp"
#include "matrices.hpp"
#include "ranks.hpp"

namespace cubist::test
{

/// The operands of a layer, and its three products, computed serially.
template <class T>
struct Layer
{
  GlobalMatrix<T> x;
  GlobalMatrix<T> w;
  GlobalMatrix<T> dy;
  GlobalMatrix<T> y;
  GlobalMatrix<T> dx;
  GlobalMatrix<T> dw;

  Layer(GlobalMatrix<T> x_, GlobalMatrix<T> w_, GlobalMatrix<T> dy_)
      : x{std::move(x_)},
        w{std::move(w_)},
        dy{std::move(dy_)},
        y{product(x, w)},
        dx{product(dy, transposed(w))},
        dw{product(transposed(x), dy)}
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

/// Sizes with empty and single blocks, then random sizes: mostly uneven, some smaller than the
/// mesh.
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
void load(DistMatrix<T, L, M>& shard, const GlobalMatrix<T>& global)
{
  const auto& b = shard.block();
  const MatrixView<const T> all{global.data.data(), global.shape};
  shard.mesh().engine().upload(all.block(b.rows.offset, b.cols.offset, b.valid()), shard.valid());
}

/// Copies this rank's block, with its padding, to the host.
template <class T, class L, class M>
[[nodiscard]] GlobalMatrix<T> padded_block(const DistMatrix<T, L, M>& shard)
{
  GlobalMatrix<T> block{shard.padded().shape()};
  shard.mesh().engine().download(shard.padded(), MatrixView<T>{block.data.data(), block.shape});
  return block;
}

/// A rank's block of a matrix, with its padding, on the host.
template <class T>
struct Shard
{
  int rank;
  Block block;
  GlobalMatrix<T> padded;
};

template <class T, class L, class M>
[[nodiscard]] Shard<T> shard_of(const DistMatrix<T, L, M>& matrix)
{
  return {matrix.mesh().rank(), matrix.block(), padded_block(matrix)};
}

/// Checks that `accept(i, j, element)`, with global i and j, holds for every element of a shard,
/// and that its padding is zero.
template <class T, class F>
void check_shard(Findings& found, const std::string& what, const Shard<T>& shard, F accept)
{
  const auto& [rank, b, padded] = shard;
  for (std::size_t i = 0; i < padded.shape.rows; ++i)
    for (std::size_t j = 0; j < padded.shape.cols; ++j)
    {
      const bool valid = i < b.rows.valid && j < b.cols.valid;
      const bool good =
          valid ? accept(b.rows.offset + i, b.cols.offset + j, padded(i, j)) : padded(i, j) == T{};
      if (!good)
        return found.check(false, what, ": rank ", rank, " has ", padded(i, j),
                           valid ? " at (" : " in the padding at (", i, ", ", j, ") of its block");
    }
  found.check(true, what);
}
template <class T, class L, class M, class F>
void check_shard(Findings& found, const std::string& what, const DistMatrix<T, L, M>& matrix,
                 F accept)
{
  check_shard(found, what, shard_of(matrix), accept);
}

/// Computes the matrix A for which op(A) is `x`.
template <class T>
[[nodiscard]] GlobalMatrix<T> stored(Op op, const GlobalMatrix<T>& x)
{
  if (op == Op::none) return x;
  auto a = transposed(x);
  if constexpr (ComplexScalar<T>)
    if (op == Op::adjoint)
      for (auto& v : a.data) v = std::conj(v);
  return a;
}

/// How a plan computes its products.
struct Way
{
  const char* name;
  Gathered policy;
  Method method;
  ProductQuanta quanta = {.m = 1, .n = 1, .k = 1};  // in units of the mesh's quantum
};

/// All ways that the backend supports.
template <BackendType B>
[[nodiscard]] std::vector<Way> ways()
{
  std::vector<Way> all{{"again", Gathered::again, Method::collectives},
                       {"kept", Gathered::kept, Method::collectives}};
  if (exposes<B>()) all.push_back({"direct", Gathered::again, Method::direct});
  return all;
}

/// A plan on one rank and its matrices, whatever the scheme, the mesh and the backend.
template <class T>
struct Products
{
  Products(ProductSize s, Op x, Op w, const Way& way)
      : size{s},
        op_x{x},
        op_w{w},
        what{text(s) + ", " + way.name + ": "},
        has_gradients{!ComplexScalar<T> || (x != Op::adjoint && w != Op::adjoint)}
  {
  }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  virtual ~Products() = default;

  virtual void load_operands(const Layer<T>& layer) = 0;
  /// Fills all results with NaN, on which no product may depend.
  virtual void forget_results() = 0;
  virtual void forward(T alpha = T{1}, T beta = T{}) = 0;
  virtual void grad_input(T alpha = T{1}, T beta = T{}) = 0;
  virtual void grad_weight(T alpha = T{1}, T beta = T{}) = 0;
  virtual void backward(T beta = T{}) = 0;
  virtual void backward_weight(T beta = T{}) = 0;
  [[nodiscard]] virtual Shard<T> y() const = 0;
  [[nodiscard]] virtual Shard<T> dx() const = 0;
  [[nodiscard]] virtual Shard<T> dw() const = 0;

  ProductSize size;
  Op op_x;
  Op op_w;
  std::string what;
  bool has_gradients;
};

/// Checks that all products equal the oracle's, with and without factors.
template <class T>
void check_products_exactly(Products<T>& p, const Layer<T>& layer, Findings& found)
{
  const T one{1};
  const T alpha = scalar<T>(2, -1);
  const T beta = scalar<T>(-3, 2);
  p.load_operands(layer);
  const auto is = [&](const char* what, const Shard<T>& shard, const GlobalMatrix<T>& expected,
                      T factor) {
    check_shard(found, p.what + what, shard, [&](std::size_t i, std::size_t j, T got) {
      return got == factor * expected(i, j);
    });
  };

  p.forget_results();
  p.forward();
  is("Y = X W", p.y(), layer.y, one);
  p.forward(alpha, beta);
  is("Y = alpha X W + beta Y", p.y(), layer.y, alpha + beta);
  if (!p.has_gradients) return;

  const auto dx = stored(p.op_x, layer.dx);
  const auto dw = stored(p.op_w, layer.dw);
  p.grad_input();
  is("dX = dY W^T", p.dx(), dx, one);
  p.grad_input(alpha, beta);
  is("dX = alpha dY W^T + beta dX", p.dx(), dx, alpha + beta);

  p.grad_weight();
  is("dW = X^T dY", p.dw(), dw, one);
  p.grad_weight(one, one);
  is("dW = X^T dY + dW", p.dw(), dw, T{2});
  p.grad_weight(alpha, beta);
  is("dW = alpha X^T dY + beta dW", p.dw(), dw, alpha + T{2} * beta);

  p.forward();
  p.forget_results();
  p.backward();
  is("backward's dX", p.dx(), dx, one);
  is("backward's dW", p.dw(), dw, one);
  p.backward(beta);
  is("backward's dX, again", p.dx(), dx, one);
  is("backward's dW + beta dW", p.dw(), dw, one + beta);
  p.backward_weight();
  is("dW of backward without dX", p.dw(), dw, one);
  p.backward_weight(beta);
  is("dW + beta dW of backward without dX", p.dw(), dw, one + beta);
}

/// A layer, its products with more digits, and the products of magnitudes.
template <class T>
struct RoundedLayer
{
  Layer<T> layer;
  Layer<Wide<T>> exact{widened(layer.x), widened(layer.w), widened(layer.dy)};
  Layer<long double> magnitude{magnitudes(layer.x), magnitudes(layer.w), magnitudes(layer.dy)};
};

/// Checks that all products are near the oracle's.
/// @returns what this rank got, with padding
template <class T>
std::vector<T> check_products_within_rounding(Products<T>& p, const RoundedLayer<T>& layer,
                                              Findings& found)
{
  p.load_operands(layer.layer);
  std::vector<T> all;
  const auto is = [&](const char* what, const Shard<T>& shard,
                      const GlobalMatrix<Wide<T>>& expected,
                      const GlobalMatrix<long double>& magnitude, std::size_t inner) {
    const auto unit = 2 * static_cast<long double>(inner + 1) *
                      static_cast<long double>(std::numeric_limits<Real<T>>::epsilon());
    check_shard(found, p.what + what, shard, [&](std::size_t i, std::size_t j, T got) {
      return std::abs(Wide<T>{got} - expected(i, j)) <= unit * magnitude(i, j);
    });
    all.insert(all.end(), shard.padded.data.begin(), shard.padded.data.end());
  };
  const auto dx = stored(p.op_x, layer.exact.dx);
  const auto dw = stored(p.op_w, layer.exact.dw);
  const auto dx_magnitude = stored(p.op_x, layer.magnitude.dx);
  const auto dw_magnitude = stored(p.op_w, layer.magnitude.dw);
  p.forward();
  p.backward();
  is("Y", p.y(), layer.exact.y, layer.magnitude.y, p.size.k);
  is("backward's dX", p.dx(), dx, dx_magnitude, p.size.n);
  is("backward's dW", p.dw(), dw, dw_magnitude, p.size.m);
  p.grad_input();
  p.grad_weight();
  is("dX", p.dx(), dx, dx_magnitude, p.size.n);
  is("dW", p.dw(), dw, dw_magnitude, p.size.m);
  return all;
}

}  // namespace cubist::test
