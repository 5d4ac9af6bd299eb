// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Declares the host's loops over elements that the compiled library has, for float and double.
// Layers, losses and optimizers use them. They depend on no scheme and no backend, so a program's
// own schemes and backends call them, too. A function that is missing here is compiled with the
// program. The macro CUBIST_COMPILED_LOOPS declares only the loops, for a program that has them
// from elsewhere, as cubist's tests do.

#include <cstddef>
#include <cstdint>
#include <span>

#include "cubist/comm/erased_call.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/philox.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/engine/host/element_loop.hpp"
#include "cubist/engine/host/few_rows_gemm.hpp"
#include "cubist/engine/host/index_loop.hpp"
#include "cubist/engine/host/q8_rows.hpp"
#include "cubist/engine/host/row_fold_loop.hpp"
#include "cubist/engine/host/row_sums.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/nn/attention/attention_functions.hpp"
#include "cubist/nn/dense/activation.hpp"
#include "cubist/nn/dense/activation_passes.hpp"
#include "cubist/nn/norm/norm_functions.hpp"

namespace cubist::CUBIST_ABI::detail
{

template <class F>
struct GatedProduct;
template <class F>
struct GatedSlopes;
template <bool back>
struct RotatePair;
template <RealScalar T, bool is_sine>
struct RotaryAngle;
template <RealScalar T, class Random>
struct DropoutMask;
template <RealScalar T, class Random>
struct AddDropped;
template <Scalar T>
struct InitialValue;
template <RealScalar T>
struct ShiftedPower;
template <RealScalar T, RealScalar V>
struct CrossEntropy;
template <RealScalar T>
struct LogitSlope;
template <RealScalar T, RealScalar V>
struct LabelSlope;
template <RealScalar T, RealScalar V>
struct StoreAtLabel;
template <RealScalar T>
struct SquaredErrorAndSlope;
template <RealScalar T, class Index>
struct ColumnOfMaximum;
struct IsLabel;
template <class T>
struct SgdUpdate;
template <class T>
struct AdamUpdate;

// clang-format off
/// The loops that apply an activation function F.
#define CUBIST_ACTIVATION_LOOPS(prefix, F, T)                                                      \
  prefix struct ElementLoop<AddAndActivate<F>, T, T, const T>;                                     \
  prefix struct ElementLoop<AssignAndAdd<Slope<F>>, T, T, const T, const T>;

/// The loops for elements of type T, whether it is a scalar or not.
#define CUBIST_ELEMENT_LOOPS(prefix, T)                                                            \
  prefix struct RowLoops<T>;                                                                       \
  prefix void combine_bytes<T>(ReduceOp, std::span<const std::byte* const>, std::size_t,           \
                               std::size_t, std::byte*);

/// The loops for scalars of type T.
#define CUBIST_LOOPS(prefix, T)                                                                    \
  CUBIST_ACTIVATION_LOOPS(prefix, Identity, T)                                                     \
  CUBIST_ACTIVATION_LOOPS(prefix, Relu, T)                                                         \
  CUBIST_ACTIVATION_LOOPS(prefix, Sigmoid, T)                                                      \
  CUBIST_ACTIVATION_LOOPS(prefix, Tanh, T)                                                         \
  CUBIST_ACTIVATION_LOOPS(prefix, Silu, T)                                                         \
  CUBIST_ACTIVATION_LOOPS(prefix, Gelu, T)                                                         \
  CUBIST_ACTIVATION_LOOPS(prefix, GeluTanh, T)                                                     \
  CUBIST_ACTIVATION_LOOPS(prefix, CalledActivation, T)                                             \
  CUBIST_ELEMENT_LOOPS(prefix, T)                                                                  \
  prefix struct ColumnSums<T>;                                                                     \
  prefix struct FewRowsGemm<T>;                                                                    \
  prefix struct FewRowsGemm<T, bfloat16>;                                                          \
  prefix struct FewRowsGemm<T, half>;                                                              \
  prefix struct Q8Rows<T>;                                                                         \
  prefix void sum_listed_rows<T>(MatrixView<const T>, const int*, const int*, T*, bool);           \
  prefix struct ElementLoop<Add, T, const T>;                                                      \
  prefix struct ElementLoop<Assign<Sum>, T, const T, const T>;                                     \
  prefix struct ElementLoop<Assign<Scaled<T>>, T, const T>;                                        \
  prefix struct ElementLoop<Assign<AddScaled<T>>, T, const T, const T>;                            \
  prefix struct ElementLoop<Assign<GatedProduct<Silu>>, T, const T, const T>;                      \
  prefix struct ElementLoop<GatedSlopes<Silu>, T, T, const T, const T, const T>;                   \
  prefix struct ElementLoop<SgdUpdate<T>, T, const T, T>;                                          \
  prefix struct ElementLoop<AdamUpdate<T>, T, const T, T, T>;                                      \
  /* attention */                                                                                  \
  prefix struct ElementLoop<RotatePair<false>, T, T, const T, const T>;                            \
  prefix struct ElementLoop<RotatePair<true>, T, T, const T, const T>;                             \
  prefix struct ElementLoop<RaiseMaximum<T>, T, T, const T>;                                       \
  prefix struct ElementLoop<AddScaledSum<T>, T, const T, const T>;                                 \
  prefix struct ElementLoop<MultiplyBy, T, const T>;                                               \
  prefix struct ElementLoop<Assign<LogSumExp<T>>, T, const T, const T>;                            \
  prefix struct ElementLoop<Assign<KeepKeys<T>::Row>, T, const T, const ColumnIndex>;              \
  prefix struct ElementLoop<Assign<KeepKeys<T>::Row>, T, const ColumnIndex>;                       \
  prefix struct ElementLoop<Assign<MaskKeys<T>::Row>, T, const T, const ColumnIndex>;              \
  prefix struct ElementLoop<Assign<ScaleRow<T, false>::Row>, T, const T>;                          \
  prefix struct ElementLoop<Assign<ScaleRow<T, true>::Row>, T, const T>;                           \
  prefix struct ElementLoop<Assign<ShiftedExp<T>::Row>, T, const T>;                               \
  prefix struct ElementLoop<Assign<ScoreSlope<T>::Row>, T, const T, const T>;                      \
  prefix struct ElementLoop<Assign<ScoreSlope<T>::Row>, T, const T, const T, const T>;             \
  prefix struct RowFold<T, T, Larger, Itself, MatrixView<const T>>;                                \
  prefix struct RowFold<T, T, Sum, Itself, MatrixView<const T>>;                                   \
  prefix struct RowFold<T, T, Sum, Multiply, MatrixView<const T>, MatrixView<const T>>;            \
  prefix struct IndexLoop<T, RotaryAngle<T, false>>;                                               \
  prefix struct IndexLoop<T, RotaryAngle<T, true>>;                                                \
  /* norms */                                                                                      \
  prefix struct ElementLoop<Assign<ReciprocalRootOf<T>>, double, const double, const double>;      \
  prefix struct ElementLoop<Assign<Normalize<T>::Row>, T, const T, const T>;                       \
  prefix struct ElementLoop<Assign<Normalize<T>::Row>, T, const T, const T, const T>;              \
  prefix struct ElementLoop<Assign<TimesNormalized<T>::Row>, T, const T, const T>;                 \
  prefix struct ElementLoop<Assign<NormSlope<T>::Row>, T, const T, const T, const T>;              \
  prefix struct RowFold<double, double, Sum, DoubleOf, MatrixView<const T>>;                       \
  prefix struct RowFold<double, double, Sum, SquareOf, MatrixView<const T>>;                       \
  prefix struct RowFold<double, double, Sum, CentredSquareOf, MatrixView<const T>>;                \
  prefix struct RowFold<double, double, Sum, Weighted, MatrixView<const T>, MatrixView<const T>>;  \
  /* initial values and dropout */                                                                 \
  prefix struct IndexLoop<T, GlobalIndexed<InitialValue<T>>>;                                      \
  prefix struct IndexLoop<T, DropoutMask<T, Philox>, const T>;                                     \
  prefix struct IndexLoop<T, AddDropped<T, Philox>, const T, const T>;                             \
  /* losses */                                                                                     \
  prefix struct IndexLoop<T, Scaled<T>, T>;                                                        \
  prefix struct ElementLoop<Assign<LogitSlope<T>>, T, const T>;                                     \
  prefix struct IndexLoop<T, LabelSlope<T, T>, const int>;                                         \
  prefix struct IndexLoop<T, StoreAtLabel<T, T>, const T>;                                         \
  prefix struct FoldLoop<double, Sum, CrossEntropy<T, T>, const int>;                              \
  prefix struct MapFoldLoop<double, Sum, T, SquaredErrorAndSlope<T>, const T, const T>;            \
  prefix struct RowFold<T, T, Sum, ShiftedPower<T>, MatrixView<const T>>;                          \
  prefix struct RowFold<std::int64_t, std::int64_t, Smaller, ColumnOfMaximum<T, std::int64_t>,     \
                        MatrixView<const T>>;

/// The loops of other elements.
#define CUBIST_OTHER_LOOPS(prefix)                                                                 \
  CUBIST_ELEMENT_LOOPS(prefix, int)                                                                \
  CUBIST_ELEMENT_LOOPS(prefix, std::int64_t)                                                       \
  CUBIST_ELEMENT_LOOPS(prefix, std::uint64_t)                                                      \
  CUBIST_ELEMENT_LOOPS(prefix, std::uint8_t)                                                       \
  prefix struct ElementLoop<Assign<MeanOf>, double, const double>;                                 \
  prefix struct IndexLoop<ColumnIndex, ColumnOf>;                                                  \
  prefix struct FoldLoop<double, Sum, IsLabel, const std::int64_t>;
// clang-format on

#if defined CUBIST_COMPILED || defined CUBIST_COMPILED_LOOPS
CUBIST_LOOPS(extern template, float)
CUBIST_LOOPS(extern template, double)
CUBIST_OTHER_LOOPS(extern template)
#endif

}  // namespace cubist::CUBIST_ABI::detail
