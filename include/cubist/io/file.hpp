// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Files that each rank reads and writes at its own positions. This header also makes folders,
// formats the numbers in file names, and renames files durably.

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI
{

/// An open file. Every failure throws DataError.
class File
{
 public:
  /// How a file is opened.
  enum class Mode
  {
    read,    // an existing file
    write,   // an existing file
    create,  // an empty file, which replaces an existing one
  };

  /// Opens the file.
  File(std::string path, Mode mode)
      : path_{std::move(path)}
  {
    const int flags = mode == Mode::read    ? O_RDONLY
                      : mode == Mode::write ? O_RDWR
                                            : O_RDWR | O_CREAT | O_TRUNC;
    do descriptor_ = ::open(path_.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0644);
    while (descriptor_ < 0 && errno == EINTR);
    check(descriptor_ >= 0, mode == Mode::read ? "open" : "write to", open_advice(mode, errno));
    struct stat about = {};
    // Reading another kind of file might not end; O_NONBLOCK opens pipes without a writer.
    if (::fstat(descriptor_, &about) == 0 && S_ISREG(about.st_mode)) return;
    ::close(descriptor_);
    throw DataError{
        "got " + path_ +
        ", which is not a regular file, so its size cannot be checked; name a regular file"};
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  /// Closes the file. What was not synced may be lost without an error.
  ~File() { ::close(descriptor_); }

  /// The path of the file.
  [[nodiscard]] const std::string& path() const { return path_; }
  /// The descriptor, for system calls.
  [[nodiscard]] int descriptor() const { return descriptor_; }

  /// The file's length in bytes.
  [[nodiscard]] std::uint64_t bytes() const
  {
    struct stat about = {};
    check(::fstat(descriptor_, &about) == 0, "ask for the size of", "check the file system");
    return static_cast<std::uint64_t>(about.st_size);
  }

  /// Whether the path still names this file, which it does until the file is removed or replaced.
  [[nodiscard]] bool has_its_name() const
  {
    struct stat mine = {};
    struct stat named = {};
    return ::fstat(descriptor_, &mine) == 0 && ::stat(path_.c_str(), &named) == 0 &&
           mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
  }

  /// Reads exactly `out.size()` bytes at byte `from`.
  void read(std::uint64_t from, std::span<std::byte> out) const
  {
    while (!out.empty())
    {
      const auto n = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(from));
      if (n < 0 && errno == EINTR) continue;
      check(n >= 0, "read", "check the file system");
      require<DataError>(n > 0, path_, " ends at byte ", from, ", but ", out.size(),
                         " more bytes are expected, so it is truncated; take a fresh copy of it");
      from += static_cast<std::uint64_t>(n);
      out = out.subspan(static_cast<std::size_t>(n));
    }
  }

  /// Writes all of `in` at byte `to`.
  void write(std::uint64_t to, std::span<const std::byte> in)
  {
    while (!in.empty())
    {
      const auto n = ::pwrite(descriptor_, in.data(), in.size(), static_cast<off_t>(to));
      if (n < 0 && errno == EINTR) continue;
      check(n > 0, "write to", space_advice(errno));
      to += static_cast<std::uint64_t>(n);
      in = in.subspan(static_cast<std::size_t>(n));
    }
  }

  /// Sets the size of the file.
  void resize(std::uint64_t bytes)
  {
    check(::ftruncate(descriptor_, static_cast<off_t>(bytes)) == 0, "extend", space_advice(errno));
  }

  /// Waits until all that was written is on the disk. A file system with a server (NFS) may report
  /// only here, or in `close`, that a write did not fit the disk or the user's quota. After this,
  /// `close` has nothing left to report.
  void sync() { check(::fsync(descriptor_) == 0, "write to", space_advice(errno)); }

 private:
  [[nodiscard]] static const char* space_advice(int error)
  {
    return error == EDQUOT ? "remove files, ask for a larger quota, or use another disk"
                           : "free space on the disk, or use another";
  }
  [[nodiscard]] static const char* open_advice(Mode mode, int error)
  {
    if (error == EDQUOT || error == ENOSPC) return space_advice(error);
    const bool forbidden = error == EACCES || error == EPERM || error == EROFS;
    if (mode == Mode::read)
      return forbidden ? "check the permissions of the file, and of its folders"
                       : "check the path, and that every node sees it";
    if (forbidden) return "check the permissions of its folder, or save to another one";
    return mode == Mode::create ? "check the path, and that its folder exists"
                                : "check that every node sees it";
  }

  void check(bool success, const char* action, const char* advice) const
  {
    if (success) return;
    const std::string why = std::generic_category().message(errno);
    throw DataError{"cannot " + std::string{action} + " " + path_ + " (" + why +
                    "), so its data would be lost or missing; " + advice};
  }

  std::string path_;
  int descriptor_ = -1;
};

namespace detail
{

/// Waits until the names of a folder's entries are on the disk. Call it after renaming or removing
/// a file, or creating a folder.
/// @throws DataError if the system refuses, but not for a folder without read permission, or a file
/// system that cannot sync folders
inline void sync_folder(const std::filesystem::path& folder)
{
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  const int error = ::fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
  ::close(descriptor);
  require<DataError>(error == 0, "cannot write the folder ", folder.string(), " to the disk (",
                     std::generic_category().message(error),
                     "), so its files could be lost; free space on the disk, or use another");
}

/// The folder of a file.
[[nodiscard]] inline std::filesystem::path folder_of(const std::filesystem::path& file)
{
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path{"."};
}

}  // namespace detail

/// Makes a folder and the folders that contain it, unless they exist, and waits until all of them
/// are on the disk.
/// @throws DataError if the system refuses
inline void create_folders(const std::filesystem::path& folder)
{
  std::vector<std::filesystem::path> changed;  // the folders that get a new folder
  std::error_code error;
  for (auto path = folder; !path.empty() && !std::filesystem::exists(path, error);
       path = path.parent_path())
    changed.push_back(detail::folder_of(path));
  std::filesystem::create_directories(folder, error);
  require<DataError>(!error, "cannot create the folder ", folder.string(), " (", error.message(),
                     "), so nothing could be saved; check the path and its permissions");
  for (const auto& path : changed) detail::sync_folder(path);
}

/// Formats a number for a file's name, with leading zeros, so that names sort as the numbers do.
[[nodiscard]] inline std::string file_number(std::uint64_t number, std::size_t digits)
{
  const auto text = std::to_string(number);
  return std::string(digits - std::min(digits, text.size()), '0') + text;
}

/// Renames a file, replacing any file of the new name, and waits until the rename is on the disk. A
/// reader sees either the old or the new file, complete.
/// @throws DataError if the system refuses
inline void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to)
{
  std::error_code error;
  std::filesystem::rename(from, to, error);
  require<DataError>(!error, "cannot rename ", from.string(), " to ", to.string(), " (",
                     error.message(),
                     "), so the file would not be found; check the folder's permissions");
  detail::sync_folder(detail::folder_of(to));
}

}  // namespace cubist::CUBIST_ABI
