// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Recognises files of other formats that users pass by mistake: zip archives, which np.savez,
// torch.save and spreadsheets write, and Git LFS pointers, which stand in for large files if a
// repository was cloned without Git LFS:
//
//   version https://git-lfs.github.com/spec/v1
//   oid sha256:…
//   size 548105171
//
// Source: github.com/git-lfs/git-lfs, docs/spec.md.

#include <algorithm>
#include <string>
#include <string_view>

#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI
{

/// Refuses zip archives.
/// @param start the file's first 4 bytes, or more
/// @param file the file's name, for messages
/// @param wanted what is read instead, and how to get it: "a matrix; save it with np.save"
/// @throws DataError for a zip archive
inline void require_no_zip(std::string_view start, const std::string& file, const char* wanted)
{
  require<DataError>(
      !start.starts_with("PK\x03\x04"), "got ", file,
      ", which is a zip archive, such as np.savez and torch.save write, so it is not ", wanted);
}

/// Refuses Git LFS pointers.
/// @param start the file's first 8 bytes, or more
/// @param file the file's name, for messages
/// @throws DataError for a Git LFS pointer
inline void require_no_lfs_pointer(std::string_view start, const std::string& file)
{
  constexpr std::string_view pointer = "version https://git-lfs.github.com/spec/";
  const auto size = std::min(start.size(), pointer.size());
  require<DataError>(size < 8 || start.substr(0, size) != pointer.substr(0, size), "got ", file,
                     ", which is a Git LFS pointer and not the file itself, so it holds no data; "
                     "fetch the file with git lfs pull, or download it");
}

}  // namespace cubist::CUBIST_ABI
