// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Saves and loads distributed matrices in safetensors files, which other frameworks read. Each rank
// writes and reads its own blocks.
//
// A save stores the fingerprint of each tensor (core/fingerprint.hpp) as metadata
// "fingerprint.<name>", and a load compares it. Tensors of other programs have none, and nothing in
// their files says whether a weight is (in, out), as here, or (out, in), as in PyTorch. So for
// these the caller must state the order.
//
// Replicas of a block each read a part of it, so that every element is read once.
//
// Elements sent: an all_reduce of one number for each tensor; a save has barriers, too. A load
// also broadcasts the parts of blocks: (P-1)/P of each block that has P replicas.
// Source: github.com/huggingface/safetensors, "Format".

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/io/atomic_file.hpp"
#include "cubist/io/file.hpp"
#include "cubist/io/safetensors_header.hpp"
#include "cubist/io/stored_matrix.hpp"
#include "cubist/matrix/staging.hpp"
#include "cubist/matrix/state.hpp"

namespace cubist::CUBIST_ABI
{

/// The metadata that a file stores besides its tensors: text by name.
using Metadata = std::map<std::string, std::string>;

namespace detail
{

/// Formats a number as 16 digits, so that the length of a header does not depend on it.
inline std::string hexadecimal(std::uint64_t value)
{
  std::string digits(16, '0');
  for (std::size_t i = 16; i-- > 0; value >>= 4U) digits[i] = "0123456789abcdef"[value & 15U];
  return digits;
}

inline std::string fingerprint_key(const std::string& name) { return "fingerprint." + name; }

}  // namespace detail

/// A safetensors file, opened for reading.
class SafetensorsFile
{
 public:
  /// Opens a file, and reads its header.
  /// @throws DataError for a file that is missing or is not a safetensors file
  explicit SafetensorsFile(const std::filesystem::path& path)
      : file_{path.string(), File::Mode::read}
  {
    const std::uint64_t bytes = file_.bytes();
    std::array<std::byte, length_bytes> length{};
    require<DataError>(
        bytes >= length_bytes, file_.path(), " has ", bytes,
        " bytes, too few for a safetensors header, so it is truncated or another kind of file; "
        "take a fresh copy of it");
    file_.read(0, length);
    std::string json(safetensors_header_bytes(length, bytes, file_.path()), '\0');
    file_.read(length_bytes, std::as_writable_bytes(std::span{json}));
    data_ = length_bytes + json.size();
    header_ = parse_safetensors_header(json, bytes - data_, file_.path());
  }

  /// The header of the file, which describes its tensors.
  [[nodiscard]] const SafetensorsHeader& header() const { return header_; }
  /// The path of the file.
  [[nodiscard]] const std::string& path() const { return file_.path(); }

  /// Sets matrices from the tensors of their names; F16, BF16, F32 and F64 are converted to T. A
  /// tensor of one dimension is a row. Every rank of the mesh calls it, and idle ranks may.
  /// @param order how the file stores these matrices, unless cubist saved it: in_out, as they are;
  /// out_in, transposed, as PyTorch stores its weights. Tensors of one row or column need no order.
  /// @throws DataError for a tensor that is missing, of the wrong type, or damaged
  /// @throws ShapeError for a tensor of another shape
  /// @throws ArgumentError without an order for a tensor of another program, and with
  /// WeightOrder::out_in for a tensor that cubist saved
  template <Scalar T, class M>
  void load(const std::vector<NamedMatrix<T, M>>& matrices,
            std::optional<WeightOrder> order = {}) const
  {
    if (matrices.empty() || !matrices.front().matrix.mesh.active()) return;
    const auto stored = places(matrices, order);
    std::vector<std::uint64_t> sums(matrices.size());
    for (std::size_t i = 0; i < matrices.size(); ++i)
      sums[i] = read_shared<T>(stored[i], matrices[i].matrix);
    const M& mesh = matrices.front().matrix.mesh;
    detail::all_reduce_numbers(mesh, std::span{sums});
    for (std::size_t i = 0; i < matrices.size(); ++i) check<T>(matrices[i].name, sums[i]);
  }

  /// Finds where matrices are in the file.
  /// @throws what `load` throws, except for damaged elements
  template <Scalar T, class M>
  [[nodiscard]] std::vector<StoredMatrix> places(const std::vector<NamedMatrix<T, M>>& matrices,
                                                 std::optional<WeightOrder> order = {}) const
  {
    std::vector<StoredMatrix> stored;
    for (const auto& [name, x] : matrices) stored.push_back(find<T>(name, x.shape, order));
    return stored;
  }

  /// Finds where a tensor of one or two dimensions is in the file, as a matrix. One dimension is a
  /// row. With `transposed`, the shape is that of the transpose.
  /// @throws DataError for a tensor that is missing or cannot be read as T, ShapeError for any
  /// other number of dimensions
  template <Scalar T>
  [[nodiscard]] StoredMatrix matrix(const std::string& name, bool transposed = false) const
  {
    const TensorInfo& tensor = this->tensor(name);
    const auto& s = tensor.shape;
    require<ShapeError>(s.size() == 1 || s.size() == 2, path(), " has ", name, " of ", s.size(),
                        " dimensions where a matrix is needed; use a file of the same network");
    const Shape stored{s.size() == 1 ? 1 : s[0], s.back()};
    return place<T>(tensor, op_shape(transposed, stored), transposed);
  }
  /// Reads this rank's block of a matrix, whose columns begin at column `first` of `stored`.
  template <Scalar T, class M>
  void read(const StoredMatrix& stored, std::size_t first, const DistView<T, M>& x) const
  {
    Block block = x.block(x.mesh.rank());
    block.cols.offset += first;
    read_block<T>(file_, stored, block, x.mesh.engine(), x.valid());
  }
  /// Reads any block of a matrix into an engine's memory.
  template <Scalar T, Engine E>
  void read(const StoredMatrix& stored, const Block& block, const E& engine, MatrixView<T> to) const
  {
    read_block<T>(file_, stored, block, engine, to);
  }

  /// Whether two tensors agree in type, in shape, and in every bit of part `part` of `parts` of
  /// their elements.
  /// @pre each file has its tensor
  [[nodiscard]] bool agrees(const std::string& name, const SafetensorsFile& other,
                            const std::string& other_name, std::uint64_t part,
                            std::uint64_t parts) const
  {
    const TensorInfo& a = *header_.find(name);
    const TensorInfo& b = *other.header_.find(other_name);
    if (a.type != b.type || a.shape != b.shape) return false;
    const std::uint64_t each = (a.end - a.begin + parts - 1) / parts;
    const std::uint64_t end = std::min(each * (part + 1), a.end - a.begin);
    std::vector<std::byte> mine(1U << 20), others(mine.size());
    for (std::uint64_t at = each * part; at < end; at += mine.size())
    {
      const std::size_t count = std::min<std::uint64_t>(mine.size(), end - at);
      file_.read(data_ + a.begin + at, std::span{mine}.first(count));
      other.file_.read(other.data_ + b.begin + at, std::span{others}.first(count));
      if (!std::equal(mine.begin(), mine.begin() + std::ptrdiff_t(count), others.begin()))
        return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t length_bytes = 8;

  /// Reads this rank's block of a matrix. Each of its replicas reads a part, and sends it to the
  /// others. Returns this rank's term of the fingerprint.
  template <Scalar T, class M>
  [[nodiscard]] std::uint64_t read_shared(const StoredMatrix& stored, const DistView<T, M>& x) const
  {
    const int rank = x.mesh.rank();
    const Block whole = x.block(rank);
    const auto& engine = x.mesh.engine();
    auto* const replicas =
        x.padded.size() > 0 && x.padded.contiguous() ? x.replica_ranks() : nullptr;
    if (replicas == nullptr)
    {
      const auto sum = read_block<T>(file_, stored, whole, engine, x.valid());
      return x.is_primary(rank) ? sum : 0;
    }
    const auto parts = static_cast<std::size_t>(replicas->size());
    std::uint64_t sum = 0;
    std::size_t begin = 0;  // the first element of a part in the padded block
    for (std::size_t i = 0; i < parts; ++i)
    {
      const Block part = part_of_block(whole, parts, i);
      const MatrixView<T> place{x.padded.data() + begin, part.padded()};
      begin += place.size();
      if (i == static_cast<std::size_t>(replicas->rank()))
        sum = read_block<T>(file_, stored, part, engine, place.block(0, 0, part.valid()));
    }
    begin = 0;
    for (std::size_t i = 0; i < parts; ++i)
    {
      const std::size_t size = part_of_block(whole, parts, i).padded().size();
      if (size > 0)
        replicas->broadcast(std::span<T>{x.padded.data() + begin, size}, static_cast<int>(i));
      begin += size;
    }
    return x.parts().is_primary(rank) ? sum : 0;
  }

  [[nodiscard]] const TensorInfo& tensor(const std::string& name) const
  {
    const TensorInfo* found = header_.find(name);
    require<DataError>(found != nullptr, path(), " has no tensor ", name,
                       ", so there is nothing to set it from; use a file of the same network");
    return *found;
  }

  /// @throws DataError for a tensor that cannot be read as T
  template <Scalar T>
  [[nodiscard]] StoredMatrix place(const TensorInfo& tensor, Shape shape, bool transposed) const
  {
    const StoredMatrix found{data_ + tensor.begin, tensor.type, shape, transposed};
    detail::require_readable<T>(file_, found, tensor.name);
    return found;
  }

  template <Scalar T>
  [[nodiscard]] StoredMatrix find(const std::string& name, Shape shape,
                                  std::optional<WeightOrder> order) const
  {
    const TensorInfo& tensor = this->tensor(name);
    const auto& s = tensor.shape;
    std::string got;
    for (const auto extent : s) got += (got.empty() ? "" : ", ") + std::to_string(extent);
    const auto is_of = [&](Shape wanted) {
      return s.size() == 2 && s[0] == wanted.rows && s[1] == wanted.cols;
    };
    const bool is_vector = s.size() < 2 || s[0] <= 1 || s[1] <= 1;
    if (!is_vector) require_order(name, got, order);
    const bool transposed = order == WeightOrder::out_in && !(is_vector && is_of(shape));
    const bool same = is_of(op_shape(transposed, shape)) ||
                      (s.size() == 1 && shape.rows == 1 && s[0] == shape.cols);
    require<ShapeError>(same, path(), " has ", name, " of (", got, ")",
                        transposed ? ", in WeightOrder::out_in," : "", " for a matrix of ", shape,
                        ", so their elements do not correspond; use a file of the same network");
    return place<T>(tensor, shape, transposed && !is_vector);
  }

  /// Requires an order for a tensor of another program, and refuses one that contradicts cubist's.
  void require_order(const std::string& name, const std::string& shape,
                     std::optional<WeightOrder> order) const
  {
    const bool own = header_.metadata.contains(detail::fingerprint_key(name));
    require<ArgumentError>(
        own || order, path(), " has ", name, " of (", shape,
        "), without the fingerprint that cubist saves, so it is unknown whether its rows are "
        "inputs or outputs; pass SafetensorsFile::load WeightOrder::out_in for weights of "
        "PyTorch's nn.Linear, in_out for matrices that are stored as cubist stores them");
    require<ArgumentError>(
        !own || order != WeightOrder::out_in, "got WeightOrder::out_in for ", name, " in ", path(),
        ", which cubist saved as (in, out), so it would be transposed by mistake; leave the order "
        "out");
  }

  /// Compares a tensor's fingerprint with the saved one. Tensors that were converted to T are not
  /// checked, because their fingerprints differ.
  template <Scalar T>
  void check(const std::string& name, std::uint64_t sum) const
  {
    const auto saved = header_.metadata.find(detail::fingerprint_key(name));
    if (saved == header_.metadata.end() || header_.find(name)->type != element_type<T>()) return;
    require<DataError>(saved->second == detail::hexadecimal(sum), path(), " has elements in ", name,
                       " that differ from those saved, so it is damaged; take a fresh copy or an "
                       "older checkpoint");
  }

  File file_;
  std::uint64_t data_ = 0;
  SafetensorsHeader header_;
};

namespace detail
{

/// Calls f(matrix) for each matrix of all lists.
template <class F, class... Lists>
void for_each_matrix(F f, const Lists&... lists)
{
  const auto each = [&](const auto& list) {
    for (const auto& matrix : list) f(matrix);
  };
  (each(lists), ...);
}

/// Returns the mesh on which all matrices of a list are distributed.
/// @throws ArgumentError for an empty list
template <class T, class M>
[[nodiscard]] const M& mesh_of(const std::vector<NamedMatrix<T, M>>& matrices)
{
  require<ArgumentError>(!matrices.empty(),
                         "got no matrices to save, so the mesh is unknown; give at least one");
  return matrices.front().matrix.mesh;
}

/// Makes the header of a file that holds the matrices of all lists one after the other. Their
/// fingerprints are 0.
/// @throws ArgumentError for two matrices of the same name
template <class... Lists>
[[nodiscard]] SafetensorsHeader make_header(Metadata metadata, const Lists&... lists)
{
  SafetensorsHeader header{.metadata = std::move(metadata), .tensors = {}};
  std::uint64_t end = 0;
  for_each_matrix(
      [&]<class T, class M>(const NamedMatrix<T, M>& m) {
        require<ArgumentError>(
            header.metadata.emplace(fingerprint_key(m.name), hexadecimal(0)).second,
            "got two matrices named ", m.name,
            ", of which only one could be loaded; give each its own name");
        const Shape s = m.matrix.shape;
        const std::uint64_t begin = end;
        end += s.size() * sizeof(T);
        header.tensors.push_back(
            {m.name, element_type<std::remove_const_t<T>>(), {s.rows, s.cols}, begin, end});
      },
      lists...);
  return header;
}

/// Returns the start of a file, up to its tensors, with their fingerprints.
[[nodiscard]] inline std::string format_with_fingerprints(SafetensorsHeader header,
                                                          std::span<const std::uint64_t> sums)
{
  for (std::size_t i = 0; i < sums.size(); ++i)
    header.metadata[fingerprint_key(header.tensors[i].name)] = hexadecimal(sums[i]);
  return format_safetensors_header(header);
}

/// Saves lists of matrices in one file.
template <class First, class... Lists>
void save_lists(const std::filesystem::path& path, Metadata metadata, const First& first,
                const Lists&... more)
{
  const auto& mesh = mesh_of(first);
  if (!mesh.active()) return;
  const SafetensorsHeader header = make_header(std::move(metadata), first, more...);
  const std::string start = format_safetensors_header(header);
  AtomicFile file{mesh, path, start, start.size() + header.bytes()};
  std::vector<std::uint64_t> sums;
  for_each_matrix(
      [&]<class T, class M>(const NamedMatrix<T, M>& m) {
        const auto& x = m.matrix;
        const auto& tensor = header.tensors[sums.size()];
        const StoredMatrix stored{start.size() + tensor.begin, tensor.type, x.shape};
        sums.push_back(x.is_primary(mesh.rank()) ? write_block<std::remove_const_t<T>>(
                                                       file.file(), stored, x.block(mesh.rank()),
                                                       mesh.engine(), x.valid())
                                                 : 0);
      },
      first, more...);
  all_reduce_numbers(mesh, std::span{sums});
  file.write_header(format_with_fingerprints(header, sums));
  file.publish();
}

}  // namespace detail

/// Saves matrices of one mesh, and metadata. Every rank of the mesh calls it, and idle ranks may.
/// @throws DataError if the system refuses, ArgumentError for two matrices of the same name
template <class T, class M>
void save_safetensors(const std::filesystem::path& path,
                      const std::vector<NamedMatrix<T, M>>& matrices, Metadata metadata = {})
{
  detail::save_lists(path, std::move(metadata), matrices);
}

}  // namespace cubist::CUBIST_ABI
