// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/foreign/add.hpp"

#include "ranks.hpp"

namespace cubist::test::foreign_add_test
{

TEST_CASE("transpose and add are what their names say, in one conversion each")
{
  if (!fits(4)) return;
  require_clear(on_ranks<TestBackend>(4, [](auto& world) {
    using T = std::complex<double>;
    Findings found;
    const Distribution da{BlockCyclic{.shape = {6, 4}, .block = {2, 1}, .grid = {2, 2}}};
    const Distribution dc{BlockCyclic{.shape = {4, 6}, .block = {1, 3}, .grid = {1, 3}}};
    const auto value = [](std::size_t i, std::size_t j) {
      return T{static_cast<double>(10 * i + j), 1};
    };
    const auto held = [&](const Distribution& d, std::size_t rows) {
      return std::vector<T>(std::max<std::size_t>(d.stored(world.rank()), rows));
    };
    std::vector<T> a = held(da, 1);
    std::vector<T> c = held(dc, 1);
    const std::size_t lda = std::max<std::size_t>(1, da.local_shape(world.rank()).rows);
    const std::size_t ldc = std::max<std::size_t>(1, dc.local_shape(world.rank()).rows);
    for (std::size_t i = 0; i < 6; ++i)
      for (std::size_t j = 0; j < 4; ++j)
        if (static_cast<int>(i / 2 % 2 * 2 + j % 2) == world.rank())
          a[j / 2 * lda + i / 4 * 2 + i % 2] = value(i, j);
    const ForeignMatrix<const T> A{world, da, a.data(), lda};
    const ForeignMatrix<T> C{world, dc, c.data(), ldc};
    const auto check = [&](const char* what, auto wanted) {
      for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t j = 0; j < 6; ++j)
          if (static_cast<int>(j / 3) == world.rank())
            found.check(c[j % 3 * ldc + i] == wanted(i, j), what, " at ", i, ", ", j);
    };
    transpose(world, A, C);
    check("transpose", [&](std::size_t i, std::size_t j) { return value(j, i); });
    transpose(world, A, C, T{2}, T{1}, Op::adjoint);
    check("adjoint",
          [&](std::size_t i, std::size_t j) { return value(j, i) + 2.0 * std::conj(value(j, i)); });
    add(world, A, C, {Op::transpose, T{-1}, T{0}}, MatrixPart::lower);
    check("lower", [&](std::size_t i, std::size_t j) {
      return i >= j ? -value(j, i) : value(j, i) + 2.0 * std::conj(value(j, i));
    });
    found.check(
        !message_of<ArgumentError>([&] { transpose(world, A, C, T{1}, T{}, Op::none); }).empty(),
        "Op::none is accepted");
    found.check(true, "ranks without elements check nothing else");
    return found;
  }));
}

}  // namespace cubist::test::foreign_add_test
