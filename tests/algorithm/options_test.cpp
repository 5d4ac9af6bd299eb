// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/algorithm/options.hpp"
#include "cubist/matmul/dist_matmul.hpp"

#include "nn.hpp"

namespace cubist::test::algorithm_options_test
{

const auto x = integers<double>(5, 7, 1);
const auto w = integers<double>(7, 6, 2);
const auto dy = integers<double>(5, 6, 3);

/// Y and dW, made of integers so that sums are exact in any order.
using Results = std::pair<Global<double>, Global<double>>;

const Results wanted{product(x, w), product(transposed(x), dy)};

TEST_CASE("an operand that is stored transposed is multiplied as its transpose")
{
  CHECK(Ops{}.x == Op::none);
  CHECK(Ops{}.w == Op::none);
  const auto y = on_root<Threads>(one_rank, [](const auto& mesh) {
    DistMatMul<Summa2D, Threads, double, Op::none, Op::transpose> plan{mesh,
                                                                       {.m = 5, .n = 6, .k = 7}};
    return gather(plan.forward(scatter<Summa2D::Input>(mesh, x),
                               scatter<Transposed<Summa2D::Weight>>(mesh, transposed(w))));
  });
  CHECK(identical(y, wanted.first));
}

static Results multiply(const Mesh<Summa2D, Threads>& mesh, Gathered gathered, Method method)
{
  using Product = DistMatMul<Summa2D, Threads, double>;
  Product plan{mesh, {.m = 5, .n = 6, .k = 7}, gathered, method};
  const auto in = scatter<Summa2D::Input>(mesh, x);
  const auto weight = scatter<Summa2D::Weight>(mesh, w);
  const auto out = plan.forward(in, weight);
  auto dx = in;
  auto dw = weight;
  plan.backward(in, weight, scatter<Summa2D::Output>(mesh, dy), dx, dw);
  return {gather(out), gather(dw)};
}

TEST_CASE("a product has the same result by each method, with gathered operands kept or not")
{
  for (const Method method : {Method::automatic, Method::collectives, Method::direct})
    for (const Gathered gathered : {Gathered::again, Gathered::kept})
    {
      CAPTURE(static_cast<int>(method), static_cast<bool>(gathered));
      const auto got = on_root<Threads>(
          two_by_two, [&](const auto& mesh) { return multiply(mesh, gathered, method); });
      CHECK(identical(got.first, wanted.first));
      CHECK(identical(got.second, wanted.second));
    }
}

}  // namespace cubist::test::algorithm_options_test
