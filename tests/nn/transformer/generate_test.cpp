// SPDX-License-Identifier: BSD-3-Clause
#include <set>

#include "cubist/nn/transformer/generate.hpp"
#include "cubist/nn/transformer/transformer.hpp"

#include "nn.hpp"

namespace cubist::test::generate_test
{

TEST_CASE("the most likely token is the first of equals")
{
  CHECK(detail::most_likely(std::span<const float>{std::array{1.F, 3.F, 2.F, 3.F}}) == 1);
}

TEST_CASE("a token is drawn with its probability")
{
  const std::vector<double> logits{std::log(1.0), std::log(4.0), std::log(2.0), std::log(1.0)};
  std::vector<int> order;
  const auto draw = [&](double temperature, std::size_t top_k, double top_p = 1) {
    std::array<int, 4> count{};
    for (int i = 0; i < 800; ++i)
      ++count[static_cast<std::size_t>(detail::draw_token(std::span{logits}, temperature, top_k,
                                                          top_p, (i + 0.5) / 800, order))];
    return count;
  };
  CHECK(draw(1, 0) == std::array{100, 400, 200, 100});
  CHECK(draw(1, 9) == std::array{100, 400, 200, 100});
  // If logits are equal, the first is among the largest.
  CHECK(draw(1, 3) == std::array{114, 457, 229, 0});
  CHECK(draw(0.5, 2) == std::array{0, 640, 160, 0});
  CHECK(draw(1, 1) == std::array{0, 800, 0, 0});
  CHECK(draw(1e-3, 0) == std::array{0, 800, 0, 0});
  // The probabilities are 1/8, 4/8, 2/8 and 1/8; among equals the first comes first.
  CHECK(draw(1, 0, 1e-300) == std::array{0, 800, 0, 0});
  CHECK(draw(1, 0, 0.5) == std::array{0, 800, 0, 0});
  CHECK(draw(1, 0, 0.51) == std::array{0, 533, 267, 0});
  CHECK(draw(1, 0, 0.76) == std::array{114, 457, 229, 0});
  CHECK(draw(1, 0, 0.88) == std::array{100, 400, 200, 100});
  // For the three largest they are 1/7, 4/7 and 2/7; at half the temperature 1/22, 16/22 and 4/22.
  CHECK(draw(1, 3, 0.56) == std::array{0, 800, 0, 0});
  CHECK(draw(1, 3, 0.58) == std::array{0, 533, 267, 0});
  CHECK(draw(0.5, 0, 0.72) == std::array{0, 800, 0, 0});
  // The largest number below 1 draws the last token, whatever the rounding.
  CHECK(detail::draw_token(std::span{logits}, 1, 0, 1, 1 - 0x1p-53, order) == 3);
}

TEST_CASE("logits without a softmax are distinguished from those with one")
{
  const auto fault = [](const std::vector<double>& logits) {
    return detail::fault_of_logits(std::span{logits});
  };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double inf = std::numeric_limits<double>::infinity();
  CHECK(fault({1, -1e308, 1e308}) == 0);
  CHECK(fault({1, -inf, 2}) == 0);  // one token is excluded
  for (const auto& logits : {std::vector{nan}, {1, nan}, {nan, 1}, {-nan, -inf, 1}, {1, 2, nan, 3}})
    CHECK(fault(logits) == detail::nan_among_logits);
  for (const auto& logits : {std::vector{inf}, {1, inf}, {inf, inf}, {-inf, inf, 1}, {-inf, -inf}})
    CHECK(fault(logits) == detail::infinite_logits);
  CHECK(detail::fault_of_logits(std::span<const half>{std::array{half{1}, half{1e6F}}}) ==
        detail::infinite_logits);

  // The error names the first sequence without a token, however its row compares.
  CHECK_NOTHROW(detail::require_tokens(std::array{0, 5}, 3));
  CHECK(mentions(message_of<NumericError>([] {
                   detail::require_tokens(std::array{0, -1, -2}, 3);
                 }),
                 "got a NaN among the logits of sequence 1 in step 3",
                 "no token is the most likely", "weights"));
  CHECK(mentions(message_of<NumericError>([] {
                   detail::require_tokens(std::array{-2, -1}, 0);
                 }),
                 "got infinite logits of sequence 0 in step 0", "no probabilities", "float"));
}

const TransformerConfig config{
    .vocabulary = 11, .positions = 16, .width = 12, .layers = 2, .heads = 4};

/// The message of generate's error on each rank, for a model whose parameter `name` has `value` in
/// a row.
static std::vector<std::string> errors_with(const std::string& name, std::size_t row, double value,
                                            const GenerateOptions& options)
{
  auto untied = config;
  untied.tied = false;
  return on_ranks<TestBackend>(two_two_two.ranks, [&](auto& world) {
    const Mesh<Summa25D, TestBackend> mesh{world, two_two_two.extents};
    Transformer<Summa25D, TestBackend, double> model{mesh, untied};
    for (const auto& p : model.parameters())
    {
      if (p.name != name) continue;
      auto all = gather(p.value);
      if (world.rank() == 0) all(row, 1) = value;
      scatter(all, p.value);
    }
    return message_of<NumericError>([&] { (void)generate(model, {1, 2, 3, 4, 5, 6}, 3, options); });
  });
}

TEST_CASE("a NaN among logits is an error on every rank, which names sequence and step")
{
  if (!fits(two_two_two)) return;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  GenerateOptions options{.tokens = 8, .temperature = 1};
  // Only sequence 1 has token 3, and position 5 is first read in step 4.
  const auto in_prompt = errors_with("embedding.weight", 3, nan, {.tokens = 8});
  const auto in_step = errors_with("positions.weight", 5, nan, options);
  options.cache = false;
  const auto without_cache = errors_with("positions.weight", 5, nan, options);
  for (int rank = 0; rank < 8; ++rank)
  {
    const auto r = static_cast<std::size_t>(rank);
    CAPTURE(rank);
    CHECK(mentions(in_prompt[r], "a NaN among the logits of sequence 1 in step 0"));
    CHECK(mentions(in_step[r], "a NaN among the logits of sequence 0 in step 4"));
    CHECK(in_step[r] == without_cache[r]);
  }
}

TEST_CASE("prompts and options that differ between ranks are refused by all ranks")
{
  if (!fits(two_by_two)) return;
  const auto errors = [&](int other, const std::vector<int>& prompt, std::size_t sequences,
                          const GenerateOptions& options) {
    return on_ranks<TestBackend>(4, [&](auto& world) {
      const Mesh<Summa2D, TestBackend> mesh{world, two_by_two.extents};
      Transformer<Summa2D, TestBackend, double> model{mesh, config};
      const bool differs = world.rank() == other;
      return message_of<ArgumentError>([&] {
        (void)generate(model, differs ? prompt : std::vector{1, 2, 3, 4}, differs ? sequences : 2,
                       differs ? options : GenerateOptions{.tokens = 1});
      });
    });
  };
  const std::vector<int> usual{1, 2, 3, 4};
  for (int other = 0; other < 4; ++other)
    for (const auto& found :
         {errors(other, {1, 2, 3, 5}, 2, {.tokens = 1}),
          errors(other, {2, 1, 3, 4}, 2, {.tokens = 1}),
          errors(other, {1, 2, 3, 4, 5, 6}, 2, {.tokens = 1}),
          errors(other, usual, 1, {.tokens = 1}), errors(other, usual, 2, {.tokens = 2}),
          errors(other, usual, 2, {.tokens = 1, .temperature = 1}),
          errors(other, usual, 2, {.tokens = 1, .seed = 1}),
          errors(other, usual, 2, {.tokens = 1, .cache = false}),
          errors(other, usual, 2, {.tokens = 1, .end_ids = {3}}),
          errors(other, usual, 2, {.tokens = 1, .ignore_end = true}),
          errors(other, usual, 2, {.tokens = 1, .first_sequence = 1})})
      for (const auto& message : found)
      {
        CAPTURE(other, message);
        CHECK(mentions(message, "prompts or options of generate that differ between ranks",
                       "on every rank"));
      }
  for (const auto& message : errors(-1, {}, 0, {})) CHECK(message.empty());
}

/// Continues three prompts of two tokens with a model whose weights are random.
template <class S>
std::vector<int> text_on(const Place<S>& place, const GenerateOptions& options)
{
  return on_root(place, [&](const auto& mesh) {
    Transformer<S, TestBackend, double> model{mesh, config};
    return generate(model, std::vector{1, 2, 3, 4, 5, 6}, 3, options);
  });
}

TEST_CASE("the same text is drawn on every mesh, with and without a cache")
{
  for (const std::size_t top_k : {4U, 0U})
  {
    if (few_suffice<TestBackend> && top_k == 0) break;
    const GenerateOptions options{.tokens = 13, .temperature = 1.5, .top_k = top_k, .seed = 7};
    const auto text = text_on(one_rank, options);
    CAPTURE(top_k, text);
    REQUIRE(text.size() == 39);
    CHECK(std::set<int>(text.begin(), text.end()).size() > 3);
    const auto on = [&](const auto& place) {
      if (!fits(place)) return;
      CAPTURE(place.name());
      CHECK(text_on(place, options) == text);
      auto without = options;
      without.cache = false;
      CHECK(text_on(place, without) == text);
    };
    if constexpr (!few_suffice<TestBackend>) on(Place<Summa2D>{6, {.rows = 2, .cols = 3}});
    if constexpr (!few_suffice<TestBackend>) on(cube);
    on(two_two_two);
    on(Place<Megatron1DSequence>{4, {}});
    auto other = options;
    other.seed = 8;
    CHECK(text_on(one_rank, other) != text);
  }
}

TEST_CASE("two drawn tokens and then more are those that are drawn all at once")
{
  // A token's position in the text, not the call, decides the random number that draws it.
  const auto check = [](const auto& place) {
    if (!fits(place)) return;
    const auto [whole, parts] = on_root(place, [](const auto& mesh) {
      using S = typename std::decay_t<decltype(mesh)>::Scheme;
      Transformer<S, TestBackend, double> model{mesh, config};
      constexpr std::size_t sequences = 3;
      GenerateOptions options{.tokens = 9, .temperature = 2, .seed = 5};
      const std::vector prompt{1, 2, 3, 4, 5, 6};
      const auto all = generate(model, prompt, sequences, options);
      std::vector<std::vector<int>> texts(sequences);
      for (std::size_t b = 0; b < sequences; ++b) texts[b] = {prompt[2 * b], prompt[2 * b + 1]};
      for (const std::size_t tokens : {2U, 1U, 6U})
      {
        std::vector<int> given;
        for (const auto& text : texts) given.insert(given.end(), text.begin(), text.end());
        options.tokens = tokens;
        const auto more = generate(model, given, sequences, options);
        for (std::size_t i = 0; i < more.size(); ++i) texts[i / tokens].push_back(more[i]);
      }
      std::vector<int> joined;
      for (const auto& text : texts) joined.insert(joined.end(), text.begin() + 2, text.end());
      return std::pair{all, joined};
    });
    CHECK(parts == whole);
    CHECK(std::set<int>(whole.begin(), whole.end()).size() > 3);
  };
  check(one_rank);
  check(two_two_two);
}

using Prompts = std::vector<std::vector<int>>;

TEST_CASE("prompts of unequal length are continued as each of them alone")
{
  const Prompts prompts{{1, 2, 3, 4, 5}, {6}, {7, 8, 9, 10, 0, 1, 2}, {4, 5}};
  const auto check = [&](const auto& place) {
    if (!fits(place)) return;
    CAPTURE(place.name());
    for (const double temperature : {0.0, 1.5})
      for (const bool cache : {true, false})
      {
        if (!cache && temperature == 0) continue;
        CAPTURE(temperature, cache);
        const auto [together, alone] = on_root(place, [&](const auto& mesh) {
          using S = typename std::decay_t<decltype(mesh)>::Scheme;
          Transformer<S, TestBackend, double> model{mesh, config};
          GenerateOptions options{
              .tokens = 4, .temperature = temperature, .seed = 3, .cache = cache};
          const auto all = generate(model, prompts, options);
          std::vector<std::vector<int>> each;
          for (; options.first_sequence < prompts.size(); ++options.first_sequence)
            each.push_back(generate(model, prompts[options.first_sequence], 1, options));
          return std::pair{all, each};
        });
        CHECK(together == alone);
        for (const auto& text : together) CHECK(text.size() == 4);
      }
  };
  check(one_rank);
  check(two_two_two);
  if constexpr (!few_suffice<TestBackend>) check(cube);
}

TEST_CASE("a sequence ends after a token that ends a text, and the others go on")
{
  const auto check = [](const auto& place) {
    if (!fits(place)) return;
    CAPTURE(place.name());
    const auto found = on_root(place, [](const auto& mesh) {
      using S = typename std::decay_t<decltype(mesh)>::Scheme;
      const Prompts prompts{{1}, {2, 3, 4, 5, 6, 7}, {8, 9}};
      Transformer<S, TestBackend, double> endless{mesh, config};
      GenerateOptions options{.tokens = 8, .temperature = 2, .seed = 1};
      std::vector<std::vector<std::vector<int>>> all;
      all.push_back(generate(endless, prompts, options));
      // The configuration ends texts at the third token of the first text, and at one that none
      // has.
      auto ending = config;
      ending.end_ids = {all[0][0][2]};
      Transformer<S, TestBackend, double> model{mesh, ending};
      all.push_back(generate(model, prompts, options));
      options.ignore_end = true;
      all.push_back(generate(model, prompts, options));
      options.ignore_end = false;
      // The first text ends with its first token, before the second text's prompt ends.
      options.end_ids = {all[0][0][0], all[0][1][3]};
      all.push_back(generate(model, prompts, options));
      options.cache = false;
      all.push_back(generate(model, prompts, options));
      // If prompts have equal length, the last token is repeated.
      options.end_ids = {};
      all.push_back({generate(model, {1, 8}, 2, options)});
      options.ignore_end = true;
      all.push_back({generate(model, {1, 8}, 2, options)});
      return all;
    });
    const auto& endless = found[0];
    const auto up_to = [&](const std::vector<int>& text, const std::vector<int>& ends) {
      std::vector<int> all;
      for (const int token : text)
      {
        all.push_back(token);
        if (std::find(ends.begin(), ends.end(), token) != ends.end()) break;
      }
      return all;
    };
    CHECK(found[2] == endless);
    CHECK(found[4] == found[3]);
    CHECK(found[3][0].size() == 1);
    CHECK(found[1][0].size() <= 3);
    for (std::size_t b = 0; b < 3; ++b)
    {
      CAPTURE(b);
      CHECK(endless[b].size() == 8);
      CHECK(found[1][b] == up_to(endless[b], {endless[0][2]}));
      CHECK(found[3][b] == up_to(endless[b], {endless[0][0], endless[1][3]}));
    }
    const auto& whole = found[6][0];
    std::vector<std::vector<int>> two{up_to({whole.begin(), whole.begin() + 8}, {endless[0][2]}),
                                      up_to({whole.begin() + 8, whole.end()}, {endless[0][2]})};
    const std::size_t longest = std::max(two[0].size(), two[1].size());
    for (auto& text : two) text.resize(longest, text.back());
    two[0].insert(two[0].end(), two[1].begin(), two[1].end());
    CHECK(found[5][0] == two[0]);
  };
  check(one_rank);
  check(two_two_two);
}

TEST_CASE("tokens are handed out as they come, on every rank")
{
  if (!fits(two_by_two)) return;
  const auto found = on_mesh(two_by_two, [](const auto& mesh) {
    Transformer<Summa2D, TestBackend, double> model{mesh, config};
    std::vector<std::vector<int>> handed(2);
    std::vector<int> order;
    GenerateOptions options{.tokens = 3, .temperature = 1};
    options.on_token = [&](std::size_t sequence, int token) {
      handed[sequence].push_back(token);
      order.push_back(static_cast<int>(sequence));
    };
    const Prompts prompts{{1, 2, 3}, {4, 5}};
    const auto texts = generate(model, prompts, options);
    const bool same = texts == handed;
    // A separate call continues the second prompt, whose number is its index in the call.
    handed = Prompts(2);
    options.first_sequence = 1;
    const auto second = generate(model, {prompts[1]}, options);
    return std::tuple{same, order, second == Prompts{texts[1]} && handed == Prompts{texts[1], {}}};
  });
  for (const auto& [same, order, second] : found)
  {
    CHECK(same);
    CHECK(order == std::vector{1, 0, 1, 0, 1, 0, 0, 0, 0});
    CHECK(second);
  }
}

TEST_CASE("a prompt may be continued by no token, and up to the last position")
{
  CHECK(text_on(one_rank, {.tokens = 0}).empty());
  CHECK(text_on(one_rank, {.tokens = 14}).size() == 42);
}

TEST_CASE("a prompt may be written as a list")
{
  const auto both = on_root(one_rank, [&](const auto& mesh) {
    Transformer<Summa2D, TestBackend, double> model{mesh, config};
    const GenerateOptions options{.tokens = 4};
    return std::pair{generate(model, {5, 7, 1, 2}, 2, options),
                     generate(model, std::vector{5, 7, 1, 2}, 2, options)};
  });
  CHECK(both.first.size() == 8);
  CHECK(both.first == both.second);
}

TEST_CASE("several prompts may be written as a list")
{
  const auto all = on_root(one_rank, [&](const auto& mesh) {
    Transformer<Summa2D, TestBackend, double> model{mesh, config};
    const GenerateOptions options{.tokens = 3};
    const std::vector p0{5, 7, 1}, p1{2};
    return std::vector{
        generate(model, Prompts{p0, p1}, options), generate(model, {p0, p1}, options),
        generate(model, {{5, 7, 1}, {2}}, options), generate(model, {p0, p1}, {.tokens = 3})};
  });
  CHECK(all[0].size() == 2);
  for (const auto& texts : all) CHECK(texts == all[0]);
}

template <class F>
std::string refusal(F f)
{
  return on_root(one_rank, [&](const auto& mesh) {
    Transformer<Summa2D, TestBackend, double> model{mesh, config};
    return message_of<Error>([&] { (void)f(model); });
  });
}

TEST_CASE("prompts and options that cannot be continued are refused")
{
  const std::vector three{1, 2, 3};
  CHECK(
      mentions(refusal([&](auto& m) { return generate(m, three, 2); }), "3 tokens for 2 prompts"));
  CHECK(mentions(refusal([&](auto& m) { return generate(m, std::vector<int>{}); }), "0 tokens"));
  CHECK(mentions(refusal([&](auto& m) { return generate(m, three, 1, {.tokens = 14}); }),
                 "17 tokens", "16 positions"));
  CHECK(mentions(refusal([&](auto& m) {
                   return generate(m, std::vector{1, 11}, 1, {.tokens = 1});
                 }),
                 "got id 11", "0 to 10"));
  for (const double temperature :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    CHECK(mentions(
        refusal([&](auto& m) { return generate(m, three, 1, {.temperature = temperature}); }),
        "temperature of"));
  CHECK(mentions(refusal([&](auto& m) { return generate(m, three, 1, {.top_k = 2}); }),
                 "top_k of 2 without a temperature", "give a temperature"));
  CHECK(mentions(refusal([&](auto& m) { return generate(m, three, 1, {.top_p = 0.9}); }),
                 "top_p of 0.9 without a temperature", "give a temperature"));
  for (const double top_p : {0.0, -1.0, 1.1, std::numeric_limits<double>::quiet_NaN()})
    CHECK(mentions(
        refusal([&](auto& m) { return generate(m, three, 1, {.temperature = 1, .top_p = top_p}); }),
        "top_p of", "use a number in (0, 1]"));
  CHECK(mentions(refusal([&](auto& m) {
                   return generate(m, three, 1, {.end_ids = {2, 11}});
                 }),
                 "got 11 among the ids that end a text", "use 0 to 10", "ignore_end"));
  CHECK(mentions(
      refusal([&](auto& m) { return generate(m, three, 1, {.end_ids = {2}, .ignore_end = true}); }),
      "ids that end a text together with ignore_end", "leave one of them out"));
  CHECK(mentions(refusal([&](auto& m) {
                   return generate(m, Prompts{{1}, {}});
                 }),
                 "0 tokens for prompt 1"));
  CHECK(mentions(refusal([&](auto& m) { return generate(m, Prompts{}); }), "got no prompts"));
  // The longest prompt decides whether there are enough positions.
  CHECK(mentions(refusal([&](auto& m) {
                   return generate(m, Prompts{{1}, {1, 2, 3}}, {.tokens = 14});
                 }),
                 "17 tokens", "16 positions"));
  CHECK(refusal([&](auto& m) {
          return generate(m, three, 1, {.tokens = 1, .temperature = 1, .top_k = 2, .top_p = 0.5});
        }).empty());
}

}  // namespace cubist::test::generate_test
