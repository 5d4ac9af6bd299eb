// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Reads and writes blocks of a global matrix in a file. Each rank reads and writes its own block,
// and needs memory for the block and for a chunk of rows.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/fingerprint.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/io/element_type.hpp"
#include "cubist/io/file.hpp"

namespace cubist::CUBIST_ABI
{

/// How a file stores a weight W of Y = X W. cubist stores (in, out), as the product takes it.
/// PyTorch's nn.Linear stores (out, in), and computes X W^T.
enum class WeightOrder
{
  in_out,  ///< (in, out), as in cubist and GPT-2's Conv1D
  out_in,  ///< (out, in), as in PyTorch's nn.Linear
};

/// Where a matrix is in a file, and how it is stored.
struct StoredMatrix
{
  std::uint64_t begin = 0;              // the offset in the file, in bytes
  ElementType type = ElementType::f64;  ///< the type of the elements
  Shape shape;
  bool transposed = false;  // whether the file stores it column by column, or its transpose
};

namespace detail
{

/// The number of bytes that are read or written at once: a mebibyte, or one row if that is longer.
inline constexpr std::size_t chunk_bytes = 1U << 20;

/// Calls f(first row, number of rows) for chunks of at most `chunk` bytes, or of one row.
template <class F>
void for_chunks(Shape shape, std::size_t element_bytes, std::size_t chunk, F f)
{
  if (shape.size() == 0) return;
  const std::size_t rows = std::max<std::size_t>(1, chunk / (shape.cols * element_bytes));
  for (std::size_t i = 0; i < shape.rows; i += rows) f(i, std::min(rows, shape.rows - i));
}

/// Calls f(offset in the file, offset in the rows, bytes) for each contiguous part of rows [i, i +
/// rows) of block `b`.
template <class F>
void for_runs(const StoredMatrix& m, const Block& b, std::size_t i, std::size_t rows, F f)
{
  const std::size_t element = bytes_of(m.type);
  const std::size_t wide = b.cols.valid * element;
  const auto at = [&](std::size_t row) {
    return m.begin + ((b.rows.offset + row) * m.shape.cols + b.cols.offset) * element;
  };
  if (b.cols.valid == m.shape.cols) return f(at(i), std::size_t{0}, rows * wide);
  for (std::size_t r = 0; r < rows; ++r) f(at(i + r), r * wide, wide);
}

template <class T>
void require_readable(const File& file, const StoredMatrix& m, const std::string& what)
{
  require<DataError>(readable_as<T>(m.type), file.path(), " has ", what, " in ", to_string(m.type),
                     ", which cannot be read as ", element_name<T>(), "; save it as ",
                     to_string(element_type<T>()));
}

/// Writes rows [i, i + rows) of block `b`, which are in host memory; returns their term of the
/// matrix's fingerprint.
template <Scalar T>
std::uint64_t write_rows(File& file, const StoredMatrix& m, const Block& b, std::size_t i,
                         MatrixView<const T> rows)
{
  const auto bytes = std::as_bytes(rows.elements());
  for_runs(m, b, i, rows.rows(), [&](std::uint64_t to, std::size_t from, std::size_t count) {
    file.write(to, bytes.subspan(from, count));
  });
  return fingerprint(rows, b.rows.offset + i, b.cols.offset, m.shape.cols);
}

}  // namespace detail

/// Writes block `b` with the elements `local`; returns its term of the matrix's fingerprint.
/// @param chunk_bytes how many bytes are written at once
/// @pre `m` has elements of type T, and is not transposed
/// @throws DataError if the system refuses
template <Scalar T, Engine E>
std::uint64_t write_block(File& file, const StoredMatrix& m, const Block& b, const E& engine,
                          MatrixView<const T> local, std::size_t chunk_bytes = detail::chunk_bytes)
{
  std::uint64_t sum = 0;
  std::vector<T> chunk;
  detail::for_chunks(b.valid(), sizeof(T), chunk_bytes, [&](std::size_t i, std::size_t rows) {
    const Shape shape{rows, b.cols.valid};
    chunk.resize(shape.size());
    engine.download(local.block(i, 0, shape), MatrixView<T>{chunk.data(), shape});
    sum += detail::write_rows(file, m, b, i, MatrixView<const T>{chunk.data(), shape});
  });
  return sum;
}

/// Writes block `b` from host memory, where it is contiguous, without another copy; returns its
/// term of the matrix's fingerprint.
/// @param after_chunk called after each chunk
/// @pre `m` has elements of type T, and is not transposed
/// @throws DataError if the system refuses
template <Scalar T, class F>
std::uint64_t write_copy(File& file, const StoredMatrix& m, const Block& b,
                         MatrixView<const T> copy, const F& after_chunk)
{
  std::uint64_t sum = 0;
  detail::for_chunks(b.valid(), sizeof(T), detail::chunk_bytes,
                     [&](std::size_t i, std::size_t rows) {
                       const auto part = copy.block(i, 0, {rows, copy.cols()});
                       sum += detail::write_rows(file, m, b, i, part);
                       after_chunk();
                     });
  return sum;
}

/// Reads block `b` into `local`, converted to T; returns its term of the fingerprint of the
/// converted matrix.
/// @param chunk_bytes how many bytes are read at once
/// @pre `m` is inside the file
/// @throws DataError for elements that do not convert to T, or a file that is truncated during
/// the call
template <Scalar T, Engine E>
std::uint64_t read_block(const File& file, const StoredMatrix& m, const Block& b, const E& engine,
                         MatrixView<T> local, std::size_t chunk_bytes = detail::chunk_bytes)
{
  // `stored` and `block` describe the matrix as the file stores it.
  const StoredMatrix stored{m.begin, m.type,
                            m.transposed ? Shape{m.shape.cols, m.shape.rows} : m.shape};
  const Block block = m.transposed ? Block{b.cols, b.rows} : b;
  std::uint64_t sum = 0;
  std::vector<std::byte> bytes;
  std::vector<T> chunk;
  std::vector<T> swapped;
  const std::size_t element = bytes_of(m.type);
  // Neither what is read nor what it becomes is larger than a chunk.
  const std::size_t larger = std::max(element, sizeof(T));
  detail::for_chunks(block.valid(), larger, chunk_bytes, [&](std::size_t i, std::size_t rows) {
    Shape shape{rows, block.cols.valid};
    chunk.resize(shape.size());
    const bool converts = m.type != element_type<T>();
    if (converts) bytes.resize(shape.size() * element);
    const auto target = converts ? std::span{bytes} : std::as_writable_bytes(std::span{chunk});
    detail::for_runs(stored, block, i, rows,
                     [&](std::uint64_t from, std::size_t to, std::size_t count) {
                       file.read(from, target.subspan(to, count));
                     });
    if (converts) decode<T>(m.type, bytes, chunk);
    std::size_t i0 = i;
    std::size_t j0 = 0;
    if (m.transposed)
    {
      swapped.resize(chunk.size());
      for (std::size_t r = 0; r < shape.rows; ++r)
        for (std::size_t c = 0; c < shape.cols; ++c)
          swapped[c * shape.rows + r] = chunk[r * shape.cols + c];
      chunk.swap(swapped);
      shape = {shape.cols, shape.rows};
      std::swap(i0, j0);
    }
    const MatrixView<const T> read{chunk.data(), shape};
    sum += fingerprint(read, b.rows.offset + i0, b.cols.offset + j0, m.shape.cols);
    engine.upload(read, local.block(i0, j0, shape));
  });
  return sum;
}

}  // namespace cubist::CUBIST_ABI
