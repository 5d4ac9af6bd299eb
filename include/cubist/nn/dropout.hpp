// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Dropout sets each element to 0 with probability p, and multiplies it by 1/(1-p) otherwise. The
// mask is never stored: forward and backward draw the same random numbers, which depend only on the
// seed, the layer, the step and the element's global position.
//
// Source: Srivastava et al., "Dropout", JMLR 2014 (here elements are scaled while training, not
// afterwards).

#include <cstddef>
#include <cstdint>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/philox.hpp"
#include "cubist/core/random_stream.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/sequence_cut.hpp"
#include "cubist/nn/training_step.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Scales an element, or sets it to 0, by its index in its global matrix of `cols` columns.
/// @tparam Random a Philox, or a type that converts to it on the device
template <RealScalar T, class Random>
struct DropoutMask
{
  Random random;
  double p;
  T scale;
  std::size_t i0;
  std::size_t j0;
  std::size_t cols;
  SequenceCut cut;

  CUBIST_HOST_DEVICE T operator()(std::size_t i, std::size_t j, T x) const
  {
    const std::size_t row = cut.is_cut() ? cut.token(i0 + i) : i0 + i;
    const auto index = row * cols + j0 + j;
    const Philox& numbers = random;
    return numbers.template uniform<double>(index) < p ? T{} : x * scale;
  }
};

/// Computes x + mask y.
template <RealScalar T, class Random>
struct AddDropped
{
  DropoutMask<T, Random> mask;

  CUBIST_HOST_DEVICE T operator()(std::size_t i, std::size_t j, T x, T y) const
  {
    return x + mask(i, j, y);
  }
};

}  // namespace detail

class Dropout
{
 public:
  /// @throws ArgumentError unless 0 <= p < 1 and layer < 2^16
  /// @param draw  the kind of random numbers that the masks use
  explicit Dropout(double p, std::uint64_t seed = 0, std::size_t layer = 0,
                   Draw draw = Draw::dropout)
      : p_{p},
        seed_{seed},
        layer_{layer},
        draw_{draw}
  {
    require<ArgumentError>(
        p >= 0 && p < 1, "got a dropout probability of ", p,
        ", which is not a probability or drops everything; use a number in [0, 1)");
    static_cast<void>(stream(seed, draw, layer));
  }

  /// The probability of setting an element to 0.
  [[nodiscard]] double probability() const { return p_; }

  /// Computes X = mask(step) * X, in a forward or a backward pass.
  /// @param cut  the order of rows; a row gets the mask of its token
  /// @throws ArgumentError unless step < 2^40
  template <RealScalar T, class L, class M>
  void apply(DistMatrix<T, L, M>& x, const TrainingStep& step, const SequenceCut& cut = {}) const
  {
    if (p_ > 0) apply(x, x, step, cut);
  }

  /// Computes Y = mask(step) * X; Y may be X.
  /// @throws ShapeError, MeshError unless X and Y have the same shape and mesh, ArgumentError
  /// unless step < 2^40
  template <RealScalar T, class L, class M>
  void apply(const DistMatrix<T, L, M>& x, DistMatrix<T, L, M>& y, const TrainingStep& step,
             const SequenceCut& cut = {}) const
  {
    check(x, y);
    x.mesh().engine().map_indexed(y.valid(), mask(x.view(), step, cut), x.valid());
  }

  /// Computes Z = X + mask(step) * Y in one pass; Z may be X or Y.
  /// @throws what `apply` throws
  template <RealScalar T, class L, class M>
  void add(const DistMatrix<T, L, M>& x, const DistMatrix<T, L, M>& y, DistMatrix<T, L, M>& z,
           const TrainingStep& step, const SequenceCut& cut = {}) const
  {
    check(x, z), check(y, z);
    const auto dropped = mask(y.view(), step, cut);
    x.mesh().engine().map_indexed(z.valid(), sum_with(dropped), x.valid(), y.valid());
  }

  /// Returns the function that `apply` maps over the indices and elements of this rank's block of
  /// X.
  template <class T, class M>
  [[nodiscard]] auto mask(const DistView<const T, M>& x, const TrainingStep& step,
                          const SequenceCut& cut) const
  {
    using A = Accumulator<T>;
    const Block block = x.block(x.mesh.rank());
    const auto with = [&]<class Random>(const Random& random) {
      return detail::DropoutMask<A, Random>{
          random,       p_, static_cast<A>(1 / (1 - p_)), block.rows.offset, block.cols.offset,
          x.shape.cols, cut};
    };
    const std::uint64_t* const in_memory = step.in_memory();
    const std::uint64_t number = in_memory != nullptr ? 0 : std::uint64_t{step};
    const Philox random = stream(seed_, draw_, layer_, number);
    if constexpr (detail::Captures<typename M::Engine>)
      return with(
          detail::StepRandom{seed_, detail::stream_number(draw_, layer_, 0), number, in_memory});
    else
      return with(random);
  }
  /// Returns the function that `add` maps.
  template <class T, class Random>
  [[nodiscard]] static detail::AddDropped<T, Random>
  sum_with(const detail::DropoutMask<T, Random>& mask)
  {
    return {mask};
  }

 private:
  template <class T, class L, class M>
  static void check(const DistMatrix<T, L, M>& x, const DistMatrix<T, L, M>& y)
  {
    require<ShapeError>(
        x.shape() == y.shape(), "got a matrix of ", x.shape(), " whose dropout goes to one of ",
        y.shape(), ", so their elements do not correspond; make the result with zeros_like(x)");
    require<MeshError>(
        x.mesh() == y.mesh(),
        "got a matrix and a result of dropout on different meshes, so their blocks are on "
        "different ranks; make the result with zeros_like(x)");
  }

  double p_;
  std::uint64_t seed_;
  std::size_t layer_;
  Draw draw_;
};

}  // namespace cubist::CUBIST_ABI
