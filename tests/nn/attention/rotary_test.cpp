// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/host/engine.hpp"
#include "cubist/nn/attention/rotary.hpp"

#include "nn.hpp"

namespace cubist::test::rotary_test
{

constexpr std::size_t rows = 10, sequence = 5, position = 3, heads = 3, size = 6;
constexpr double base = 100;

/// Rotates each pair, taken as a complex number, by e^(i angle).
static Global<double> rotated(Global<double> x)
{
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t j = 0; j < size / 2; ++j)
      {
        const double angle = static_cast<double>(position + i % sequence) *
                             std::pow(base, -2.0 * static_cast<double>(j) / size);
        const double a = x(i, h * size + j), b = x(i, h * size + size / 2 + j);
        x(i, h * size + j) = a * std::cos(angle) - b * std::sin(angle);
        x(i, h * size + size / 2 + j) = a * std::sin(angle) + b * std::cos(angle);
      }
  return x;
}

template <class T>
double error()
{
  const HostEngine engine;
  auto x = uniform<T>(rows, heads * size, 1);
  const auto before = x;
  RotaryTable<T, HostEngine> table;
  table.prepare(engine, 4, 4, 0, size, {.base = base});  // other rows, which are replaced
  table.prepare(engine, rows, sequence, position, size, {.base = base});
  table.rotate(engine, view(x), {}, heads);
  const double there = difference(converted<double>(x), rotated(converted<double>(before)));
  table.template rotate<true>(engine, view(x), {}, heads);
  return std::max(there, difference(converted<double>(x), converted<double>(before)));
}

TEST_CASE("a rotation depends on the token's position, and its inverse undoes it")
{
  CHECK(error<double>() < 1e-15);
  CHECK(error<float>() < 3e-7);
  CHECK(error<bfloat16>() < 0.02);
}

TEST_CASE("a table rotates any number of rows of its sequences, after fewer and after more")
{
  const HostEngine engine;
  RotaryTable<double, HostEngine> kept;
  for (const std::size_t n : {std::size_t{10}, std::size_t{5}, std::size_t{20}, std::size_t{10}})
  {
    CAPTURE(n);
    auto x = uniform<double>(n, heads * size, n);
    auto wanted = x;
    kept.prepare(engine, n, sequence, position, size, {.base = base});
    kept.rotate(engine, view(x), {}, heads);
    RotaryTable<double, HostEngine> fresh;
    fresh.prepare(engine, n, sequence, position, size, {.base = base});
    fresh.rotate(engine, view(wanted), {}, heads);
    CHECK(identical(x, wanted));
  }
}

TEST_CASE("a table that was made for other rows rotates like a new one")
{
  const HostEngine engine;
  RotaryTable<double, HostEngine> kept;
  struct Rows
  {
    std::size_t rows, sequence, position, size;
  };
  // As many rows with another cut, at other positions, or of other heads; then fewer, and more.
  for (const auto& r : {Rows{24, 4, 0, 6},
                        {24, 8, 0, 6},
                        {24, 8, 3, 6},
                        {24, 8, 3, 4},
                        {6, 3, 0, 6},
                        {60, 5, 1, 6},
                        {24, 4, 0, 6}})
  {
    CAPTURE(r.rows, r.sequence, r.position, r.size);
    auto got = uniform<double>(r.rows, 2 * r.size, 3);
    auto wanted = got;
    RotaryTable<double, HostEngine> fresh;
    for (auto* table : {&kept, &fresh})
    {
      table->prepare(engine, r.rows, r.sequence, r.position, r.size, {.base = base});
      table->rotate(engine, view(table == &kept ? got : wanted), {}, 2);
    }
    CHECK(identical(got, wanted));
  }
}

TEST_CASE("a rotation leaves the columns between pieces of heads as they are")
{
  const HostEngine engine;
  auto x = uniform<double>(rows, 2 * heads * size, 2);
  const auto before = x;
  RotaryTable<double, HostEngine> table;
  table.prepare(engine, rows, sequence, position, size, {.base = base});
  table.rotate(engine, view(x), {size, size, 2 * size}, heads);
  const auto heads_of = [](const Global<double>& m) {
    return generate<double>(rows, heads * size, [&](std::size_t i, std::size_t j) {
      return m(i, j / size * 2 * size + size + j % size);
    });
  };
  CHECK(difference(heads_of(x), rotated(heads_of(before))) < 1e-15);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < x.shape(1); ++j)
      if (j / size % 2 == 0) CHECK(x(i, j) == before(i, j));
}

TEST_CASE("a partial rotation is that of the first elements of each head, as if they were all")
{
  const HostEngine engine;
  constexpr std::size_t rotated = 4;
  auto x = uniform<double>(rows, heads * size, 4);
  const auto before = x;
  RotaryTable<double, HostEngine> table;
  table.prepare(engine, rows, sequence, position, size, {.base = base, .size = rotated});
  table.rotate(engine, view(x), {}, heads);
  RotaryTable<double, HostEngine> small;
  small.prepare(engine, rows, sequence, position, rotated, {.base = base});
  for (std::size_t h = 0; h < heads; ++h)
  {
    auto head = generate<double>(
        rows, rotated, [&](std::size_t i, std::size_t j) { return before(i, h * size + j); });
    small.rotate(engine, view(head), {}, 1);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < size; ++j)
        CHECK(x(i, h * size + j) == (j < rotated ? head(i, j) : before(i, h * size + j)));
  }
  table.rotate<true>(engine, view(x), {}, heads);
  CHECK(difference(x, before) < 1e-15);
}

}  // namespace cubist::test::rotary_test
