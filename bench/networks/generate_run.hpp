// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The measurement behind generate.hpp, for any backend. It uses the model of transformer_run.hpp,
// so that the model is compiled once for both.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <cubist/backend/threads.hpp>
#include <cubist/nn/transformer/generate.hpp>
#include <cubist/nn/transformer/transformer.hpp>

#include "networks/generate.hpp"
#include "networks/transformer_run.hpp"
#include "planner/machine_run.hpp"

namespace bench
{

/// The bytes of the weights that a token reads, without the table of positions, of which it
/// reads only one row.
template <class Parameters>
double bytes_for_a_token(const Parameters& parameters)
{
  double bytes = 0;
  for (const auto& p : parameters)
    if (p.name != "positions.weight") bytes += p.bytes();
  return bytes;
}

template <class B, class S, class T>
std::optional<GenerateRow> measure_tokens(const GenerateTask& task)
{
  using Traced = cubist::Traced<B>;
  using Backend = Measured<Traced>;
  std::optional<GenerateRow> row;
  Traced::options = {.file = task.on.trace};
  cubist::launch<Backend>({.ranks = task.on.ranks}, [&](auto& world) {
    const cubist::TracePause pause;
    const bool first = world.rank() == 0;
    const cubist::Mesh<S, Backend> mesh{world, extents_for<S>(task.on.mesh, world.size()),
                                        cubist::IdleRanks::refused};
    cubist::Transformer<S, Backend, T> model{
        mesh,
        {.vocabulary = task.vocabulary,
         .positions = std::max<std::size_t>(1024, task.prompt + task.tokens),
         .width = task.width,
         .layers = task.layers,
         .heads = task.heads},
        {.seed = 42, .method = task.on.method, .inference = true},
        cubist::stored_weights_of(task.weights)};
    std::vector<int> ids;
    for (std::size_t i = 0; i < task.sequences * task.prompt; ++i)
      ids.push_back(static_cast<int>((i * i + 7 * i) % task.vocabulary));

    using Clock = std::chrono::steady_clock;
    Clock::time_point begin, end;
    std::size_t known = 0;
    const cubist::GenerateOptions options{
        .tokens = task.tokens, .ignore_end = true, .on_token = [&](std::size_t sequence, int) {
          if (sequence > 0) return;
          end = Clock::now();
          if (known++ == 0) begin = end;
        }};
    GenerateRow result{.scheme = S::name, .mesh = S::Axes::to_string(mesh.extents())};
    result.weight_bytes = bytes_for_a_token(model.parameters());
    const auto copied = static_cast<std::size_t>(result.weight_bytes) / 2 / sizeof(T) /
                            static_cast<std::size_t>(world.size()) +
                        1;
    const std::vector<T> from(copied, T{1});
    std::vector<T> to(copied, T{2});
    std::unique_ptr<Torch> torch;
    if (task.torch)
      alone(world, [&] { torch = Torch::start("torch_generate.py", torch_options(task), false); });
    std::vector<double> tokens, copies;
    for (int i = -task.on.warm_up; i < task.on.repeats; ++i)
    {
      const double copy =
          seconds_of_all(world, [&] { std::copy(from.begin(), from.end(), to.begin()); });
      known = 0;
      static_cast<void>(generate(model, ids, task.sequences, options));
      if (i >= 0)
      {
        copies.push_back(copy);
        tokens.push_back(std::chrono::duration<double>(end - begin).count() /
                         static_cast<double>(known - 1));
      }
      if (task.torch)
        alone(world, [&] {
          if (torch) torch->step(i >= 0);
        });
    }
    if (!first) return;
    result.token = Times{tokens};
    result.copy = Times{copies};
    if (torch) result.torch = torch->result();
    row = result;
  });
  return row;
}

/// Measures with the scheme and the scalar of the task.
template <class B>
std::optional<GenerateRow> measure_generate(const GenerateTask& task)
{
  return cubist::with_scheme<TransformerSchemes>(task.on.scheme, [&]<class S>() {
    return ScalarList<float>::with(task.on.scalar,
                                   [&]<class T>() { return measure_tokens<B, S, T>(task); });
  });
}

}  // namespace bench
