// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/dataset/row_reader.hpp"
#include "cubist/nn/networks/network_matrix.hpp"

#include "folder.hpp"
#include "nn.hpp"

namespace cubist::test::dataset_row_reader_test
{

TEST_CASE("the mean and deviation are those of the chosen rows, far from zero, too")
{
  const Folder folder;
  write_contents(folder / "x.csv", "1e9,1000000001,0\n5,7,1\n1000000002,1000000003,2\n");
  const RowReader reader{CsvFile{folder / "x.csv"}, {}};
  const auto s = reader.measure_features({true, false, true});
  CHECK(s.mean == 1000000001.5);
  CHECK(s.deviation == Approx(std::sqrt(1.25)).epsilon(1e-12));
  CHECK(reader.measure_features({false, true, false}) == Scaling{6, 1});
  CHECK_THROWS_AS(reader.measure_features({true}), ShapeError);
  CHECK_THROWS_AS(reader.measure_features({false, false, false}), DataError);
  write_contents(folder / "x.csv", "2,2,0\n2,2,1\n");
  CHECK(mentions(message_of<DataError>([&] {
                   (void)RowReader{CsvFile{folder / "x.csv"}, {}}.measure_features({true, true});
                 }),
                 "x.csv with a deviation of 0", "do not normalise"));
}

constexpr std::size_t row_count = 13;
constexpr std::size_t col_count = 8;
using Rows = std::vector<std::uint64_t>;
const Rows some_rows{12, 0, 5, 5, 1, 11, 7};

/// A value of the table: a small integer, so that it can also be a class.
static int value(std::uint64_t i, std::size_t j)
{
  return static_cast<int>((7 * i + 3 * j * j) % 11);
}

static CsvFile write_table(const std::filesystem::path& path)
{
  std::string text;
  for (std::size_t i = 0; i < row_count; ++i)
    for (std::size_t j = 0; j < col_count; ++j)
      text += std::to_string(value(i, j)) + (j + 1 < col_count ? "," : "\n");
  write_contents(path, text);
  return CsvFile{path};
}

/// The features of some_rows, without the column of labels.
static Global<double> expected_features(std::size_t label)
{
  return generate<double>(some_rows.size(), col_count - 1, [&](std::size_t i, std::size_t j) {
    return value(some_rows[i], j < label ? j : j + 1);
  });
}

/// Finds what is wrong with a rank's block of a matrix.
template <class T, class L, class M>
Findings compare(const DistMatrix<T, L, M>& x, const Global<double>& wanted)
{
  Findings found;
  found.check(x.shape() == Shape{wanted.shape(0), wanted.shape(1)}, "the shape is ", x.shape());
  const auto block = x.block();
  const auto mine = x.valid();
  for (std::size_t i = 0; i < mine.rows(); ++i)
    for (std::size_t j = 0; j < mine.cols(); ++j)
      found.check(mine(i, j) == wanted(block.rows.offset + i, block.cols.offset + j), "element (",
                  block.rows.offset + i, ", ", block.cols.offset + j, ") is ", mine(i, j));
  found.check(padding(x.view()).largest == 0, "the padding is not zero");
  return found;
}

/// Reads on a mesh, in each layout of its scheme.
template <class S>
void read_on(const Place<S>& place, const RowReader& reader, std::size_t label)
{
  CAPTURE(place.name());
  const auto wanted = expected_features(label);
  std::vector<int> labels;
  for (const auto row : some_rows) labels.push_back(value(row, label));
  require_clear(on_mesh<Threads>(place, [&](const auto& mesh) {
    const auto [x, l] = reader.read<double, typename S::Input>(mesh, some_rows);
    Findings found = compare(x, wanted);
    found.check(l == labels, "the labels are others");
    return found;
  }));
  require_clear(on_mesh<Threads>(place, [&](const auto& mesh) {
    return compare(reader.read_features<double, typename S::Weight>(mesh, some_rows), wanted);
  }));
}

TEST_CASE("each rank reads its block of the rows, and all labels")
{
  const Folder folder;
  const CsvFile file = write_table(folder / "x.csv");
  for (const std::size_t label : {0U, 3U, 7U})
  {
    CAPTURE(label);
    RowOptions options;
    if (label + 1 < col_count) options.label = label;  // the last is the default
    const RowReader reader{file, options};
    CHECK(reader.features() == col_count - 1);
    CHECK(reader.classes() == 11);
    read_on(two_two_two, reader, label);
    read_on(cube, reader, label);
    read_on(Place<DataParallel<Summa2D>>{8, {2, {.q = 2}}}, reader, label);
    read_on(Place<Megatron1D>{3, {}}, reader, label);
  }
}

TEST_CASE("the last columns are targets, cut as the output that they are compared with")
{
  const Folder folder;
  const RowReader reader{write_table(folder / "x.csv"), {.targets = 3, .scaling = {1, 2}}};
  CHECK(reader.features() == col_count - 3);
  CHECK(reader.classes() == 0);
  const auto wanted = generate<double>(
      some_rows.size(), 3, [](std::size_t i, std::size_t j) { return value(some_rows[i], 5 + j); });
  require_clear(on_mesh<Threads>(two_two_two, [&](const auto& mesh) {
    using M = AxisMesh<Summa25D::Axes, Threads>;
    const DistMatrix<double, Summa25D::Output, M> y{mesh, {some_rows.size(), 3}, {12, 4}};
    const auto targets = reader.targets_like(y, some_rows);
    Findings found = compare(targets, wanted);
    found.check(targets.quanta() == y.quanta(), "the padding is another");
    const NetworkMatrix<Summa25D, Threads, double> of_network{y};
    const auto same = reader.targets_like(of_network, some_rows);
    const Findings of_same = compare(same.as<Summa25D::Output>(), wanted);
    for (const auto& wrong : of_same.wrong()) found.check(false, "for a network's output, ", wrong);
    const DistMatrix<double, Summa25D::Output, M> wide{mesh, {some_rows.size(), 4}};
    found.check(
        mentions(message_of<ShapeError>([&] { (void)reader.targets_like(wide, some_rows); }),
                 "an output of (7, 4), but the targets are (7, 3)"),
        "an output of another shape is accepted");
    return found;
  }));
  CHECK(mentions(message_of<ArgumentError>([&] { (void)reader.labels_of(some_rows); }),
                 "got 3 targets per row", "no labels"));
}

TEST_CASE("features are scaled in double and rounded once")
{
  const Folder folder;
  const CsvFile file = write_table(folder / "x.csv");
  const Scaling scaling{3, 7};
  const RowReader reader{file, {.scaling = scaling}};
  CHECK(reader.scaling() == scaling);
  const auto check = [&]<class T>(T) {
    const auto wanted = generate<T>(some_rows.size(), 7, [](std::size_t i, std::size_t j) {
      return static_cast<T>(static_cast<Real<T>>((value(some_rows[i], j) - 3) / 7.0));
    });
    CHECK(identical(on_root<Threads>(one_rank,
                                     [&](const auto& mesh) {
                                       return gather(reader.read_features<T, Summa2D::Input>(
                                           mesh, some_rows));
                                     }),
                    wanted));
  };
  check(double{});
  check(float{});
  check(bfloat16{});
  check(std::complex<double>{});
}

static std::string error(const std::string& text, const RowOptions& options)
{
  const Folder folder;
  write_contents(folder / "x.csv", text);
  const CsvFile file{folder / "x.csv"};
  return message_of<Error>([&] { RowReader{file, options}; });
}

TEST_CASE("a label is a whole number that is not negative")
{
  for (const std::string label : {"-1", "0.5", "2147483647", "1e300"})
    CHECK(mentions(error("1,0\n2," + label + "\n", {}), "x.csv, whose line 2 has the label",
                   "in column 1 (from 0), which is not a class", "number the classes from 0"));
  CHECK(error("1,0\n2,-1\n", {.label = 0}).empty());
  CHECK(error("1,0.5\n", {.targets = 1}).empty());
  CHECK(error("1,2147483646\n", {}).empty());
}

TEST_CASE("the number of classes is refused where a class has no row, and other reads are not")
{
  const auto classes = [](const std::string& text) {
    const Folder folder;
    write_contents(folder / "x.csv", text);
    const RowReader reader{CsvFile{folder / "x.csv"}, {}};
    CHECK(reader.labels_of(Rows{0}).size() == 1);
    std::size_t count = 0;
    const auto message = message_of<DataError>([&] { count = reader.classes(); });
    return message.empty() ? std::to_string(count) : message;
  };
  CHECK(classes("7,2\n7,0\n7,1\n7,0\n") == "3");
  CHECK(classes("7,0\n") == "1");
  CHECK(mentions(classes("7,0\n7,1\n7,5\n"), "got labels up to 5 in",
                 "no row has the label 2, 3, 4,", "a network of 6 outputs", "without gaps"));
  CHECK(mentions(classes("7,1\n7,2\n"), "no row has the label 0, so"));
  CHECK(mentions(classes("7,2147483646\n7,1\n"), "no row has the label 0, 2, 3, 4, …, so"));
}

TEST_CASE("columns and scalings that make no sense are refused")
{
  CHECK(mentions(error("1\n2\n", {}), "x.csv with 1 columns, of which 1 would be labels",
                 "no features"));
  CHECK(mentions(error("1,2\n", {.targets = 2}), "of which 2 would be"));
  CHECK(mentions(error("", {}), "with 0 columns"));
  CHECK(mentions(error("1,2\n", {.label = 2}), "label in column 2 of 2"));
  CHECK(mentions(error("1,2\n", {.label = 0, .targets = 1}), "both labels and targets"));
  for (const Scaling s : {Scaling{0, 0}, {0, -1}, {NAN, 1}, {0, INFINITY}})
    CHECK(mentions(error("1,2\n", {.scaling = s}), "cannot be scaled", "a positive deviation"));
}

TEST_CASE("rows that a file lacks are refused on every rank, and values that a scalar lacks")
{
  const Folder folder;
  write_contents(folder / "x.csv", "1,2,3,1e39,0\n1,2,3,4,1\n");
  const RowReader reader{CsvFile{folder / "x.csv"}, {}};
  require_clear(on_mesh<Threads>(two_by_two, [&](const auto& mesh) {
    Findings found;
    found.check(mentions(message_of<ShapeError>([&] {
                           (void)reader.read<float, Summa2D::Input>(mesh, Rows{0, 2});
                         }),
                         "got row 2, but", "x.csv has only 2 rows"),
                "a row that is missing is accepted");
    const bool mine = mesh.rank() == 1;  // the rows' first half, and the columns' second
    const auto message = message_of<DataError>([&] {
      (void)reader.read<float, Summa2D::Input>(mesh, Rows{0, 1});
    });
    found.check(mentions(message, "whose line 1 has a feature or target of 1e+39", "infinite") ==
                    mine,
                "rank ", mesh.rank(), " gives '", message, "'");
    return found;
  }));
  CHECK_THROWS_AS(reader.labels_of(Rows{2}), ShapeError);
}

TEST_CASE("idle ranks, and ranks without a part, read nothing")
{
  const Folder folder;
  const RowReader reader{write_table(folder / "x.csv"), {}};
  require_clear(on_ranks<Threads>(6, [&](auto& world) {
    Findings found;
    const Mesh<Summa2D, Threads> mesh{world, Summa2D::Axes::Array{2, 2}, IdleRanks::allowed};
    const auto [x, labels] = reader.read<double, Summa2D::Input>(mesh, Rows{4});
    found.check((x.valid().size() > 0) == (mesh.rank() < 2), "the block is ", x.valid().shape());
    found.check(labels == std::vector<int>{value(4, 7)}, "the label is another");
    return found;
  }));
}

}  // namespace cubist::test::dataset_row_reader_test
