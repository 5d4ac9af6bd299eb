// SPDX-License-Identifier: BSD-3-Clause
// Tests that networks that recompute activations give the bits of those that keep them.

#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/nn/transformer/generate.hpp"
#include "cubist/nn/transformer/transformer.hpp"

#include "checked_step.hpp"
#include "nn.hpp"
#include "small_transformer.hpp"

namespace cubist::test::recomputation_test
{

using Matrices = std::vector<Global<double>>;

template <class Parameters>
void append_gradients(Matrices& all, const Parameters& parameters)
{
  for (const auto& p : parameters) all.push_back(gather(p.gradient));
}

/// All results of some calls of an MLP with dropout: with changing numbers of rows, two forward
/// passes before a backward pass, an evaluation in between, and a backward pass after an
/// evaluation.
template <class S>
Matrices results_of_mlp(const Place<S>& place, Method method, std::size_t recompute)
{
  return on_root(place, [&](const auto& mesh) {
    using Net = MLP<S, TestBackend, double>;
    Net mlp{mesh,
            {7, 6, 9, 6, 9, 8},
            {.activation = gelu,
             .output = cubist::tanh,
             .dropout = 0.25,
             .seed = 3,
             .method = method,
             .output_dropout = 0.5,
             .recompute = recompute}};
    const auto parameters = mlp.parameters();
    Adam optimizer{parameters};
    Matrices all;
    std::uint64_t step = 0;
    for (const std::size_t rows : {13U, 5U, 17U})
    {
      ++step;
      const auto x = scatter<typename S::Input>(mesh, uniform<double>(rows, 7, step));
      const auto other = scatter<typename S::Input>(mesh, uniform<double>(rows + 2, 7, step + 9));
      if (step == 2) (void)mlp.forward(other);
      if (step == 3) (void)mlp.evaluate(other, classes(rows + 2, 8));
      const auto& y = mlp.forward(x);
      all.push_back(gather(y));
      auto dy = zeros_like(y);
      scatter(uniform<double>(rows, 8, step + 20), dy.view());
      if (step == 2) mlp.backward(dy);
      all.push_back(gather(mlp.backward_with_input(dy)));
      all.push_back(gather(y));  // y is not overwritten yet
      append_gradients(all, parameters);
      checked_step(optimizer, parameters);
    }
    return all;
  });
}

TEST_CASE("an MLP that recomputes activations has the same bits as one that keeps them")
{
  const auto compare = [](const auto& place, Method method) {
    if (!fits(place)) return;
    const auto wanted = results_of_mlp(place, method, 0);
    for (const std::size_t recompute : {1U, 2U, 3U, 9U})
    {
      CAPTURE(place.name(), recompute);
      CHECK(results_of_mlp(place, method, recompute) == wanted);
    }
  };
  compare(two_two_two, Method::automatic);
  compare(single_layer, Method::collectives);
  compare(cube, Method::collectives);
}

constexpr std::size_t length = 5;

template <class S>
Matrices results_of_transformer(const Place<S>& place, bool llama, std::size_t recompute)
{
  return on_root(place, [&](const auto& mesh) {
    Transformer<S, TestBackend, double> model{
        mesh,
        small_transformer(llama, 3),
        {.dropout = 0.2, .attention_dropout = 0.3, .seed = 5, .recompute = recompute}};
    const auto parameters = model.parameters();
    AdamW optimizer{parameters, {.learning_rate = 0.02}};
    Matrices all;
    for (const std::size_t sequences : {3U, 2U})
    {
      std::vector<int> ids(sequences * length);
      for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>((i * i + 3) % 13);
      all.push_back(Global<double>{{model.compute_gradients(ids, length)}});
      append_gradients(all, parameters);
      checked_step(optimizer, parameters);
      const auto tokens = cubist::generate(model, std::vector{1, 2, 3, 4}, 2, {.tokens = 2});
      all.push_back(Global<double>{{model.evaluate(ids, length)}});
      for (const int token : tokens) all.push_back(Global<double>{{double(token)}});
    }
    return all;
  });
}

TEST_CASE("a transformer that recomputes activations has the same bits as one that keeps them")
{
  const auto compare = [](const auto& place, bool llama) {
    if (!fits(place)) return;
    const auto wanted = results_of_transformer(place, llama, 0);
    for (const std::size_t recompute : {1U, 2U})
    {
      CAPTURE(place.name(), recompute);
      CHECK(results_of_transformer(place, llama, recompute) == wanted);
    }
  };
  compare(single_layer, false);
  compare(cube, true);
}

}  // namespace cubist::test::recomputation_test
