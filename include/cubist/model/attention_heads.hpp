// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The heads of attention. Numbers that are left out follow from the width.

#include <cstddef>

#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI::detail
{

struct AttentionHeads
{
  std::size_t heads;            ///< query heads
  std::size_t key_value_heads;  ///< heads of keys and values; 0: as many as `heads`
  std::size_t size;             ///< features of a head; 0: width / heads

  /// Returns the heads, with the numbers that were left out filled in.
  /// @throws ShapeError for heads that do not fit the width or one another
  [[nodiscard]] AttentionHeads complete(std::size_t width) const
  {
    const std::size_t shared = key_value_heads == 0 ? heads : key_value_heads;
    require<ShapeError>(heads > 0 && heads % shared == 0, "got ", heads, " heads for ", shared,
                        " key-value heads, so some would be shared by more heads than others; use "
                        "a number of heads that is a multiple of the number of key-value heads");
    require<ShapeError>(size > 0 || (width >= heads && width % heads == 0), "got ", heads,
                        " heads for a width of ", width,
                        ", but they do not divide it; use a number that does, or give a head_size");
    return {heads, shared, size == 0 ? width / heads : size};
  }
};

}  // namespace cubist::CUBIST_ABI::detail
