// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Maps a file into memory to read it. The system loads pages as they are read, and the processes of
// a node share them.

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>

#include <sys/mman.h>

#include "cubist/core/error.hpp"
#include "cubist/io/file.hpp"

namespace cubist::CUBIST_ABI
{

/// A mapped file. Copies share the mapping, and threads may read it at the same time.
/// @pre nobody shortens the file while it is mapped: reading beyond its end would raise SIGBUS
class MappedFile
{
 public:
  /// @throws DataError for a file that cannot be read
  explicit MappedFile(const std::filesystem::path& path)
      : path_{path.string()}
  {
    const File file{path_, File::Mode::read};
    const std::size_t size = file.bytes();
    if (size == 0) return;
    void* const begin = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
    require<DataError>(begin != MAP_FAILED, "cannot map ", path_, " (",
                       std::generic_category().message(errno),
                       "), so its data cannot be read as memory; check the file system, and the "
                       "limit of virtual memory (ulimit -v)");
    const auto unmap = [size](const std::byte* p) { ::munmap(const_cast<std::byte*>(p), size); };
    data_ = {static_cast<const std::byte*>(begin), unmap};
    size_ = size;
  }

  /// The path of the file.
  [[nodiscard]] const std::string& path() const { return path_; }
  /// The contents of the file.
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  std::string path_;
  std::shared_ptr<const std::byte> data_;
  std::size_t size_ = 0;
};

}  // namespace cubist::CUBIST_ABI
