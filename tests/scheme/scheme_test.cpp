// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/scheme/cube3d.hpp"
#include "cubist/scheme/grid2d.hpp"
#include "cubist/scheme/megatron1d.hpp"
#include "cubist/scheme/scheme.hpp"
#include "cubist/scheme/summa25d.hpp"
#include "cubist/scheme/summa2d.hpp"

#include "catch.hpp"

namespace cubist::test::scheme_scheme_test
{

/// Whether a layer's output layout is the next layer's input layout, and so on for the one after
/// it.
template <class S>
constexpr bool chains()
{
  return std::is_same_v<typename S::Output, typename S::Next::Input> &&
         std::is_same_v<typename S::Next::Output, typename S::Next::Next::Input>;
}

TEST_CASE("The schemes and their next ones are schemes, and chain")
{
  STATIC_REQUIRE((SchemeType<Summa2D> && SchemeType<Summa25D> && SchemeType<Cube3D> &&
                  SchemeType<Cube3D::Next>));
  STATIC_REQUIRE((chains<Summa2D>() && chains<Summa25D>() && chains<Cube3D>()));
  STATIC_REQUIRE((chains<Summa2DInput>() && chains<Summa2DWeight>() && chains<Summa25DInput>() &&
                  chains<Summa25DWeight>()));
  STATIC_REQUIRE((chains<Grid2D>() && chains<Grid3D>() && chains<Megatron1D>() &&
                  chains<Megatron1DSequence>()));
}

struct NoAlgorithm : Summa2D
{
 private:
  using Algorithm = Summa2D::Algorithm;
};

struct OtherNext : Summa2D
{
  using Next = Cube3D;  // it has other axes, and an input that differs from this one's output
};

struct SameAxesOtherInput : Cube3D
{
  using Next = Cube3D;  // its input is cut differently from this one's output
};

struct NoQuantum : Summa2D
{
 private:
  using Summa2D::quantum;
};

TEST_CASE("A type that lacks a member, or whose next layer has another input, is not a scheme")
{
  STATIC_REQUIRE_FALSE(SchemeType<int>);
  STATIC_REQUIRE_FALSE(SchemeType<NoAlgorithm>);
  STATIC_REQUIRE_FALSE(SchemeType<NoQuantum>);
  STATIC_REQUIRE_FALSE(SchemeType<OtherNext>);
  STATIC_REQUIRE_FALSE(SchemeType<SameAxesOtherInput>);
}

TEST_CASE("The scheme after the next of a cube is the cube again")
{
  STATIC_REQUIRE_FALSE(std::is_same_v<Cube3D::Next, Cube3D>);
  STATIC_REQUIRE(std::is_same_v<Cube3D::Next::Next, Cube3D>);
}

TEST_CASE("The schemes cut their matrices as published")
{
  CHECK(Summa2D::Input::to_string() == "rows [row] cols [col]");
  CHECK(Summa2D::Weight::to_string() == "rows [row] cols [col]");
  CHECK(Summa25D::Input::to_string() == "rows [depth row] cols [col]");
  CHECK(Summa25D::Weight::to_string() == "rows [row] cols [col]");
  CHECK(Summa2DInput::Weight::to_string() == "rows [col] cols [row]");
  CHECK(Summa2DWeight::Input::to_string() == "rows [col] cols [row]");
  CHECK(Summa25DWeight::Input::to_string() == "rows [depth col] cols [row]");
  CHECK(Summa25DWeight::Output::to_string() == "rows [depth row] cols [col]");
  CHECK(Grid2D::Input::to_string() == "rows [] cols [x y]");
  CHECK(Grid2D::Output::to_string() == "rows [] cols [y x]");
  CHECK(Cube3D::Input::to_string() == "rows [z y] cols [x]");
  CHECK(Cube3D::Weight::to_string() == "rows [x z] cols [y]");
  CHECK(Cube3D::Output::to_string() == "rows [z x] cols [y]");
  CHECK(Cube3D::Next::Weight::to_string() == "rows [y z] cols [x]");
}

}  // namespace cubist::test::scheme_scheme_test
