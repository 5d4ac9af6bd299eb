// SPDX-License-Identifier: BSD-3-Clause

// A program whose xtensor containers are column-major by default. It compares elements one by one
// with functions of their indices, and never a container with one that went the same way.

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "cubist/backend/threads.hpp"
#include "cubist/dataset/csv_file.hpp"
#include "cubist/dataset/row_reader.hpp"
#include "cubist/io/npy.hpp"
#include "cubist/matmul/dist_batch_matmul.hpp"
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/matrix/dist_batch.hpp"
#include "cubist/matrix/global.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/scheme/batch_mesh.hpp"
#include "cubist/scheme/grid2d.hpp"

#include "catch.hpp"
#include "folder.hpp"
#include "ranks.hpp"

namespace cubist::test::column_major
{

namespace
{

// What the program defines is what xtensor uses.
static_assert(xt::xtensor<double, 2>::static_layout == xt::layout_type::column_major);

using S = Grid2D;
using Global = xt::xtensor<double, 2>;

constexpr std::size_t m = 7;
constexpr std::size_t n = 5;
constexpr std::size_t k = 6;

double x_of(std::size_t i, std::size_t j) { return 1.0 + static_cast<double>(10 * i + j); }
double w_of(std::size_t i, std::size_t j) { return 3.0 - static_cast<double>(2 * i + 7 * j); }
double b_of(std::size_t b, std::size_t i, std::size_t j)
{
  return static_cast<double>(100 * b) + x_of(i, j);
}
double y_of(std::size_t i, std::size_t j)
{
  double sum = 0;
  for (std::size_t l = 0; l < k; ++l) sum += x_of(i, l) * w_of(l, j);
  return sum;
}

template <class F>
Global filled(std::size_t rows, std::size_t cols, F f)
{
  auto x = Global::from_shape({rows, cols});
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) x(i, j) = f(i, j);
  return x;
}

/// The number of elements of this rank's shard that differ from f of their global indices, as seen
/// in memory and through the xtensor view.
template <class X, class F>
std::size_t wrong_in_shard(const X& x, F f)
{
  std::size_t wrong = 0;
  const auto view = x.local();
  for (std::size_t i = 0; i < x.valid().rows(); ++i)
    for (std::size_t j = 0; j < x.valid().cols(); ++j)
    {
      const double wanted = f(x.block().rows.offset + i, x.block().cols.offset + j);
      wrong += x.valid()(i, j) != wanted || view(i, j) != wanted ? 1 : 0;
    }
  return wrong;
}

template <class F>
std::size_t wrong_in(const Global& x, std::size_t rows, std::size_t cols, F f)
{
  if (x.shape()[0] != rows || x.shape()[1] != cols) return rows * cols + 1;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) wrong += x(i, j) != f(i, j) ? 1 : 0;
  return wrong;
}

/// Sums over the ranks of a 2 x 2 mesh what `body(mesh)` counts.
template <class F>
std::vector<std::size_t> counted(F body)
{
  std::vector<std::size_t> sums;
  for (const auto& counts : on_ranks<Threads>(4, [&](Threads::Communicator& world) {
         return body(Mesh<S, Threads>{world, {2, 2}});
       }))
  {
    sums.resize(counts.size());
    for (std::size_t i = 0; i < counts.size(); ++i) sums[i] += counts[i];
  }
  return sums;
}

using Counts = std::vector<std::size_t>;

}  // namespace

TEST_CASE("column-major containers are scattered and gathered by their indices")
{
  const Global x = filled(m, n, x_of);
  const Counts wrong = counted([&](const auto& mesh) {
    const auto a = scatter<S::Input>(mesh, x);
    const auto sum = scatter<S::Input>(mesh, x + 0.0 * x);
    const xt::xtensor<double, 2, xt::layout_type::row_major> rows = x;
    const auto b = scatter<S::Input>(mesh, rows);
    DistMatrix<double, S::Input, Mesh<S, Threads>> c{mesh, {m, n}};
    c.generate(x_of);
    const auto back = gather(c);
    c.local() = 2.0 * c.local();
    const auto doubled = [](std::size_t i, std::size_t j) { return 2 * x_of(i, j); };
    const bool is_root = mesh.rank() == 0;
    return Counts{wrong_in_shard(a, x_of), wrong_in_shard(sum, x_of), wrong_in_shard(b, x_of),
                  is_root ? wrong_in(back, m, n, x_of) : 0, wrong_in_shard(c, doubled)};
  });
  CHECK(wrong == Counts(5));
}

TEST_CASE("products of column-major operands are those of their elements")
{
  const Global x = filled(m, k, x_of);
  const Global w = filled(k, n, w_of);
  const Counts wrong = counted([&](const auto& mesh) {
    DistMatMul<S, Threads, double> product{mesh, {m, n, k}};
    const auto y = product.forward(scatter<S::Input>(mesh, x), scatter<S::Weight>(mesh, w));
    const auto back = gather(y);
    return Counts{wrong_in_shard(y, y_of), mesh.rank() == 0 ? wrong_in(back, m, n, y_of) : 0};
  });
  CHECK(wrong == Counts(2));
}

TEST_CASE("batches of column-major tensors are scattered and gathered by their indices")
{
  constexpr std::size_t count = 3;
  auto all = xt::xtensor<double, 3>::from_shape({count, m, n});
  for (std::size_t b = 0; b < count; ++b)
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) all(b, i, j) = b_of(b, i, j);
  std::size_t wrong = 0;
  for (const auto found : on_ranks<Threads>(4, [&](Threads::Communicator& world) {
         const BatchMesh<S, Threads> mesh{world, 2, {1, 2}};
         typename DistBatchMatMul<S, Threads, double>::Input x{mesh, count, {m, n}};
         scatter(all, x);
         std::size_t bad = 0;
         for (std::size_t i = 0; i < x.size(); ++i)
         {
           const std::size_t b = x.offset() + i;
           bad += wrong_in_shard(x[i], [=](auto r, auto c) { return b_of(b, r, c); });
         }
         const auto back = gather(x);
         if (world.rank() == 0)
           for (std::size_t b = 0; b < count; ++b)
             for (std::size_t i = 0; i < m; ++i)
               for (std::size_t j = 0; j < n; ++j) bad += back(b, i, j) != b_of(b, i, j) ? 1 : 0;
         return bad;
       }))
    wrong += found;
  CHECK(wrong == 0);
}

TEST_CASE("files of either order, and tables of text, are read by their indices")
{
  const Folder folder;
  const auto write = [&](const char* name, bool by_columns) {
    std::vector<double> values;
    for (std::size_t a = 0; a < (by_columns ? n : m); ++a)
      for (std::size_t b = 0; b < (by_columns ? m : n); ++b)
        values.push_back(by_columns ? x_of(b, a) : x_of(a, b));
    std::string header = std::string{"{'descr': '<f8', 'fortran_order': "} +
                         (by_columns ? "True" : "False") + ", 'shape': (7, 5), }";
    header.resize(117, ' ');
    header += '\n';
    const auto bytes = std::as_bytes(std::span{values});
    std::ofstream{folder / name, std::ios::binary}
        << std::string("\x93NUMPY\1\0\x76\0", 10) << header
        << std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  write("rows.npy", false);
  write("columns.npy", true);
  {
    std::ofstream table{folder / "x.csv"};
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j <= n; ++j)
        table << (j < n ? x_of(i, j) : 0) << (j < n ? ',' : '\n');
  }
  const Global x = filled(m, n, x_of);
  const Counts wrong = counted([&](const auto& mesh) {
    const auto rows = load_npy<S::Input, double>(mesh, folder / "rows.npy");
    const auto columns = load_npy<S::Weight, double>(mesh, folder / "columns.npy");
    const RowReader reader{CsvFile{folder / "x.csv"}, {}};
    const std::vector<std::uint64_t> all{0, 1, 2, 3, 4, 5, 6};
    const auto table = reader.template read_features<double, S::Input>(mesh, all);
    save_npy(folder / "saved.npy", scatter<S::Input>(mesh, x));
    return Counts{wrong_in_shard(rows, x_of), wrong_in_shard(columns, x_of),
                  wrong_in_shard(table, x_of)};
  });
  CHECK(wrong == Counts(3));
  CHECK(contents(folder / "saved.npy") == contents(folder / "rows.npy"));
}

TEST_CASE("an MLP of column-major weights and rows computes their product")
{
  const Global x = filled(m, k, x_of);
  const Global w = filled(k, n, w_of);
  const Counts wrong = counted([&](const auto& mesh) {
    MLP<S, Threads, double> mlp{mesh, {k, n}, {.bias = false}};
    scatter(w, mlp.parameters()[0].value);
    const auto& y = mlp.forward(scatter<S::Input>(mesh, x));
    auto dy = y;
    const auto target = mlp.scatter_target(filled(m, n, y_of));
    const double loss = mean_squared_error(y, target, dy);
    const auto back = gather(y);
    return Counts{loss == 0 ? 0U : 1U, mesh.rank() == 0 ? wrong_in(back, m, n, y_of) : 0};
  });
  CHECK(wrong == Counts(2));
}

}  // namespace cubist::test::column_major
