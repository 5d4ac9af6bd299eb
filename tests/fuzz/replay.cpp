// SPDX-License-Identifier: BSD-3-Clause

// Replaces libFuzzer: replay <directory> calls the target with every file of a corpus.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fuzz.hpp"

int main(int argc, char** argv)
{
  int count = 0;
  if (argc == 2)
    for (const auto& entry : std::filesystem::directory_iterator{argv[1]})
    {
      std::ifstream file{entry.path(), std::ios::binary};
      const std::string bytes{std::istreambuf_iterator{file}, {}};
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
      ++count;
    }
  std::printf("%d files read\n", count);
  return count > 0 ? 0 : 1;
}
