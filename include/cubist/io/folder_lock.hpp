// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Keeps two runs from saving to one folder, because each would replace and remove the other's
// files. A run locks the file `.lock` in the folder with flock. The system releases the lock when
// the process ends, however it ends. Objects of one process share the lock.
//
// NFS passes the lock on to its server. On a file system without locks, folders are not protected.

#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>

#include <sys/file.h>

#include "cubist/core/error.hpp"
#include "cubist/io/file.hpp"

namespace cubist::CUBIST_ABI::detail
{

class FolderLock
{
 public:
  /// Locks a folder. It stays locked until the last owner of the result is gone.
  /// @pre the folder exists
  /// @throws DataError if another process has locked the folder, or it cannot be written to
  [[nodiscard]] static std::shared_ptr<FolderLock> of(const std::filesystem::path& folder)
  {
    static std::mutex mutex;
    static std::map<std::filesystem::path, std::weak_ptr<FolderLock>> locks;
    std::error_code error;
    const auto path = std::filesystem::weakly_canonical(folder, error) / ".lock";
    const std::lock_guard lock{mutex};
    auto& known = locks[path];
    auto mine = known.lock();
    // A folder that was removed and made again is not locked.
    if (!mine || !mine->file_->has_its_name())
      known = mine = std::shared_ptr<FolderLock>{new FolderLock{path}};
    return mine;
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock()
  {
    std::error_code ignored;
    if (file_->has_its_name()) std::filesystem::remove(file_->path(), ignored);
  }

 private:
  explicit FolderLock(const std::filesystem::path& path)
  {
    // Another owner may remove its file after this one opens it, and before it locks it.
    do
    {
      file_ = std::make_unique<File>(path.string(), File::Mode::create);
      const bool locked = ::flock(file_->descriptor(), LOCK_EX | LOCK_NB) == 0;
      require<DataError>(locked || errno != EWOULDBLOCK, "cannot save to ",
                         path.parent_path().string(),
                         ", because another run saves to it, and each would remove the other's "
                         "files; use another folder, or, if no run does, remove ",
                         path.string());
    } while (!file_->has_its_name());
  }

  std::unique_ptr<File> file_;
};

}  // namespace cubist::CUBIST_ABI::detail
