// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A communicator that wraps another one, and counts, traces, delays or changes its calls. A
// decorator derives from CommunicatorDecorator and has one or both of these hooks:
//
//   on_call(call, begin)    begin(call) starts the call below, and returns its request
//   on_window(call, open)   open(call) opens the window below; `call` describes its expose
//
// Whatever a hook does before it calls begin or open happens before the call. A hook may also pass
// on a different call, or return a different request or window to observe its waits.

#include <cstddef>
#include <span>
#include <utility>

#include "cubist/comm/call.hpp"
#include "cubist/comm/communicator.hpp"
#include "cubist/comm/window.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI
{

/// The base class of communicator decorators. It passes every call on.
/// @tparam Derived the decorator; its copies share what it records
/// @tparam C the communicator that is decorated
/// @tparam forwards_windows whether ranks of the decorator can expose memory if ranks of C can
template <class Derived, Communicator C, bool forwards_windows = true>
class CommunicatorDecorator : public Collectives<Derived>
{
 public:
  using Decorated = C;  ///< the communicator that is decorated
  /// Whether ranks can expose memory.
  static constexpr bool has_windows = forwards_windows && ExposesMemory<C>;

  /// Decorates `inner`.
  explicit CommunicatorDecorator(C inner)
      : inner_{std::move(inner)}
  {
  }

  [[nodiscard]] int rank() const { return inner_.rank(); }
  [[nodiscard]] int size() const { return inner_.size(); }
  [[nodiscard]] bool remote() const { return inner_.remote(); }

  /// Splits the communicator, and decorates the new one in the same way.
  [[nodiscard]] Derived split(int colour, int key)
  {
    Derived part{self()};
    part.inner_ = inner_.split(colour, key);
    return part;
  }

  /// Splits the communicator by a function, and decorates the new one in the same way.
  template <class F>
  [[nodiscard]] Derived split_by(F colour_of)
  {
    Derived part{self()};
    part.inner_ = cubist::split_by(inner_, colour_of);
    return part;
  }

  template <Element T>
  [[nodiscard]] auto start(const Call<T>& call)
  {
    return self().on_call(call, [this](const Call<T>& c) { return inner_.start(c); });
  }

  [[nodiscard]] bool exposes() const requires has_windows { return inner_.exposes(); }
  [[nodiscard]] int cores() const requires has_windows { return inner_.cores(); }
  /// Moves this rank to another core if that has fewer of the ranks that compute (window.hpp).
  void spread_over_cores(int workers) const requires SpreadsOverCores<C>
  {
    inner_.spread_over_cores(workers);
  }
  /// Opens a window on `mine`. The longest block of any rank has `size` elements.
  template <class T>
  requires has_windows [[nodiscard]] auto open(std::span<T> mine, std::size_t size)
  {
    return self().on_window(expose_call(mine, size), [&](const auto& call) {
      return inner_.open(mine.first(call.send.size()), call.count);
    });
  }

  /// The hook for calls; by default it only starts the call.
  template <Element T, class Begin>
  [[nodiscard]] auto on_call(const Call<T>& call, Begin begin)
  {
    return begin(call);
  }
  /// The hook for windows; by default it only opens the window.
  template <Element T, class Open>
  [[nodiscard]] auto on_window(const Call<T>& call, Open open)
  {
    return open(call);
  }

 protected:
  /// The communicator that is decorated.
  [[nodiscard]] C& inner() { return inner_; }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }

  C inner_;
};

// clang-format off
/// A decorator sums in the order of the communicator that it decorates.
template <class D>
requires requires { typename D::Decorated; }
inline constexpr bool sums_in_order<D> = sums_in_order<typename D::Decorated>;
/// A decorator's messages are independent if the decorated communicator's messages are.
template <class D>
requires requires { typename D::Decorated; }
inline constexpr bool independent_messages<D> = independent_messages<typename D::Decorated>;
// clang-format on

}  // namespace cubist::CUBIST_ABI
