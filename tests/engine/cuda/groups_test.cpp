// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/cuda/groups.hpp"

#include "catch.hpp"
#include "host_kernels.hpp"

namespace cubist::test::engine_cuda_groups_test
{

struct AddTimes
{
  float factor;
  template <class X>
  void operator()(X& x, const float& y) const
  {
    x = x + factor * y;
  }
};

/// Whether all parts of two matrices, the second of which is padded, are updated just once.
template <class T>
bool updates_once(std::size_t rows, std::size_t cols, std::size_t part, std::size_t offset)
{
  const std::size_t ld = cols + 3;
  std::vector<T> x(offset + rows * cols, T{1});
  std::vector<float> y(rows * ld);
  std::iota(y.begin(), y.end(), 0.0F);
  const auto group = cubist::detail::make_group(MatrixView<T>{x.data() + offset, {rows, cols}},
                                                MatrixView<const float>{y.data(), rows, cols, ld});
  std::vector<MatrixGroup> parts;
  cubist::detail::append_parts(parts, group, part, std::vector{sizeof(T), sizeof(float)});
  const AddTimes f{2};
  if (!parts.empty())
    KernelEngine{}.for_each_in_all(&f, parts.data(), parts.size(), MatrixTypes<T, const float>{});
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j)
      if (x[offset + i * cols + j] != T{1 + 2 * static_cast<float>(i * ld + j)}) return false;
  return true;
}

TEST_CASE("the kernel of groups updates every element of all matrices once")
{
  for (const std::size_t offset : {0U, 1U})
    for (const auto& [rows, cols] : std::vector<Shape>{
             {1, 1}, {1, 7}, {1, 40}, {3, 1}, {5, 8}, {40, 3}, {3, 300}, {0, 4}, {4, 0}})
      for (const std::size_t part : {16U, 8192U})
      {
        CAPTURE(rows, cols, part, offset);
        CHECK(updates_once<float>(rows, cols, part, offset));
        CHECK(updates_once<bfloat16>(1, cols % 20, part, offset));
      }
}

}  // namespace cubist::test::engine_cuda_groups_test
