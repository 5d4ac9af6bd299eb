// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The base class of engines that do something around each call of another engine E, such as tracing
// or timing it. A decorator has E's functions, including the optional ones, and no others.
//
//   template <Engine E>
//   class LoggedEngine : public EngineDecorator<LoggedEngine<E>, E>
//   {
//    public:
//     /// What it returns lives until the call has returned.
//     [[nodiscard]] static Log around(const EngineCall& call) { return Log{call.name}; }
//   };
//
// Functions that do not compute, such as those for spans and captures, remain E's. A decorator that
// changes them declares them itself.

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "cubist/core/block.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/repeated_work.hpp"
#include "cubist/engine/attention.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/span.hpp"
#include "cubist/engine/stored_weight.hpp"

namespace cubist::CUBIST_ABI
{

/// Describes a call of an engine's function that computes or copies.
struct EngineCall
{
  SpanName name;              ///< the function, and the sizes of its operands
  bool is_product = false;    ///< whether it multiplies matrices
  bool transposes_a = false;  ///< whether a product's A is stored transposed
  bool transposes_b = false;  ///< whether a product's B is stored transposed
  /// Bytes of the matrices that the call reads and writes; a product counts all three of its
  /// matrices.
  std::size_t bytes = 0;
  /// The name of the function that a map or a fold applies to elements. The compiler may leave out
  /// namespaces: g++ leaves out those of cubist.
  std::string_view function = {};
};

namespace detail
{

/// The name of a type, as the compiler prints it.
template <class T>
[[nodiscard]] constexpr std::string_view type_name()
{
  constexpr std::string_view all = __PRETTY_FUNCTION__;
  constexpr std::string_view before = "T = ";
  constexpr std::size_t begin = all.find(before) + before.size();
  constexpr std::size_t semicolon = all.find("; std::string_view", begin);  // g++
  constexpr std::size_t end = semicolon == all.npos ? all.rfind(']') : semicolon;
  return all.substr(begin, end - begin);
}

template <class T>
[[nodiscard]] EngineCall product_call(const char* function, Op op_a, Op op_b, T,
                                      MatrixView<const T> a, MatrixView<const T> b, T,
                                      MatrixView<T> c)
{
  return {{function, c.rows(), c.cols(), op_shape(op_a, a.shape()).cols},
          true,
          op_a != Op::none,
          op_b != Op::none,
          bytes_of(a) + bytes_of(b) + bytes_of(c)};
}
template <class T>
[[nodiscard]] EngineCall
product_call(const char* function, Op, Op, T, std::span<const MatrixView<const T>>,
             std::span<const MatrixView<const T>>, T, std::span<const MatrixView<T>> c)
{
  return {{function, c.size()}, true};
}
template <class T>
[[nodiscard]] EngineCall product_call(const char* function, Triangle, Op op, T,
                                      MatrixView<const T> a, T, MatrixView<T> c)
{
  return {{function, c.rows(), c.cols(), op_shape(op, a.shape()).cols},
          true,
          op != Op::none,
          op == Op::none,
          bytes_of(a) + bytes_of(c)};
}
template <class T>
[[nodiscard]] EngineCall product_call(const char* function, MatrixView<const T> x,
                                      const StoredView& w, MatrixView<T> y)
{
  return {.name = {function, y.rows(), y.cols(), x.cols()},
          .is_product = true,
          .transposes_b = true,
          .bytes = bytes_of(x) + w.bytes() + bytes_of(y)};
}
template <class T>
[[nodiscard]] EngineCall product_call(const char* function, const TriangularOperand& how, T,
                                      MatrixView<const T> a, MatrixView<T> b)
{
  return {.name = {function, b.rows(), b.cols(), a.rows()},
          .is_product = true,
          .transposes_a = how.op != Op::none,
          .bytes = bytes_of(a) / 2 + 2 * bytes_of(b)};
}
template <class T>
[[nodiscard]] EngineCall product_call(const char* function, const SymmetricOperand&, T,
                                      MatrixView<const T> a, MatrixView<const T> b, T,
                                      MatrixView<T> c)
{
  return {.name = {function, c.rows(), c.cols(), a.rows()},
          .is_product = true,
          .bytes = bytes_of(a) / 2 + bytes_of(b) + bytes_of(c)};
}
template <class... Rest>
[[nodiscard]] EngineCall product_call(const char* function, const AttentionShape& s, const Rest&...)
{
  return {{function, s.sequences, s.heads, s.queries}, true};
}

/// Describes a call of fused_affine: a product whose bytes also count b and Y.
template <class T>
[[nodiscard]] EngineCall affine_call(const char* function, MatrixView<const T> x,
                                     MatrixView<const T> w, MatrixView<const T> b, MatrixView<T> z)
{
  EngineCall call = product_call(function, Op::none, Op::none, T{}, x, w, T{}, z);
  call.bytes += bytes_of(b);
  return call;
}
template <class T, class F>
[[nodiscard]] EngineCall affine_call(const char* function, MatrixView<const T> x,
                                     MatrixView<const T> w, MatrixView<const T> b, const F&,
                                     MatrixView<T> z, MatrixView<T> y)
{
  EngineCall call = affine_call(function, x, w, b, z);
  call.bytes += bytes_of(y);
  call.function = type_name<F>();
  return call;
}

/// Collects what a pass over matrices does, one argument at a time.
struct PassOperands
{
  Shape largest = {};
  std::size_t bytes = 0;
  std::string_view function = {};

  template <class T>
  void add(const MatrixView<T>& m)
  {
    if (m.size() > largest.size()) largest = m.shape();
    bytes += bytes_of(m);
  }
  /// If there are several functions, the last one is applied to the elements; a fold passes
  /// `combine` before it.
  template <class F>
  requires(std::is_class_v<F>) void add(const F&) { function = type_name<F>(); }
  template <class T>
  requires(!std::is_class_v<T>) void add(const T&) {}
  void add(const RowLists&) {}
};

/// Describes a call that is not a product, by the shape of its largest operand.
template <class... Arguments>
[[nodiscard]] EngineCall pass_call(const char* function, const Arguments&... arguments)
{
  PassOperands all;
  (all.add(arguments), ...);
  return {.name = {function, all.largest.rows, all.largest.cols},
          .bytes = all.bytes,
          .function = all.function};
}

/// The bytes that a call writes to a matrix that it also reads; 0 if it may not write to it.
template <class T>
[[nodiscard]] std::size_t bytes_written(const MatrixView<T>& m)
{
  return std::is_const_v<T> ? 0 : bytes_of(m);
}
/// Describes a call of for_each, which reads all matrices and writes those that are not const.
template <class F, class... T>
[[nodiscard]] EngineCall update_call(const char* function, const F& f, const MatrixView<T>&... m)
{
  EngineCall call = pass_call(function, f, m...);
  call.bytes += (bytes_written(m) + ...);
  return call;
}

/// Describes a call of for_each_row, whose function holds the matrices.
template <class F>
[[nodiscard]] EngineCall rows_call(const char* function, Shape shape, const F&)
{
  return {.name = {function, shape.rows, shape.cols}, .function = type_name<F>()};
}

/// Describes a call that copies several matrices to the host.
template <class D>
[[nodiscard]] EngineCall downloads_call(const char* function, std::span<const Download> all,
                                        const D&)
{
  EngineCall call{.name = {function, all.size()}};
  for (const auto& [from, to] : all) call.bytes += bytes_of(from) + bytes_of(to);
  return call;
}

template <class F, class... T>
[[nodiscard]] EngineCall groups_call(const char* function, const F*, const MatrixGroup*,
                                     std::size_t count, MatrixTypes<T...>)
{
  return {{function, count}, false};
}

}  // namespace detail

/// Calls `Derived::around(call)` around each call of E's functions.
/// @tparam Derived has the static function `around(call)`
template <class Derived, Engine E>
class EngineDecorator : public E
{
 public:
  /// The engine that is decorated.
  using Decorated = E;
  /// Memory of the engine that is decorated.
  template <class T>
  using Buffer = typename E::template Buffer<T>;

#ifndef DOXYGEN
// Calls E's function while the result of `around` exists. The decorator lacks the functions that E
// lacks.
#define CUBIST_DECORATED(function, make_call)                                                      \
  template <class... Arguments, class Inner = E>                                                   \
  auto function(Arguments&&... arguments) const->decltype(std::declval<const Inner&>().function(   \
      std::forward<Arguments>(arguments)...))                                                      \
  {                                                                                                \
    [[maybe_unused]] const auto& around = Derived::around(make_call(#function, arguments...));     \
    return E::function(std::forward<Arguments>(arguments)...);                                     \
  }

  CUBIST_DECORATED(gemm, detail::product_call)
  CUBIST_DECORATED(gemm_batch, detail::product_call)
  CUBIST_DECORATED(syrk, detail::product_call)
  CUBIST_DECORATED(multiply_stored, detail::product_call)
  CUBIST_DECORATED(trmm, detail::product_call)
  CUBIST_DECORATED(trsm, detail::product_call)
  CUBIST_DECORATED(symm, detail::product_call)
  CUBIST_DECORATED(fused_affine, detail::affine_call)
  CUBIST_DECORATED(fused_attention, detail::product_call)
  CUBIST_DECORATED(fused_attention_gradients, detail::product_call)
  CUBIST_DECORATED(copy, detail::pass_call)
  CUBIST_DECORATED(upload, detail::pass_call)
  CUBIST_DECORATED(download, detail::pass_call)
  CUBIST_DECORATED(download_beside, detail::downloads_call)
  CUBIST_DECORATED(fill, detail::pass_call)
  CUBIST_DECORATED(for_each, detail::update_call)
  CUBIST_DECORATED(for_each_in_all, detail::groups_call)
  CUBIST_DECORATED(map, detail::pass_call)
  CUBIST_DECORATED(map_sums, detail::pass_call)
  CUBIST_DECORATED(map_indexed, detail::pass_call)
  CUBIST_DECORATED(map_rows, detail::pass_call)
  CUBIST_DECORATED(column_sums, detail::pass_call)
  CUBIST_DECORATED(column_sums_of, detail::pass_call)
  CUBIST_DECORATED(for_each_row, detail::rows_call)
  CUBIST_DECORATED(sum_rows, detail::pass_call)
  CUBIST_DECORATED(row_fold, detail::pass_call)
  CUBIST_DECORATED(fold, detail::pass_call)
  CUBIST_DECORATED(fold_to, detail::pass_call)
  CUBIST_DECORATED(map_fold, detail::pass_call)
  CUBIST_DECORATED(map_fold_to, detail::pass_call)
#undef CUBIST_DECORATED
#endif

  /// Does the work f() each time, so that the decorator sees all of its calls.
  template <class F>
  requires(detail::RemembersTimes<E>) void repeat(const RepeatedWork&, const F& f) const { f(); }
};

namespace detail
{

template <class E>
concept DecoratesEngine = std::derived_from<E, EngineDecorator<E, typename E::Decorated>>;

}  // namespace detail

/// A decorator has the memory of the engine that it decorates.
template <detail::DecoratesEngine E>
inline constexpr bool in_host_memory<E> = in_host_memory<typename E::Decorated>;
/// A decorator's matrices have elements if the decorated engine's matrices do.
template <detail::DecoratesEngine E>
inline constexpr bool has_elements<E> = has_elements<typename E::Decorated>;
/// A decorator aligns rows as the decorated engine does.
template <detail::DecoratesEngine E>
inline constexpr std::size_t row_alignment<E> = row_alignment<typename E::Decorated>;

}  // namespace cubist::CUBIST_ABI
