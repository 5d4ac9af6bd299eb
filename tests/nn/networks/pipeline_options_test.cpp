// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <string>
#include <vector>

#include "cubist/nn/networks/pipeline_options.hpp"

#include "catch.hpp"
#include "ranks.hpp"

namespace cubist::test::pipeline_options_test
{

namespace
{

using List = std::vector<std::size_t>;

std::string error(const std::vector<double>& costs, std::size_t stages,
                  const PipelineOptions& options)
{
  return message_of<ArgumentError>([&] { (void)detail::cut_in_pieces(costs, stages, options); });
}

}  // namespace

TEST_CASE("layers are cut in pieces of which the most expensive is the cheapest possible")
{
  CHECK(detail::cut_by_cost({1, 1, 1, 1}, 2) == List{0, 2, 4});
  CHECK(detail::cut_by_cost({1, 1, 1, 9}, 2) == List{0, 3, 4});
  CHECK(detail::cut_by_cost({9, 1, 1, 1}, 3) == List{0, 1, 3, 4});
  CHECK(detail::cut_by_cost({5}, 1) == List{0, 1});
  CHECK(detail::cut_by_cost({2, 3, 4, 5, 6}, 3) == List{0, 3, 4, 5});
}

TEST_CASE("a cut in pieces is the option's, or one by cost")
{
  CHECK(detail::cut_in_pieces({1, 1, 1, 1}, 2, {.pieces = 2}) == List{0, 1, 2, 3, 4});
  CHECK(detail::cut_in_pieces({1, 1, 1, 1}, 2, {.layers = {1, 3}}) == List{0, 1, 4});
  CHECK(mentions(error({1, 1}, 3, {}), "got 2 layers", "3 stages", "at most as many pieces"));
  CHECK(mentions(error({1, 1}, 2, {.pieces = 0}), "0 pieces"));
  CHECK(mentions(error({1, 1}, 1, {.pieces = 2}), "on one stage", "use 1"));
  CHECK(mentions(error({1, 1, 1}, 2, {.layers = {1, 1}}), "2 pieces of 2 layers", "3 layers"));
  CHECK(mentions(error({1, 1, 1}, 2, {.layers = {0, 3}}), "piece of 0 layers"));
}

TEST_CASE("micro-batches are of equal size but the last one, and none is empty")
{
  const detail::MicroBatches seven{7, 3};
  CHECK(seven.count == 3);
  CHECK(List{seven.rows_of(0), seven.rows_of(1), seven.rows_of(2)} == List{3, 3, 1});
  CHECK(seven.first(2) == 6);
  const detail::MicroBatches few{3, 8};
  CHECK(few.count == 3);
  CHECK(few.rows_of(2) == 1);
  const detail::MicroBatches uneven{9, 4};  // of 3 rows
  CHECK(uneven.count == 3);
  const detail::MicroBatches none{0, 4};
  CHECK(none.count == 1);
  CHECK(none.rows_of(0) == 0);
}

}  // namespace cubist::test::pipeline_options_test
