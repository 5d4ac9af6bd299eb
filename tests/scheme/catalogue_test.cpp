// SPDX-License-Identifier: BSD-3-Clause
#include <set>
#include <string>

#include "cubist/scheme/catalogue.hpp"

#include "catch.hpp"
#include "ranks.hpp"

using namespace cubist;
using namespace cubist::test;

TEST_CASE("Every scheme is found by its name, whatever its capitals")
{
  std::set<std::string> names;
  for_each_scheme([&]<class S>() {
    names.insert(S::name);
    std::string lower = S::name;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    for (const std::string& name : {std::string{S::name}, lower})
    {
      std::string found;
      with_scheme(name, [&]<class Found>() { found += Found::name; });
      CHECK(found == S::name);
    }
  });
  CHECK(names.size() == 11);
  CHECK(names.count("Grid3D") == 1);
  CHECK(names.count("Megatron1DSequence") == 1);
}

TEST_CASE("A scheme that there is not is refused with those that there are")
{
  const auto message = message_of<ArgumentError>([] { with_scheme("Summa4D", []<class S>() {}); });
  CHECK(mentions(message, "got the scheme \"Summa4D\"", "none of cubist's", "use Megatron1D, ",
                 "Summa25DWeight", "Grid3D"));
}
