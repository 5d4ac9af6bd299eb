// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A text whose tokens are its bytes, in two parts: one to learn from, and one that is held out.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cubist/core/error.hpp>
#include <cubist/dataset/token_file.hpp>

namespace text
{

constexpr std::size_t vocabulary = 256;

using Tokens = std::vector<int>;

inline Tokens tokens_of(const std::string& bytes)
{
  Tokens tokens;
  for (const char c : bytes) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

inline std::string bytes_of(std::span<const int> tokens)
{
  std::string bytes;
  for (const int t : tokens) bytes.push_back(static_cast<char>(t));
  return bytes;
}

struct Split
{
  cubist::TokenFile training;
  cubist::TokenFile held_out;
};

/// Reads the first nine tenths of a text, and its last tenth.
/// @throws cubist::DataError for a file that is missing or empty
inline Split read(const std::string& path)
{
  const cubist::TokenFile all{path, cubist::TokenType::uint8};
  const std::uint64_t cut = all.size() - all.size() / 10;
  return {all.part(0, cut), all.part(cut, all.size() - cut)};
}

/// Returns the loss of predicting a text, in bits per byte. Consecutive windows overlap by one
/// byte, so that each byte is predicted once.
/// @param most the maximum number of windows
/// @throws cubist::DataError for a text that is shorter than a window
template <class Model>
double bits_a_byte(Model& model, const cubist::TokenFile& text, std::size_t batch,
                   std::size_t length, std::size_t most)
{
  const std::size_t windows =
      text.size() == 0 ? 0 : std::min<std::size_t>(most, (text.size() - 1) / (length - 1));
  cubist::require<cubist::DataError>(
      windows > 0, "got ", text.path(), ", whose last tenth has ", text.size(),
      " bytes, less than a window of ", length,
      ", so there is nothing to test on; use shorter windows, or a longer text");
  double sum = 0;
  for (std::size_t i = 0; i < windows; i += batch)
  {
    const std::size_t count = std::min(batch, windows - i);
    Tokens ids(count * length);
    for (std::size_t w = 0; w < count; ++w)
      text.copy((i + w) * (length - 1), std::span{ids}.subspan(w * length, length));
    sum += model.evaluate(ids, length) * static_cast<double>(count);
  }
  return sum / static_cast<double>(windows) / std::log(2.0);
}

}  // namespace text
