// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The calls of a plan for products: one at a time, and each is a span of a trace, around the local
// products and the waits that are in it.

#include "cubist/core/block.hpp"
#include "cubist/core/call_guard.hpp"
#include "cubist/engine/span.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A call, until the end of the scope.
template <class E>
class ProductCall
{
 public:
  /// @param engine outlives the call
  ProductCall(CallGuard& guard, const E& engine, const SpanName& name)
      : turn_{guard.enter("a plan")}, span_{engine, name}
  {
  }

 private:
  CallGuard::Scope turn_;
  Span<E> span_;
};

/// A member of the plan.
class ProductCalls
{
 public:
  /// @param scheme lives as long as the program
  ProductCalls(const char* scheme, ProductSize size) : scheme_{scheme}, size_{size} {}

  /// "Summa2D forward 4x5x6" for the sizes M, N, K.
  /// @throws ArgumentError while another call is active
  template <class E>
  [[nodiscard]] ProductCall<E> enter(const E& engine, const char* product)
  {
    return {guard_, engine, {scheme_, product, size_.m, size_.n, size_.k}};
  }

 private:
  const char* scheme_;
  ProductSize size_;
  CallGuard guard_;
};

}  // namespace cubist::CUBIST_ABI::detail
