// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Sizes of attention, and its results by blocks of scores in double on the host. Attention in one
// pass is compared with these, on the host and on a GPU.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/philox.hpp"
#include "cubist/engine/cuda/attention_kernels.hpp"
#include "cubist/engine/host/engine.hpp"
#include "cubist/nn/attention/local_attention.hpp"

namespace cubist::test
{

struct AttentionCase
{
  const char* name;
  std::size_t sequences, queries, keys, heads, group;
  bool causal;
};

[[nodiscard]] inline const std::vector<AttentionCase>& attention_cases()
{
  static const std::vector<AttentionCase> cases{
      {"causal", 2, 70, 70, 2, 1, true},        {"all keys", 1, 33, 33, 2, 1, false},
      {"grouped heads", 1, 66, 66, 4, 2, true}, {"one token", 3, 1, 1, 2, 1, true},
      {"more keys", 2, 5, 69, 2, 2, true},      {"whole tiles", 1, 128, 128, 1, 1, true}};
  return cases;
}

/// A case's matrices in host memory: Q, K and V beside each other, and results in T. Matrices have
/// columns between heads and after them, which no result may touch.
template <class T>
class AttentionProblem
{
 public:
  AttentionProblem(const AttentionCase& c, std::size_t head_size)
      : shape_{.sequences = c.sequences,
               .queries = c.queries,
               .keys = c.keys,
               .key_rows = c.keys,
               .heads = c.heads,
               .group = c.group,
               .head_size = head_size,
               .causal = c.causal,
               .scale = 1 / std::sqrt(static_cast<double>(head_size))},
        q_{numbers(c.sequences * c.queries, c.heads * head_size, 1)},
        k_{numbers(c.sequences * c.keys, c.heads / c.group * head_size, 2)},
        v_{numbers(c.sequences * c.keys, c.heads / c.group * head_size, 3)},
        d_o_{numbers(c.sequences * c.queries, c.heads * head_size, 4)},
        o_{q_.rows, q_.cols},
        dq_{q_.rows, q_.cols},
        dk_{k_.rows, k_.cols},
        dv_{k_.rows, k_.cols},
        l_(c.sequences * c.heads * c.queries),
        d_(l_.size())
  {
  }

  [[nodiscard]] const AttentionShape& shape() const { return shape_; }
  /// The number of elements of L and of D.
  [[nodiscard]] std::size_t rows() const { return l_.size(); }
  [[nodiscard]] cubist::detail::AttentionOperands<T> operands()
  {
    return {shape_, q(), k(), v(), o(), d_o(), l_.data(), d_.data()};
  }
  [[nodiscard]] MatrixView<const T> q() { return q_.view(); }
  [[nodiscard]] MatrixView<const T> k() { return k_.view(); }
  [[nodiscard]] MatrixView<const T> v() { return v_.view(); }
  [[nodiscard]] MatrixView<const T> d_o() { return d_o_.view(); }
  [[nodiscard]] MatrixView<T> o() { return o_.view(); }
  [[nodiscard]] MatrixView<T> dq() { return dq_.view(); }
  [[nodiscard]] MatrixView<T> dk() { return dk_.view(); }
  [[nodiscard]] MatrixView<T> dv() { return dv_.view(); }

  void set_query(std::size_t row, float value)
  {
    for (std::size_t j = 0; j < q_.cols; ++j) q_.view()(row, j) = T{value};
  }

  /// Each result's largest difference from the result by blocks, relative to the largest element.
  [[nodiscard]] std::vector<std::pair<std::string, double>> errors()
  {
    auto q = wide(q_), k = wide(k_), v = wide(v_), d_o = wide(d_o_);
    auto wanted_o = zeros(o_), wanted_dq = zeros(dq_), wanted_dk = zeros(dk_),
         wanted_dv = zeros(dv_);
    std::vector<double> l(l_.size());
    const MatrixView<double> rows{l.data(), {1, l.size()}};
    using In = MatrixView<const double>;
    LocalAttention<double, HostEngine> attention{HostEngine{}};
    attention.forward(shape_, {}, In{q.view()}, In{k.view()}, In{v.view()}, wanted_o.view(), rows);
    attention.backward(shape_, {}, In{q.view()}, In{k.view()}, In{v.view()}, In{wanted_o.view()},
                       In{rows}, In{d_o.view()}, wanted_dq.view(), wanted_dk.view(),
                       wanted_dv.view());
    return {{"O", error(o_, wanted_o)},
            {"dQ", error(dq_, wanted_dq)},
            {"dK", error(dk_, wanted_dk)},
            {"dV", error(dv_, wanted_dv)}};
  }
  /// The error that is allowed, as P, dS and the results are rounded to T.
  [[nodiscard]] static double allowed() { return 4 * double(std::numeric_limits<T>::epsilon()); }

 private:
  template <class V>
  struct Matrix
  {
    Matrix(std::size_t r, std::size_t c)
        : rows{r},
          cols{c},
          ld{c + 16},
          elements(r * (c + 16))
    {
    }
    [[nodiscard]] MatrixView<V> view() { return {elements.data(), rows, cols, ld}; }
    std::size_t rows, cols, ld;
    std::vector<V> elements;
  };

  static Matrix<T> numbers(std::size_t rows, std::size_t cols, std::uint64_t stream)
  {
    Matrix<T> m{rows, cols};
    const Philox random{7, stream};
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j)
        m.view()(i, j) = T{random.symmetric<float>(i * cols + j, 2.0F)};
    return m;
  }
  static Matrix<double> zeros(const Matrix<T>& m) { return {m.rows, m.cols}; }
  static Matrix<double> wide(Matrix<T>& m)
  {
    auto w = zeros(m);
    std::copy(m.elements.begin(), m.elements.end(), w.elements.begin());
    return w;
  }
  static double error(const Matrix<T>& got, const Matrix<double>& wanted)
  {
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < got.elements.size(); ++i)
    {
      const double d = std::abs(double(got.elements[i]) - wanted.elements[i]);
      if (!(d <= difference)) difference = d;  // keeps a NaN
      largest = std::max(largest, std::abs(wanted.elements[i]));
    }
    return difference / std::max(largest, 1e-2);  // with one key, dQ is nothing but rounding
  }

  AttentionShape shape_;
  Matrix<T> q_, k_, v_, d_o_, o_, dq_, dk_, dv_;
  std::vector<float> l_, d_;
};

}  // namespace cubist::test
