// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/embedding/embedding.hpp"
#include "cubist/nn/transformer/logits.hpp"

#include "nn.hpp"

namespace cubist::test::logits_test
{

constexpr std::size_t rows = 13, width = 10, vocabulary = 7;

template <class S>
void equals_serial(const Place<S>& place)
{
  CAPTURE(place.name());
  const auto [y, dx, de] = on_root<Threads>(place, [](const auto& mesh) {
    Embedding<S, Threads, double> embedding{mesh, vocabulary, width};
    Logits<S, Threads, double> logits;
    typename Logits<S, Threads, double>::Kept kept;
    ImmediateSums<double, typename Logits<S, Threads, double>::Mesh> sums;
    scatter(integers<double>(vocabulary, width, 1), embedding.table());
    const auto x = scatter<typename S::Input>(mesh, integers<double>(rows, width, 2));
    const auto dy = scatter<typename S::Output>(mesh, integers<double>(rows, vocabulary, 3));
    auto out = gather(logits.forward(x, embedding.table(), kept));
    auto slopes =
        gather(logits.backward(x, embedding.table(), dy, embedding.table_gradient(), sums, kept));
    return std::tuple{out, slopes, gather(embedding.table_gradient())};
  });
  const auto e = integers<double>(vocabulary, width, 1), x = integers<double>(rows, width, 2),
             dy = integers<double>(rows, vocabulary, 3);
  CHECK(difference(y, product(x, transposed(e))) == 0);
  CHECK(difference(dx, product(dy, e)) == 0);
  CHECK(difference(de, product(transposed(dy), x)) == 0);
}

TEST_CASE("logits multiply by the table of an embedding, where it lies")
{
  equals_serial(Place<Summa2DInput>{6, {.rows = 2, .cols = 3}});
  equals_serial(two_two_two);
  equals_serial(cube);
  equals_serial(Place<Grid2D>{4, {.x = 2, .y = 2}});
  equals_serial(Place<Megatron1D>{3, {.p = 3}});
}

}  // namespace cubist::test::logits_test
