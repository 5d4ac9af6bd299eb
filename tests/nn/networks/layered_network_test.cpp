// SPDX-License-Identifier: BSD-3-Clause
// One function of a program trains and asks an MLP on every scheme, with stages and without.

#include "cubist/nn/pipeline/pipelined_mlp.hpp"

#include "train_and_ask.hpp"

namespace cubist::test::layered_network_test
{

constexpr std::size_t samples = 8;
const std::vector<std::size_t> sizes{5, 7, 6, 3};

/// An MLP's answers on a mesh of any scheme, with stages or without.
template <NetworkScheme S>
Answers answers_on(int ranks, const typename S::Extents& extents)
{
  return on_ranks<Threads>(ranks, [&](Threads::Communicator& world) {
    const Mesh<S, Threads> mesh{world, extents};
    MLP<S, Threads, double> mlp{mesh, sizes, {.activation = gelu, .seed = 5}};
    const auto x = scatter<typename S::Input>(mesh, uniform<double>(samples, sizes.front(), 1));
    return train_and_ask(mlp, std::tie(x), classes(samples, sizes.back()));
  })[0];
}

TEST_CASE("one function trains and asks an MLP on every scheme, in stages and not")
{
  const Answers wanted = answers_on<Summa2D>(1, {.q = 1});
  CHECK(wanted.losses.back() < wanted.losses.front());
  CHECK(wanted.names.size() == 6);
  for_each_scheme([&]<class S>() {
    const int ranks = S::Axes::count == 3 ? 8 : 4;
    CAPTURE(S::name);
    check_answers(answers_on<S>(ranks, {}), wanted);
    check_answers(answers_on<Pipeline<S>>(2 * ranks, {.stages = 2, .scheme = {}}), wanted);
  });
}

}  // namespace cubist::test::layered_network_test
