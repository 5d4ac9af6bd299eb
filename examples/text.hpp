// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A text whose tokens are its bytes: the lines to learn from, those held out, and windows of both.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <cubist/core/error.hpp>

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
  Tokens training;
  Tokens held_out;
};

/// The first nine tenths of the lines, and the last tenth.
/// @param length of the windows that each part must have
/// @throws cubist::DataError for a file that is missing or too short
inline Split read(const std::string& path, std::size_t length)
{
  std::ifstream file{path, std::ios::binary};
  const std::string bytes{std::istreambuf_iterator<char>{file}, {}};
  const auto lines = std::count(bytes.begin(), bytes.end(), '\n');
  std::size_t end = 0;
  for (std::ptrdiff_t i = 0; i < lines * 9 / 10; ++i) end = bytes.find('\n', end) + 1;
  Split s{tokens_of(bytes.substr(0, end)), tokens_of(bytes.substr(end))};
  cubist::require<cubist::DataError>(
      s.training.size() >= length && s.held_out.size() >= length, path, " has ", bytes.size(),
      " bytes in ", lines, " lines, of which nine tenths or the last one are no window of ", length,
      " bytes, so there is nothing to learn or to test; pass --data a longer text");
  return s;
}

/// Windows of the text for a step, one after the other, the same on every rank.
inline Tokens batch(const Tokens& text, std::size_t count, std::size_t length, std::uint64_t seed,
                    std::uint64_t step)
{
  std::mt19937_64 random{seed * 0x9E3779B97F4A7C15U + step};
  Tokens all;
  for (std::size_t i = 0; i < count; ++i)
  {
    const std::size_t first = random() % (text.size() - length + 1);
    const auto begin = text.begin() + static_cast<std::ptrdiff_t>(first);
    all.insert(all.end(), begin, begin + static_cast<std::ptrdiff_t>(length));
  }
  return all;
}

/// The loss of predicting a text, in bits a byte: consecutive windows, which overlap by one byte,
/// so that each byte is predicted once.
/// @param most windows at the most
template <class Model>
double bits_a_byte(Model& model, const Tokens& text, std::size_t batch_size, std::size_t length,
                   std::size_t most)
{
  const std::size_t windows = std::min(most, (text.size() - 1) / (length - 1));
  double sum = 0;
  Tokens ids;
  for (std::size_t i = 0; i < windows;)
  {
    ids.clear();
    const std::size_t count = std::min(batch_size, windows - i);
    for (const std::size_t end = i + count; i < end; ++i)
    {
      const auto begin = text.begin() + static_cast<std::ptrdiff_t>(i * (length - 1));
      ids.insert(ids.end(), begin, begin + static_cast<std::ptrdiff_t>(length));
    }
    sum += model.evaluate(ids, length) * static_cast<double>(count);
  }
  return sum / static_cast<double>(windows) / std::log(2.0);
}

}  // namespace text
