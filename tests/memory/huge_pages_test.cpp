// SPDX-License-Identifier: BSD-3-Clause
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "cubist/memory/huge_pages.hpp"

#include "catch.hpp"

namespace cubist::test::memory_huge_pages_test
{

using Vector = std::vector<float, HugePages<float>>;

constexpr std::size_t large = HugePages<float>::threshold / sizeof(float);

TEST_CASE("Memory on huge pages is copied, moved and freed")
{
  Vector v(large, 1.0F);
  Vector w = v;
  w[3] = 2;
  CHECK(v[3] == 1);
  const auto* p = w.data();
  v = std::move(w);
  CHECK(v.data() == p);
  v = Vector(3);
  CHECK(v.size() == 3);
}

static std::uintptr_t address(const Vector& v)
{
  return reinterpret_cast<std::uintptr_t>(v.data());
}

/// Whether huge pages were requested for this memory: "hg" among its flags.
static bool has_huge_page_flag(std::uintptr_t p)
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

TEST_CASE("A large allocation begins on a huge page, and requests them")
{
  const Vector v(large + 5);
  CHECK(address(v) % HugePages<float>::page == 0);
  CHECK(has_huge_page_flag(address(v)));
  CHECK(v == Vector(large + 5, 0.0F));
}

TEST_CASE("A small allocation is from the heap, on a cache line")
{
  for (std::size_t n : {1U, 3U, 16U, 17U, 1000U, 65536U})
  {
    std::vector<Vector> several(4, Vector(n, 1.0F));
    for (const Vector& v : several) CHECK(address(v) % HugePages<float>::cache_line == 0);
  }
  const Vector v(1000, 2.0F);
  CHECK_FALSE(has_huge_page_flag(address(v)));
  CHECK(v.back() == 2);
}

}  // namespace cubist::test::memory_huge_pages_test
