// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/dataset/row_batches.hpp"
#include "cubist/scheme/data_parallel.hpp"

#include "folder.hpp"
#include "nn.hpp"

namespace cubist::test::dataset_row_batches_test
{

using Rows = std::vector<std::uint64_t>;

/// Writes a table whose row i is 10 i, 10 i + 1, 10 i + 2 and the label i.
static CsvFile write_table(const std::filesystem::path& path, std::size_t rows)
{
  std::string text;
  for (std::size_t i = 0; i < rows; ++i)
  {
    for (std::size_t j = 0; j < 3; ++j) text += std::to_string(10 * i + j) + ",";
    text += std::to_string(i) + "\n";
  }
  write_contents(path, text);
  return CsvFile{path};
}

static Rows numbers(std::uint64_t count)
{
  Rows all(count);
  std::iota(all.begin(), all.end(), std::uint64_t{0});
  return all;
}

static Rows sorted(Rows rows)
{
  std::sort(rows.begin(), rows.end());
  return rows;
}

TEST_CASE("the held-out and training rows together are all rows, and an epoch visits each once")
{
  const Folder folder;
  for (const double fraction : {0.0, 0.2, 0.29, 0.5})
    for (const std::size_t batch : {1U, 7U, 50U})
    {
      CAPTURE(fraction, batch);
      const RowBatches data{write_table(folder / "x.csv", 100),
                            {.batch = batch, .seed = 4, .held_out = fraction}};
      CHECK(data.held_out_count() == static_cast<std::uint64_t>(std::lround(100 * fraction)));
      CHECK(data.training_count() == 100 - data.held_out_count());
      CHECK((data.features() == 3 && data.classes() == 100 && data.batch_size() == batch));
      CHECK(data.batches_per_epoch() == (data.training_count() + batch - 1) / batch);
      Rows visited;
      for (std::uint64_t b = 0; b < 2 * data.training_count(); ++b)
      {
        CHECK(data.epoch_of(b) == visited.size() / data.training_count());
        const auto rows = data.rows_of(b);
        CHECK(rows.size() == batch);
        visited.insert(visited.end(), rows.begin(), rows.end());
        if (visited.size() >= 2 * data.training_count()) break;
      }
      const auto end = visited.begin() + static_cast<std::ptrdiff_t>(data.training_count());
      Rows first(visited.begin(), end);
      Rows second(end, end + (end - visited.begin()));
      CHECK(first != second);
      const Rows training = sorted(first);
      CHECK(training == sorted(second));
      Rows all = fraction > 0 ? data.held_out_rows() : Rows{};
      all.insert(all.end(), training.begin(), training.end());
      CHECK(sorted(all) == numbers(100));
    }
}

/// Batches and the held-out part on a mesh, gathered on rank 0.
struct Gathered
{
  std::vector<Global<double>> x;
  std::vector<std::vector<int>> labels;

  friend bool operator==(const Gathered& a, const Gathered& b)
  {
    return a.labels == b.labels &&
           std::equal(a.x.begin(), a.x.end(), b.x.begin(), b.x.end(),
                      [](const auto& p, const auto& q) { return identical(p, q); });
  }
};

template <class S>
Gathered read_on(const Place<S>& place, const RowBatches& data, const Rows& batches)
{
  return on_root<Threads>(place, [&](const auto& mesh) {
    Gathered got;
    const auto add = [&](const auto& rows) {
      got.x.push_back(gather(rows.x));
      got.labels.push_back(rows.labels);
    };
    for (const auto b : batches) add(data.batch<double, typename S::Input>(mesh, b));
    add(data.held_out<double, typename S::Input>(mesh));
    return got;
  });
}

TEST_CASE("batches are the same on every mesh, and do not depend on those read before")
{
  const Folder folder;
  const RowBatches data{write_table(folder / "x.csv", 43),
                        {.batch = 13, .seed = 4, .held_out = 0.2, .normalize = true}};
  const Rows batches{0, 1, 2, 3, 99};
  const auto wanted = read_on(one_rank, data, batches);
  CHECK(read_on(two_two_two, data, batches) == wanted);
  CHECK(read_on(cube, data, batches) == wanted);
  CHECK(read_on(Place<DataParallel<Summa2D>>{8, {2, {.q = 2}}}, data, batches) == wanted);
  const auto late = read_on(cube, data, {99, 3});
  CHECK(identical(late.x[0], wanted.x[4]));
  CHECK(late.labels[1] == wanted.labels[3]);

  const auto [mean, deviation] = data.reader().scaling();
  for (std::size_t b = 0; b < batches.size(); ++b)
    for (std::size_t i = 0; i < 13; ++i)
    {
      const auto row = static_cast<double>(data.rows_of(batches[b])[i]);
      CHECK(wanted.labels[b][i] == row);
      for (std::size_t j = 0; j < 3; ++j)
        CHECK(wanted.x[b](i, j) == (10 * row + static_cast<double>(j) - mean) / deviation);
    }
  CHECK(wanted.labels[5].size() == 9);
}

TEST_CASE("the seed draws the held-out rows and the order")
{
  const Folder folder;
  const CsvFile file = write_table(folder / "x.csv", 50);
  const RowBatches a{file, {.batch = 5, .seed = 1, .held_out = 0.5}};
  const RowBatches again{file, {.batch = 5, .seed = 1, .held_out = 0.5}};
  const RowBatches b{file, {.batch = 5, .seed = 2, .held_out = 0.5}};
  CHECK(a.rows_of(3) == again.rows_of(3));
  CHECK(a.rows_of(3) != b.rows_of(3));
  CHECK(sorted(a.held_out_rows()) == sorted(again.held_out_rows()));
  CHECK(sorted(a.held_out_rows()) != sorted(b.held_out_rows()));
}

TEST_CASE("the last rows are held out on request, whatever the seed")
{
  const Folder folder;
  const CsvFile file = write_table(folder / "x.csv", 10);
  for (const std::uint64_t seed : {1U, 2U})
  {
    const RowBatches data{
        file,
        {.batch = 7, .seed = seed, .held_out = 0.25, .normalize = true, .held_out_last = true}};
    CHECK(data.held_out_rows() == Rows{7, 8, 9});  // 2.5 rows are rounded to 3
    CHECK(sorted(data.rows_of(0)) == numbers(7));
    CHECK(data.rows_of(0) != data.rows_of(1));
    const auto [mean, deviation] = data.reader().scaling();
    CHECK(mean == Approx(31));  // the mean of 10 i + j for i < 7 and j < 3
  }
  CHECK_THROWS_AS((RowBatches{file, {.batch = 7, .held_out_last = true}}.held_out_rows()),
                  ArgumentError);
}

TEST_CASE("normalised features of the training rows have mean 0 and deviation 1")
{
  const RowBatches data{CsvFile{CUBIST_DIGITS_CSV},
                        {.batch = 64, .seed = 42, .held_out = 0.2, .normalize = true}};
  REQUIRE((data.training_count() == 1438 && data.held_out_count() == 359));
  const auto x = on_root<Threads>(one_rank, [&](const auto& mesh) {
    Rows training;
    for (std::uint64_t b = 0; training.size() < data.training_count(); ++b)
      for (const auto row : data.rows_of(b)) training.push_back(row);
    training.resize(data.training_count());
    return gather(data.reader().read_features<double, Summa2D::Input>(mesh, training));
  });
  double sum = 0;
  double squares = 0;
  for (const double v : x)
  {
    sum += v;
    squares += v * v;
  }
  const auto count = static_cast<double>(x.size());
  CHECK(std::abs(sum / count) < 1e-12);
  CHECK(std::abs(squares / count - 1) < 1e-12);
}

TEST_CASE("labels and targets have no part in the scaling of features, wherever they are")
{
  const Folder folder;
  const auto scaling = [&](const std::string& text, const RowOptions& columns) {
    write_contents(folder / "x.csv", text);
    return RowBatches{CsvFile{folder / "x.csv"}, {.batch = 1, .normalize = true, .rows = columns}}
        .reader()
        .scaling();
  };
  CHECK(scaling("900,1,3\n500,3,1\n", {.label = 0}) == Scaling{2, 1});
  CHECK(scaling("1,900,3\n3,500,1\n", {.label = 1}) == Scaling{2, 1});
  CHECK(scaling("1,-900,3e5\n3,500,1e7\n", {.targets = 2}) == Scaling{2, 1});
}

TEST_CASE("settings outside their ranges are refused")
{
  const Folder folder;
  const CsvFile file = write_table(folder / "x.csv", 10);
  const auto message = [&](const RowBatchOptions& options) {
    return message_of<ArgumentError>([&] { RowBatches(file, options); });
  };
  CHECK(mentions(message({.batch = 9, .held_out = 0.2}),
                 "got batches of 9 of the 8 training rows of", "x.csv", "use batches of 1 to 8"));
  CHECK(mentions(message({.batch = 1, .held_out = 0.96}), "of the 0 training rows"));
  CHECK(mentions(message({.batch = 0}), "got batches of 0"));
  for (const double fraction : {-0.1, 1.0, std::nan("")})
    CHECK(mentions(message({.batch = 1, .held_out = fraction}), "got a held-out fraction of",
                   "use a number from 0 to below 1"));
  const RowBatches all{file, {.batch = 10}};
  CHECK(sorted(all.rows_of(5)) == numbers(10));
  CHECK(mentions(message_of<ArgumentError>([&] { (void)all.held_out_rows(); }),
                 "got no held-out rows", "set held_out"));
}

}  // namespace cubist::test::dataset_row_batches_test
