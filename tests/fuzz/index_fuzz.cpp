// SPDX-License-Identifier: BSD-3-Clause

// The input is the text of a model.safetensors.index.json.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cubist/io/safetensors_folder.hpp"

#include "fuzz.hpp"

using namespace cubist;
using cubist::fuzz::accepts;
using cubist::fuzz::demand;

CUBIST_FUZZ_TARGET(index)
{
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  accepts([&] {
    const auto files = parse_safetensors_index(text, "file");
    for (const auto& [tensor, file] : files)
      demand(!file.empty() && file.find('/') == file.npos && file.find('\0') == file.npos,
             "a file is in the index's folder");
    const bool accepted = accepts([&] {
      const auto again = nlohmann::json{{"weight_map", files}}.dump();
      demand(parse_safetensors_index(again, "again") == files,
             "a written index is parsed as the same");
    });
    demand(accepted, "a written index is accepted");
  });
  return 0;
}
