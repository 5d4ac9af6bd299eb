// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A file that the ranks of a mesh write together. It has a temporary name, ending in ".part", until
// all of it is on the disk. So a reader finds the complete file, the previous one, or none,
// whenever the job is killed.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "cubist/io/file.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// The temporary name of a file.
[[nodiscard]] inline std::filesystem::path part_of(std::filesystem::path file)
{
  return file += ".part";
}

}  // namespace detail

template <class M>
class AtomicFile
{
 public:
  /// Creates a file of `bytes` bytes that starts with `header`. Every rank of the mesh calls it.
  /// @throws DataError if the system refuses
  AtomicFile(M mesh, std::filesystem::path path, std::string_view header, std::uint64_t bytes)
      : mesh_{std::move(mesh)},
        path_{std::move(path)},
        part_{detail::part_of(path_)}
  {
    if (is_root())
    {
      file_.emplace(part_.string(), File::Mode::create);
      file_->resize(bytes);
      write_header(header);
    }
    mesh_.world().barrier();
    if (!is_root()) file_.emplace(part_.string(), File::Mode::write);
  }
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile()
  {
    std::error_code ignored;
    if (is_root() && !published_) std::filesystem::remove(part_, ignored);
  }

  /// The file, under its temporary name.
  [[nodiscard]] File& file() { return *file_; }

  /// Overwrites the first bytes of the file on rank 0; does nothing on other ranks.
  void write_header(std::string_view header)
  {
    if (is_root()) file_->write(0, std::as_bytes(std::span{header}));
  }

  /// Renames the file to its final name. Every rank of the mesh calls it after its last write.
  /// @throws DataError if the system refuses
  void publish()
  {
    file_->sync();
    mesh_.world().barrier();
    if (is_root()) rename_durably(part_, path_);
    published_ = true;
    mesh_.world().barrier();
  }

 private:
  [[nodiscard]] bool is_root() const { return mesh_.rank() == 0; }

  M mesh_;
  std::filesystem::path path_;
  std::filesystem::path part_;
  std::optional<File> file_;
  bool published_ = false;
};

}  // namespace cubist::CUBIST_ABI
