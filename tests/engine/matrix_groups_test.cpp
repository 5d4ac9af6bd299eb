// SPDX-License-Identifier: BSD-3-Clause
#include <numeric>

#include "cubist/engine/host/engine.hpp"
#include "cubist/engine/matrix_groups.hpp"

#include "catch.hpp"

namespace cubist::test::engine_matrix_groups_test
{

struct AddTimes
{
  float factor;
  template <class T>
  void operator()(T& x, const T& y) const
  {
    x += factor * y;
  }
};

/// Memory for `rows` rows of `ld` elements, with the numbers 0, 1, …
static std::vector<float> numbers(std::size_t rows, std::size_t ld)
{
  std::vector<float> v(rows * ld);
  std::iota(v.begin(), v.end(), 0.0F);
  return v;
}

TEST_CASE("a function of groups of matrices maps each group, and nothing else")
{
  const HostEngine engine;
  auto a = numbers(3, 7), b = numbers(1, 5), c = numbers(0, 4);
  const auto y = numbers(3, 7);
  const MatrixView<float> padded{a.data(), 3, 4, 7};
  const MatrixView<float> row{b.data(), {1, 5}};
  const MatrixView<float> none{c.data(), {0, 4}};
  const MatrixView<const float> of_padded{y.data(), 3, 4, 7};
  const MatrixView<const float> of_row{y.data(), {1, 5}};
  const MatrixView<const float> of_none{y.data(), {0, 4}};
  detail::MatrixGroups<HostEngine> groups;
  std::vector<std::size_t> spans;
  groups.for_each(
      engine,
      {detail::make_group(padded, of_padded), detail::make_group(row, of_row),
       detail::make_group(none, of_none)},
      MatrixTypes<float, const float>{}, [] { return AddTimes{2}; }, SpanName{"all groups"},
      [&](std::size_t i) {
        spans.push_back(i);
        return SpanName{"group", i};
      });
  CHECK(spans == std::vector<std::size_t>{0, 1, 2});
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == (i % 7 < 4 ? 3.0F : 1.0F) * float(i));
  for (std::size_t i = 0; i < b.size(); ++i) CHECK(b[i] == 3.0F * float(i));
  CHECK_THROWS_AS(detail::make_group(padded, of_row), ShapeError);
}

TEST_CASE("the parts of groups have every element once, and no more than was asked for")
{
  auto a = numbers(6, 10), b = numbers(6, 9);
  for (const bool contiguous : {true, false})
    for (const std::size_t elements : {1U, 5U, 7U, 24U, 1000U})
    {
      const std::size_t cols = contiguous ? 9 : 8;
      std::vector<MatrixGroup> parts;
      const MatrixView<float> x{a.data(), 6, cols, contiguous ? cols : 10};
      const MatrixView<float> y{b.data(), 6, cols, 9};
      detail::append_parts(parts, detail::make_group(x, y), elements,
                           std::vector{sizeof(float), sizeof(float)});
      std::vector<int> seen(a.size());
      for (const auto& p : parts)
      {
        CHECK((p.rows * p.cols <= elements || p.rows == 1));
        for (std::size_t i = 0; i < p.rows; ++i)
          for (std::size_t j = 0; j < p.cols; ++j)
          {
            const auto at = static_cast<const float*>(p.data[0]) + i * p.ld[0] + j - a.data();
            const auto other = static_cast<const float*>(p.data[1]) + i * p.ld[1] + j - b.data();
            ++seen[static_cast<std::size_t>(at)];
            CHECK(at / std::ptrdiff_t(x.ld()) == other / 9);
            CHECK(at % std::ptrdiff_t(x.ld()) == other % 9);
          }
      }
      for (std::size_t k = 0; k < x.rows() * x.ld(); ++k)
        CHECK(seen[k] == (k % x.ld() < cols ? 1 : 0));
    }
}

}  // namespace cubist::test::engine_matrix_groups_test
