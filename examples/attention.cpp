// SPDX-License-Identifier: BSD-3-Clause
// Computes the products of attention, softmax(Q K^T / sqrt(d)) V, for a batch of heads, and
// compares the result with that of one rank. Groups of ranks share the heads, and the ranks of a
// group cut each head's matrices.
//
//   Q, K, V (heads, tokens, d)    S = Q K^T (heads, tokens, tokens)    O = P V (heads, tokens, d)
//
// S is cut as the next layer's input, so P V is the next layer's product, without redistribution in
// between.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <type_traits>
#include <utility>

#include <CLI/CLI.hpp>

#include <cubist/core/philox.hpp>
#include <cubist/matmul/dist_batch_matmul.hpp>
#include <cubist/nn/losses/softmax.hpp>

#include "../tools/strict_options.hpp"
#include "backend.hpp"

namespace
{

struct Settings
{
  std::size_t heads = 6;
  std::size_t tokens = 96;
  std::size_t d = 32;
  int groups = 2;
  int ranks = 0;
  std::string trace;
};

using Result = xt::xtensor<double, 3>;

/// Returns O on rank 0, and an empty tensor elsewhere.
template <class Backend>
Result attention(const Settings& s, int ranks, int groups)
{
  using Scheme = cubist::Grid3D;
  using Scores =
      cubist::DistBatchMatMul<Scheme, Backend, double, cubist::Op::none, cubist::Op::transpose>;
  using Values = cubist::DistBatchMatMul<typename Scheme::Next, Backend, double>;
  Result result;
  cubist::launch<Backend>({.ranks = ranks}, [&](auto& world) {
    const cubist::BatchMesh<Scheme, Backend> mesh{world, groups};

    const auto random = [&](auto& matrix, std::uint64_t stream) {
      matrix.generate(
          [&s, draw = cubist::Philox{42, stream}](std::size_t h, std::size_t i, std::size_t j) {
            return draw.symmetric<double>((h * s.tokens + i) * s.d + j, 1.0);
          });
    };
    typename Scores::Input q{mesh, s.heads, {s.tokens, s.d}};
    typename Scores::Weight k{mesh, s.heads, {s.tokens, s.d}};
    typename Values::Weight v{mesh, s.heads, {s.tokens, s.d}};
    random(q, 1);
    random(k, 2);
    random(v, 3);

    typename Scores::Output p{mesh, s.heads, {s.tokens, s.tokens}};
    Scores{mesh, {.b = s.heads, .m = s.tokens, .n = s.tokens, .k = s.d}}.forward(q, k, p);
    for (auto& head : p) softmax(head, head, 1 / std::sqrt(static_cast<double>(s.d)));

    typename Values::Output o{mesh, s.heads, {s.tokens, s.d}};
    Values{mesh, {.b = s.heads, .m = s.tokens, .n = s.d, .k = s.tokens}}.forward(p, v, o);

    auto all = gather(o);
    if (world.rank() == 0) result = std::move(all);
  });
  return result;
}

}  // namespace

int main(int argc, char** argv)
try
{
  Settings s;
  CLI::App app{"The products of attention, cut over many ranks"};
  app.option_defaults()->always_capture_default();
  app.add_option("--heads", s.heads, "the number of heads of attention");
  app.add_option("--tokens", s.tokens, "the number of tokens");
  app.add_option("--dimension", s.d, "the number of features of a head");
  app.add_option("--groups", s.groups,
                 "the number of groups of ranks over which the heads are cut");
  app.add_option("--ranks", s.ranks, "the number of ranks; 0: all processes of MPI, or 8 threads");
  app.add_option("--trace", s.trace,
                 "write a trace of the first ranks to this file, for ui.perfetto.dev");
  cubist::parse_strictly(app, argc, argv);
  CLI11_PARSE(app, argc, argv);
  return examples::on_traced_backend(s.trace, [&]<class Backend>() {
    constexpr bool threads = std::is_same_v<Backend, examples::OneRank>;
    const Result many = attention<Backend>(s, s.ranks == 0 && threads ? 8 : s.ranks, s.groups);
    if (many.shape()[0] == 0) return 0;
    examples::stop_tracing();
    const Result one = attention<examples::OneRank>(s, 1, 1);
    double difference = 0;
    for (std::size_t i = 0; i < one.size(); ++i)
      difference = std::max(difference, std::abs(many.data()[i] - one.data()[i]));
    std::printf("%zu heads of %zu tokens in %d groups: largest difference from one rank %.1e\n",
                s.heads, s.tokens, s.groups, difference);
    return difference < 1e-12 ? 0 : 1;
  });
}
catch (const std::exception& e)
{
  std::cerr << "attention: " << e.what() << '\n';
  return 1;
}
