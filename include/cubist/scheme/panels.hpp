// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Panels of a matrix on their way along an axis of the mesh, two at a time: one is multiplied while
// the other travels. Both classes live as long as one product; their buffers are the plan's.

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::detail
{

/// Two buffers for panels of one shape.
template <class T, class E>
class PanelBuffers
{
 public:
  explicit PanelBuffers(Shape panel)
      : panel_{panel}, data_{Buffer(panel.size()), Buffer(panel.size())}
  {
  }
  [[nodiscard]] MatrixView<T> operator[](std::size_t t) { return {data_[t % 2].data(), panel_}; }

 private:
  using Buffer = typename E::template Buffer<T>;
  Shape panel_;
  std::array<Buffer, 2> data_;
};

template <class C>
using RequestOf = decltype(std::declval<C&>().async_barrier());

/// Panels that their owners broadcast to everyone along `along`.
template <class T, class C, class E>
class BroadcastPanels
{
 public:
  BroadcastPanels(C& along, const E& engine, PanelBuffers<T, E>& buffers)
      : along_{along}, engine_{engine}, buffers_{buffers}
  {
  }

  /// Sends panel t on its way; `mine` is the owner's.
  void start(std::size_t t, int owner, MatrixView<const T> mine)
  {
    auto& slot = slots_[t % 2];
    if (slot.request) slot.request->wait();
    const MatrixView<T> buffer = buffers_[t];
    slot.mine = along_.rank() == owner;
    slot.panel = slot.mine ? mine : MatrixView<const T>{buffer};
    const bool packed = slot.mine && !mine.contiguous();
    if (packed) engine_.copy(mine, buffer);
    const auto sent = packed || !slot.mine ? MatrixView<const T>{buffer} : mine;
    slot.request = along_.async_broadcast(sent.elements(), buffer.elements(), owner);
  }

  /// Panel t, once it has come.
  [[nodiscard]] MatrixView<const T> operator[](std::size_t t)
  {
    auto& slot = slots_[t % 2];
    if (!slot.mine) slot.request->wait();
    return slot.panel;
  }

  /// Waits until nobody needs this rank's panels any more.
  void finish()
  {
    for (auto& slot : slots_)
      if (slot.request) slot.request->wait();
  }

 private:
  struct Slot
  {
    std::optional<RequestOf<C>> request;
    MatrixView<const T> panel;
    bool mine = false;
  };

  C& along_;
  const E& engine_;
  PanelBuffers<T, E>& buffers_;
  std::array<Slot, 2> slots_;
};

/// Panels that everyone along `along` has a part of, summed to their owners.
template <class T, class C, class E>
class ReducePanels
{
 public:
  /// The owner's panel becomes the sum + beta times what it was.
  ReducePanels(C& along, const E& engine, PanelBuffers<T, E>& parts, PanelBuffers<T, E>& sums,
               T beta)
      : along_{along}, engine_{engine}, parts_{parts}, sums_{sums}, beta_{beta}
  {
  }

  /// Where this rank's part of panel t is to be written.
  [[nodiscard]] MatrixView<T> operator[](std::size_t t)
  {
    finish(slots_[t % 2]);
    return parts_[t];
  }

  /// Sends panel t on its way; `mine` is the owner's.
  void start(std::size_t t, int owner, MatrixView<T> mine)
  {
    auto& slot = slots_[t % 2];
    slot.mine = along_.rank() == owner;
    slot.out = mine;
    slot.sum = slot.mine && beta_ == T{} && mine.contiguous() ? mine : sums_[t];
    slot.request =
        along_.async_reduce(MatrixView<const T>{parts_[t]}.elements(), slot.sum.elements(), owner);
  }

  /// Waits until all panels have come.
  void finish()
  {
    for (auto& slot : slots_) finish(slot);
  }

 private:
  struct Slot
  {
    std::optional<RequestOf<C>> request;
    MatrixView<T> sum;
    MatrixView<T> out;
    bool mine = false;
  };

  void finish(Slot& slot)
  {
    if (!slot.request) return;
    slot.request->wait();
    slot.request.reset();
    if (!slot.mine || slot.sum.data() == slot.out.data()) return;
    const MatrixView<const T> sum = slot.sum;
    if (beta_ == T{}) return engine_.copy(sum, slot.out);
    engine_.map(
        slot.out, [beta = beta_](T s, T y) { return s + beta * y; }, sum,
        MatrixView<const T>{slot.out});
  }

  C& along_;
  const E& engine_;
  PanelBuffers<T, E>& parts_;
  PanelBuffers<T, E>& sums_;
  T beta_;
  std::array<Slot, 2> slots_;
};

}  // namespace cubist::detail
