// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/gradients/gradient_accumulation.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/transformer/transformer.hpp"
#include "cubist/training/numerics_monitor.hpp"

#include "nn.hpp"

namespace cubist::test::gradients_gradient_accumulation_test
{

constexpr std::size_t in = 7, out = 5, rows = 24;
const MlpOptions options{.activation = gelu, .seed = 3};
const Place<DataParallel<Summa2D>> two_meshes{8, {.data = 2, .scheme = {.q = 2}}};

/// Gathers all gradients on rank 0, one after the other.
template <class Parameters>
std::vector<double> gathered_gradients(const Parameters& parameters)
{
  std::vector<double> all;
  for (const auto& p : parameters)
  {
    const auto g = gather(p.gradient);
    all.insert(all.end(), g.begin(), g.end());
  }
  return all;
}

/// The rows [i rows / n, (i + 1) rows / n).
static xt::xarray<double> micro_batch(const xt::xarray<double>& x, std::size_t i, std::size_t n)
{
  return xt::view(x, xt::range(i * rows / n, (i + 1) * rows / n), xt::all());
}

/// The gradients of a step with n micro-batches, which overwrite those of an earlier step.
template <class S>
std::vector<double> gradients(const Place<S>& place, std::size_t n, Method method)
{
  return on_root(place, [&](const auto& mesh) {
    auto with = options;
    with.method = method;
    MLP<S, TestBackend, double> mlp{mesh, {in, 11, out}, with};
    const auto parameters = mlp.parameters();
    const GradientAccumulation accumulation{parameters, n};
    const auto x = uniform<double>(rows, in, 1);
    const auto labels = classes(rows, out);
    for (int step = 0; step < 2; ++step)
      for (std::size_t i = 0; i < n; ++i)
      {
        const auto& y = mlp.forward(scatter<typename S::Input>(mesh, micro_batch(x, i, n)));
        auto dy = zeros_like(y);
        const auto first = labels.begin() + static_cast<std::ptrdiff_t>(i * rows / n);
        softmax_cross_entropy(
            y, std::vector<int>(first, first + static_cast<std::ptrdiff_t>(rows / n)), dy);
        mlp.backward(dy);
      }
    return gathered_gradients(parameters);
  });
}

static double largest_difference(const std::vector<double>& a, const std::vector<double>& b)
{
  double most = a.size() == b.size() && !a.empty() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

template <class S>
void check_against_one_batch(const Place<S>& place)
{
  if (!fits(place)) return;
  const auto expected = gradients(one_rank, 1, Method::automatic);
  for (const Method method : {Method::automatic, Method::collectives})
    for (const std::size_t n : {std::size_t{1}, std::size_t{4}})
    {
      INFO(place.name() << ", " << n << " micro-batches");
      const auto found = gradients(place, n, method);
      CHECK(largest_difference(found, expected) < 1e-15);
    }
}

TEST_CASE("four micro-batches have the gradients of one batch")
{
  check_against_one_batch(one_rank);
  check_against_one_batch(two_two_two);
  check_against_one_batch(cube);
  check_against_one_batch(two_meshes);
}

TEST_CASE("four micro-batches of sequences have the gradients of one batch")
{
  constexpr std::size_t length = 5;
  const auto gradients_of = [&](const auto& place, bool tied, std::size_t n) {
    return on_root(place, [&](const auto& mesh) {
      using S = typename std::decay_t<decltype(mesh)>::Scheme;
      using Model = Transformer<S, TestBackend, double>;
      Model model{
          mesh,
          {.vocabulary = 13, .positions = 8, .width = 12, .layers = 1, .heads = 3, .tied = tied}};
      const auto parameters = model.parameters();
      const GradientAccumulation accumulation{parameters, n};
      for (std::size_t i = 0; i < n; ++i)
      {
        std::vector<int> ids;
        for (std::size_t k = i * 4 / n * length; k < (i + 1) * 4 / n * length; ++k)
          ids.push_back(static_cast<int>((k * k + 3 * k) % 13));
        (void)model.compute_gradients(ids, length);
      }
      return gathered_gradients(parameters);
    });
  };
  for (const bool tied : {true, false})
  {
    const auto expected = gradients_of(one_rank, tied, 1);
    const auto check = [&](const auto& place) {
      if (!fits(place)) return;
      INFO(place.name() << (tied ? ", tied" : ""));
      CHECK(largest_difference(gradients_of(place, tied, 4), expected) < 1e-14);
    };
    check(cube);
    check(two_meshes);
  }
}

TEST_CASE("micro-batches of different lengths have the mean of their gradients")
{
  using Lengths = std::vector<std::size_t>;
  // The gradients after each step, whose micro-batches have these lengths.
  const auto gradients_of = [&](const auto& place, bool tied, Method method,
                                const std::vector<Lengths>& steps) {
    return on_root(place, [&](const auto& mesh) {
      using S = typename std::decay_t<decltype(mesh)>::Scheme;
      using Model = Transformer<S, TestBackend, double>;
      // With two sequences of 8, replicas of the embedding's table have terms of its gradient.
      Model model{
          mesh,
          {.vocabulary = 5, .positions = 8, .width = 12, .layers = 1, .heads = 3, .tied = tied},
          {.method = method}};
      const auto parameters = model.parameters();
      const GradientAccumulation accumulation{parameters, steps[0].size()};
      std::vector<std::vector<double>> all;
      for (const Lengths& step : steps)
      {
        for (const std::size_t length : step)
        {
          std::vector<int> ids;
          for (std::size_t k = 0; k < 2 * length; ++k)
            ids.push_back(static_cast<int>((k * k + length * k) % 5));
          (void)model.compute_gradients(ids, length);
        }
        check_replicas(parameters);
        all.push_back(gathered_gradients(parameters));
      }
      return all;
    });
  };
  const std::vector<Lengths> steps{{5, 8, 3}, {2, 4, 2}, {3, 5, 8},
                                   {8, 3, 5}, {4, 8, 2}, {2, 2, 4}};
  for (const bool tied : {true, false})
  {
    const Lengths lengths{2, 3, 4, 5, 8};
    std::vector<Lengths> alone;
    for (const std::size_t length : lengths) alone.push_back({length});
    const auto parts = gradients_of(one_rank, tied, Method::automatic, alone);
    const auto check = [&](const auto& place, Method method = Method::automatic) {
      if (!fits(place)) return;
      const auto found = gradients_of(place, tied, method, steps);
      for (std::size_t s = 0; s < steps.size(); ++s)
      {
        INFO(place.name() << (tied ? ", tied, step " : ", step ") << s);
        std::vector<double> mean(parts[0].size());
        for (const std::size_t length : steps[s])
        {
          const auto at = std::find(lengths.begin(), lengths.end(), length) - lengths.begin();
          for (std::size_t i = 0; i < mean.size(); ++i)
            mean[i] += parts[static_cast<std::size_t>(at)][i] / 3;
        }
        CHECK(largest_difference(found[s], mean) < 1e-14);
      }
    };
    check(one_rank);
    check(cube);
    check(two_meshes);
    check(two_meshes, Method::collectives);
  }
}

#if !CUBIST_SANITIZED  // counts of elements do not change under a sanitizer
TEST_CASE("gradients are summed once for all micro-batches")
{
  const Place<DataParallel<Summa2D>> two_ranks{2, {.data = 2, .scheme = {.q = 1}}};
  const auto words_of = [&](std::size_t n) {
    using B = Counting<TestBackend>;
    const auto sent = on_mesh<B>(two_ranks, [&](const auto& mesh) {
      MLP<DataParallel<Summa2D>, B, double> mlp{mesh, {in, 11, out}, options};
      const GradientAccumulation accumulation{mlp.parameters(), n};
      const auto x = scatter<DataParallel<Summa2D>::Input>(mesh, uniform<double>(rows, in, 1));
      mesh.world().traffic().reset();
      for (std::size_t i = 0; i < n; ++i) mlp.backward(mlp.forward(x));
      return mesh.world().traffic().total().elements;
    });
    std::uint64_t all = 0;
    for (const auto words : sent) all += words;
    return all;
  };
  constexpr std::uint64_t parameters = in * 11 + 11 + 11 * out + out;
  for (const std::size_t n : {std::size_t{1}, std::size_t{4}})
    CHECK(words_of(n) == 2 * parameters);  // 2 (P-1)/P for each of P = 2 ranks
}
#endif

TEST_CASE("a step without micro-batches is refused, and so are parameters that are in no network")
{
  const auto refused = on_root(one_rank, [](const auto& mesh) {
    MLP<Summa2D, TestBackend, double> mlp{mesh, {3, 2}};
    auto parameters = mlp.parameters();
    const auto make = [&](std::size_t n) {
      return message_of<ArgumentError>([&] { const GradientAccumulation sums{parameters, n}; });
    };
    const auto none = make(0);
    for (auto& p : parameters) p.gradients = nullptr;
    return std::pair{none, make(2)};
  });
  CHECK(mentions(refused.first, "got steps of 0 micro-batches"));
  CHECK(mentions(refused.second, "got parameters that belong to no network"));
}

TEST_CASE("gradients in another order than those of the micro-batch before are refused")
{
  const auto message = on_root(one_rank, [](const auto& mesh) {
    using M = AxisMesh<Summa2D::Axes, TestBackend>;
    ImmediateSums<double, M> next;
    cubist::detail::GradientAccumulator<double, M> sums{mesh, 2, next};
    std::vector<double> a(3, 1), b(3, 1);
    sums.begin();
    sums.reduce({a.data(), {1, 3}}, nullptr);
    sums.finish();
    sums.begin();
    return message_of<ArgumentError>([&] { sums.reduce({b.data(), {1, 3}}, nullptr); });
  });
  CHECK(mentions(message, "in a different order", "one network in every backward"));
}

}  // namespace cubist::test::gradients_gradient_accumulation_test
