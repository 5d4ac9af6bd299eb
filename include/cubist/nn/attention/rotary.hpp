// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The rotary position embedding rotates each pair of elements (j, j + n/2) of the first n elements
// of a head by the angle p w_j, p being the token's position and w_j the pair's frequency
// (rotary_scaling.hpp). In most models n is the size of a head; the elements after n stay as they
// are. Llama and Hugging Face use these pairs; the paper uses neighbours, (2j, 2j + 1). The two
// differ by a permutation of the columns of W_q and W_k.
//
//   X (B S, H dh), in an engine's memory    row r is at position p0 + r mod S, or where a
//   SequenceCut says
//
// Cosines and sines are in tables with n/2 columns and a row for each row of X. They are computed
// in double.
// Source: Su et al., "RoFormer", arXiv 2104.09864.

#include <cmath>
#include <cstddef>

#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/matrix/sequence_cut.hpp"
#include "cubist/model/rotary_scaling.hpp"
#include "cubist/nn/attention/attention_shape.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// The cosine or sine of the angle of pair j in row i.
template <RealScalar T, bool is_sine>
struct RotaryAngle
{
  std::size_t sequence;
  std::size_t position;
  RotaryFrequency frequency;
  SequenceCut cut = {};
  std::size_t first_row = 0;  // the first row of the rank, in the order of `cut`

  CUBIST_HOST_DEVICE T operator()(std::size_t i, std::size_t j) const
  {
    const std::size_t p = cut.is_cut() ? cut.position(first_row + i) : position + i % sequence;
    const double angle = static_cast<double>(p) * frequency(j);
    return static_cast<T>(is_sine ? std::sin(angle) : std::cos(angle));
  }
  friend bool operator==(const RotaryAngle&, const RotaryAngle&) = default;
};

/// Rotates (a, b), or rotates it back.
template <bool back>
struct RotatePair
{
  template <class T>
  CUBIST_HOST_DEVICE void operator()(T& a, T& b, const T& cos, const T& sin) const
  {
    const T s = back ? -sin : sin;
    const T first = a * cos - b * s;
    b = b * cos + a * s;
    a = first;
  }
};

}  // namespace detail

/// Which elements of a head are rotated, and how fast.
struct RotaryOptions
{
  double base = 10000;         ///< the base of the frequencies
  std::size_t size = 0;        ///< how many elements of a head are rotated; 0 stands for all
  RotaryScaling scaling = {};  ///< the scaling of the frequencies
};

/// Keeps the tables of cosines and sines for the rows of one rank.
template <RealScalar T, Engine E>
class RotaryTable
{
  using A = Accumulator<T>;

 public:
  /// Makes the tables, unless they exist already.
  /// @param first_row  the rank's first row, in the order of `cut`
  /// @pre the number of rotated elements is even, and at most head_size
  void prepare(const E& engine, std::size_t rows, std::size_t sequence, std::size_t position,
               std::size_t head_size, const RotaryOptions& options, const SequenceCut& cut = {},
               std::size_t first_row = 0)
  {
    const detail::RotaryFrequency frequency{
        options.base, options.size == 0 ? head_size : options.size, options.scaling};
    const detail::RotaryAngle<A, false> cosine{sequence, position, frequency, cut, first_row};
    head_size_ = head_size;
    if (rows == rows_ && cosine == of_) return;
    rows_ = rows;
    of_ = cosine;
    for (auto* table : {&cosines_, &sines_}) detail::enlarge(*table, rows * pairs());
    engine.map_indexed(view(cosines_), cosine);
    engine.map_indexed(view(sines_),
                       detail::RotaryAngle<A, true>{sequence, position, frequency, cut, first_row});
  }

  /// Rotates the heads of X in place. With `back` it rotates in the other direction, as the
  /// gradient requires.
  /// @pre prepare was called for X's rows
  template <bool back = false>
  void rotate(const E& engine, MatrixView<T> x, const HeadColumns& columns, std::size_t heads)
  {
    for (std::size_t h = 0; h < heads; ++h)
    {
      const std::size_t at = columns(h, head_size_);
      engine.for_each(detail::RotatePair<back>{}, x.block(0, at, {rows_, pairs()}),
                      x.block(0, at + pairs(), {rows_, pairs()}),
                      MatrixView<const A>{view(cosines_)}, MatrixView<const A>{view(sines_)});
    }
  }

 private:
  using Buffer = typename E::template Buffer<A>;

  [[nodiscard]] MatrixView<A> view(Buffer& buffer) const
  {
    return {buffer.data(), {rows_, pairs()}};
  }
  [[nodiscard]] std::size_t pairs() const { return of_.frequency.size / 2; }

  std::size_t rows_ = 0;
  std::size_t head_size_ = 0;
  detail::RotaryAngle<A, false> of_{1, 0, {0, 2, {}}};
  Buffer cosines_ = Buffer(0);
  Buffer sines_ = Buffer(0);
};

}  // namespace cubist::CUBIST_ABI
