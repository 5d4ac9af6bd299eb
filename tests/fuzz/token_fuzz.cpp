// SPDX-License-Identifier: BSD-3-Clause

// The input is a byte that selects the type of tokens, and a token file.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "cubist/dataset/token_file.hpp"

#include "fuzz.hpp"

using namespace cubist;
using cubist::fuzz::accepts;
using cubist::fuzz::demand;

namespace
{

/// A file in memory.
class MemoryFile
{
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size)
      : descriptor_{::memfd_create("tokens", 0)}
  {
    demand(descriptor_ >= 0 && ::write(descriptor_, data, size) == static_cast<ssize_t>(size),
           "the system has memory");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }

  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace

CUBIST_FUZZ_TARGET(token)
{
  if (size == 0) return 0;
  constexpr std::array types{TokenType::uint8, TokenType::uint16, TokenType::uint32};
  const std::size_t type = data[0] % types.size();
  const MemoryFile file{data + 1, size - 1};
  accepts([&] {
    const TokenFile tokens{file.path(), types.at(type)};
    const std::uint64_t count = tokens.size();
    demand(count <= (size - 1) >> type, "tokens are in the file");
    demand(!accepts<ShapeError>([&] { (void)tokens[count]; }), "no token is after the last");
    std::vector<int> all(count);
    tokens.copy(0, all);
    for (std::uint64_t i = 0; i < count; ++i)
    {
      demand(all[i] >= 0, "tokens are not negative");
      demand(tokens.part(i, count - i)[0] == all[i], "a part has the tokens of the file");
    }
  });
  return 0;
}
