// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Continues sequences of tokens, one token of each sequence at a time.
//
//   1. the prompt passes through the transformer, which keeps keys and values
//   2. rank 0 gathers the logits of each sequence's last token, (B, V), picks the next tokens, and
//      broadcasts them
//   3. these tokens pass through the transformer, and so on
//
// A token is picked by its logit's rank in steps that are the same on every mesh: the largest (the
// first of equals), or one drawn from softmax(logits / temperature) over the `top_k` largest, by
// the number that the seed, the sequence and the position determine. Logits that have no softmax,
// as with a NaN among them, are an error on every rank, as are prompts or options that differ
// between ranks.
//
// Words: 2 (P-1)/P of 2 integers of 64 bits a rank before the first token. Words a token: those of
// the transformer for B rows, B V of logits, and B numbers.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <span>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/fingerprint.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/core/philox.hpp"
#include "cubist/core/random_stream.hpp"
#include "cubist/dist/global.hpp"
#include "cubist/dist/staging.hpp"

namespace cubist::CUBIST_ABI
{

/// How tokens are chosen; the same on every rank.
struct GenerateOptions
{
  /// The number of tokens that are added to each sequence.
  std::size_t tokens = 32;
  /// 0 picks the token of the largest logit.
  double temperature = 0;
  /// Tokens are drawn from this many of the most likely; 0 stands for all. It needs a temperature.
  std::size_t top_k = 0;
  std::uint64_t seed = 0;
  /// Whether keys and values are kept. Without, each token is computed from all before it.
  bool cache = true;
};

namespace detail
{

/// What stands for a token that the logits do not determine.
inline constexpr int nan_among_logits = -1;
inline constexpr int infinite_logits = -2;

/// 0 for logits that have a softmax, else why they have none: a NaN, an infinity, or nothing but
/// negative infinities.
template <class T>
[[nodiscard]] int fault_of_logits(std::span<const T> logits)
{
  bool any_finite = false;
  bool any_infinity = false;
  for (const T logit : logits)
  {
    const auto x = static_cast<double>(logit);
    if (is_nan(x)) return nan_among_logits;
    any_finite = any_finite || is_finite(x);
    any_infinity = any_infinity || (!is_finite(x) && !std::signbit(x));
  }
  return any_finite && !any_infinity ? 0 : infinite_logits;
}

/// @param next for each sequence, a token or what stands for it
/// @throws NumericError for the first sequence without a token
inline void require_tokens(std::span<const int> next, std::size_t step)
{
  for (std::size_t b = 0; b < next.size(); ++b)
  {
    require<NumericError>(next[b] != nan_among_logits, "got a NaN among the logits of sequence ", b,
                          " in step ", step,
                          " of generate (both from 0), so no token is the most likely; look for a "
                          "NaN or an infinity in the weights, and load them again");
    require<NumericError>(next[b] != infinite_logits, "got infinite logits of sequence ", b,
                          " in step ", step,
                          " of generate (both from 0), for which tokens have no probabilities; use "
                          "a scalar of larger range, such as float, and check the weights");
  }
}

/// @throws ArgumentError on every rank, the same, unless all ranks have the same prompts and
/// options
template <class M>
void require_equal_on_ranks(const M& mesh, std::span<const int> prompt, std::size_t sequences,
                            const GenerateOptions& o)
{
  std::uint64_t sum = 0;
  std::uint64_t index = 0;
  const auto add = [&](std::uint64_t bits) { sum += mix(bits, index++); };
  add(prompt.size());
  for (const int id : prompt) add(static_cast<std::uint32_t>(id));
  for (const std::uint64_t option :
       {std::uint64_t{sequences}, std::uint64_t{o.tokens}, std::uint64_t{o.top_k}, o.seed,
        std::bit_cast<std::uint64_t>(o.temperature), std::uint64_t{o.cache}})
    add(option);
  std::array<std::uint64_t, 2> least{sum,
                                     ~sum};  // the least sum, and the complement of the largest
  with_staging_buffer(mesh.engine(), std::span<std::uint64_t>{least},
                      [&](auto sums) { mesh.world().all_reduce(sums, ReduceOp::min); });
  require<ArgumentError>(least[0] == ~least[1],
                         "got prompts or options of generate that differ between ranks, so the "
                         "continuation would be that of none; pass the tokens of all prompts, and "
                         "the same options, on every rank");
}

/// The token of the largest logit, the first of equals.
template <class T>
[[nodiscard]] int most_likely(std::span<const T> logits)
{
  return static_cast<int>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// A token drawn by `u`, uniform in [0, 1), from softmax(logits / temperature) over the `top_k`
/// largest.
/// @param order workspace
template <class T>
[[nodiscard]] int draw_token(std::span<const T> logits, double temperature, std::size_t top_k,
                             double u, std::vector<int>& order)
{
  order.resize(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](int token) {
    return static_cast<double>(logits[static_cast<std::size_t>(token)]);
  };
  const std::size_t count = top_k == 0 ? order.size() : std::min(top_k, order.size());
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(order.begin(), end, order.end(), [&](int a, int b) {
    return logit(a) > logit(b) || (logit(a) == logit(b) && a < b);
  });
  const double largest = logit(order.front());
  const auto power = [&](int token) { return std::exp((logit(token) - largest) / temperature); };
  double sum = 0;
  for (auto token = order.begin(); token != end; ++token) sum += power(*token);
  double left = u * sum;
  for (auto token = order.begin(); token != end; ++token)
  {
    left -= power(*token);
    if (left < 0) return *token;
  }
  return *(end - 1);
}

/// A model keeps keys and values until the end of the scope.
template <class Model>
struct CacheScope
{
  Model& model;

  CacheScope(Model& m, std::size_t tokens) : model{m} { model.use_cache(tokens); }
  CacheScope(const CacheScope&) = delete;
  CacheScope& operator=(const CacheScope&) = delete;
  ~CacheScope() { model.use_cache(0); }
};

}  // namespace detail

/// The tokens that follow the prompts, sequence by sequence, the same on every rank. Every rank of
/// the mesh calls this. Nothing is dropped.
/// @param prompt the tokens of all sequences, one after the other, the same on every rank
/// @throws ShapeError unless all `sequences` have as many tokens; ArgumentError for options out of
/// range, for more tokens than the model has positions, and on every rank for prompts or options
/// that differ between ranks; NumericError on every rank for logits with a NaN, or with infinities
/// for which tokens have no probabilities: it names sequence and step
template <class Model>
[[nodiscard]] std::vector<int> generate(Model& model, std::span<const int> prompt,
                                        std::size_t sequences = 1,
                                        const GenerateOptions& options = {})
{
  require<ShapeError>(sequences > 0 && !prompt.empty() && prompt.size() % sequences == 0, "got ",
                      prompt.size(), " tokens for ", sequences,
                      " prompts of equal length, which they do not make; give each sequence the "
                      "same number of tokens, at least one");
  require<ArgumentError>(options.temperature >= 0 && is_finite(options.temperature),
                         "got a temperature of ", options.temperature,
                         ", for which no token has a probability; use 0 for the most likely token, "
                         "or a positive number");
  require<ArgumentError>(options.top_k == 0 || options.temperature > 0, "got a top_k of ",
                         options.top_k,
                         " without a temperature, so the most likely token is picked and top_k "
                         "changes nothing; give a temperature, such as 1, or leave top_k out");
  const std::size_t given = prompt.size() / sequences;
  model.require_positions(given + options.tokens);

  const detail::CacheScope cache{model, options.cache ? given + options.tokens : 0};
  const auto& mesh = model.mesh();
  detail::require_equal_on_ranks(mesh, prompt, sequences, options);
  std::vector<std::vector<int>> texts(sequences);
  for (std::size_t b = 0; b < sequences; ++b)
    texts[b].assign(prompt.begin() + static_cast<std::ptrdiff_t>(b * given),
                    prompt.begin() + static_cast<std::ptrdiff_t>((b + 1) * given));
  std::vector<int> ids, next(sequences), order;
  for (std::size_t t = 0; t < options.tokens; ++t)
  {
    // All tokens, or those that the cache does not have.
    const std::size_t known = options.cache && t > 0 ? given + t - 1 : 0;
    ids.clear();
    for (const auto& text : texts)
      ids.insert(ids.end(), text.begin() + static_cast<std::ptrdiff_t>(known), text.end());
    const auto logits = gather(model.next_logits(ids, given + t - known, known));
    if (mesh.rank() == 0)
      for (std::size_t b = 0; b < sequences; ++b)
      {
        using T = typename Model::Value;
        const std::span<const T> row{logits.data() + b * logits.shape(1), logits.shape(1)};
        const Philox random = stream(options.seed, Draw::token, 0, given + t);
        next[b] = detail::fault_of_logits(row);
        if (next[b] != 0) continue;
        next[b] = options.temperature == 0
                      ? detail::most_likely(row)
                      : detail::draw_token(row, options.temperature, options.top_k,
                                           random.template uniform<double>(b), order);
      }
    with_staging_buffer(mesh.engine(), std::span<int>{next},
                        [&](auto tokens) { mesh.world().broadcast(tokens, 0); });
    detail::require_tokens(next, t);
    for (std::size_t b = 0; b < sequences; ++b) texts[b].push_back(next[b]);
  }
  std::vector<int> all;
  for (const auto& text : texts)
    all.insert(all.end(), text.begin() + static_cast<std::ptrdiff_t>(given), text.end());
  return all;
}
/// Continues a prompt that is written as a list: `generate(model, {17, 42})`.
template <class Model>
[[nodiscard]] std::vector<int> generate(Model& model, std::initializer_list<int> prompt,
                                        std::size_t sequences = 1,
                                        const GenerateOptions& options = {})
{
  return generate(model, std::span<const int>{prompt.begin(), prompt.size()}, sequences, options);
}

}  // namespace cubist::CUBIST_ABI
