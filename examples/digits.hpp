// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The handwritten digits of examples/data: 64 pixels of 0 to 16 and a label of 0 to 9 a line.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <cubist/core/error.hpp>

namespace digits
{

constexpr std::size_t pixel_count = 64;
constexpr std::size_t class_count = 10;

struct Image
{
  std::array<double, pixel_count> pixels{};
  int label = 0;
};

using Images = std::vector<Image>;

/// @throws cubist::DataError for a file that is missing, truncated, or holds something else
inline Images read(const std::string& path)
{
  using cubist::DataError;
  using cubist::require;
  std::ifstream file{path};
  require<DataError>(
      file.good(), "cannot open ", path,
      ", so there are no digits to learn from; pass the path of digits.csv with --data");
  Images images;
  std::string line;
  while (std::getline(file, line))
  {
    const auto where = [&] { return path + ", line " + std::to_string(images.size() + 1); };
    require<DataError>(!file.eof(), where(),
                       " has no end, so the file is truncated; take a fresh copy of it");
    Image image;
    const char* at = line.data();
    const char* const end = at + line.size();
    for (std::size_t i = 0; i <= pixel_count; ++i)
    {
      int value = 0;
      const auto [next, error] = std::from_chars(at, end, value);
      const int most = i < pixel_count ? 16 : static_cast<int>(class_count) - 1;
      require<DataError>(error == std::errc{} && value >= 0 && value <= most, where(), ", value ",
                         i + 1, " is not a whole number of 0 to ", most,
                         ", so this is no digit: 64 pixels and a label belong on each line; take a "
                         "fresh copy of the file");
      if (i < pixel_count)
        image.pixels[i] = value;
      else
        image.label = value;
      at = next;
      const bool more = at != end && *at == ',';
      require<DataError>(
          more == (i < pixel_count) && (more || at == end), where(), " has ",
          more ? "more" : "fewer",
          " than 65 values, so this is no digit: 64 pixels and a label belong on each "
          "line; take a fresh copy of the file");
      if (more) ++at;
    }
    images.push_back(image);
  }
  require<DataError>(images.size() >= 10, path, " holds ", images.size(),
                     " digits, too few to train and test on; take a fresh copy of the file");
  return images;
}

struct Split
{
  Images training;
  Images held_out;
};

/// A fifth of the images, drawn by `seed`, is held out; all are normalised by the mean and the
/// deviation of the training part's pixels.
inline Split split(Images images, std::uint64_t seed)
{
  std::shuffle(images.begin(), images.end(), std::mt19937_64{seed});
  const auto cut = images.begin() + static_cast<std::ptrdiff_t>(images.size() / 5);
  Split s{{cut, images.end()}, {images.begin(), cut}};

  double sum = 0;
  double squares = 0;
  for (const auto& image : s.training)
    for (const double p : image.pixels)
    {
      sum += p;
      squares += p * p;
    }
  const auto count = static_cast<double>(s.training.size() * pixel_count);
  const double mean = sum / count;
  const double deviation = std::sqrt(squares / count - mean * mean);
  for (auto* part : {&s.training, &s.held_out})
    for (auto& image : *part)
      for (double& p : image.pixels) p = (p - mean) / deviation;
  return s;
}

/// The numbers 0 to count - 1 in the order of epoch `epoch`.
inline std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed, std::uint64_t epoch)
{
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937_64{seed * 0x9E3779B97F4A7C15U + epoch + 1});
  return order;
}

}  // namespace digits
