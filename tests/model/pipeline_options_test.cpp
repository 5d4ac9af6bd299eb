// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/model/pipeline_options.hpp"

#include "ranks.hpp"

namespace cubist::test::pipeline_options_test
{

using List = std::vector<std::size_t>;

static std::string error(const std::vector<double>& costs, std::size_t stages,
                         const PipelineOptions& options)
{
  return message_of<ArgumentError>([&] { (void)detail::cut_in_pieces(costs, stages, options); });
}

TEST_CASE("layers are cut into pieces so that the most expensive one is as cheap as possible")
{
  CHECK(detail::cut_by_cost({1, 1, 1, 1}, 2) == List{0, 2, 4});
  CHECK(detail::cut_by_cost({1, 1, 1, 9}, 2) == List{0, 3, 4});
  CHECK(detail::cut_by_cost({9, 1, 1, 1}, 3) == List{0, 1, 3, 4});
  CHECK(detail::cut_by_cost({5}, 1) == List{0, 1});
  CHECK(detail::cut_by_cost({2, 3, 4, 5, 6}, 3) == List{0, 3, 4, 5});
}

TEST_CASE("the cut into pieces is the one in the options, or one by cost")
{
  CHECK(detail::cut_in_pieces({1, 1, 1, 1}, 2, {.pieces = 2}) == List{0, 1, 2, 3, 4});
  CHECK(detail::cut_in_pieces({1, 1, 1, 1}, 2, {.layers = {1, 3}}) == List{0, 1, 4});
  CHECK(mentions(error({1, 1}, 2, {.pieces = 0}), "0 pieces"));
  CHECK(mentions(error({1, 1, 1}, 2, {.pieces = 2}), "got 3 layers for 2 stages of 2 pieces",
                 "so a piece would have none", "at most as many pieces"));
  CHECK(mentions(error({1, 1, 1, 1}, 2, {.pieces = 2, .layers = {1, 2}}),
                 "got 2 numbers of layers, 3", "2 stages of 2 pieces and 4 layers"));
  CHECK(mentions(error({1, 1, 1, 1}, 2, {.micro_batches = 3, .pieces = 2}),
                 "got 3 micro-batches for 2 stages of 2 pieces", "use a multiple of 2"));
}

TEST_CASE("one stage has one piece, whatever the number of pieces")
{
  CHECK(detail::cut_in_pieces({1, 1, 1}, 1, {.pieces = 2}) == List{0, 3});
  CHECK(detail::cut_in_pieces({1}, 1, {.micro_batches = 3, .pieces = 2}) == List{0, 1});
  CHECK(detail::cut_in_pieces({1, 1, 1}, 1, {.pieces = 2, .layers = {1, 2}}) == List{0, 3});
  CHECK(mentions(error({1, 1, 1}, 1, {.pieces = 2, .layers = {1, 1}}), "2 numbers of layers, 2"));
}

TEST_CASE("errors about stages do not mention pieces that nobody asked for")
{
  const auto refused = [](const std::vector<double>& costs, std::size_t stages,
                          const PipelineOptions& options) {
    const std::string text = error(costs, stages, options);
    CHECK(text.find("piece") == std::string::npos);
    return text;
  };
  CHECK(mentions(refused({1, 1}, 3, {}), "got 2 layers for 3 stages", "so a stage would have none",
                 "at most as many stages as layers"));
  CHECK(mentions(refused({1, 1, 1}, 2, {.layers = {1, 1}}), "got 2 numbers of layers, 2 in total",
                 "for 2 stages and 3 layers", "for each stage"));
  CHECK(mentions(refused({1, 1, 1}, 2, {.layers = {0, 3}}), "a stage of 0 layers"));
}

TEST_CASE(
    "a batch is cut into as many micro-batches as requested, whose sizes differ by at most one")
{
  const auto sizes = [](const detail::MicroBatches& cut) {
    List all;
    std::size_t next = 0;
    for (std::size_t i = 0; i < cut.count; ++i)
    {
      CHECK(cut.first(i) == next);
      next += all.emplace_back(cut.rows_of(i));
    }
    CHECK(next == cut.rows);
    return all;
  };
  CHECK(sizes({7, 3}) == List{3, 2, 2});
  CHECK(sizes({6, 4}) == List{2, 2, 1, 1});
  CHECK(sizes({5, 4}) == List{2, 1, 1, 1});
  CHECK(sizes({9, 4}) == List{3, 2, 2, 2});
  CHECK(sizes({8, 4}) == List{2, 2, 2, 2});
  CHECK(sizes({0, 1}) == List{0});
  const auto step = [&](std::size_t rows, std::size_t stages, const PipelineOptions& options) {
    return sizes(detail::cut_step(rows, "rows", stages, options));
  };
  CHECK(step(6, 2, {.micro_batches = 4, .pieces = 2}) == List{2, 2, 1, 1});
  CHECK(step(7, 2, {}) == List{4, 3});
  CHECK(step(1, 2, {}) == List{1});
  CHECK(step(0, 2, {}) == List{0});
  CHECK(step(1, 1, {.pieces = 2}) == List{1});
  const auto refused = [&](std::size_t rows, const PipelineOptions& options) {
    return message_of<ArgumentError>([&] { (void)detail::cut_step(rows, "rows", 2, options); });
  };
  CHECK(mentions(refused(3, {.micro_batches = 4}), "got 3 rows for 4 micro-batches",
                 "some would be empty", "at least as many rows"));
  CHECK(mentions(refused(1, {.pieces = 2}), "got 1 rows for 2 stages of 2 pieces",
                 "at least 2 rows"));
  // Outputs and losses do not depend on the number of micro-batches.
  CHECK(sizes(detail::cut_evaluation(3, 2, {.micro_batches = 4})) == List{1, 1, 1});
  CHECK(sizes(detail::cut_evaluation(3, 2, {})) == List{2, 1});
}

}  // namespace cubist::test::pipeline_options_test
