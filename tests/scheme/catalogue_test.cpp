// SPDX-License-Identifier: BSD-3-Clause
#include <set>

#include "cubist/scheme/catalogue.hpp"

#include "ranks.hpp"

namespace cubist::test::scheme_catalogue_test
{

TEST_CASE("Every scheme is found by its name, in upper or lower case")
{
  for (const std::string& name : scheme_name_list())
  {
    std::string lower = name;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    for (const std::string& written : {name, lower})
      CHECK(with_scheme(written, []<class S>() { return std::string{S::name}; }) == name);
  }
  const auto names = scheme_name_list();
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
  for (const char* published :
       {"Megatron1D", "Megatron1DSequence", "Grid2D", "Summa2D", "Summa2DInput", "Summa2DWeight",
        "Summa25D", "Summa25DInput", "Summa25DWeight", "Cube3D", "Grid3D"})
  {
    CAPTURE(published);
    CHECK(std::count(names.begin(), names.end(), published) == 1);
  }
}

TEST_CASE("An unknown scheme is refused with the names of the list")
{
  const auto message = message_of<ArgumentError>([] { with_scheme("Summa4D", []<class S>() {}); });
  CHECK(mentions(message, "got the scheme \"Summa4D\"", "which cubist does not know",
                 "use Megatron1D, ", "Summa25DWeight", "Grid3D"));
  const auto of_part = message_of<ArgumentError>(
      [] { with_scheme<Schemes<Grid3D, Cube3D>>("Summa2D", []<class S>() {}); });
  CHECK(mentions(of_part, "got the scheme \"Summa2D\", for which this program was not compiled",
                 "use Grid3D, Cube3D"));
}

}  // namespace cubist::test::scheme_catalogue_test
