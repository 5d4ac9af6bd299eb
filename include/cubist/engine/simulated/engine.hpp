// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The engine of simulated ranks, which computes nothing and takes time.
//
//   products    operations / rate of the shape, in the machine's table, on the cores of the rank; a
//               triangle of a symmetric product runs at the rate of the whole product
//   others      bytes of all operands / bandwidth of memory; an operand that repeats one row counts
//               as that row
//
// Each call also takes the machine's `call_seconds`. Values that a program reads are zeros, and
// folds return their initial value. The time of repeated work is computed once.

#include <algorithm>
#include <cstddef>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/repeated_work.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/shapes.hpp"
#include "cubist/engine/simulated/buffer.hpp"
#include "cubist/simulation/address_space.hpp"
#include "cubist/simulation/simulation.hpp"

namespace cubist::CUBIST_ABI
{

/// Computes nothing, and advances the time of a simulated rank.
class SimulatedEngine
{
 public:
  template <class T>
  using Buffer = SimulatedBuffer<T>;

  /// @throws ShapeError unless the shapes fit
  template <Scalar T>
  void gemm(Op op_a, Op op_b, T, MatrixView<const T> a, MatrixView<const T> b, T,
            MatrixView<T> c) const
  {
    multiply<T>(product_size(op_a, a.shape(), op_b, b.shape(), c.shape()));
  }

  /// @throws ShapeError unless the shapes fit
  template <RealScalar T>
  void syrk(Triangle, Op op, T, MatrixView<const T> a, T, MatrixView<T> c) const
  {
    const ProductSize size = syrk_size(op, a.shape(), c.shape());
    if (size.m > 0) multiply<T>(size, double(size.m + 1) / double(2 * size.m));
  }

  template <Element T>
  void copy(MatrixView<const T> in, MatrixView<T> out) const
  {
    pass(out, in);
  }
  template <Element T>
  void upload(MatrixView<const T> in, MatrixView<T> out) const
  {
    pass(out, in);
  }
  template <Element T>
  void download(MatrixView<const T> in, MatrixView<T> out) const
  {
    pass(out, in);
    if (out.size() == 0 || detail::SimulatedAddresses::contains(out.data())) return;
    for (std::size_t i = 0; i < out.rows(); ++i) std::fill_n(out.row(i), out.cols(), T{});
    detail::Simulation::note_zeros();
  }

  template <Element T>
  void fill(MatrixView<T> out, T) const
  {
    pass(out);
  }

  template <class F, class First, class... T>
  void for_each(F, MatrixView<First> first, MatrixView<T>... m) const
  {
    pass(first, m...);
  }
  template <class T, class F, class... In>
  void map(MatrixView<T> out, F, MatrixView<In>... in) const
  {
    pass(out, in...);
  }
  template <class T, class F, class... In>
  void map_sums(MatrixView<T> out, MatrixView<T> sums, F, MatrixView<In>... in) const
  {
    require_shape(sums.shape(), Shape{1, out.cols()});
    pass(out, in...);
  }
  template <class T, class F, class... In>
  void map_indexed(MatrixView<T> out, F, MatrixView<In>... in) const
  {
    pass(out, in...);
  }
  template <class T, class F, class... In>
  void map_rows(MatrixView<T> out, F, MatrixView<In>... in) const
  {
    pass(out, in...);
  }

  template <class T>
  void column_sums(MatrixView<const T> in, MatrixView<T> out) const
  {
    require_shape(out.shape(), Shape{1, in.cols()});
    pass(in);
  }
  /// Reads lists in host memory. The content of simulated lists is unknown, so all rows count as if
  /// they were summed.
  template <Scalar T>
  void sum_rows(MatrixView<const T> in, const RowLists& lists, MatrixView<T> out, bool) const
  {
    require_shape(in.shape(), Shape{in.rows(), out.cols()});
    if (lists.count > 0) pass(in);
  }

  template <class T, class Combine, class F, class First, class... In>
  void row_fold(MatrixView<T> out, T, Combine, F, MatrixView<First> first,
                MatrixView<In>... in) const
  {
    require_shape(out.shape(), Shape{first.rows(), 1});
    pass(first, in...);
  }
  template <class T, class Combine, class F, class First, class... In>
  [[nodiscard]] T fold(T init, Combine, F, MatrixView<First> first, MatrixView<In>... in) const
  {
    pass(first, in...);
    if (first.size() > 0) detail::Simulation::note_zeros();
    return init;
  }

  template <class V, class Combine, class T, class F, class... In>
  [[nodiscard]] V map_fold(V init, Combine, MatrixView<T> out, F, MatrixView<In>... in) const
  {
    pass(out, in...);
    if (out.size() > 0) detail::Simulation::note_zeros();
    return init;
  }

  /// Calls f() the first time, and afterwards takes the time that it took.
  template <class F>
  void repeat(const RepeatedWork& work, const F& f) const
  {
    detail::SimulatedRank& me = rank();
    me.simulation->repeat(me, work, f);
  }

  /// The rank's clock.
  [[nodiscard]] double seconds() const { return rank().clock; }
  /// Starts to write this many bytes to the disk, and returns the time at which the write ends.
  [[nodiscard]] double start_write(double bytes) const
  {
    detail::SimulatedRank& me = rank();
    return me.simulation->write(me, bytes);
  }
  /// Advances this rank's clock to `time` seconds, unless it is already later.
  void wait_until(double time) const
  {
    detail::SimulatedRank& me = rank();
    me.clock = std::max(me.clock, time);
  }

  template <class T>
  [[nodiscard]] MatrixView<T> view(MatrixView<T> m) const
  {
    return m;
  }

 private:
  /// The rank that computes.
  /// @throws ArgumentError outside a launch
  [[nodiscard]] static detail::SimulatedRank& rank()
  {
    auto* const current = detail::SimulatedRank::current();
    require<ArgumentError>(current != nullptr,
                           "got a computation of a simulated engine outside a launch, where no "
                           "clock runs; compute inside the body of launch<Simulated>");
    return *current;
  }

  /// @param part  the part of the product that is computed
  template <Scalar T>
  static void multiply(ProductSize size, double part = 1)
  {
    detail::SimulatedRank& me = rank();
    detail::Simulation& simulation = *me.simulation;
    const double before = me.clock;
    simulation.compute(
        me,
        simulation.product_seconds(element_name<Real<T>>(), sizeof(Real<T>), size, part) *
            (ComplexScalar<T> ? 4 : 1),
        simulation.threads());
    me.report.products += me.clock - before;
    me.report.flops +=
        (ComplexScalar<T> ? 8 : 2) * part * double(size.m) * double(size.n) * double(size.k);
  }

  /// Takes the time of one pass over these operands.
  /// @throws ShapeError unless all operands have the same shape
  template <class First, class... T>
  static void pass(MatrixView<First> first, MatrixView<T>... m)
  {
    (require_shape(m.shape(), first.shape()), ...);
    detail::SimulatedRank& me = rank();
    const double before = me.clock;
    const auto bytes = static_cast<double>((detail::bytes_of(first) + ... + detail::bytes_of(m)));
    me.simulation->compute(me, me.simulation->pass_seconds(bytes));
    me.report.passes += me.clock - before;
  }
};

static_assert(Engine<SimulatedEngine>);
static_assert(detail::RemembersTimes<SimulatedEngine>);
static_assert(detail::WritesInTime<SimulatedEngine>);

/// The matrices of a simulation have no elements.
template <>
inline constexpr bool has_elements<SimulatedEngine> = false;

}  // namespace cubist::CUBIST_ABI
