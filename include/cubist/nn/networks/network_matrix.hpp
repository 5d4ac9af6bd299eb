// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The matrix between two layers of a network. The number of layers is known only at run time. If
// the scheme's `Next` cuts matrices differently, this number decides which of two layouts the
// output has, so the layout is known only at run time, too.

#include <concepts>
#include <cstddef>
#include <iosfwd>
#include <optional>
#include <span>
#include <utility>

#include "cubist/core/error.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/global.hpp"
#include "cubist/nn/losses/loss.hpp"
#include "cubist/scheme/catalogue.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// @throws ShapeError always
template <class Got, class Wanted>
[[noreturn]] void refuse_layout()
{
  throw ShapeError{
      join({"got a matrix with ", Got::to_string(), ", but one with ", Wanted::to_string(),
            " is needed, so their blocks do not correspond; after an odd number of layers the "
            "output is cut as Scheme::Output, after an even one as Scheme::Input, and "
            "scatter_like(y, global) makes a matrix that is cut like the output y"})};
}

/// @throws ShapeError if the layout of the matrix is not `L`
template <class L, class T, class Got, class M>
const DistMatrix<T, L, M>& as_layout(const DistMatrix<T, Got, M>& matrix)
{
  if constexpr (std::same_as<Got, L>)
    return matrix;
  else
    refuse_layout<Got, L>();
}

/// A matrix, a reference to one, or neither. (A std::variant of the matrices and references would
/// take longer to compile in each program.)
template <class M>
struct HeldMatrix
{
  std::optional<M> own = {};
  const M* other = nullptr;

  [[nodiscard]] const M* get() const { return own ? &*own : other; }

  void swap(HeldMatrix& with) noexcept
  {
    own.swap(with.own);
    std::swap(other, with.other);
  }
};

}  // namespace detail

template <NetworkScheme S, class B, RealScalar T>
class NetworkMatrix
{
 public:
  using Mesh = AxisMesh<typename S::Axes, B>;
  /// A matrix of layout L.
  template <class L>
  using Matrix = DistMatrix<T, L, Mesh>;
  /// The output after an even number of layers.
  using Even = Matrix<typename S::Input>;
  /// The output after an odd number of layers.
  using Odd = Matrix<typename S::Next::Input>;
  static_assert(std::same_as<typename S::Next::Next, S>);

  /// Takes a matrix of one of the two layouts.
  template <class L>
  requires std::same_as<Matrix<L>, Even> || std::same_as<Matrix<L>, Odd>
  NetworkMatrix(Matrix<L> matrix)
  {
    held<Matrix<L>>().own.emplace(std::move(matrix));
  }
  /// Refers to a layer's matrix, which must outlive this object. A copy owns its elements, and
  /// refers to no matrix.
  template <class L>
  requires std::same_as<Matrix<L>, Even> || std::same_as<Matrix<L>, Odd>
  explicit NetworkMatrix(const Matrix<L>* matrix) { held<Matrix<L>>().other = matrix; }
  NetworkMatrix(const NetworkMatrix& other) { *this = other; }
  NetworkMatrix(NetworkMatrix&&) = default;
  NetworkMatrix& operator=(const NetworkMatrix& other)
  {
    other.visit([&]<class M>(const M& matrix) {
      if (held<M>().own)
        held<M>().own = matrix;
      else
        *this = NetworkMatrix{M{matrix}};
    });
    return *this;
  }
  NetworkMatrix& operator=(NetworkMatrix&&) = default;
  ~NetworkMatrix() = default;

  /// Replaces std::swap, for which g++ 14 warns that a matrix is uninitialized.
  friend void swap(NetworkMatrix& a, NetworkMatrix& b) noexcept
  {
    a.even_.swap(b.even_);
    a.odd_.swap(b.odd_);
  }

  /// Calls f with the matrix, in the type of its layout.
  template <class F>
  decltype(auto) visit(F f) const
  {
    if (const Even* const even = even_.get()) return f(*even);
    return f(*odd_.get());
  }
  template <class F>
  decltype(auto) visit(F f)
  {
    if (even_.other || odd_.other) *this = NetworkMatrix{std::as_const(*this)};
    // The matrix belongs to this object, which is not const.
    return std::as_const(*this).visit(
        [&]<class M>(const M& m) -> decltype(auto) { return f(const_cast<M&>(m)); });
  }

  /// @throws ShapeError if the matrix has another layout
  template <class L>
  [[nodiscard]] Matrix<L>& as()
  {
    return visit(
        [](auto& m) -> Matrix<L>& { return const_cast<Matrix<L>&>(detail::as_layout<L>(m)); });
  }
  template <class L>
  [[nodiscard]] const Matrix<L>& as() const
  {
    return visit([](const auto& m) -> const Matrix<L>& { return detail::as_layout<L>(m); });
  }

  [[nodiscard]] Shape shape() const
  {
    return visit([](const auto& m) { return m.shape(); });
  }
  [[nodiscard]] std::size_t rows() const { return shape().rows; }
  [[nodiscard]] std::size_t cols() const { return shape().cols; }
  /// The block of the global matrix that this rank holds.
  [[nodiscard]] const Block& block() const
  {
    return visit([](const auto& m) -> const Block& { return m.block(); });
  }
  [[nodiscard]] const Mesh& mesh() const
  {
    return visit([](const auto& m) -> const Mesh& { return m.mesh(); });
  }
  /// This rank's shard, as an xtensor view.
  [[nodiscard]] auto local()
  {
    return visit([](auto& m) { return m.local(); });
  }
  [[nodiscard]] auto local() const
  {
    return visit([](const auto& m) { return m.local(); });
  }
  [[nodiscard]] auto view()
  {
    return visit([](auto& m) { return m.view(); });
  }
  [[nodiscard]] auto view() const
  {
    return visit([](const auto& m) { return m.view(); });
  }

 private:
  template <class M>
  [[nodiscard]] auto& held()
  {
    if constexpr (std::same_as<M, Even>)
      return even_;
    else
      return odd_;
  }

  detail::HeldMatrix<Even> even_;
  detail::HeldMatrix<Odd> odd_;  // empty if both are of one type
};

/// Does not compile: print this rank's elements, y.local(), or gather(y) on rank 0.
template <NetworkScheme S, class B, class T>
std::ostream& operator<<(std::ostream&, const NetworkMatrix<S, B, T>&) = delete;

/// Returns zeros that are cut like `y`.
template <NetworkScheme S, class B, class T>
[[nodiscard]] NetworkMatrix<S, B, T> zeros_like(const NetworkMatrix<S, B, T>& y)
{
  return y.visit([]<class L, class M>(const DistMatrix<T, L, M>& m) -> NetworkMatrix<S, B, T> {
    return DistMatrix<T, L, M>{m.mesh(), m.shape(), m.quanta()};
  });
}

/// Makes `kept` a matrix of this shape and padding, as fit() does for layers, and returns it.
/// @param is_even whether it has the layout of Even @pre a matrix that `kept` holds already has
/// this layout
template <NetworkScheme S, class B, class T>
NetworkMatrix<S, B, T>& fit(std::optional<NetworkMatrix<S, B, T>>& kept,
                            const AxisMesh<typename S::Axes, B>& mesh, bool is_even, Shape shape,
                            Quanta quanta)
{
  if (kept && kept->shape() == shape && kept->view().quanta == quanta) return *kept;
  if (is_even) return kept.emplace(typename NetworkMatrix<S, B, T>::Even{mesh, shape, quanta});
  return kept.emplace(typename NetworkMatrix<S, B, T>::Odd{mesh, shape, quanta});
}
/// Gives `kept` the shape and padding of `like`, and returns it.
/// @pre a matrix that `kept` holds already has the layout of `like`
template <NetworkScheme S, class B, class T>
NetworkMatrix<S, B, T>& fit_like(std::optional<NetworkMatrix<S, B, T>>& kept,
                                 const NetworkMatrix<S, B, T>& like)
{
  if (kept && kept->shape() == like.shape() && kept->view().quanta == like.view().quanta)
    return *kept;
  return kept.emplace(zeros_like(like));
}

/// Returns a matrix that is cut like `y` (M, N), with the elements of rank 0's `global` (M, N): a
/// target for a loss on `y`. All ranks of the mesh call it.
/// @throws ShapeError on all ranks unless rank 0's `global` has the shape of `y`
template <NetworkScheme S, class B, class T, class E>
[[nodiscard]] NetworkMatrix<S, B, T> scatter_like(const NetworkMatrix<S, B, T>& y, const E& global)
{
  auto out = zeros_like(y);
  scatter(global, out.view());
  return out;
}

/// Returns the global matrix on rank 0, and an empty one elsewhere.
template <NetworkScheme S, class B, class T>
[[nodiscard]] auto gather(const NetworkMatrix<S, B, T>& y)
{
  return gather(y.view());
}

/// Computes the loss on an output whose layout is known at run time.
template <NetworkScheme S, class B, class T>
LossValue softmax_cross_entropy(const NetworkMatrix<S, B, T>& y, std::span<const int> labels,
                                NetworkMatrix<S, B, T>& dy)
{
  return y.visit([&]<class L, class M>(const DistMatrix<T, L, M>& m) {
    return softmax_cross_entropy(m, labels, dy.template as<L>());
  });
}

namespace detail
{

/// @throws ShapeError if the layout of the matrix is not `L`
template <class L, NetworkScheme S, class B, class T>
const auto& as_layout(const NetworkMatrix<S, B, T>& matrix)
{
  return matrix.template as<L>();
}

}  // namespace detail

/// @tparam Target NetworkMatrix or DistMatrix
/// @throws ShapeError unless all three agree in shape, layout and mesh
template <NetworkScheme S, class B, class T, class Target>
LossValue mean_squared_error(const NetworkMatrix<S, B, T>& y, const Target& target,
                             NetworkMatrix<S, B, T>& dy)
{
  using Y = NetworkMatrix<S, B, T>;
  if constexpr (std::same_as<Target, Y> || detail::DistMatrixOf<Target, T, typename Y::Mesh>)
    return y.visit([&]<class L, class M>(const DistMatrix<T, L, M>& m) {
      return mean_squared_error(m, detail::as_layout<L>(target), dy.template as<L>());
    });
  else
  {
    detail::require_distributed<Target, T, typename Y::Mesh>();
    return LossValue{};
  }
}

/// Computes the accuracy on an output whose layout is known at run time.
template <NetworkScheme S, class B, class T>
double accuracy(const NetworkMatrix<S, B, T>& y, std::span<const int> labels)
{
  return y.visit([&](const auto& m) { return accuracy(m, labels); });
}

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_LOSS_INSTANCES(prefix, S, B, T)                                                     \
  prefix LossValue mean_squared_error<S, B, T, NetworkMatrix<S, B, T>>(                            \
      const NetworkMatrix<S, B, T>&, const NetworkMatrix<S, B, T>&, NetworkMatrix<S, B, T>&);      \
  prefix LossValue softmax_cross_entropy<S, B, T>(const NetworkMatrix<S, B, T>&,                   \
                                                  std::span<const int>, NetworkMatrix<S, B, T>&);  \
  prefix double accuracy<S, B, T>(const NetworkMatrix<S, B, T>&, std::span<const int>);
CUBIST_FOR_SCHEMES(CUBIST_LOSS_INSTANCES)

}  // namespace cubist::CUBIST_ABI
