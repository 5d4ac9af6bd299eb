// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Zip archives, which users pass for other files: np.savez, torch.save and spreadsheets write them.

#include <string>
#include <string_view>

#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI
{

/// @param start the file's first 4 bytes, or more
/// @param file its name, for messages
/// @param wanted what is read instead, and how to get it: "a matrix; save it with np.save"
/// @throws DataError for a zip archive
inline void require_no_zip(std::string_view start, const std::string& file, const char* wanted)
{
  require<DataError>(!start.starts_with("PK\x03\x04"), "got ", file,
                     ", which is a zip archive, as np.savez and torch.save write them, so it is "
                     "not ",
                     wanted);
}

}  // namespace cubist::CUBIST_ABI
