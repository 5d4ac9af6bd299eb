// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/attention/head_norm.hpp"
#include "cubist/nn/dense/merged_linear.hpp"

#include "nn.hpp"

namespace cubist::test::head_norm_test
{

TEST_CASE("two heads are divided by the roots of the means of their squares")
{
  const auto y = on_root<Threads>(one_rank, [](const auto& mesh) {
    using Norm = HeadNorm<Summa2D, Threads, double>;
    auto x = scatter<Summa2D::Output>(mesh, Global<double>{{0, 0, 0, 4, 1, 1, 1, 1}});
    typename Norm::Kept kept;
    Norm{mesh, 4, 0}.forward(x.valid(), {}, 2, kept);
    return gather(x);
  });
  CHECK(identical(y, Global<double>{{0, 0, 0, 2, 1, 1, 1, 1}}));
}

constexpr std::size_t rows = 13, heads = 5, size = 4, width = heads * size;
constexpr double epsilon = 0.01;

/// Y, dX and dw.
using Results = std::vector<Global<double>>;

static Results serial()
{
  const auto x = uniform<double>(rows, width, 1), dy = uniform<double>(rows, width, 2),
             w = uniform<double>(1, size, 3);
  auto y = x, dx = x, dw = w;
  dw.fill(0);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t h = 0; h < width; h += size)
    {
      double square = 0, mean = 0;
      for (std::size_t j = 0; j < size; ++j) square += x(i, h + j) * x(i, h + j) / size;
      const double rstd = 1 / std::sqrt(square + epsilon);
      for (std::size_t j = 0; j < size; ++j)
      {
        y(i, h + j) = x(i, h + j) * rstd * w(0, j);
        dw(0, j) += dy(i, h + j) * x(i, h + j) * rstd;
        mean += dy(i, h + j) * w(0, j) * x(i, h + j) * rstd / size;
      }
      for (std::size_t j = 0; j < size; ++j)
        dx(i, h + j) = rstd * (dy(i, h + j) * w(0, j) - x(i, h + j) * rstd * mean);
    }
  return {y, dx, dw};
}

/// A matrix of whole heads on each rank.
template <class T, class S, class B>
auto matrix_of_heads(const Mesh<S, B>& mesh, std::size_t m)
{
  using Norm = HeadNorm<S, B, T>;
  const std::size_t quantum = std::lcm(mesh.quantum(), size * MergedLinear<S, B, T>::pieces(mesh));
  return DistMatrix<T, typename S::Output, typename Norm::Mesh>{
      mesh, {m, width}, {mesh.quantum(), quantum}};
}

template <class T, class S>
Results results(const Mesh<S, Threads>& mesh)
{
  using Norm = HeadNorm<S, Threads, T>;
  Norm layer{mesh, size, epsilon};
  Parameters<T, typename Norm::Mesh> list;
  layer.append_parameters(list, "");
  scatter(converted<T>(uniform<double>(1, size, 3)), list[0].value);
  Results all;
  typename Norm::Kept kept;
  ImmediateSums<T, typename Norm::Mesh> sums;
  // Earlier calls with fewer or more rows must not change later ones.
  for (const std::size_t m : {std::size_t{5}, std::size_t{29}, rows})
  {
    auto x = matrix_of_heads<T>(mesh, m);
    auto dy = matrix_of_heads<T>(mesh, m);
    scatter(converted<T>(uniform<double>(m, width, 1)), x);
    scatter(converted<T>(uniform<double>(m, width, 2)), dy);
    const std::size_t mine = x.valid().cols() / size;
    layer.forward(x.valid(), {}, mine, kept);
    layer.backward(dy.valid(), {}, mine, {{}, sums}, kept);
    const auto y = converted<double>(gather(x)), dx = converted<double>(gather(dy)),
               dw = converted<double>(gather(list[0].gradient));
    if (m == rows) all = {y, dx, dw};
  }
  return all;
}

template <class T, class S>
void equals_serial(const Place<S>& place, double tolerance)
{
  CAPTURE(place.name());
  const auto wanted = serial();
  const auto got = on_root<Threads>(place, [](const auto& mesh) { return results<T>(mesh); });
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
  {
    CAPTURE(i);
    CHECK(difference(got[i], wanted[i]) < tolerance);
  }
}

TEST_CASE("norms of heads and their gradients equal serial ones on every mesh")
{
  equals_serial<double>(one_rank, 1e-14);
  equals_serial<double>(Place<Summa2D>{6, {.rows = 2, .cols = 3}}, 1e-14);
  equals_serial<double>(two_two_two, 1e-14);
  equals_serial<double>(cube, 1e-14);
  equals_serial<double>(Place<Grid2D>{6, {.x = 2, .y = 3}}, 1e-14);
  equals_serial<double>(Place<Megatron1D>{8, {.p = 8}}, 1e-14);  // ranks without a head
  equals_serial<float>(cube, 1e-5);
  equals_serial<bfloat16>(cube, 0.1);
}

TEST_CASE("a NaN in a head stays in that head")
{
  const auto y = on_root<Threads>(two_two_two, [](const auto& mesh) {
    auto x = matrix_of_heads<double>(mesh, rows);
    auto global = uniform<double>(rows, width, 1);
    global(3, size + 1) = std::nan("");
    scatter(global, x);
    using Norm = HeadNorm<Summa25D, Threads, double>;
    typename Norm::Kept kept;
    Norm{mesh, size}.forward(x.valid(), {}, x.valid().cols() / size, kept);
    return gather(x);
  });
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < width; ++j) CHECK(std::isnan(y(i, j)) == (i == 3 && j / size == 1));
}

TEST_CASE("a norm of heads that has none is refused")
{
  const auto messages = on_root<Threads>(one_rank, [](const auto& mesh) {
    using Norm = HeadNorm<Summa2D, Threads, double>;
    return std::vector<std::string>{message_of<ShapeError>([&] {
                                      Norm{mesh, 0};
                                    }),
                                    message_of<ArgumentError>([&] {
                                      Norm{mesh, size, -1};
                                    })};
  });
  CHECK(mentions(messages[0], "heads without elements"));
  CHECK(mentions(messages[1], "epsilon of -1"));
}

}  // namespace cubist::test::head_norm_test
