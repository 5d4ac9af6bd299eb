// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Saves and loads distributed matrices in NumPy's .npy files: each rank writes and reads its own
// block. Reads class labels from .npy files: each rank reads all of them.
//
// Elements that one rank sends: none; a save has barriers before its first and after its last
// write.
// Source: numpy.lib.format, "NEP 1, a simple file format for NumPy arrays".

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/io/atomic_file.hpp"
#include "cubist/io/file.hpp"
#include "cubist/io/npy_header.hpp"
#include "cubist/io/stored_matrix.hpp"
#include "cubist/matrix/dist_matrix.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Finds the matrix of an .npy file, or its transpose; an array of one dimension is a row.
inline StoredMatrix find_npy(const File& file, WeightOrder order = WeightOrder::in_out)
{
  const std::uint64_t bytes = file.bytes();
  std::string start(std::min<std::uint64_t>(bytes, npy_header_limit), '\0');
  file.read(0, std::as_writable_bytes(std::span{start}));
  const NpyHeader header = parse_npy_header(start, bytes, file.path());
  const auto& s = header.shape;
  require<DataError>(s.size() == 1 || s.size() == 2, file.path(), " holds an array of ", s.size(),
                     " dimensions, but only matrices are distributed; save it with two");
  if (s.size() == 1) return {header.data_offset, header.type, {1, s[0]}};
  const bool swap = order == WeightOrder::out_in;
  return {header.data_offset, header.type, op_shape(swap, {s[0], s[1]}),
          header.fortran_order != swap};
}

}  // namespace detail

/// Writes a matrix. Every rank of the mesh calls it, and idle ranks may.
/// @throws DataError if the system refuses
template <class T, class M>
void save_npy(const std::filesystem::path& path, const DistView<T, M>& x)
{
  using Value = std::remove_const_t<T>;
  if (!x.mesh.active()) return;
  const std::string header = format_npy_header(element_type<Value>(), x.shape);
  AtomicFile file{x.mesh, path, header, header.size() + x.shape.size() * sizeof(T)};
  if (x.is_primary(x.mesh.rank()))
    write_block<Value>(file.file(), {header.size(), element_type<Value>(), x.shape},
                       x.block(x.mesh.rank()), x.mesh.engine(), x.valid());
  file.publish();
}
template <class T, class L, class M>
void save_npy(const std::filesystem::path& path, const DistMatrix<T, L, M>& x)
{
  save_npy(path, x.view());
}

/// Sets a matrix from a file in C or Fortran order; f2, f4 and f8 are converted to T. A file does
/// not say whether it holds a PyTorch weight, (out, in): WeightOrder::out_in loads the transpose.
/// @throws DataError for a file that is missing, is not an .npy file, or holds no matrix of such
/// elements
/// @throws ShapeError for a matrix of another shape
template <Scalar T, class M>
void load_npy(const std::filesystem::path& path, const DistView<T, M>& out,
              WeightOrder order = WeightOrder::in_out)
{
  if (!out.mesh.active()) return;
  const File file{path.string(), File::Mode::read};
  const StoredMatrix m = detail::find_npy(file, order);
  detail::require_readable<T>(file, m, "elements");
  require<ShapeError>(
      m.shape == out.shape, file.path(), " holds a matrix of ", m.shape,
      order == WeightOrder::out_in ? " when transposed" : "", " for a matrix of ", out.shape,
      ", so elements would be missing or left over; load it into a matrix of its shape, or use "
      "WeightOrder::out_in for a PyTorch weight");
  read_block<T>(file, m, out.block(out.mesh.rank()), out.mesh.engine(), out.valid());
}

/// Loads the matrix of a file, or with WeightOrder::out_in its transpose, with layout `L`. Every
/// rank of the mesh calls it.
/// @throws DataError for a file that is missing, is not an .npy file, or holds no matrix of such
/// elements
template <class L, Scalar T, class A, class B>
[[nodiscard]] auto load_npy(const AxisMesh<A, B>& mesh, const std::filesystem::path& path,
                            WeightOrder order = WeightOrder::in_out)
{
  DistMatrix<T, L, AxisMesh<A, B>> out{
      mesh, detail::find_npy(File{path.string(), File::Mode::read}, order).shape};
  load_npy(path, out.view(), order);
  return out;
}

/// Reads class labels, as the losses take them: the integers of an array with one dimension, one
/// row or one column. A rank that calls it reads the whole file.
/// @throws DataError for a file that is missing, is not an .npy file, or holds no such array, and
/// for an integer that an int cannot represent
[[nodiscard]] inline std::vector<int> read_npy_labels(const std::filesystem::path& path)
{
  const File file{path.string(), File::Mode::read};
  const StoredMatrix m = detail::find_npy(file);
  require<DataError>(
      m.shape.rows == 1 || m.shape.cols == 1, file.path(), " holds a matrix of ", m.shape,
      ", but labels are one integer for each row of the output; save an array of one dimension, "
      "for one-hot rows y.argmax(axis=1)");
  std::vector<std::byte> bytes(m.shape.size() * bytes_of(m.type));
  file.read(m.begin, bytes);
  std::vector<int> labels(m.shape.size());
  const bool integers = detail::with_integer(m.type, [&]<class From>(From label) {
    for (std::size_t i = 0; i < labels.size(); ++i)
    {
      std::memcpy(&label, bytes.data() + i * sizeof(From), sizeof(From));
      require<DataError>(
          std::in_range<int>(label), file.path(), " has label ", +label, " at ", i,
          ", which an int cannot represent, so it is not a class; number the classes from 0");
      labels[i] = static_cast<int>(label);
    }
  });
  require<DataError>(
      integers, file.path(), " has elements in ", to_string(m.type),
      ", but labels are numbers of classes; save them as integers, for example y.astype('<i8')");
  return labels;
}

}  // namespace cubist::CUBIST_ABI
