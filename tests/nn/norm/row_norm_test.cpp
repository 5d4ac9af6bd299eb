// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/norm/row_norm.hpp"
#include "cubist/scheme/grid2d.hpp"
#include "cubist/scheme/megatron1d.hpp"

#include "host_kernels.hpp"
#include "nn.hpp"
#include "passes.hpp"

namespace cubist::test::row_norm_test
{

/// The output of a norm for these rows.
template <template <class, class, class> class Norm, class B = Threads, class S>
Global<double> norm_of(const Place<S>& place, const Global<double>& x)
{
  return on_root<B>(place, [&](const auto& mesh) {
    Norm<S, B, double> layer{mesh, x.shape(1), {.epsilon = 0}};
    return gather(Passes{layer}.forward(scatter<typename S::Input>(mesh, x), {}));
  });
}

TEST_CASE("norms of one row are as computed by hand")
{
  // Mean 2 and variance 1; mean of squares 4.
  CHECK(identical(norm_of<LayerNorm>(one_rank, {{1, 3}}), {{-1, 1}}));
  CHECK(identical(norm_of<RmsNorm>(one_rank, {{0, 0, 0, 4}}), {{0, 0, 0, 2}}));
}

constexpr std::size_t rows = 13, width = 10;
constexpr double epsilon = 0.01;

/// Y, dX, dw and, for LayerNorm, db, by one pass or by several.
using Results = std::vector<Global<double>>;

static Global<double> input() { return uniform<double>(rows, width, 1, 3); }

static Results serial(bool centred)
{
  const auto x = input();
  const auto dy = uniform<double>(rows, width, 2), w = uniform<double>(1, width, 3),
             b = uniform<double>(1, width, 4);
  auto y = x, dx = x, dw = w, db = w;
  dw.fill(0), db.fill(0);
  for (std::size_t i = 0; i < rows; ++i)
  {
    double mean = 0, square = 0, g_mean = 0, gx_mean = 0;
    for (std::size_t j = 0; j < width; ++j) mean += centred ? x(i, j) / width : 0;
    for (std::size_t j = 0; j < width; ++j) square += std::pow(x(i, j) - mean, 2) / width;
    const double rstd = 1 / std::sqrt(square + epsilon);
    const auto xhat = [&](std::size_t j) { return (x(i, j) - mean) * rstd; };
    for (std::size_t j = 0; j < width; ++j)
    {
      y(i, j) = xhat(j) * w(0, j) + (centred ? b(0, j) : 0);
      dw(0, j) += dy(i, j) * xhat(j);
      db(0, j) += dy(i, j);
      if (centred) g_mean += dy(i, j) * w(0, j) / width;
      gx_mean += dy(i, j) * w(0, j) * xhat(j) / width;
    }
    for (std::size_t j = 0; j < width; ++j)
      dx(i, j) = rstd * (dy(i, j) * w(0, j) - g_mean - xhat(j) * gx_mean);
  }
  Results all{y, dx, dw};
  if (centred) all.push_back(db);
  return all;
}

template <template <class, class, class> class Norm, class T, class S, class B>
Results results(const Mesh<S, B>& mesh)
{
  using Layer = Norm<S, B, T>;
  static_assert(LayerType<Layer>);
  Layer layer{mesh, width, {.epsilon = epsilon}};
  const auto list = parameters_of(layer);
  for (std::size_t i = 0; i < list.size(); ++i)
    scatter(converted<T>(uniform<double>(1, width, 3 + i)), list[i].value);
  Results all;
  Passes passes{layer};
  // Earlier calls with fewer or more rows must not change later ones.
  for (const std::size_t m : {std::size_t{5}, rows, std::size_t{29}, rows})
  {
    const auto x = scatter<typename S::Input>(
        mesh, converted<T>(m == rows ? input() : uniform<double>(m, width, 7)));
    const auto dy = scatter<typename S::Input>(mesh, converted<T>(uniform<double>(m, width, 2)));
    const auto y = converted<double>(gather(passes.forward(x, {})));
    const auto dx = converted<double>(gather(*passes.backward(x, dy, {}, true)));
    if (m != rows) continue;
    all.push_back(y);
    all.push_back(dx);
    for (const auto& p : list) all.push_back(converted<double>(gather(p.gradient)));
  }
  return all;
}

template <template <class, class, class> class Norm, class T, class B = Threads, class S>
void equals_serial(const Place<S>& place, bool centred, double tolerance)
{
  CAPTURE(place.name(), centred);
  const auto wanted = serial(centred);
  const auto got = on_root<B>(place, [](const auto& mesh) { return results<Norm, T>(mesh); });
  REQUIRE(got.size() == 2 * wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
  {
    CAPTURE(i);
    CHECK(difference(got[i], wanted[i % wanted.size()]) < tolerance);
  }
}

template <template <class, class, class> class Norm>
void equals_serial_on_meshes(bool centred)
{
  equals_serial<Norm, double>(Place<Summa2D>{6, {.rows = 2, .cols = 3}}, centred, 1e-14);
  equals_serial<Norm, double>(Place<Summa2DWeight>{6, {.rows = 2, .cols = 3}}, centred, 1e-14);
  equals_serial<Norm, double>(two_two_two, centred, 1e-14);
  equals_serial<Norm, double>(cube, centred, 1e-14);
  equals_serial<Norm, double>(Place<Grid2D>{6, {.x = 2, .y = 3}}, centred, 1e-14);
  equals_serial<Norm, double>(Place<Megatron1D>{3, {.p = 3}}, centred, 1e-14);
  equals_serial<Norm, float>(cube, centred, 1e-5);
  equals_serial<Norm, bfloat16>(cube, centred, 0.1);
}

TEST_CASE("LayerNorm and its gradients equal serial ones on every mesh")
{
  equals_serial_on_meshes<LayerNorm>(true);
}

TEST_CASE("RmsNorm and its gradients equal serial ones on every mesh")
{
  equals_serial_on_meshes<RmsNorm>(false);
}

TEST_CASE("norms and their gradients equal serial ones on engines that pass over rows")
{
  using K = ThreadsWithKernels;
  const auto check = [](const auto& place) {
    equals_serial<LayerNorm, double, K>(place, true, 1e-14);
    equals_serial<RmsNorm, double, K>(place, false, 1e-14);
  };
  check(one_rank);
  check(Place<Megatron1D>{3, {.p = 3}});
  check(Place<Summa2D>{3, {.rows = 3, .cols = 1}});
  check(Place<Summa2D>{6, {.rows = 2, .cols = 3}});  // rows are cut, so there are several passes
  equals_serial<LayerNorm, float, K>(one_rank, true, 1e-5);
  equals_serial<LayerNorm, bfloat16, K>(one_rank, true, 0.1);
  equals_serial<RmsNorm, bfloat16, K>(one_rank, false, 0.1);
}

TEST_CASE("ranks that share a norm do not overwrite a gradient that another one still reads")
{
  using S = Megatron1D;
  constexpr std::size_t n = 256;  // the smallest square that ranks share
  const auto results = [](const Place<S>& place) {
    return on_mesh<Threads>(place, [](const auto& mesh) {
      LayerNorm<S, Threads, double> layer{mesh, n};
      const auto x = scatter<S::Input>(mesh, uniform<double>(n, n, 1));
      const auto dy = scatter<S::Input>(mesh, uniform<double>(n, n, 2));
      auto twice = dy;
      mesh.engine().map_indexed(twice.valid(), detail::Scaled<double>{2}, dy.valid());
      Passes passes{layer};
      passes.forward(x, {});
      const auto* dx = passes.backward(x, dy, {}, true);
      // Meanwhile other ranks go on to the next backward pass, without a forward pass.
      if (mesh.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds{20});
      std::vector<double> found(dx->valid().elements().begin(), dx->valid().elements().end());
      dx = passes.backward(x, twice, {}, true);
      for (const double d : dx->valid().elements()) found.push_back(d / 2);
      found.push_back(passes.kept.is_shared ? 1 : 0);
      return found;
    });
  };
  auto wanted = results(Place<S>{1, {.p = 1}}).front();
  CHECK(wanted.back() == 0);
  wanted.back() = 1;
  for (const auto& of_rank : results(Place<S>{2, {.p = 2}})) CHECK((of_rank == wanted));
}

TEST_CASE("LayerNorm keeps the variance of rows whose mean is large")
{
  const auto x = generate<double>(
      6, 12, [](std::size_t i, std::size_t j) { return 1e8 + static_cast<double>((i + j) % 4); });
  const auto check = [](const Global<double>& y) {
    for (std::size_t i = 0; i < 6; ++i)
      for (std::size_t j = 0; j < 12; ++j)
      {
        // (k - 3/2) / sqrt(5/4), as double holds the mean exactly.
        const double k = static_cast<double>((i + j) % 4);
        CHECK(y(i, j) == Approx((k - 1.5) * 0.894427190999915878564).epsilon(1e-14));
      }
  };
  check(norm_of<LayerNorm>(one_rank, x));
  check(norm_of<LayerNorm, ThreadsWithKernels>(one_rank, x));
  check(norm_of<LayerNorm>(Place<Summa2D>{6, {.rows = 2, .cols = 3}}, x));
}

TEST_CASE(
    "a norm makes no finite numbers of a row with a NaN, an infinity or squares beyond double")
{
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity(), 1e200})
  {
    CAPTURE(bad);
    auto x = uniform<double>(2, 6, 1);
    x(1, 4) = bad;
    using K = ThreadsWithKernels;
    for (const auto& y : {norm_of<LayerNorm>(one_rank, x), norm_of<RmsNorm>(one_rank, x),
                          norm_of<LayerNorm, K>(one_rank, x), norm_of<RmsNorm, K>(one_rank, x)})
      for (std::size_t j = 0; j < 6; ++j)
      {
        CHECK(std::isfinite(y(0, j)));
        CHECK(std::isnan(y(1, j)));
      }
  }
}

/// The elements that all ranks send in forward and in backward.
template <template <class, class, class> class Norm, class S>
std::vector<std::uint64_t> words(const Place<S>& place, std::size_t m, std::size_t n)
{
  using B = Counting<Threads>;
  const auto sent = on_mesh<B>(place, [&](const Mesh<S, B>& mesh) {
    Norm<S, B, float> layer{mesh, n};
    Passes passes{layer};
    typename Norm<S, B, float>::Input x{mesh, {m, n}};
    auto& traffic = mesh.world().traffic();
    traffic.reset();
    passes.forward(x, {});
    const std::uint64_t forward = traffic.total().elements;
    passes.backward(x, x, {}, true);
    return std::vector<std::uint64_t>{forward, traffic.total().elements - forward};
  });
  std::vector<std::uint64_t> sum(2);
  for (const auto& rank : sent) sum[0] += rank[0], sum[1] += rank[1];
  return sum;
}

#if !CUBIST_SANITIZED  // counts of elements do not change under a sanitizer
TEST_CASE("a norm sends two numbers a row, or one, and its gradients once")
{
  using Words = std::vector<std::uint64_t>;
  // All ranks send 2(p-1) for each number of each row, and 2(p-1) for each column of weight and
  // bias.
  CHECK(words<LayerNorm>(Place<Summa2D>{6, {.rows = 2, .cols = 3}}, 12, 18) ==
        Words{2 * 2 * 12 * 2, 2 * 2 * 12 * 2 + 2 * 1 * 18 * 2});
  CHECK(words<RmsNorm>(Place<Summa2D>{6, {.rows = 2, .cols = 3}}, 12, 18) ==
        Words{2 * 2 * 12, 2 * 2 * 12 + 2 * 1 * 18});
  CHECK(words<RmsNorm>(cube, 8, 12) == Words{2 * 1 * 8, 2 * 1 * 8 + 2 * 3 * 12});
  CHECK(words<LayerNorm>(Place<Megatron1D>{4, {.p = 4}}, 8, 12) == Words{0, 0});
}
#endif

}  // namespace cubist::test::row_norm_test
