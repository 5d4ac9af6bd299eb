// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/cuda/operations.hpp"

#include "../../cuda/engine_operations.hpp"
#include "catch.hpp"
#include "host_kernels.hpp"

namespace cubist::test::engine_cuda_operations_test
{

static_assert(Engine<KernelEngine>);

template <class T>
void equals_the_host(Shape shape, std::size_t gap)
{
  CAPTURE(shape, gap, element_name<T>());
  Results<T> got;
  Results<T> wanted;
  maps_and_folds<KernelEngine, T>(got, shape, gap);
  maps_and_folds<HostEngine, T>(wanted, shape, gap);
  REQUIRE(got.size() == wanted.size());
  for (std::size_t r = 0; r < got.size(); ++r)
  {
    CAPTURE(got[r].first, r);
    CHECK(got[r].second == wanted[r].second);
  }
}

TEMPLATE_TEST_CASE("the kernels' maps, sums and folds equal those of the host", "", float, double,
                   std::complex<double>, bfloat16)
{
  for (const Shape shape : {Shape{1, 1}, Shape{13, 7}, Shape{37, 104}, Shape{300, 1}, Shape{1, 999},
                            Shape{2, 1500}, Shape{700, 33}, Shape{0, 5}, Shape{5, 0}})
    for (const std::size_t gap : {0U, 3U, 8U}) equals_the_host<TestType>(shape, gap);
}

/// Numbers whose sum depends on the order.
template <class T>
std::vector<T> rough_numbers(std::size_t n)
{
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = static_cast<T>(static_cast<float>((i * 7919) % 10007) * 1.37e-3F - 5.1F);
  return x;
}

TEMPLATE_TEST_CASE("the kernels add listed rows with the same bits as the host", "", float, double,
                   std::complex<float>, bfloat16, cubist::half)
{
  using T = TestType;
  const Shape shape{7, 45};
  const auto in = rough_numbers<T>(shape.size());
  const std::vector<int> starts{0, 0, 1, 4, 9}, rows{2, 0, 4, 4, 1, 3, 6, 5, 2},
      targets{3, 0, 2, 1};
  const RowLists lists{targets.size(), starts.data(), rows.data(), targets.data()};
  const auto sums = [&](const auto& engine, bool adds) {
    std::vector<T> out(rough_numbers<T>(2 * shape.size()));
    out.erase(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(shape.size()));
    engine.sum_rows(MatrixView<const T>{in.data(), shape}, lists, MatrixView<T>{out.data(), shape},
                    adds);
    return out;
  };
  for (const bool adds : {false, true})
    CHECK(sums(KernelEngine{}, adds) == sums(HostEngine{}, adds));
}

TEST_CASE("several blocks share a column, a row, or all elements, and their parts are folded")
{
  equals_the_host<double>({5000, 3}, 0);
  equals_the_host<double>({2, 20000}, 4);
  equals_the_host<double>({4100, 20}, 4);
}

TEST_CASE("two threads share each of many short rows") { equals_the_host<double>({16500, 40}, 4); }

template <class T>
struct AllSums
{
  std::vector<T> of_columns;
  std::vector<T> of_rows;
  T of_all;
  friend bool operator==(const AllSums&, const AllSums&) = default;
};

/// The sums of a matrix whose first element has the index `offset` in memory, and whose rows are
/// `ld` apart.
template <class T>
AllSums<T> sums_of(const std::vector<T>& numbers, Shape shape, std::size_t ld, std::size_t offset)
{
  std::vector<T, HugePages<T>> memory(offset + shape.rows * ld);
  const MatrixView<T> m{memory.data() + offset, shape.rows, shape.cols, ld};
  const KernelEngine engine;
  engine.copy(MatrixView<const T>{numbers.data(), shape}, m);
  AllSums<T> s{std::vector<T>(shape.cols), std::vector<T>(shape.rows), T{}};
  engine.column_sums(MatrixView<const T>{m}, MatrixView<T>{s.of_columns.data(), {1, shape.cols}});
  engine.row_fold(MatrixView<T>{s.of_rows.data(), {shape.rows, 1}}, T{}, cubist::detail::Sum{},
                  cubist::detail::Itself{}, m);
  s.of_all = engine.fold(T{}, cubist::detail::Sum{}, cubist::detail::Itself{}, m);
  return s;
}

TEST_CASE("a few threads fold each of many short rows")
{
  const Shape shape{136001, 5};
  std::vector<double> x(shape.size()), wanted(shape.rows);
  for (std::size_t i = 0; i < x.size(); ++i)
  {
    x[i] = static_cast<double>(i % 1009);
    wanted[i / shape.cols] += x[i];
  }
  CHECK(sums_of(x, shape, shape.cols, 0).of_rows == wanted);
  CHECK(sums_of(x, shape, shape.cols + 1, 1).of_rows == wanted);
}

TEMPLATE_TEST_CASE("sums have the same bits wherever the matrix lies", "", float, bfloat16)
{
  using T = TestType;
  for (const Shape shape :
       {Shape{3000, 24}, Shape{33, 1016}, Shape{2, 9000}, Shape{4100, 8}, Shape{16500, 136}})
  {
    CAPTURE(shape);
    const auto numbers = rough_numbers<T>(shape.size());
    const auto aligned = sums_of(numbers, shape, shape.cols, 0);
    CHECK(sums_of(numbers, shape, shape.cols, 0) == aligned);
    CHECK(sums_of(numbers, shape, shape.cols + 8, 8) == aligned);
    CHECK(sums_of(numbers, shape, shape.cols + 3, 1) == aligned);
    CHECK(sums_of(numbers, shape, shape.cols, 1) == aligned);
  }
}

}  // namespace cubist::test::engine_cuda_operations_test
