// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A value that captured work reads (Captures in engine/engine.hpp).

#include <type_traits>

#include "cubist/engine/engine.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A value in the engine's memory that replayed work reads.
template <Captures E, class V>
class ReplayedValue
{
  static_assert(std::is_trivially_copyable_v<V>);

 public:
  void set(const E& engine, const V& value) { engine.set(buffer_.data(), value); }
  /// The address of the value in the engine's memory.
  [[nodiscard]] const V* data() const { return buffer_.data(); }

 private:
  using Buffer = typename E::template Buffer<V>;

  Buffer buffer_ = Buffer::uninitialized(1);  // a buffer of zeros would be cleared in each replay
};

}  // namespace cubist::CUBIST_ABI::detail
