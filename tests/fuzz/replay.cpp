// SPDX-License-Identifier: BSD-3-Clause

// Replaces libFuzzer: replay <reader> <directory> calls the reader's target with every file of a
// corpus.

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
  if (argc == 3)
  {
    const cubist::fuzz::Target target = cubist::fuzz::targets().at(argv[1]);
    for (const auto& entry : std::filesystem::directory_iterator{argv[2]})
    {
      std::ifstream file{entry.path(), std::ios::binary};
      const std::string bytes{std::istreambuf_iterator{file}, {}};
      target(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
      ++count;
    }
  }
  std::printf("%d files read\n", count);
  return count > 0 ? 0 : 1;
}
