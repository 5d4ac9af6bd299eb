// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The matrix between two layers of a network. The number of layers is known at run time only, and
// so, with a scheme whose `Next` cuts differently, is the layout of the output: one of two.

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/dist/global.hpp"
#include "cubist/nn/loss.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist
{

template <Scheme S, class B, RealScalar T>
class Activations
{
 public:
  using Mesh = AxisMesh<typename S::Axes, B>;
  template <class L>
  using Matrix = DistMatrix<T, L, Mesh>;
  using Even = Matrix<typename S::Input>;
  using Odd = Matrix<typename S::Next::Input>;
  static_assert(std::same_as<typename S::Next::Next, S>);

  template <class L>
  requires std::same_as<Matrix<L>, Even> || std::same_as<Matrix<L>, Odd>
  Activations(Matrix<L> matrix) : matrix_{std::move(matrix)}
  {
  }

  /// Calls f with the matrix, whose type has the layout.
  template <class F>
  decltype(auto) visit(F f)
  {
    return std::visit(f, matrix_);
  }
  template <class F>
  decltype(auto) visit(F f) const
  {
    return std::visit(f, matrix_);
  }

  /// @throws ShapeError if the matrix has another layout
  template <class L>
  [[nodiscard]] Matrix<L>& as()
  {
    require_layout<L>();
    return std::get<Matrix<L>>(matrix_);
  }
  template <class L>
  [[nodiscard]] const Matrix<L>& as() const
  {
    require_layout<L>();
    return std::get<Matrix<L>>(matrix_);
  }

  [[nodiscard]] Shape shape() const
  {
    return visit([](const auto& m) { return m.shape(); });
  }
  [[nodiscard]] std::size_t rows() const { return shape().rows; }
  [[nodiscard]] std::size_t cols() const { return shape().cols; }
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
  template <class L>
  void require_layout() const
  {
    visit([]<class Got>(const DistMatrix<T, Got, Mesh>&) {
      if constexpr (!std::same_as<Got, L>)
        require<ShapeError>(false, "got a matrix with ", Got::to_string(),
                            ", but this layer's has ", L::to_string(),
                            ", so their blocks do not correspond; after an odd number of "
                            "layers the output is cut as Scheme::Output, after an even one as "
                            "Scheme::Input");
    });
  }

  std::conditional_t<std::same_as<Even, Odd>, std::variant<Even>, std::variant<Even, Odd>> matrix_;
};

/// Zeros, cut as `y` is.
template <Scheme S, class B, class T>
[[nodiscard]] Activations<S, B, T> zeros_like(const Activations<S, B, T>& y)
{
  return y.visit([]<class L, class M>(const DistMatrix<T, L, M>& m) -> Activations<S, B, T> {
    return DistMatrix<T, L, M>{m.mesh(), m.shape()};
  });
}

/// The global matrix on rank 0, and an empty one elsewhere.
template <Scheme S, class B, class T>
[[nodiscard]] auto gather(const Activations<S, B, T>& y)
{
  return gather(y.view());
}

template <Scheme S, class B, class T>
double softmax_cross_entropy(const Activations<S, B, T>& y, std::span<const int> labels,
                             Activations<S, B, T>& dy)
{
  return y.visit([&]<class L, class M>(const DistMatrix<T, L, M>& m) {
    return softmax_cross_entropy(m, labels, dy.template as<L>());
  });
}

template <Scheme S, class B, class T>
double mean_squared_error(const Activations<S, B, T>& y, const Activations<S, B, T>& target,
                          Activations<S, B, T>& dy)
{
  return y.visit([&]<class L, class M>(const DistMatrix<T, L, M>& m) {
    return mean_squared_error(m, target.template as<L>(), dy.template as<L>());
  });
}

template <Scheme S, class B, class T>
double accuracy(const Activations<S, B, T>& y, std::span<const int> labels)
{
  return y.visit([&](const auto& m) { return accuracy(m, labels); });
}

}  // namespace cubist
