// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Panels of a matrix that are broadcast or reduced along an axis of the mesh, a few at a time: one
// is multiplied while the others are in flight. BroadcastPanels and ReducePanels live as long as
// one product; the plan owns the buffers.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "cubist/algorithm/gather/pieces.hpp"
#include "cubist/algorithm/local_product.hpp"
#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/operand.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// How one dimension of a matrix is cut into panels, if `owners` ranks hold equal parts of it.
/// There are `blocks` blocks of `block` indices, and each is cut into slices of at most `depth`.
/// Successive panels are slices of successive blocks, so that all owners send at once.
struct PanelCut
{
  std::size_t owners = 1;
  std::size_t blocks = 1;
  std::size_t block = 0;
  std::size_t depth = 0;

  /// The number of panels; each block has at least one, even if it is empty.
  [[nodiscard]] std::size_t count() const
  {
    return blocks * (depth < block ? ceil_div(block, depth) : 1);
  }
  [[nodiscard]] int owner(std::size_t t) const
  {
    return static_cast<int>(t % blocks * owners / blocks);
  }
  /// The index at which panel t begins in its owner's part.
  [[nodiscard]] std::size_t offset(std::size_t t) const
  {
    return t % blocks % (blocks / owners) * block + t / blocks * depth;
  }
  [[nodiscard]] std::size_t size(std::size_t t) const
  {
    return std::min(depth, block - t / blocks * depth);
  }
};

/// A rank's part of a matrix op(A), cut into panels of columns or of rows.
template <class T>
struct Panels
{
  Operand<T> mine;
  Dimension of;
  PanelCut cut;

  [[nodiscard]] std::size_t count() const { return cut.count(); }
  [[nodiscard]] int owner(std::size_t t) const { return cut.owner(t); }
  /// Returns panel t if this rank owns it; on other ranks, another panel of the same shape.
  [[nodiscard]] Operand<T> panel(std::size_t t) const
  {
    return of == Dimension::cols ? mine.block(0, cut.offset(t), {mine.rows(), cut.size(t)})
                                 : mine.block(cut.offset(t), 0, {cut.size(t), mine.cols()});
  }
};

/// Buffers for panels of no more than a given shape, used in turn.
template <class T, class E>
class PanelBuffers
{
 public:
  /// The size of the array that holds the requests in flight.
  static constexpr std::size_t most = 32;

  /// @throws ArgumentError for none, or for more than `most`
  PanelBuffers(Shape largest, std::size_t count)
      : elements_{largest.size()},
        data_(count, Buffer(largest.size()))
  {
    require<ArgumentError>(count >= 1 && count <= most, "got ", count,
                           " buffers for panels, but 1 to ", most,
                           " panels can be in flight at once; use a number in that range");
  }

  [[nodiscard]] std::size_t count() const { return data_.size(); }
  /// Returns the buffer of panel t. After `release`, the next call allocates it.
  [[nodiscard]] MatrixView<T> buffer(std::size_t t, Shape panel)
  {
    return {enlarge(data_[t % count()], elements_), panel};
  }

  /// The number of allocated bytes.
  [[nodiscard]] std::size_t bytes() const
  {
    std::size_t sum = 0;
    for (const Buffer& data : data_) sum += data.size() * sizeof(T);
    return sum;
  }
  void release()
  {
    for (Buffer& data : data_) data = Buffer(0);
  }

 private:
  using Buffer = typename E::template Buffer<T>;
  std::size_t elements_;
  std::vector<Buffer> data_;
};

/// Panels that their owners broadcast to all ranks of `along`, with as many in flight as there are
/// buffers.
template <class T, class C, class E>
class BroadcastPanels
{
 public:
  using Source = Panels<const T>;

  BroadcastPanels(C& along, const E& engine, PanelBuffers<T, E>& buffers, const Source& source)
      : along_{along},
        engine_{engine},
        buffers_{buffers},
        source_{source}
  {
  }

  /// Starts to broadcast the first panels, unless this has been done.
  void start()
  {
    while (started_ < std::min(buffers_.count(), source_.count())) start(started_);
  }

  /// Waits until panel t has arrived from its owner, and keeps the broadcasts of the next ones in
  /// flight, which reuse the buffer of the previous panel.
  /// @pre panels are taken in order
  [[nodiscard]] Operand<const T> broadcast(std::size_t t)
  {
    start();
    if (started_ < std::min(t + buffers_.count(), source_.count())) start(started_);
    auto& slot = slot_of(t);
    if (!slot.mine) slot.request->wait();
    return slot.panel;
  }

  /// Waits until no rank reads this rank's panels.
  void finish()
  {
    for (auto& slot : slots_)
      if (slot.request) slot.request->wait();
  }

 private:
  struct Slot
  {
    std::optional<RequestOf<C>> request;
    Operand<const T> panel;
    bool mine = false;
  };

  [[nodiscard]] Slot& slot_of(std::size_t t) { return slots_[t % buffers_.count()]; }

  void start(std::size_t t)
  {
    auto& slot = slot_of(t);
    if (slot.request) slot.request->wait();
    const Operand<const T> panel = source_.panel(t);
    const MatrixView<const T> mine = panel.stored();
    const MatrixView<T> buffer = buffers_.buffer(t, mine.shape());
    slot.mine = along_.rank() == source_.owner(t);
    slot.panel = slot.mine ? panel : panel.with(MatrixView<const T>{buffer});
    const bool packed = slot.mine && !mine.contiguous();
    if (packed) engine_.copy(mine, buffer);
    const auto sent = packed || !slot.mine ? MatrixView<const T>{buffer} : mine;
    slot.request = along_.async_broadcast(sent.elements(), buffer.elements(), source_.owner(t));
    started_ = t + 1;
  }

  C& along_;
  const E& engine_;
  PanelBuffers<T, E>& buffers_;
  Source source_;
  std::array<Slot, PanelBuffers<T, E>::most> slots_;
  std::size_t started_ = 0;
};

/// Panels to be summed: every rank of `along` has one term of each, and its owner gets the sum.
template <class T, class C, class E>
class ReducePanels
{
 public:
  using Target = Panels<T>;

  /// The owner's panel becomes the sum + beta times its former value.
  ReducePanels(C& along, const E& engine, PanelBuffers<T, E>& parts, PanelBuffers<T, E>& sums,
               T beta, const Target& target)
      : along_{along},
        engine_{engine},
        parts_{parts},
        sums_{sums},
        beta_{beta},
        target_{target}
  {
  }

  /// The memory to which this rank writes its term of panel t, added to part_beta() times what is
  /// there. If it is the only rank, this is the panel itself.
  [[nodiscard]] Operand<T> part(std::size_t t)
  {
    const Operand<T> panel = target_.panel(t);
    if (is_alone()) return panel;
    finish(slot_of(t));
    return panel.with(parts_.buffer(t, panel.stored().shape()));
  }

  [[nodiscard]] T part_beta() const { return is_alone() ? beta_ : T{}; }

  /// Starts to sum the terms of panel t on its owner.
  void reduce(std::size_t t)
  {
    if (is_alone()) return;
    auto& slot = slot_of(t);
    const MatrixView<T> mine = target_.panel(t).stored();
    slot.mine = along_.rank() == target_.owner(t);
    slot.out = mine;
    slot.sum =
        slot.mine && beta_ == T{} && mine.contiguous() ? mine : sums_.buffer(t, mine.shape());
    const MatrixView<const T> part = parts_.buffer(t, mine.shape());
    slot.request = along_.async_reduce(part.elements(), slot.sum.elements(), target_.owner(t));
  }

  /// Waits until all sums are complete.
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

  [[nodiscard]] bool is_alone() const { return along_.size() == 1; }
  [[nodiscard]] Slot& slot_of(std::size_t t) { return slots_[t % parts_.count()]; }

  void finish(Slot& slot)
  {
    if (!slot.request) return;
    slot.request->wait();
    slot.request.reset();
    if (!slot.mine || slot.sum.data() == slot.out.data()) return;
    add_scaled<E, T>(engine_, slot.sum, beta_, slot.out, slot.out);
  }

  C& along_;
  const E& engine_;
  PanelBuffers<T, E>& parts_;
  PanelBuffers<T, E>& sums_;
  T beta_;
  Target target_;
  std::array<Slot, PanelBuffers<T, E>::most> slots_;
};

}  // namespace cubist::CUBIST_ABI::detail
