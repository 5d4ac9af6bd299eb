// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>

#include "cubist/core/random_stream.hpp"
#include "cubist/nn/functions/initial_values.hpp"
#include "cubist/nn/functions/training_step.hpp"

#include "catch.hpp"
#include "nn.hpp"

namespace cubist::test::random_test
{

namespace
{

/// The initial values of a weight of 12 features.
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

}  // namespace

TEST_CASE("random numbers do not change from release to release")
{
  CHECK(stream(42, Draw::weight, 0).uniform<double>(0) == 0x1.39d5e0a6efea9p-1);
  CHECK(stream(42, Draw::bias, 1).uniform<double>(7) == 0x1.580f67dc0ad8fp-1);
  CHECK(stream(42, Draw::dropout, 2, 99).uniform<float>(1000) == 0x1.7ccb6cp-2F);
}

TEST_CASE("seed, draw, layer and step each make a stream of their own")
{
  constexpr std::size_t last_layer = 0xFFFF;
  constexpr std::uint64_t last_step = (std::uint64_t{1} << 40) - 1;
  std::set<double> first;
  std::size_t streams = 0;
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32})
    for (const Draw draw : {Draw::weight, Draw::bias, Draw::dropout})
      for (const std::size_t layer : {std::size_t{0}, std::size_t{1}, last_layer})
        for (const std::uint64_t step : {std::uint64_t{0}, std::uint64_t{1}, last_step})
        {
          first.insert(stream(seed, draw, layer, step).uniform<double>(0));
          ++streams;
        }
  CHECK(first.size() == streams);
  CHECK_THROWS_AS(stream(0, Draw::weight, last_layer + 1), ArgumentError);
  CHECK_THROWS_AS(stream(0, Draw::dropout, 0, last_step + 1), ArgumentError);
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

TEST_CASE("the number of a step is a number unless the step is captured")
{
  const TrainingStep step = 7;
  CHECK(std::uint64_t{step} == 7);
  CHECK(step.in_memory() == nullptr);
  const auto number = std::make_shared<const std::uint64_t>(7);
  const TrainingStep captured{number};
  CHECK(captured.in_memory() == number.get());
  CHECK_THROWS_AS(static_cast<void>(std::uint64_t{captured}), CaptureError);
  CHECK(Philox{cubist::detail::StepRandom{5, 16, 7, nullptr}}.bits(3) == Philox{5, 23}.bits(3));
  CHECK(Philox{cubist::detail::StepRandom{5, 16, 0, number.get()}}.bits(3) ==
        Philox{5, 23}.bits(3));
}

}  // namespace cubist::test::random_test
