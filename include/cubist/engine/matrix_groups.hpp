// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Maps a function over the elements of many small matrices: f(a(i, j), b(i, j), …) for each group
// of matrices a, b, … of one shape. An engine may compute all groups in one launch (Captures in
// engine/engine.hpp). Then f is stored in the engine's memory before each call, and each replay of
// captured work calls `make` again to get its f.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/replay.hpp"
#include "cubist/engine/shapes.hpp"
#include "cubist/engine/span.hpp"

namespace cubist::CUBIST_ABI
{

/// Matrices of one shape. f gets the elements at the same place in all of them.
struct MatrixGroup
{
  static constexpr std::size_t most = 5;  // an optimizer's: weight, master, gradient, two means

  std::size_t rows = 0;
  std::size_t cols = 0;
  void* data[most] = {};      ///< the address of each matrix
  std::size_t ld[most] = {};  ///< the leading dimension of each

  friend bool operator==(const MatrixGroup&, const MatrixGroup&) = default;
};

/// The types of a group's matrices, in their order.
template <class... T>
struct MatrixTypes
{
  static_assert(sizeof...(T) <= MatrixGroup::most);
};

namespace detail
{

template <class First, class... T>
[[nodiscard]] MatrixGroup make_group(MatrixView<First> first, MatrixView<T>... m)
{
  const auto address = [](auto* p) { return const_cast<void*>(static_cast<const void*>(p)); };
  (require_shape(m.shape(), first.shape()), ...);
  return {first.rows(),
          first.cols(),
          {address(first.data()), address(m.data())...},
          {first.ld(), m.ld()...}};
}

/// Calls engine.for_each(f, m…) on the matrices of a group.
template <class E, class F, class... T>
void for_each_in_group(const E& engine, F f, const MatrixGroup& g, MatrixTypes<T...>)
{
  [&]<std::size_t... k>(std::index_sequence<k...>)
  {
    engine.for_each(f, MatrixView<T>{static_cast<T*>(g.data[k]), g.rows, g.cols, g.ld[k]}...);
  }
  (std::index_sequence_for<T...>{});
}

/// Cuts a group into parts of about `elements` each, which a device computes in parallel.
inline void append_parts(std::vector<MatrixGroup>& parts, MatrixGroup group, std::size_t elements,
                         std::span<const std::size_t> sizes)
{
  if (group.rows * group.cols == 0) return;
  const auto matrices = sizes.size();
  if (std::all_of(group.ld, group.ld + matrices,
                  [&](std::size_t ld) { return ld == group.cols || group.rows == 1; }))
    group.cols *= std::exchange(group.rows, 1);
  const bool is_row = group.rows == 1;
  const std::size_t step = is_row ? elements : std::max<std::size_t>(elements / group.cols, 1);
  const std::size_t count = is_row ? group.cols : group.rows;
  for (std::size_t begin = 0; begin < count; begin += step)
  {
    MatrixGroup part = group;
    (is_row ? part.cols : part.rows) = std::min(step, count - begin);
    for (std::size_t k = 0; k < matrices; ++k)
      part.data[k] =
          static_cast<std::byte*>(group.data[k]) + begin * (is_row ? 1 : group.ld[k]) * sizes[k];
    parts.push_back(part);
  }
}

/// Groups of matrices, which an engine keeps in its memory until they change.
template <Engine E>
class MatrixGroups
{
 public:
  /// The elements of a part: enough for a block of threads, and few enough to share the work out.
  static constexpr std::size_t part_elements = 8192;

  /// Computes f(m(i, j), …) for all groups, where f is make().
  /// @param all the name of the work, if one call does all of it
  /// @param span span(i) is the name of the work on group i
  template <class... T, class Make, class Name>
  void for_each(const E& engine, const std::vector<MatrixGroup>& groups, MatrixTypes<T...> types,
                Make make, const SpanName& all, Name span)
  {
    using F = decltype(make());
    if constexpr (Captures<E>)
    {
      const Span whole{engine, all};
      keep(engine, groups, {{sizeof(T)...}});
      const F* f = nullptr;
      if (engine.is_capturing())
      {
        const auto replayed = std::make_shared<ReplayedValue<E, F>>();
        engine.before_replay([engine, replayed, make] { replayed->set(engine, make()); });
        f = replayed->data();
      }
      else
        f = store(engine, make());
      if (count_ > 0)
        engine.for_each_in_all(f, static_cast<const MatrixGroup*>(parts_.data()), count_, types);
    }
    else
    {
      const F f = make();
      for (std::size_t i = 0; i < groups.size(); ++i)
      {
        const Span one{engine, span(i)};
        for_each_in_group(engine, f, groups[i], types);
      }
    }
  }

 private:
  void keep(const E& engine, const std::vector<MatrixGroup>& groups,
            const std::vector<std::size_t>& sizes)
  {
    if (groups == groups_) return;
    std::vector<MatrixGroup> parts;
    for (const auto& group : groups) append_parts(parts, group, part_elements, sizes);
    parts_ = Buffer(parts.size());
    count_ = parts.size();
    using Word = std::uint64_t;
    static_assert(sizeof(MatrixGroup) % sizeof(Word) == 0);
    const Shape words{count_, sizeof(MatrixGroup) / sizeof(Word)};
    engine.upload(MatrixView<const Word>{reinterpret_cast<const Word*>(parts.data()), words},
                  MatrixView<Word>{reinterpret_cast<Word*>(parts_.data()), words});
    groups_ = groups;
  }

  /// Stores f in the engine's memory, at the same address in each call.
  template <class F>
  [[nodiscard]] const F* store(const E& engine, const F& f)
  {
    static_assert(std::is_trivially_copyable_v<F>);
    if (function_.size() < sizeof(F)) function_ = Bytes::uninitialized(sizeof(F));
    auto* const place = reinterpret_cast<F*>(function_.data());
    engine.set(place, f);
    return place;
  }

  using Buffer = typename E::template Buffer<MatrixGroup>;
  using Bytes = typename E::template Buffer<std::byte>;

  std::vector<MatrixGroup> groups_;
  Buffer parts_ = Buffer(0);
  std::size_t count_ = 0;
  Bytes function_ = Bytes(0);
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
