// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/scheme/megatron1d.hpp"

#include "far.hpp"
#include "words.hpp"

namespace cubist::test::scheme_megatron1d_test
{

TEST_CASE("Megatron1D multiplies two matrices of 2 x 2")
{
  if (!fits(2)) return;
  CHECK((small_product<Megatron1D>({2, {.p = 2}}) == small_product_by_hand));
}

using Sequence = Megatron1DSequence;

using Types = AllOrFirst<std::tuple<Subject<Megatron1D, TestBackend, double>,
                                    Subject<Megatron1D::Next, TestBackend, double>,
                                    Subject<Sequence, Far<TestBackend>, std::complex<float>>,
                                    Subject<Sequence::Next, Far<TestBackend>, std::complex<float>>>,
                         std::tuple<Subject<Sequence, TestBackend, double>,
                                    Subject<Sequence::Next, TestBackend, double>>>;
using OtherTypes =
    AllOrFirst<std::tuple<Subject<Megatron1D, TestBackend, double, Op::transpose, Op::transpose>,
                          Subject<Sequence::Next, TestBackend, std::complex<float>, Op::transpose,
                                  Op::adjoint>>,
               std::tuple<Subject<Megatron1D::Next, TestBackend, double, Op::none, Op::transpose>,
                          Subject<Sequence, TestBackend, double, Op::transpose, Op::none>>>;

template <class S>
const TestMeshes<S> meshes = {{1, {}}, {2, {}}, {3, {.p = 3}}, {4, {}}, {6, {}}};

TEMPLATE_LIST_TEST_CASE("Megatron1D's halves multiply small integers exactly", "", Types)
{
  conform_exactly<TestType>(meshes<typename TestType::Scheme>, 6);
}

TEMPLATE_LIST_TEST_CASE("Megatron1D's halves multiply fractions within rounding", "", Types)
{
  conform_within_rounding<TestType>(meshes<typename TestType::Scheme>);
}

TEMPLATE_LIST_TEST_CASE("Megatron1D's halves multiply transposed operands", "", OtherTypes)
{
  conform_exactly<TestType>(meshes<typename TestType::Scheme>, 3);
}

/// Checks the elements that both halves send, whether they keep operands or gather them again.
template <class S>
void check_words(ProductSize size,
                 Words (*formula)(std::uint64_t p, ProductSize s, Gathered policy))
{
  for (const auto& mesh : those_that_fit(meshes<S>))
    for (const auto policy : {Gathered::again, Gathered::kept})
    {
      CAPTURE(S::name, S::Input::to_string(), mesh.ranks, text(size), policy == Gathered::kept);
      const auto p = static_cast<std::uint64_t>(mesh.ranks);
      CHECK(counted_words<S>(mesh, size, policy) == formula(p, size, policy));
    }
}

TEST_CASE("Megatron1D all-reduces one matrix in each pass of a pair")
{
  for (const ProductSize size : {ProductSize{24, 36, 48}, {37, 101, 23}, {1, 1, 1}})
  {
    check_words<Megatron1D>(size, [](std::uint64_t p, ProductSize s, Gathered) -> Words {
      const std::uint64_t sum = 2 * (p - 1) * s.m * s.k;
      return {0, sum, 0, sum, 0};
    });
    check_words<Megatron1D::Next>(size, [](std::uint64_t p, ProductSize s, Gathered) -> Words {
      return {2 * (p - 1) * s.m * s.n, 0, 0, 0, 0};
    });
  }
}

TEST_CASE("Megatron1D with sequence parallelism gathers before the pair and scatters after it")
{
  for (const ProductSize size : {ProductSize{24, 36, 48}, {37, 101, 23}, {1, 1, 1}})
  {
    check_words<Sequence>(size, [](std::uint64_t p, ProductSize s, Gathered policy) -> Words {
      const std::uint64_t mk = (p - 1) * pad(s.m, p) * s.k;
      if (policy == Gathered::kept) return {mk, mk, mk, mk, 0};
      return {mk, mk, mk, 2 * mk, mk};
    });
    check_words<Sequence::Next>(size, [](std::uint64_t p, ProductSize s, Gathered) -> Words {
      const std::uint64_t mn = (p - 1) * pad(s.m, p) * s.n;
      return {mn, mn, mn, mn, mn};
    });
  }
}

TEST_CASE("Megatron1D's halves are cut as published, and follow each other")
{
  CHECK(Megatron1D::Input::to_string() == "rows [] cols []");
  CHECK(Megatron1D::Weight::to_string() == "rows [] cols [tensor]");
  CHECK(Megatron1D::Next::Weight::to_string() == "rows [tensor] cols []");
  CHECK(Megatron1D::Next::Output::to_string() == "rows [] cols []");
  CHECK(Sequence::Input::to_string() == "rows [tensor] cols []");
  CHECK(Sequence::Next::Output::to_string() == "rows [tensor] cols []");
  STATIC_REQUIRE(std::is_same_v<Megatron1D::Next::Next, Megatron1D>);
  STATIC_REQUIRE(std::is_same_v<Sequence::Next::Next, Sequence>);
  CHECK(std::string{Megatron1D::name} == "Megatron1D");
  CHECK(std::string{Sequence::name} == "Megatron1DSequence");
}

TEST_CASE("Megatron1D uses all ranks, and refuses another number")
{
  using Array = Megatron1D::Axes::Array;
  CHECK(Megatron1D::extents({}, 7) == Array{7});
  const auto error = message_of<MeshError>([] { (void)Megatron1D::extents({.p = 4}, 6); });
  CHECK(mentions(error, "Megatron1D got {.p = 4} for 6 ranks", "use {.p = 6}", "or 4 ranks"));
}

}  // namespace cubist::test::scheme_megatron1d_test
