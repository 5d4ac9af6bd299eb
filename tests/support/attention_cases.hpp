// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Cases of an attention layer, and what it computes for them on a mesh, even where ranks share
// sequences.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cubist/nn/attention/attention.hpp"

#include "nn.hpp"
#include "passes.hpp"

namespace cubist::test
{

struct AttentionCase
{
  const char* name;
  std::size_t sequences, length, width;
  AttentionOptions options;
};

/// A pass over the sequences of a case, each of which this many ranks share.
template <class S, class B>
[[nodiscard]] Pass pass_of(const Mesh<S, B>& mesh, const AttentionCase& c, std::size_t ranks,
                           std::optional<std::uint64_t> training_step)
{
  Pass pass{.training_step = training_step, .sequence = c.length};
  if (ranks > 1)
    pass.cut = cut_sequences(
        c.sequences, c.length, ranks,
        row_parts<typename S::Output, typename S::Axes>(mesh.extents(), mesh.quantum()));
  return pass;
}

/// Distributes the rows of tokens as a pass cuts them; rows without a token get `padding`.
template <class Matrix, class S, class B, class T>
[[nodiscard]] Matrix arranged(const Mesh<S, B>& mesh, const Pass& pass, const Global<T>& tokens,
                              T padding)
{
  const auto& cut = pass.cut;
  const Shape shape{cut.is_cut() ? cut.rows() : tokens.shape(0), tokens.shape(1)};
  Matrix x{mesh, shape, {(cut.is_cut() ? 1 : pass.sequence) * mesh.quantum(), mesh.quantum()}};
  scatter(generate<T>(shape.rows, shape.cols,
                      [&](std::size_t i, std::size_t j) {
                        if (!cut.is_cut()) return tokens(i, j);
                        return cut.is_token(i) ? tokens(cut.token(i), j) : padding;
                      }),
          x);
  return x;
}

/// What a layer computed on a rank.
struct AttentionResults
{
  std::vector<Global<double>> all;  // on rank 0: Y, dX and the gradients of all parameters
  std::uint64_t forward = 0;        // elements of this rank's messages, if they are counted
  std::uint64_t backward = 0;
};

/// Runs a case on a mesh.
/// @param ranks  how many ranks share each sequence; 1: none do
template <class T, class S, class B>
[[nodiscard]] AttentionResults attention_results(const Mesh<S, B>& mesh, const AttentionCase& c,
                                                 std::size_t ranks = 1)
{
  using Layer = Attention<S, B, T>;
  static_assert(LayerType<Layer>);
  Layer layer{mesh, c.width, c.options};
  const std::size_t tokens = c.sequences * c.length;
  const Pass pass = pass_of(mesh, c, ranks, 3);
  // Padding has values, which must not show in any result.
  const auto x = arranged<typename Layer::Input>(mesh, pass, uniform<T>(tokens, c.width, 1),
                                                 static_cast<T>(0.5F));
  const auto dy = arranged<typename Layer::Input>(mesh, pass, uniform<T>(tokens, c.width, 2), T{});
  const auto sent = [&]() -> std::uint64_t {
    if constexpr (requires { mesh.world().traffic(); })
      return mesh.world().traffic()[CallKind::send].elements;
    else
      return 0;
  };
  Passes passes{layer};
  AttentionResults found;
  const std::uint64_t before = sent();
  const auto& y = passes.forward(x, pass);
  found.forward = sent() - before;
  const auto* dx = passes.backward(x, dy, pass, true);
  found.backward = sent() - before - found.forward;
  for (const auto* m : {&y, dx})
  {
    const auto arranged_rows = converted<double>(gather(*m));
    const auto row_of = [&](std::size_t i) {
      return pass.cut.is_cut() ? pass.cut.row(i / c.length, i % c.length) : i;
    };
    found.all.push_back(
        generate<double>(mesh.rank() == 0 ? tokens : 0, c.width, [&](std::size_t i, std::size_t j) {
          return arranged_rows(row_of(i), j);
        }));
  }
  for (const auto& p : parameters_of(layer))
    found.all.push_back(converted<double>(gather(p.gradient)));
  return found;
}

}  // namespace cubist::test
