// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How a model that is only evaluated stores the weights of its linear layers, and how many bytes
// that takes.
//
//   bfloat16, half   16 bits per element
//   q8               blocks of 32 elements along K: 8-bit integers q, and a half as the scale d;
//                    an element is d q. The layout is known as Q8_0
//
// A block of x has d = max |x| / 127, rounded to a half, and q = x / d, rounded to the nearest
// integer. Blocks begin at multiples of 32 in the global matrix, so they are the same on every
// mesh. The last block of a column may be shorter.
// Source: llama.cpp, ggml-quants.c, quantize_row_q8_0.

#include <cstddef>
#include <cstdint>
#include <string>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI
{

#ifndef __clang__
// g++ warns about enumerators with the names of types, although the enumeration is scoped.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
/// How the weights of linear layers are stored.
enum class StoredWeights : std::uint8_t
{
  scalar,    ///< in the network's scalar type
  bfloat16,  ///< in 16 bits, rounded
  half,      ///< in 16 bits, rounded
  q8         ///< in 8 bits, with a scale for every 32
};
#ifndef __clang__
#pragma GCC diagnostic pop
#endif

/// The elements of a block of StoredWeights::q8.
inline constexpr std::size_t q8_block = 32;

/// Returns "scalar", "bfloat16", "half" or "q8".
[[nodiscard]] inline std::string to_string(StoredWeights weights)
{
  constexpr const char* names[] = {"scalar", "bfloat16", "half", "q8"};
  return names[static_cast<std::size_t>(weights)];
}

/// Returns the way to store weights that has this name. Programs that compute in float call the
/// scalar "float".
/// @throws ArgumentError for an unknown name
[[nodiscard]] inline StoredWeights stored_weights_of(const std::string& name)
{
  for (const auto weights :
       {StoredWeights::scalar, StoredWeights::bfloat16, StoredWeights::half, StoredWeights::q8})
    if (name == to_string(weights)) return weights;
  if (name == "float") return StoredWeights::scalar;
  throw ArgumentError{"got weights stored as " + name +
                      ", which is not a way to store them; use float, bfloat16, half or q8"};
}

/// Returns the size of a stored weight in bytes.
/// @param w (in, out)
/// @param scalar_bytes the size of one element of the network
[[nodiscard]] constexpr double stored_bytes(StoredWeights weights, Shape w,
                                            std::size_t scalar_bytes)
{
  const auto elements = static_cast<double>(w.rows) * static_cast<double>(w.cols);
  if (weights == StoredWeights::scalar) return elements * static_cast<double>(scalar_bytes);
  if (weights != StoredWeights::q8) return elements * 2;
  return elements + 2 * static_cast<double>(ceil_div(w.rows, q8_block)) * double(w.cols);
}

}  // namespace cubist::CUBIST_ABI
