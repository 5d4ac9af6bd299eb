// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The handwritten digits of examples/data: 64 pixels of 0 to 16 and a label of 0 to 9 a line.

#include <algorithm>
#include <array>
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
#include <cubist/io/csv.hpp>

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
  require<DataError>(
      std::ifstream{path}.good(), "cannot open ", path,
      ", so there are no digits to learn from; pass the path of digits.csv with --data");
  const auto table = cubist::read_csv(path);
  require<DataError>(table.cols == pixel_count + 1 || table.rows == 0, path, " has ",
                     table.cols > pixel_count ? "more" : "fewer",
                     " than 65 values on a line, so this is no digit: 64 pixels and a label belong "
                     "there; take a fresh copy of the file");
  Images images(table.rows);
  for (std::size_t row = 0; row < table.rows; ++row)
    for (std::size_t i = 0; i <= pixel_count; ++i)
    {
      const double value = table.values[row * table.cols + i];
      const double most = i < pixel_count ? 16 : class_count - 1;
      require<DataError>(value >= 0 && value <= most && value == std::floor(value), path, ", line ",
                         row + 1, ", value ", i + 1, " is not a whole number of 0 to ", most,
                         ", so this is no digit: 64 pixels and a label belong on each line; take a "
                         "fresh copy of the file");
      if (i < pixel_count)
        images[row].pixels[i] = value;
      else
        images[row].label = static_cast<int>(value);
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

/// Holds out a fifth of the images, drawn by `seed`, and normalises all by the mean and deviation
/// of the training part's pixels.
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
