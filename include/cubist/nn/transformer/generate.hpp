// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Continues sequences of tokens, one token per sequence at a time.
//
//   1. all prompts, up to the length of the shortest, pass through the transformer, which keeps
//      keys and values
//   2. rank 0 gathers the logits of each sequence's last token, (B, V), picks the next tokens, and
//      broadcasts them; a sequence that is still in its prompt takes the prompt's token instead
//   3. these tokens pass through the transformer, and so on, until each sequence has all its new
//      tokens or has ended
//
// So all sequences are at the same position, whatever the lengths of their prompts, and each
// continues as if it were alone. A sequence ends after a token that ends a text.
//
// The token with the largest logit is picked (the first if several are equal), or one is drawn from
// softmax(logits / temperature) over the `top_k` largest logits. Of these, it keeps only the most
// likely ones, whose probabilities add up to `top_p`. The seed, the sequence and the position
// determine the random number, so the result is the same on every mesh. Logits that have no
// softmax, for example because one is a NaN, are an error on every rank, and so are prompts or
// options that differ between ranks.
//
// Elements that one rank sends: 2 (P-1)/P times two 64-bit integers before the first token; for
// each token, what the transformer sends for B rows, B V logits, and B integers.
// Source: prompts of unequal length: Llama's generation.py (github.com/meta-llama/llama); top_p:
// Holtzman et al., "The Curious Case of Neural Text Degeneration", arXiv 1904.09751.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/fingerprint.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/philox.hpp"
#include "cubist/core/random_stream.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/matrix/global.hpp"
#include "cubist/matrix/staging.hpp"
#include "cubist/scheme/catalogue.hpp"

namespace cubist::CUBIST_ABI
{

template <NetworkScheme S, class B, RealScalar T>
class Transformer;

/// How tokens are chosen. The options must be the same on every rank.
struct GenerateOptions
{
  /// The maximum number of tokens that are added to each sequence.
  std::size_t tokens = 32;
  /// 0 picks the token with the largest logit.
  double temperature = 0;
  /// Draws each token from this many of the most likely tokens; 0 stands for all. Needs a
  /// temperature.
  std::size_t top_k = 0;
  /// Draws each token from the fewest of the most likely tokens whose probabilities add up to this;
  /// 1 stands for all. Needs a temperature.
  double top_p = 1;
  std::uint64_t seed = 0;
  /// Whether to keep keys and values. If not, each step computes all earlier tokens again.
  bool cache = true;
  /// The tokens that end a sequence; if empty, those of the model's configuration.
  std::vector<int> end_ids = {};
  /// Continues every sequence by `tokens` tokens, whatever they are. Cannot be combined with
  /// `end_ids`.
  bool ignore_end = false;
  /// The number that the first sequence has in random draws. With it, prompts that are continued in
  /// several calls draw the same tokens as in one call.
  std::size_t first_sequence = 0;
  /// Called on every rank with a sequence's number in this call, from 0, and its next token, as
  /// soon as the token is known.
  std::function<void(std::size_t sequence, int token)> on_token = {};
};

namespace detail
{

/// Codes that stand for a token if the logits determine none.
inline constexpr int nan_among_logits = -1;
inline constexpr int infinite_logits = -2;

/// Returns 0 for logits that have a softmax, and otherwise why they have none: a NaN, an infinity,
/// or nothing but negative infinities.
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

/// @param next for each sequence, a token or one of the codes above
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
                          " of generate (both from 0), so tokens have no probabilities; use "
                          "a scalar with a larger range, such as float, and check the weights");
  }
}

/// @throws ArgumentError on every rank unless all ranks have the same prompts and options
template <class M>
void require_equal_on_ranks(const M& mesh, std::span<const std::vector<int>> prompts,
                            const GenerateOptions& o)
{
  std::uint64_t sum = 0;
  std::uint64_t index = 0;
  const auto add = [&](std::uint64_t bits) { sum += mix(bits, index++); };
  const auto add_ids = [&](const std::vector<int>& ids) {
    add(ids.size());
    for (const int id : ids) add(static_cast<std::uint32_t>(id));
  };
  add(prompts.size());
  for (const auto& prompt : prompts) add_ids(prompt);
  add_ids(o.end_ids);
  for (const std::uint64_t option :
       {std::uint64_t{o.tokens}, std::uint64_t{o.top_k}, o.seed,
        std::bit_cast<std::uint64_t>(o.temperature), std::bit_cast<std::uint64_t>(o.top_p),
        std::uint64_t{o.cache}, std::uint64_t{o.ignore_end}, std::uint64_t{o.first_sequence}})
    add(option);
  std::array<std::uint64_t, 2> least{sum,
                                     ~sum};  // the least sum, and the complement of the largest
  with_staging_buffer(mesh.engine(), std::span<std::uint64_t>{least},
                      [&](auto sums) { mesh.world().all_reduce(sums, ReduceOp::min); });
  require<ArgumentError>(
      least[0] == ~least[1],
      "got prompts or options of generate that differ between ranks, so the continuation would mix "
      "them; pass the tokens of all prompts, and the same options, on every rank");
}

/// Returns the token with the largest logit, the first if several are equal.
template <class T>
[[nodiscard]] int most_likely(std::span<const T> logits)
{
  return static_cast<int>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// Draws a token with `u`, uniform in [0, 1), from softmax(logits / temperature) over the `top_k`
/// largest logits, and of these over the most likely ones, whose probabilities add up to `top_p`.
/// @param order workspace
template <class T>
[[nodiscard]] int draw_token(std::span<const T> logits, double temperature, std::size_t top_k,
                             double top_p, double u, std::vector<int>& order)
{
  order.resize(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](int token) {
    return static_cast<double>(logits[static_cast<std::size_t>(token)]);
  };
  const std::size_t count = top_k == 0 ? order.size() : std::min(top_k, order.size());
  auto end = order.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(order.begin(), end, order.end(), [&](int a, int b) {
    return logit(a) > logit(b) || (logit(a) == logit(b) && a < b);
  });
  const double largest = logit(order.front());
  const auto power = [&](int token) { return std::exp((logit(token) - largest) / temperature); };
  double sum = 0;
  for (auto token = order.begin(); token != end; ++token) sum += power(*token);
  if (top_p < 1)
  {
    const double wanted = top_p * sum;
    auto last = order.begin();
    for (sum = 0; last != end && (sum < wanted || last == order.begin()); ++last)
      sum += power(*last);
    end = last;
  }
  double left = u * sum;
  for (auto token = order.begin(); token != end; ++token)
  {
    left -= power(*token);
    if (left < 0) return *token;
  }
  return *(end - 1);
}

/// RAII: makes a model keep keys and values until the end of the scope.
template <class Model>
struct CacheScope
{
  Model& model;

  CacheScope(Model& m, std::size_t tokens)
      : model{m}
  {
    model.use_cache(tokens);
  }
  CacheScope(const CacheScope&) = delete;
  CacheScope& operator=(const CacheScope&) = delete;
  ~CacheScope() { model.use_cache(0); }
};

/// @throws ShapeError if there is no prompt or an empty one, ArgumentError for options out of range
inline void check_generation(std::span<const std::vector<int>> prompts, const GenerateOptions& o,
                             std::size_t vocabulary)
{
  require<ShapeError>(!prompts.empty(), "got no prompts, so there is nothing to continue; give at "
                                        "least one");
  for (std::size_t b = 0; b < prompts.size(); ++b)
    require<ShapeError>(
        !prompts[b].empty(), "got 0 tokens for prompt ", b,
        ", so there is nothing to predict from; give it at least one, such as the one that begins "
        "a text");
  require<ArgumentError>(o.temperature >= 0 && is_finite(o.temperature), "got a temperature of ",
                         o.temperature,
                         ", so tokens have no probabilities; use 0 for the most likely token, "
                         "or a positive number");
  require<ArgumentError>(o.top_k == 0 || o.temperature > 0, "got a top_k of ", o.top_k,
                         " without a temperature, so the most likely token is picked and top_k "
                         "changes nothing; give a temperature, such as 1, or leave top_k out");
  require<ArgumentError>(o.top_p > 0 && o.top_p <= 1, "got a top_p of ", o.top_p,
                         ", but it is a sum of probabilities; use a number in (0, 1]");
  require<ArgumentError>(o.top_p == 1 || o.temperature > 0, "got a top_p of ", o.top_p,
                         " without a temperature, so the most likely token is picked and top_p "
                         "changes nothing; give a temperature, such as 1, or leave top_p out");
  require<ArgumentError>(o.end_ids.empty() || !o.ignore_end,
                         "got ids that end a text together with ignore_end, so it is unclear "
                         "whether texts end; leave one of them out");
  for (const int id : o.end_ids)
    require<ArgumentError>(id >= 0 && static_cast<std::size_t>(id) < vocabulary, "got ", id,
                           " among the ids that end a text, which a model of ", vocabulary,
                           " tokens never generates; use 0 to ", vocabulary - 1,
                           ", or ignore_end for texts without an end");
}

/// A sequence that is continued.
struct Continuation
{
  std::vector<int> tokens;  // the prompt, and the tokens that follow
  std::size_t given;        // the number of tokens in the prompt
  std::size_t end = 0;      // the number of tokens up to its end, once it has ended

  [[nodiscard]] bool has_ended() const { return end > 0; }
  /// Whether its next token must be picked at this position.
  [[nodiscard]] bool ends_at(std::size_t position) const
  {
    return !has_ended() && tokens.size() == position;
  }
};

/// Prompts, and the tokens that follow each of them.
class Continuations
{
 public:
  /// @param options, end_ids outlive this object
  Continuations(std::span<const std::vector<int>> prompts, const GenerateOptions& options,
                const std::vector<int>& end_ids)
      : options_{options},
        end_ids_{end_ids}
  {
    for (const auto& prompt : prompts)
    {
      longest_ = std::max(longest_, prompt.size() + options.tokens);
      texts_.push_back({prompt, prompt.size(), options.tokens == 0 ? prompt.size() : 0});
    }
  }

  /// The largest number of tokens that a text can reach.
  [[nodiscard]] std::size_t longest() const { return longest_; }
  [[nodiscard]] std::size_t count() const { return texts_.size(); }
  [[nodiscard]] const Continuation& operator[](std::size_t b) const { return texts_[b]; }
  /// The first position at which a token must be picked; none once all texts have ended.
  [[nodiscard]] std::optional<std::size_t> next_position() const
  {
    std::optional<std::size_t> first;
    for (const Continuation& text : texts_)
      if (!text.has_ended()) first = std::min(first.value_or(longest_), text.tokens.size());
    return first;
  }
  /// Returns the tokens [first, last) of each text. Texts that have ended are padded with an
  /// arbitrary token.
  [[nodiscard]] std::span<const int> tokens(std::size_t first, std::size_t last)
  {
    ids_.clear();
    for (Continuation& text : texts_)
    {
      if (text.tokens.size() < last) text.tokens.resize(last, text.tokens.back());
      ids_.insert(ids_.end(), text.tokens.begin() + static_cast<std::ptrdiff_t>(first),
                  text.tokens.begin() + static_cast<std::ptrdiff_t>(last));
    }
    return ids_;
  }
  /// Appends the tokens that were picked at a position to the texts that end there.
  void append(std::size_t position, std::span<const int> next)
  {
    for (std::size_t b = 0; b < texts_.size(); ++b)
    {
      Continuation& text = texts_[b];
      if (!text.ends_at(position)) continue;
      text.tokens.push_back(next[b]);
      if (options_.on_token) options_.on_token(b, next[b]);
      if (text.tokens.size() == text.given + options_.tokens || ends_text(next[b]))
        text.end = text.tokens.size();
    }
  }
  /// Returns the tokens after each prompt.
  [[nodiscard]] std::vector<std::vector<int>> results() const
  {
    std::vector<std::vector<int>> all;
    for (const Continuation& text : texts_)
      all.emplace_back(text.tokens.begin() + static_cast<std::ptrdiff_t>(text.given),
                       text.tokens.begin() + static_cast<std::ptrdiff_t>(text.end));
    return all;
  }

 private:
  [[nodiscard]] bool ends_text(int token) const
  {
    return !options_.ignore_end &&
           std::find(end_ids_.begin(), end_ids_.end(), token) != end_ids_.end();
  }

  const GenerateOptions& options_;
  const std::vector<int>& end_ids_;
  std::size_t longest_ = 0;
  std::vector<Continuation> texts_;
  std::vector<int> ids_;
};

/// Picks the next token of sequence b in a batch, or returns the code of fault_of_logits().
/// @param order workspace
template <class T>
[[nodiscard]] int pick_token(std::span<const T> logits, const GenerateOptions& options,
                             std::size_t b, std::size_t position, std::vector<int>& order)
{
  if (const int fault = fault_of_logits(logits); fault != 0) return fault;
  if (options.temperature == 0) return most_likely(logits);
  const Philox random = stream(options.seed, Draw::token, 0, position);
  const double u = random.template uniform<double>(options.first_sequence + b);
  return draw_token(logits, options.temperature, options.top_k, options.top_p, u, order);
}

/// Implements generate(); the compiled library contains it for its transformers.
template <class Model>
[[nodiscard]] std::vector<std::vector<int>>
continue_prompts(Model& model, std::span<const std::vector<int>> prompts,
                 const GenerateOptions& options)
{
  using T = typename Model::Value;
  const auto& config = model.config();
  check_generation(prompts, options, config.vocabulary);
  Continuations texts{prompts, options, options.end_ids.empty() ? config.end_ids : options.end_ids};
  model.require_positions(texts.longest());

  const CacheScope cache{model, options.cache ? texts.longest() : 0};
  const auto& mesh = model.mesh();
  require_equal_on_ranks(mesh, prompts, options);
  std::vector<int> next(texts.count()), order;
  std::size_t known = 0;  // the number of tokens in the cache
  std::optional<std::size_t> first;
  while (const auto position = texts.next_position())
  {
    if (!first) first = position;
    const auto ids = texts.tokens(known, *position);
    const auto logits = gather(model.next_logits(ids, *position - known, known));
    for (std::size_t b = 0; mesh.rank() == 0 && b < texts.count(); ++b)
    {
      const std::span<const T> row{logits.data() + b * logits.shape(1), logits.shape(1)};
      next[b] = texts[b].ends_at(*position) ? pick_token(row, options, b, *position, order) : 0;
    }
    with_staging_buffer(mesh.engine(), std::span<int>{next},
                        [&](auto tokens) { mesh.world().broadcast(tokens, 0); });
    require_tokens(next, *position - *first);
    texts.append(*position, next);
    known = options.cache ? *position : 0;
  }
  return texts.results();
}

}  // namespace detail

/// Continues prompts, which may have unequal lengths, by at most `options.tokens` tokens each; if
/// there are fewer, the last one ends the text. Returns the new tokens of each prompt, the same on
/// every rank. Every rank of the mesh calls this. There is no dropout.
/// @param prompts the tokens of each prompt, the same on every rank
/// @throws ShapeError if there is no prompt or an empty one. ArgumentError for options out of
/// range, for more tokens than the model has positions, and on every rank for prompts or options
/// that differ between ranks. NumericError on every rank for logits with a NaN, or with infinities
/// that leave tokens without probabilities; the message names the sequence and the step
template <class Model>
[[nodiscard]] std::vector<std::vector<int>> generate(Model& model,
                                                     std::span<const std::vector<int>> prompts,
                                                     const GenerateOptions& options = {})
{
  return detail::continue_prompts(model, prompts, options);
}
/// Continues prompts that are written as a list: `generate(model, {p0, p1})`.
template <class Model>
[[nodiscard]] std::vector<std::vector<int>>
generate(Model& model, std::initializer_list<std::vector<int>> prompts,
         const GenerateOptions& options = {})
{
  return generate(model, std::span{prompts.begin(), prompts.size()}, options);
}

/// Continues prompts of equal length, and returns the new tokens, sequence by sequence. A sequence
/// that ends before others repeats its last token up to the length of the longest.
/// @param prompt the tokens of all sequences, one after the other, the same on every rank
/// @throws ShapeError unless all `sequences` have the same number of tokens, and as the function
/// above
template <class Model>
[[nodiscard]] std::vector<int> generate(Model& model, std::span<const int> prompt,
                                        std::size_t sequences = 1,
                                        const GenerateOptions& options = {})
{
  require<ShapeError>(
      sequences > 0 && !prompt.empty() && prompt.size() % sequences == 0, "got ", prompt.size(),
      " tokens for ", sequences,
      " prompts of equal length, but they cannot be divided evenly; give each prompt the same "
      "number "
      "of tokens, at least one");
  const std::size_t given = prompt.size() / sequences;
  std::vector<std::vector<int>> prompts(sequences);
  for (std::size_t b = 0; b < sequences; ++b)
    prompts[b].assign(prompt.begin() + static_cast<std::ptrdiff_t>(b * given),
                      prompt.begin() + static_cast<std::ptrdiff_t>((b + 1) * given));
  auto texts = generate(model, std::span<const std::vector<int>>{prompts}, options);
  std::size_t longest = 0;
  for (const auto& text : texts) longest = std::max(longest, text.size());
  std::vector<int> all;
  for (auto& text : texts)
  {
    if (!text.empty()) text.resize(longest, text.back());
    all.insert(all.end(), text.begin(), text.end());
  }
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

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_GENERATE_INSTANCES(prefix, S, B, T)                                                 \
  CUBIST_INSTANCE(prefix, detail::continue_prompts<Transformer<S, B, T>>)
CUBIST_FOR_TRAINED_SCHEMES(CUBIST_GENERATE_INSTANCES)

}  // namespace cubist::CUBIST_ABI
