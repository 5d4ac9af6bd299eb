// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/initial_values.hpp"

#include "nn.hpp"

namespace cubist::test::initial_values_test
{

/// The initial values of a weight with 12 features.
template <class T, class S>
Global<T> drawn(const Place<S>& place, const Initial& initial)
{
  return on_root(place, [&](const auto& mesh) {
    DistMatrix<T, typename S::Weight, AxisMesh<typename S::Axes, TestBackend>> w{mesh, {12, 11}};
    w.generate([](std::size_t, std::size_t) { return T{7}; });
    cubist::detail::initialize(w, initial, stream(42, Draw::weight, 3), 12);
    return gather(w);
  });
}

TEST_CASE("initial values are those of their distributions")
{
  const Philox random = stream(42, Draw::weight, 3);
  const auto wanted = [&]<class T>(auto draw) {
    return generate<T>(12, 11, [&](std::size_t i, std::size_t j) { return draw(i * 11 + j); });
  };
  const auto uniform = [&](double bound) {
    return wanted.operator()<double>([&](auto i) { return random.symmetric<double>(i, bound); });
  };
  CHECK(identical(drawn<double>(single_rank, Uniform{}), uniform(1 / std::sqrt(12.0))));
  CHECK(identical(drawn<double>(single_rank, Uniform{.bound = 0.5}), uniform(0.5)));
  CHECK(
      identical(drawn<double>(single_rank, Normal{.std = 0.1}),
                wanted.operator()<double>([&](auto i) { return random.normal<double>(i, 0.1); })));
  using Complex = std::complex<float>;
  CHECK(identical(
      drawn<Complex>(single_rank, Normal{.std = 0.1}),
      wanted.operator()<Complex>([&](auto i) { return random.normal<Complex>(i, 0.1F); })));
  CHECK(identical(drawn<bfloat16>(single_rank, Normal{.std = 0.1}),
                  wanted.operator()<bfloat16>(
                      [&](auto i) { return bfloat16{random.normal<float>(i, 0.1F)}; })));
  CHECK(identical(drawn<double>(single_rank, Zeros{}),
                  wanted.operator()<double>([](auto) { return 0.0; })));
}

TEST_CASE("normal initial values are bit-identical on every scheme and mesh")
{
  const auto wanted = drawn<float>(single_rank, Normal{.std = 0.1});
  for_each_place([&](const auto& place) {
    CAPTURE(place.name());
    CHECK(identical(drawn<float>(place, Normal{.std = 0.1}), wanted));
  });
}

TEST_CASE("initial values without a distribution are refused")
{
  const auto error = [](const Initial& initial) {
    return message_of<ArgumentError>([&] { (void)drawn<float>(single_rank, initial); });
  };
  CHECK(mentions(error(Normal{.std = -1}), "got a standard deviation of -1", "not negative"));
  CHECK(mentions(error(Normal{.std = 1e39}), "got a standard deviation of 1e+39", "finite"));
  CHECK(mentions(error(Uniform{.bound = -1}), "got a bound of -1", "not negative"));
  CHECK(mentions(error(Uniform{.bound = std::numeric_limits<double>::quiet_NaN()}),
                 "got a bound of", "finite"));
  CHECK(error(Normal{.std = 0}) == "");
}

}  // namespace cubist::test::initial_values_test
