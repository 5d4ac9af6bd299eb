// SPDX-License-Identifier: BSD-3-Clause
#include <utility>

#include "cubist/engine/stored_weight.hpp"

#include "catch.hpp"
#include "message.hpp"

namespace cubist::test::engine_stored_weight_test
{

/// Element (i, j) of W.
static double value(const StoredView& w, std::size_t i, std::size_t j)
{
  if (w.type == StoredWeights::bfloat16)
    return static_cast<float>(w.as<bfloat16>()(j, w.first + i));
  if (w.type == StoredWeights::half) return static_cast<float>(w.as<half>()(j, w.first + i));
  return static_cast<double>(w.integers()(j, w.first + i)) *
         static_cast<float>(w.scales_of_blocks()(j, (w.first + i) / q8_block));
}

/// A column of n elements.
static std::vector<float> column(std::size_t n)
{
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = std::sin(static_cast<float>(i * i)) * 0.3F;
  return x;
}

/// The rows [offset, offset + count) of a column, stored.
struct Stored
{
  Stored(StoredWeights type, const std::vector<float>& x, std::size_t offset, std::size_t count)
      : weight{type, Range{offset, count, count}, x.size(), 1}
  {
    const Range rows = weight.rows();
    weight.set(rows.offset, 0, MatrixView<const float>{x.data() + rows.offset, rows.size, 1, 1},
               "w");
  }
  StoredWeight weight;
};

TEST_CASE("a block of q8 has the scale of its largest element")
{
  // The scale is 127 / 127 = 1, so integers are stored as they are, and halves round away from 0.
  std::vector<float> x(32, 0);
  x[0] = -127, x[1] = 5, x[2] = 2.5F, x[3] = -2.5F, x[4] = 0.4F, x[31] = 126.6F;
  const Stored s{StoredWeights::q8, x, 0, 32};
  const StoredView& w = s.weight.view();
  CHECK(w.scales_of_blocks()(0, 0).bits() == half{1.0F}.bits());
  const auto q = w.integers();
  CHECK(q(0, 0) == -127);
  CHECK(q(0, 1) == 5);
  CHECK(q(0, 2) == 3);
  CHECK(q(0, 3) == -3);
  CHECK(q(0, 4) == 0);
  CHECK(q(0, 31) == 127);
  CHECK(w.bytes() == 34);
}

TEST_CASE(
    "the elements of a block are off by half a step, and a scale that was rounded down by more")
{
  const auto x = column(75);  // blocks of 32, 32 and 11
  const Stored s{StoredWeights::q8, x, 0, 75};
  const StoredView& w = s.weight.view();
  CHECK(w.padded == 96);
  for (std::size_t i = 0; i < x.size(); ++i)
  {
    CAPTURE(i);
    const double d = static_cast<float>(w.scales_of_blocks()(0, i / 32));
    double largest = 0;
    for (std::size_t l = i / 32 * 32; l < std::min(i / 32 * 32 + 32, x.size()); ++l)
      largest = std::max(largest, std::abs(double{x[l]}));
    CHECK(std::abs(d - largest / 127) <= largest / 127 * 0.0005);
    CHECK(std::abs(value(w, i, 0) - double{x[i]}) <= std::max(0.5001 * d, largest - 127 * d));
  }
}

TEST_CASE("blocks of zeros, and of elements too small for a scale, are zeros")
{
  for (const float size : {0.0F, 1e-7F, 1e-39F})
  {
    const Stored s{StoredWeights::q8, std::vector<float>(32, size), 0, 32};
    CHECK(value(s.weight.view(), 7, 0) == 0);
  }
}

TEST_CASE("a part of a matrix is stored as in the whole matrix, wherever it begins")
{
  const auto x = column(100);
  for (const auto type : {StoredWeights::bfloat16, StoredWeights::half, StoredWeights::q8})
  {
    const Stored whole{type, x, 0, 100};
    for (const std::size_t offset : {0U, 5U, 31U, 32U, 50U, 99U})
      for (const std::size_t count : {0U, 1U, 30U, 100U})
      {
        if (offset + count > 100) continue;
        CAPTURE(to_string(type), offset, count);
        const Stored part{type, x, offset, count};
        const StoredView& w = part.weight.view();
        CHECK(w.padded % q8_block == 0);
        for (std::size_t i = 0; i < count; ++i)
          REQUIRE(value(w, i, 0) == value(whole.weight.view(), offset + i, 0));
      }
  }
}

TEST_CASE("a matrix of 16 bits has rounded elements, and 32 columns of one row")
{
  StoredWeight w{StoredWeights::bfloat16, {0, 1, 1}, 1, 32};
  std::vector<double> row(32);
  for (std::size_t j = 0; j < 32; ++j) row[j] = 1 + static_cast<double>(j) / 512;
  w.set(0, 0, MatrixView<const double>{row.data(), {1, 32}}, "w");
  for (std::size_t j = 0; j < 32; ++j)
    CHECK(value(w.view(), 0, j) == static_cast<float>(bfloat16{row[j]}));
}

TEST_CASE("weights that are not numbers are refused with the name of their matrix")
{
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto type : {StoredWeights::bfloat16, StoredWeights::half, StoredWeights::q8})
    for (const float bad : {nan, infinity, -infinity})
    {
      StoredWeight w{type, {0, 40, 40}, 40, 3};
      std::vector<float> x(120, 1);
      x[3 * 35 + 2] = bad;
      const auto message = message_of<NumericError>([&] {
        w.set(0, 0, MatrixView<const float>{x.data(), {40, 3}}, "up.weight in a file");
      });
      CAPTURE(to_string(type), message);
      CHECK(mentions(message, "got up.weight in a file", "input 35 and output 2 of a rank becomes",
                     "fresh copy"));
    }
  // A half is at most 65504, and so is a block's scale.
  const auto refusal = [](StoredWeights type, float large) {
    StoredWeight w{type, {0, 1, 1}, 1, 1};
    return message_of<NumericError>([&] {
      w.set(0, 0, MatrixView<const float>{&large, {1, 1}}, "up.weight");
    });
  };
  CHECK(mentions(refusal(StoredWeights::half, 7e4F), "got up.weight", "becomes inf"));
  CHECK(mentions(refusal(StoredWeights::q8, 1e7F), "got up.weight", "becomes inf"));
}

}  // namespace cubist::test::engine_stored_weight_test
