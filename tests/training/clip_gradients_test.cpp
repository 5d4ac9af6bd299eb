// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/training/clip_gradients.hpp"
#include "cubist/training/sharded_optimizer.hpp"

#include "checked_step.hpp"
#include "nn.hpp"

namespace cubist::test::clip_gradients_test
{

constexpr std::size_t rows = 24;
const Place<DataParallel<Summa2D>> two_meshes{8, {.data = 2, .scheme = {.q = 2}}};

template <class S>
using Net = MLP<S, TestBackend, double>;

template <class S>
void compute_gradients(const Mesh<S, TestBackend>& mesh, Net<S>& mlp)
{
  const auto x = scatter<typename S::Input>(mesh, uniform<double>(rows, 7, 1));
  (void)mlp.compute_gradients(x, classes(rows, 5));
}

/// The norm of the gathered gradients, and the norm computed in place.
template <class S>
std::vector<double> norms(const Place<S>& place)
{
  return on_root(place, [](const auto& mesh) {
    Net<S> mlp{mesh, {7, 11, 5}, {.seed = 3}};
    compute_gradients<S>(mesh, mlp);
    const auto parameters = mlp.parameters();
    double squares = 0;
    for (const auto& p : parameters)
      for (const double g : gather(p.gradient)) squares += g * g;
    return std::vector{std::sqrt(squares), gradient_norm(parameters)};
  });
}

template <class S>
void check_norm(const Place<S>& place)
{
  if (!fits(place)) return;
  INFO(place.name());
  const double expected = norms(one_rank)[0];
  const auto found = norms(place);
  CHECK(found[0] == Approx(expected).epsilon(1e-14));
  CHECK(found[1] == Approx(expected).epsilon(1e-14));
}

TEST_CASE("the norm of gradients counts each element once")
{
  for_each_place([](const auto& place) { check_norm(place); });
  check_norm(two_meshes);
}

TEST_CASE("the norm of gradients is that of the parts of a sharded optimizer")
{
  const auto found = on_mesh(two_meshes, [](const auto& mesh) {
    using S = DataParallel<Summa2D>;
    Net<S> mlp{mesh, {7, 11, 5}, {.seed = 3}};
    cubist::Sharded<AdamW<double, typename Net<S>::Mesh>> optimizer{mlp.parameters()};
    compute_gradients<S>(mesh, mlp);
    return gradient_norm(optimizer.parameters());
  });
  const double expected = norms(one_rank)[0];
  for (const double norm : found) CHECK(norm == Approx(expected).epsilon(1e-14));
}

#if !CUBIST_SANITIZED  // counts of elements do not change under a sanitizer
TEST_CASE("the norm of gradients is an all_reduce of one number")
{
  using B = Counting<TestBackend>;
  if (!fits<B>(4)) return;
  const auto sent = on_mesh<B>(two_by_two, [](const auto& mesh) {
    MLP<Summa2D, B, double> mlp{mesh, {7, 11, 5}};
    const auto& y = mlp.forward(scatter<Summa2D::Input>(mesh, uniform<double>(rows, 7, 1)));
    mlp.backward(zeros_like(y));
    mesh.world().traffic().reset();
    (void)gradient_norm(mlp.parameters());
    return mesh.world().traffic().total().elements;
  });
  std::uint64_t all = 0;
  for (const auto words : sent) all += words;
  CHECK(all == 2 * 3);  // 2 (P-1)
}
#endif

TEST_CASE("clipped gradients have the norm, and the optimizer's factor the same effect")
{
  if (!fits(two_by_two)) return;
  for (const double most : {0.125, 1e6})
  {
    const auto train = [&](bool in_place) {
      return on_root(two_by_two, [&](const auto& mesh) {
        Net<Summa2D> mlp{mesh, {7, 11, 5}, {.seed = 3}};
        const auto parameters = mlp.parameters();
        AdamW optimizer{parameters};
        Sgd sgd{parameters};
        std::vector<double> found;
        for (int step = 0; step < 3; ++step)
        {
          compute_gradients<Summa2D>(mesh, mlp);
          if (in_place)
          {
            const double before = clip_gradients(parameters, most);
            found.push_back(before);
            found.push_back(gradient_norm(parameters));
            checked_step(optimizer, parameters);
            checked_step(sgd, parameters);
          }
          else
          {
            const double norm = gradient_norm(parameters);
            const double factor = clip_factor(norm, most);
            found.push_back(norm);
            found.push_back(factor * norm);
            checked_step(optimizer, parameters, factor);
            checked_step(sgd, parameters, factor);
          }
        }
        for (const auto& p : parameters)
          for (const double w : gather(p.value)) found.push_back(w);
        return found;
      });
    };
    const auto in_place = train(true);
    const auto by_factor = train(false);
    for (std::size_t i = 0; i < 6; i += 2)
    {
      const double expected = std::min(in_place[i], most);
      CHECK(in_place[i + 1] == Approx(expected).epsilon(1e-4));
      CHECK(by_factor[i + 1] == Approx(in_place[i + 1]).epsilon(1e-14));
    }
    CHECK(std::vector(in_place.begin() + 6, in_place.end()) ==
          std::vector(by_factor.begin() + 6, by_factor.end()));
  }
}

TEST_CASE("a norm that is not finite, or to clip to, is not hidden")
{
  CHECK(clip_factor(std::numeric_limits<double>::infinity(), 1) == 1);
  CHECK(clip_factor(std::nan(""), 1) == 1);
  CHECK(clip_factor(0, 1) == 1);
  CHECK_THROWS_AS(clip_factor(1, 0), ArgumentError);
  if (!fits(two_by_two)) return;
  const auto found = on_root(two_by_two, [](const auto& mesh) {
    Net<Summa2D> mlp{mesh, {7, 11, 5}};
    compute_gradients<Summa2D>(mesh, mlp);
    const auto parameters = mlp.parameters();
    if (mesh.rank() == 0) *parameters[0].gradient.padded.data() = std::nan("");
    return clip_gradients(parameters, 1.0);
  });
  CHECK(std::isnan(found));
}

TEST_CASE("the norm of gradients whose squares exceed double is right, and clips")
{
  if (!fits(two_by_two)) return;
  const auto found = on_root(two_by_two, [](const auto& mesh) {
    Net<Summa2D> mlp{mesh, {8, 8}, {.bias = false}};
    const auto parameters = mlp.parameters();
    for (const auto& p : parameters) mesh.engine().fill(p.gradient.valid(), -1e200);
    const double before = clip_gradients(parameters, 2.0);
    return std::vector{before, gradient_norm(parameters)};
  });
  CHECK(found[0] == Approx(8e200).epsilon(1e-14));  // 64 elements
  CHECK(found[1] == Approx(2).epsilon(1e-14));
}

}  // namespace cubist::test::clip_gradients_test
