// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Distributed matrices in NumPy's .npy files: each rank writes and reads its own block.
//
// Words: none; a save has barriers before its first and after its last write.
// Source: numpy.lib.format, "NEP 1, a simple file format for NumPy arrays".

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/io/atomic_file.hpp"
#include "cubist/io/file.hpp"
#include "cubist/io/npy_header.hpp"
#include "cubist/io/stored_matrix.hpp"

namespace cubist
{

namespace detail
{

/// The matrix of an .npy file; an array of one dimension is a row.
inline StoredMatrix find_npy(const File& file)
{
  const std::uint64_t bytes = file.bytes();
  std::string start(std::min<std::uint64_t>(bytes, npy_header_limit), '\0');
  file.read(0, std::as_writable_bytes(std::span{start}));
  const NpyHeader header = parse_npy_header(start, bytes, file.path());
  const auto& s = header.shape;
  require<DataError>(s.size() == 1 || s.size() == 2, file.path(), " holds an array of ", s.size(),
                     " dimensions, but only matrices are distributed; save it with two");
  const Shape shape = s.size() == 1 ? Shape{1, s[0]} : Shape{s[0], s[1]};
  return {header.data_offset, header.type, shape, header.fortran_order};
}

}  // namespace detail

/// Writes a matrix. Every rank of the mesh calls it, and idle ranks may.
/// @throws DataError where the system refuses
template <class T, class M>
void save_npy(const std::filesystem::path& path, const DistView<T, M>& x)
{
  using Value = std::remove_const_t<T>;
  if (!x.mesh.active()) return;
  const std::string header = format_npy_header(element_type<Value>(), x.shape);
  AtomicFile file{x.mesh, path, header, header.size() + x.shape.size() * sizeof(T)};
  if (x.primary(x.mesh, x.mesh.rank()))
    write_block<Value>(file.file(), {header.size(), element_type<Value>(), x.shape},
                       x.block(x.mesh.rank()), x.mesh.engine(), x.valid());
  file.publish();
}
template <class T, class L, class M>
void save_npy(const std::filesystem::path& path, const DistMatrix<T, L, M>& x)
{
  save_npy(path, x.view());
}

/// Sets a matrix from a file in C or Fortran order; f2, f4 and f8 are converted to T.
/// @throws DataError for a file that is missing, no .npy file, or not a matrix of such elements
/// @throws ShapeError for a matrix of another shape
template <Scalar T, class M>
void load_npy(const std::filesystem::path& path, const DistView<T, M>& out)
{
  if (!out.mesh.active()) return;
  const File file{path.string(), File::Mode::read};
  const StoredMatrix m = detail::find_npy(file);
  detail::require_readable<T>(file, m, "elements");
  require<ShapeError>(
      m.shape == out.shape, file.path(), " holds a matrix of ", m.shape, " to set one of ",
      out.shape, ", so elements would be missing or left over; load it into one of that shape");
  read_block<T>(file, m, out.block(out.mesh.rank()), out.mesh.engine(), out.valid());
}

/// Loads the matrix of a file with layout `L`. Every rank of the mesh calls it.
/// @throws DataError for a file that is missing, no .npy file, or not a matrix of such elements
template <class L, Scalar T, class A, class B>
[[nodiscard]] auto load_npy(const AxisMesh<A, B>& mesh, const std::filesystem::path& path)
{
  DistMatrix<T, L, AxisMesh<A, B>> out{
      mesh, detail::find_npy(File{path.string(), File::Mode::read}).shape};
  load_npy(path, out.view());
  return out;
}

}  // namespace cubist
