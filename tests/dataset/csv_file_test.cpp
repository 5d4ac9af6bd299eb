// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/dataset/csv_file.hpp"

#include "folder.hpp"
#include "ranks.hpp"

namespace cubist::test::dataset_csv_file_test
{

using Values = std::vector<double>;

static Values read(const CsvFile& file, std::uint64_t row, std::size_t first, std::size_t count)
{
  Values values(count, -1);
  file.read(row, first, values);
  return values;
}

TEST_CASE("any values of a table are read, as parse_csv reads them")
{
  const Folder folder;
  for (const auto& [text, options] :
       {std::pair{std::string{"1,-2.5,3e2\n0, 4 ,.5\r\n7,8,9\n"}, CsvOptions{}},
        {"a;b;c\r\n1;2;3\r\n4;5;6\r\n", {.separator = ';', .header = true}},
        {"1 2\n", {.separator = ' '}},
        {"\xEF\xBB\xBF"
         "1,+2.5\n3,1e-400",
         {}},
        {"\xEF\xBB\xBF"
         "a,b\r\n1,2\r\n3,4\r\n\r\n",
         {.header = true}},
        {"5\n6\n", {}}})
  {
    CAPTURE(text);
    write_contents(folder / "x.csv", text);
    const auto table = parse_csv(text, "x.csv", options);
    const CsvFile file{folder / "x.csv", options};
    CHECK((file.rows() == table.rows && file.cols() == table.cols));
    CHECK(file.path() == (folder / "x.csv").string());
    for (std::size_t row = 0; row < table.rows; ++row)
      for (std::size_t first = 0; first <= table.cols; ++first)
        for (std::size_t count = 0; first + count <= table.cols; ++count)
        {
          const double* begin = table.values.data() + row * table.cols + first;
          CHECK(read(file, row, first, count) == Values(begin, begin + count));
        }
  }
}

TEST_CASE("a file without rows has none")
{
  const Folder folder;
  write_contents(folder / "x.csv", "");
  CHECK(CsvFile{folder / "x.csv"}.rows() == 0);
  write_contents(folder / "x.csv", "a,b\n");
  CHECK(CsvFile{folder / "x.csv", {.header = true}}.rows() == 0);
}

TEST_CASE("all values are checked when a file is opened, with the errors of parse_csv")
{
  const Folder folder;
  for (const std::string text :
       {"1,2\n3,four\n", "1,2\n3\n", "1,2\n3,", "1,nan\n", "\n\n1\n", "PK\x03\x04zip"})
  {
    CAPTURE(text);
    write_contents(folder / "x.csv", text);
    const auto path = (folder / "x.csv").string();
    const auto message = message_of<DataError>([&] { CsvFile{path}; });
    CHECK_FALSE(message.empty());
    CHECK(message == message_of<DataError>([&] { (void)parse_csv(text, path); }));
  }
  CHECK(mentions(message_of<DataError>([&] { CsvFile{folder / "none"}; }), "cannot open"));
}

TEST_CASE("rows and values that a table lacks are refused")
{
  const Folder folder;
  write_contents(folder / "x.csv", "1,2,3\n4,5,6\n");
  const CsvFile file{folder / "x.csv"};
  CHECK(mentions(message_of<ShapeError>([&] { (void)read(file, 2, 0, 1); }), "of row 2, but",
                 "x.csv is a table of (2, 3)", "that it has"));
  CHECK(mentions(message_of<ShapeError>([&] { (void)read(file, 0, 2, 2); }),
                 "a read of 2 values from column 2"));
  CHECK_THROWS_AS(read(file, 0, 4, 0), ShapeError);
  CHECK_THROWS_AS(read(file, ~std::uint64_t{0}, 0, 1), ShapeError);
}

TEST_CASE("the line of a row counts the header")
{
  const Folder folder;
  write_contents(folder / "x.csv", "1\n2\n");
  CHECK(CsvFile{folder / "x.csv"}.line_of(1) == 2);
  CHECK(CsvFile(folder / "x.csv", {.header = true}).line_of(0) == 2);
}

}  // namespace cubist::test::dataset_csv_file_test
