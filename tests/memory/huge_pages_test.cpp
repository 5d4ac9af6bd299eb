// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "cubist/memory/huge_pages.hpp"

#include "catch.hpp"

using namespace cubist;

namespace
{

using Paged = std::vector<float, HugePages<float>>;

std::uintptr_t address(const Paged& v) { return reinterpret_cast<std::uintptr_t>(v.data()); }

/// Whether the system was asked to give this memory huge pages: "hg" among its flags.
bool asked_for(std::uintptr_t p)
{
  std::ifstream maps{"/proc/self/smaps"};
  bool here = false;
  for (std::string line; std::getline(maps, line);)
  {
    const auto dash = line.find('-');
    const auto space = line.find(' ');
    if (dash != std::string::npos && dash < space && line.find(':') > dash)
      here = std::stoull(line.substr(0, dash), nullptr, 16) <= p &&
             p < std::stoull(line.substr(dash + 1, space - dash - 1), nullptr, 16);
    else if (here && line.rfind("VmFlags:", 0) == 0)
      return line.find(" hg") != std::string::npos;
  }
  return false;
}

constexpr std::size_t large = HugePages<float>::least / sizeof(float);

}  // namespace

TEST_CASE("What is large begins on a huge page, which the system is asked for")
{
  const Paged v(large + 5);
  CHECK(address(v) % HugePages<float>::page == 0);
  CHECK(asked_for(address(v)));
  CHECK(v == Paged(large + 5, 0.0F));
}

TEST_CASE("What is small comes from the heap")
{
  const Paged v(1000, 2.0F);
  CHECK_FALSE(asked_for(address(v)));
  CHECK(v.back() == 2);
}

TEST_CASE("Memory on huge pages is copied, moved and given back as any other")
{
  Paged v(large, 1.0F);
  Paged w = v;
  w[3] = 2;
  CHECK(v[3] == 1);
  const auto* p = w.data();
  v = std::move(w);
  CHECK(v.data() == p);
  v = Paged(3);
  CHECK(v.size() == 3);
}
