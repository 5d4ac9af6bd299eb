// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/host/engine.hpp"
#include "cubist/engine/host/row_sums.hpp"

#include "catch.hpp"

namespace cubist::test::engine_host_row_sums_test
{

/// Lists of no row, one row, and more. The last row of the result is not a target.
struct Lists
{
  std::vector<int> starts{0, 0, 1, 4, 6};
  std::vector<int> rows{2, 0, 4, 4, 1, 3};
  std::vector<int> targets{3, 0, 2, 1};

  [[nodiscard]] RowLists lists() const
  {
    return {targets.size(), starts.data(), rows.data(), targets.data()};
  }
};

TEMPLATE_TEST_CASE("listed rows are summed, and nothing else is written", "", float, double,
                   bfloat16, std::complex<float>)
{
  using T = TestType;
  for (const std::size_t cols : {0U, 1U, 31U, 32U, 75U})
    for (const bool adds : {false, true})
    {
      const std::size_t ld_in = cols + 2, ld = cols + 3;
      std::vector<T> in(5 * ld_in), out(5 * ld), wanted;
      for (std::size_t i = 0; i < in.size(); ++i)
        in[i] = static_cast<T>(static_cast<float>(i % 13));
      for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = static_cast<T>(static_cast<float>(i % 7));
      wanted = out;
      const Lists all;
      for (std::size_t l = 0; l < all.targets.size(); ++l)
        for (std::size_t j = 0; j < cols; ++j)
        {
          T& to = wanted[static_cast<std::size_t>(all.targets[l]) * ld + j];
          Accumulator<T> sum = adds ? Accumulator<T>(to) : Accumulator<T>{};
          for (int k = all.starts[l]; k < all.starts[l + 1]; ++k)
            sum += Accumulator<T>(
                in[static_cast<std::size_t>(all.rows[static_cast<std::size_t>(k)]) * ld_in + j]);
          to = sum;
        }
      HostEngine{}.sum_rows(MatrixView<const T>{in.data(), 5, cols, ld_in}, all.lists(),
                            MatrixView<T>{out.data(), 5, cols, ld}, adds);
      CAPTURE(cols, adds);
      CHECK(out == wanted);
    }
}

TEST_CASE("sums of 16-bit rows are rounded once")
{
  // If it were rounded after each row, 256 + 1 + 1 would stay 256.
  const std::vector<bfloat16> in{bfloat16{256}, bfloat16{1}};
  const std::vector<int> rows{0, 1, 1};
  for (const bool adds : {false, true})
  {
    bfloat16 out{adds ? 256.0F : -1.0F};
    detail::sum_listed_rows(MatrixView<const bfloat16>{in.data(), {2, 1}}, rows.data() + adds,
                            rows.data() + 3, &out, adds);
    CHECK(float{out} == 258);
  }
}

TEMPLATE_TEST_CASE("listed rows are added as the sum of them would be", "", float, double, bfloat16,
                   half, std::complex<float>)
{
  // A rank adds up rows that it has, or gets sums of rows from others: both must have the same
  // bits.
  using T = TestType;
  for (const std::size_t cols : {1U, 31U, 300U, 513U})
  {
    std::vector<T> in(5 * cols), added(5 * cols), sum(5 * cols);
    for (std::size_t i = 0; i < in.size(); ++i)
      in[i] = static_cast<T>(static_cast<float>((i * 7919) % 10007) * 1.37e-3F - 5.1F);
    for (std::size_t i = 0; i < added.size(); ++i)
      added[i] = static_cast<T>(static_cast<float>((i * 104729) % 10007) * 1.7e-2F);
    const Lists all;
    const Shape shape{5, cols};
    auto wanted = added;
    HostEngine{}.sum_rows(MatrixView<const T>{in.data(), shape}, all.lists(),
                          MatrixView<T>{sum.data(), shape}, false);
    for (std::size_t l = 0; l < all.targets.size(); ++l)
      for (std::size_t j = 0; j < cols; ++j)
      {
        const std::size_t at = static_cast<std::size_t>(all.targets[l]) * cols + j;
        wanted[at] = static_cast<T>(Accumulator<T>(wanted[at]) + Accumulator<T>(sum[at]));
      }
    HostEngine{}.sum_rows(MatrixView<const T>{in.data(), shape}, all.lists(),
                          MatrixView<T>{added.data(), shape}, true);
    CAPTURE(cols);
    CHECK((added == wanted));
  }
}

TEST_CASE("sums of rows of another width are refused")
{
  const std::vector<double> in(10);
  std::vector<double> out(12);
  CHECK_THROWS_AS(HostEngine{}.sum_rows(MatrixView<const double>{in.data(), {5, 2}},
                                        Lists{}.lists(), MatrixView<double>{out.data(), {4, 3}},
                                        false),
                  ShapeError);
}

}  // namespace cubist::test::engine_host_row_sums_test
