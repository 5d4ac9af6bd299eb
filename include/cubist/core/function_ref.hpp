// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A reference to a callable. It lets a function that calls it be compiled once, and not for each
// callable.

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

template <class Signature>
class FunctionRef;

/// Refers to a function object that outlives it; unlike std::function, owns and allocates nothing.
template <class R, class... Args>
class FunctionRef<R(Args...)>
{
 public:
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, FunctionRef> &&
           std::is_invocable_r_v<R, F&, Args...>)
      FunctionRef(F&& f)  // NOLINT: implicit, as a parameter's type
      : callable_{const_cast<void*>(static_cast<const void*>(std::addressof(f)))},
        call_{[](void* callable, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(callable))(std::forward<Args>(args)...);
        }}
  {
  }

  R operator()(Args... args) const { return call_(callable_, std::forward<Args>(args)...); }

 private:
  void* callable_;
  R (*call_)(void*, Args...);
};

}  // namespace cubist::CUBIST_ABI::detail
