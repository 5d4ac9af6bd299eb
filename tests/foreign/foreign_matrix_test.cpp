// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/foreign/foreign_matrix.hpp"

#include "ranks.hpp"

namespace cubist::test::foreign_foreign_matrix_test
{

TEST_CASE("a foreign matrix refuses arrays that are missing, or whose lines would overlap")
{
  if (!fits(4)) return;
  require_clear(on_ranks<TestBackend>(4, [](auto& world) {
    Findings found;
    std::vector<double> memory(100);
    const Distribution d{BlockCyclic{.shape = {8, 6}, .block = {2, 2}, .grid = {2, 2}}};
    const auto error = [&](double* data, std::size_t ld) {
      return message_of<ShapeError>([&] { (void)ForeignMatrix<double>(world, d, data, ld); });
    };
    found.check(error(memory.data(), 4).empty(), "a good array is refused");
    found.check(mentions(error(nullptr, 4), "no array", "(4, ", "address"), "null is accepted");
    found.check(mentions(error(memory.data(), 3), "leading dimension of 3", "4 elements"),
                "a small leading dimension is accepted");
    const Distribution small{BlockCyclic{.shape = {8, 6}, .block = {8, 6}, .grid = {2, 2}}};
    const auto nothing =
        message_of<ShapeError>([&] { (void)ForeignMatrix<double>(world, small, nullptr, 1); });
    found.check(nothing.empty() == (world.rank() != 0), "null where there are no elements");
    const Distribution block{{{.shape = {8, 6}, .block = {2, 2}, .grid = {2, 2}}, 4, 1}, {2, 1}};
    const auto elsewhere =
        message_of<ShapeError>([&] { (void)ForeignMatrix<double>(world, block, nullptr, 4); });
    found.check(elsewhere.empty() == (world.rank() != 0),
                "null where there are no elements of the sub-matrix");

    const Distribution list{{2, 2}, {{1, 0, 0, {1, 2}}, {1, 1, 0, {1, 2}}}};
    const auto arrays = message_of<ShapeError>([&] {
      (void)ForeignMatrix<double>(world, list, {{memory.data(), 2}});
    });
    found.check(mentions(arrays, world.rank() == 1 ? "holds 2 rectangles" : "holds 0 rectangles"),
                arrays);
    return found;
  }));
}

TEST_CASE("an array that is too short on one rank is an error on all ranks, which names it")
{
  if (!fits(4)) return;
  require_clear(on_ranks<TestBackend>(4, [](auto& world) {
    Findings found;
    std::vector<float> memory(20);
    const Distribution d{BlockCyclic{.shape = {8, 6}, .block = {2, 2}, .grid = {2, 2}}};
    // Ranks 0 and 2 have 4 x 4 elements, ranks 1 and 3 have 4 x 2.
    const auto error = [&](std::size_t size, std::size_t ld) {
      return message_of<ShapeError>([&] {
        (void)ForeignMatrix<float>::checked(world, d, std::span{memory}.first(size), ld);
      });
    };
    const bool is_2 = world.rank() == 2;
    found.check(error(16, 4).empty(), "good arrays are refused");
    found.check(error(world.rank() % 2 == 0 ? 19 : 9, 5).empty(), "the last gap is no element");
    const auto length = error(is_2 ? 15 : 16, 4);
    found.check(mentions(length, "rank 2", "15 elements", "element 16", "whole array"), length);
    const auto ld = error(16, is_2 ? 3 : 4);
    found.check(mentions(ld, "rank 2", "leading dimension of 3"), ld);
    return found;
  }));
}

}  // namespace cubist::test::foreign_foreign_matrix_test
