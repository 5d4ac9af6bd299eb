// SPDX-License-Identifier: BSD-3-Clause
#include <numeric>
#include <tuple>

#include "cubist/engine/host/engine.hpp"
#include "cubist/io/stored_matrix.hpp"

#include "catch.hpp"
#include "folder.hpp"
#include "matrices.hpp"

namespace cubist::test::io_stored_matrix_test
{

static Range part(std::size_t n, std::size_t parts, std::size_t index)
{
  return block_range(n, pad(n, parts), parts, index);
}

/// Calls f(block) for all blocks of a matrix, cut into 3 x 2.
template <class F>
void for_blocks(Shape shape, F f)
{
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 2; ++j) f(Block{part(shape.rows, 3, i), part(shape.cols, 2, j)});
}

/// Records the size of the largest matrix that is uploaded.
struct Recorder : HostEngine
{
  std::size_t* largest;

  template <class T>
  void upload(MatrixView<const T> from, MatrixView<T> to) const
  {
    *largest = std::max(*largest, from.size() * sizeof(T));
    HostEngine::upload(from, to);
  }
};

template <class T>
MatrixView<const T> take(const MatrixView<T>& all, const Block& b)
{
  return all.block(b.rows.offset, b.cols.offset, b.valid());
}

TEMPLATE_TEST_CASE("the blocks of a matrix are written and read at their positions", "", float,
                   std::complex<double>)
{
  using T = TestType;
  const HostEngine engine;
  const Folder folder;
  // The last is longer than a chunk.
  for (const Shape shape : {Shape{7, 5}, Shape{1, 1}, Shape{2, 9}, Shape{0, 4}, Shape{1500, 301}})
  {
    auto global = random_matrix<T, Fractions>(shape, 1);
    const MatrixView<T> all{global.data.data(), shape};
    const StoredMatrix stored{5, element_type<T>(), shape};  // bytes need no alignment
    const auto path = (folder / "matrix").string();
    File file{path, File::Mode::create};
    std::uint64_t sum = 0;
    for_blocks(shape, [&](const Block& b) {
      sum += write_block<T>(file, stored, b, engine, take(all, b));
    });
    CHECK(sum == fingerprint(MatrixView<const T>{all}));
    const auto bytes = std::as_bytes(std::span{global.data});
    const auto text = contents(path);
    if (shape.size() > 0)
      CHECK(text.substr(5) ==
            std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));

    std::vector<T> copy(shape.size());
    sum = 0;
    for_blocks(shape, [&](const Block& b) {
      const MatrixView<T> out =
          MatrixView<T>{copy.data(), shape}.block(b.rows.offset, b.cols.offset, b.valid());
      sum += read_block<T>(file, stored, b, engine, out);
    });
    CHECK(copy == global.data);
    CHECK(sum == fingerprint(MatrixView<const T>{all}));
  }
}

TEST_CASE("a column-major matrix is read as row-major")
{
  const HostEngine engine;
  const Folder folder;
  for (const Shape shape : {Shape{7, 5}, Shape{1500, 301}, Shape{3, 150'000}})
  {
    std::vector<float> columns(shape.size());
    for (std::size_t i = 0; i < shape.rows; ++i)
      for (std::size_t j = 0; j < shape.cols; ++j)
        columns[j * shape.rows + i] = static_cast<float>(i * 1000 + j);
    File file{(folder / "columns").string(), File::Mode::create};
    file.write(0, std::as_bytes(std::span{columns}));

    std::vector<double> copy(shape.size());
    const StoredMatrix stored{0, ElementType::f32, shape, true};
    std::uint64_t sum = 0;
    for_blocks(shape, [&](const Block& b) {
      sum += read_block<double>(
          file, stored, b, engine,
          MatrixView<double>{copy.data(), shape}.block(b.rows.offset, b.cols.offset, b.valid()));
    });
    bool same = true;
    for (std::size_t i = 0; i < shape.rows; ++i)
      for (std::size_t j = 0; j < shape.cols; ++j)
        same = same && copy[i * shape.cols + j] == static_cast<float>(i * 1000 + j);
    CHECK(same);
    CHECK(sum == fingerprint(MatrixView<const double>{copy.data(), shape}));
  }
}

TEST_CASE("a block is written and read in chunks of any size, as it is or transposed")
{
  const HostEngine engine;
  const Folder folder;
  constexpr Shape shape{9, 11};
  std::vector<float> global(shape.size());
  std::iota(global.begin(), global.end(), 1.0F);
  const MatrixView<const float> all{global.data(), shape};
  std::vector<float> turned(shape.size());
  for (std::size_t i = 0; i < shape.rows; ++i)
    for (std::size_t j = 0; j < shape.cols; ++j) turned[j * shape.rows + i] = all(i, j);
  File file{(folder / "chunks").string(), File::Mode::create};
  file.write(0, std::as_bytes(std::span{turned}));
  // Whole rows or parts of them, with whole columns or parts; the last blocks are short or empty.
  const std::vector<Block> blocks{{part(9, 1, 0), part(11, 1, 0)}, {part(9, 2, 1), part(11, 1, 0)},
                                  {part(9, 1, 0), part(11, 3, 2)}, {part(9, 2, 0), part(11, 2, 1)},
                                  {part(9, 4, 3), part(11, 3, 1)}, {part(9, 6, 5), part(11, 2, 0)}};
  for (const Block& b : blocks)
    for (const std::size_t chunk : {1U, 8U, 40U, 44U, 88U, 120U, 132U, 400U, 1U << 20U})
      for (const bool transposed : {false, true})
      {
        CAPTURE(b.valid(), chunk, transposed);
        const MatrixView<const float> wanted = take(all, b);
        const StoredMatrix stored{transposed ? 0 : shape.size() * sizeof(float), ElementType::f32,
                                  shape, transposed};
        if (!transposed)
        {
          file.resize(stored.begin);  // removes what another size of chunks has written
          file.resize(2 * stored.begin);
          CHECK(write_block<float>(file, stored, b, engine, wanted, chunk) ==
                fingerprint(wanted, b.rows.offset, b.cols.offset, shape.cols));
        }
        std::vector<double> copy(b.valid().size(), -1);
        const MatrixView<double> out{copy.data(), b.valid()};
        const auto sum = read_block<double>(file, stored, b, engine, out, chunk);
        bool same = true;
        for (std::size_t i = 0; i < out.rows(); ++i)
          for (std::size_t j = 0; j < out.cols(); ++j) same = same && out(i, j) == wanted(i, j);
        CHECK(same);
        CHECK(sum ==
              fingerprint(MatrixView<const double>{out}, b.rows.offset, b.cols.offset, shape.cols));
      }
}

TEST_CASE("neither what is read nor what it becomes is larger than a chunk")
{
  const Folder folder;
  const std::vector<float> stored(6 * 10, 1);
  File file{(folder / "matrix").string(), File::Mode::create};
  file.write(0, std::as_bytes(std::span{stored}));
  const StoredMatrix matrix{0, ElementType::f32, {6, 10}};
  std::size_t largest = 0;
  const Recorder engine{{}, &largest};
  const auto read = [&]<class T>(T) {
    largest = 0;
    std::vector<T> out(6 * 10);
    (void)read_block<T>(file, matrix, {part(6, 1, 0), part(10, 1, 0)}, engine,
                        MatrixView<T>{out.data(), {6, 10}}, 160);
    return largest;
  };
  CHECK(read(0.0) == 160);            // two rows
  CHECK(read(bfloat16{0.0F}) == 80);  // four rows of 40 bytes in the file
}

TEST_CASE("a chunk has as many whole rows as fit, and one where none fits")
{
  const auto chunks = [](Shape shape, std::size_t element, std::size_t bytes) {
    std::vector<std::size_t> all;
    detail::for_chunks(shape, element, bytes, [&](std::size_t first, std::size_t rows) {
      all.push_back(first);
      all.push_back(rows);
    });
    return all;
  };
  using V = std::vector<std::size_t>;
  CHECK(chunks({7, 5}, 4, 40) == V{0, 2, 2, 2, 4, 2, 6, 1});
  CHECK(chunks({7, 5}, 4, 39) == V{0, 1, 1, 1, 2, 1, 3, 1, 4, 1, 5, 1, 6, 1});
  CHECK(chunks({2, 5}, 4, 1) == V{0, 1, 1, 1});
  CHECK(chunks({7, 5}, 4, 140) == V{0, 7});
  CHECK(chunks({7, 5}, 4, 139) == V{0, 6, 6, 1});
  CHECK(chunks({7, 0}, 4, 140).empty());
  CHECK(chunks({0, 5}, 4, 140).empty());
  // By default a read takes one mebibyte at a time.
  CHECK(chunks({1025, 1024}, 8, detail::chunk_bytes) ==
        V{0, 128, 128, 128, 256, 128, 384, 128, 512, 128, 640, 128, 768, 128, 896, 128, 1024, 1});
}

TEST_CASE(
    "a matrix of more elements and bytes than 32 bits count is written and read at its corners")
{
  const HostEngine engine;
  const Folder folder;
  constexpr std::size_t n = std::size_t{1} << 17U;
  const StoredMatrix stored{24, ElementType::f32, {n, n}};
  File file{(folder / "large").string(), File::Mode::create};
  file.resize(stored.begin + n * n * sizeof(float));  // sparse
  const auto corner = [](std::size_t offset) { return Range{offset, 2, 2}; };
  std::vector<float> values{1, 2, 3, 4};
  std::vector<float> found(4);
  for (const std::size_t i : {std::size_t{0}, n - 2})
    for (const std::size_t j : {std::size_t{0}, n - 2})
    {
      const Block b{corner(i), corner(j)};
      values[0] += 1;
      const auto sum = write_block<float>(file, stored, b, engine,
                                          MatrixView<const float>{values.data(), {2, 2}});
      CHECK(read_block<float>(file, stored, b, engine, MatrixView<float>{found.data(), {2, 2}}) ==
            sum);
      CHECK(found == values);
    }
  std::array<float, 1> last{};
  file.read(stored.begin + (n * n - 1) * sizeof(float), std::as_writable_bytes(std::span{last}));
  CHECK(last[0] == 4);
}

TEST_CASE("a file shorter than its matrix is an error")
{
  const HostEngine engine;
  const Folder folder;
  write_contents(folder / "short", std::string(31, 'x'));
  const File file{(folder / "short").string(), File::Mode::read};
  std::vector<double> out(4);
  CHECK_THROWS_AS(read_block<double>(file, {0, ElementType::f64, {2, 2}},
                                     {part(2, 1, 0), part(2, 1, 0)}, engine,
                                     MatrixView<double>{out.data(), {2, 2}}),
                  DataError);
}

}  // namespace cubist::test::io_stored_matrix_test
