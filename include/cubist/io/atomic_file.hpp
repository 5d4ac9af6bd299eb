// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A file that the ranks of a mesh write together. It has another name, with ".part" behind it,
// until all of it has reached the disk; so whoever reads finds a whole file, or none, or the one
// that was there before, at whatever moment the job is killed.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cubist/io/file.hpp"

namespace cubist
{

template <class M>
class AtomicFile
{
 public:
  /// A file of `bytes` bytes that starts with `beginning`. Every rank of the mesh calls this.
  /// @throws DataError where the system refuses
  AtomicFile(M mesh, std::filesystem::path path, std::string_view beginning, std::uint64_t bytes)
      : mesh_{std::move(mesh)}, path_{std::move(path)}
  {
    part_ = path_;
    part_ += ".part";
    if (first())
    {
      file_.emplace(part_.string(), File::Mode::create);
      file_->resize(bytes);
      write_beginning(beginning);
    }
    mesh_.world().barrier();
    if (!first()) file_.emplace(part_.string(), File::Mode::write);
  }
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile()
  {
    std::error_code nobody_asks;
    if (first() && !published_) std::filesystem::remove(part_, nobody_asks);
  }

  [[nodiscard]] File& file() { return *file_; }

  /// Rank 0 writes the first bytes anew, once it knows what belongs there.
  void write_beginning(std::string_view beginning)
  {
    if (first()) file_->write(0, std::as_bytes(std::span{beginning}));
  }

  /// Gives the file its name. Every rank of the mesh calls this when it has written its part.
  /// @throws DataError where the system refuses
  void publish()
  {
    file_->sync();
    mesh_.world().barrier();
    if (first()) rename_durably(part_, path_);
    published_ = true;
    mesh_.world().barrier();
  }

 private:
  [[nodiscard]] bool first() const { return mesh_.rank() == 0; }

  M mesh_;
  std::filesystem::path path_;
  std::filesystem::path part_;
  std::optional<File> file_;
  bool published_ = false;
};

}  // namespace cubist
