// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/simulated.hpp"
#include "cubist/engine/simulated/engine.hpp"

#include "ranks.hpp"

namespace cubist::test::engine_simulated_engine_test
{

/// A machine with 100 operations and 8 bytes a second, and a second for each call.
static Machine slow_machine()
{
  Machine machine;
  machine.call_seconds = 1;
  machine.memory_bandwidth = 8;
  machine.rates = {{"float", RateTable::constant(100)}};
  return machine;
}

template <class T>
struct Matrix
{
  explicit Matrix(Shape s)
      : shape{s},
        buffer(s.size())
  {
  }
  [[nodiscard]] MatrixView<T> view() { return {buffer.data(), shape}; }
  [[nodiscard]] MatrixView<const T> read() { return view(); }

  Shape shape;
  SimulatedBuffer<T> buffer;
};

/// The seconds that each call takes on one rank.
template <class Body>
std::vector<double> seconds(const Machine& machine, Body body)
{
  Simulated::machine = machine;
  const auto of_ranks = on_ranks<Simulated>(1, [&](SimulatedCommunicator&) {
    std::vector<double> taken;
    const SimulatedEngine engine;
    body(engine, [&](auto call) {
      const double before = Simulated::now();
      call();
      taken.push_back(Simulated::now() - before);
    });
    return taken;
  });
  Simulated::machine = {};
  return of_ranks.front();
}

TEST_CASE("a product takes its operations by the rate of its shape")
{
  auto machine = slow_machine();
  machine.cores = 1;
  const auto t = seconds(machine, [](const SimulatedEngine& engine, auto measure) {
    Matrix<float> a{{5, 10}}, b{{10, 4}}, c{{5, 4}};
    measure([&] { engine.gemm(Op::none, Op::none, 1.F, a.read(), b.read(), 0.F, c.view()); });
    measure([&] {
      engine.gemm(Op::transpose, Op::transpose, 1.F, b.read(), a.read(), 0.F,
                  Matrix<float>{{4, 5}}.view());
    });
    Matrix<std::complex<float>> x{{5, 5}};
    measure([&] { engine.gemm(Op::none, Op::none, {}, x.read(), x.read(), {}, x.view()); });
  });
  CHECK(t == std::vector{5.0, 5.0, 4 * (1 + 2.5)});
  CHECK(Simulated::report().ranks[0].flops == 400 + 400 + 8 * 125);
  CHECK(Simulated::report().ranks[0].products == 24);
}

TEST_CASE("a triangle of a symmetric product takes its part of the operations")
{
  auto machine = slow_machine();
  machine.cores = 1;
  const auto t = seconds(machine, [](const SimulatedEngine& engine, auto measure) {
    Matrix<float> a{{4, 25}}, c{{4, 4}}, d{{25, 25}}, none{{0, 3}}, of_none{{0, 0}};
    measure([&] { engine.syrk(Triangle::lower, Op::none, 1.F, a.read(), 0.F, c.view()); });
    measure([&] { engine.syrk(Triangle::upper, Op::transpose, 1.F, a.read(), 0.F, d.view()); });
    measure([&] { engine.syrk(Triangle::lower, Op::none, 1.F, none.read(), 0.F, of_none.view()); });
  });
  CHECK(t == std::vector{1 + 5.0, 1 + 26.0, 0.0});
  CHECK(Simulated::report().ranks[0].flops == 4 * 5 * 25 + 25 * 26 * 4);
}

TEST_CASE("other calls take the bytes of their operands by the bandwidth of memory")
{
  const auto t = seconds(slow_machine(), [](const SimulatedEngine& engine, auto measure) {
    Matrix<float> a{{4, 8}}, b{{4, 8}}, row{{1, 8}}, column{{4, 1}};
    measure([&] { engine.copy(a.read(), b.view()); });
    measure([&] { engine.fill(a.view(), 1.F); });
    measure([&] { engine.for_each(detail::Add{}, a.view(), row.read().repeated(4)); });
    measure([&] { engine.map(a.view(), detail::Same{}, b.view()); });
    measure([&] { engine.column_sums(a.read(), row.view()); });
    measure(
        [&] { (void)engine.map_fold(0.F, detail::Sum{}, a.view(), detail::Itself{}, b.read()); });
    measure(
        [&] { engine.row_fold(column.view(), 0.F, detail::Sum{}, detail::Itself{}, a.read()); });
  });
  CHECK(t == std::vector{1 + 32.0, 1 + 16.0, 1 + 20.0, 1 + 32.0, 1 + 16.0, 1 + 32.0, 1 + 16.0});
  CHECK(Simulated::report().ranks[0].passes == 171);
}

TEST_CASE("ranks that are fewer than the cores multiply on several")
{
  auto machine = slow_machine();
  machine.call_seconds = 0;
  machine.cores = 4;
  const auto t = seconds(machine, [](const SimulatedEngine& engine, auto measure) {
    Matrix<float> a{{5, 10}}, b{{10, 4}}, c{{5, 4}};
    measure([&] { engine.gemm(Op::none, Op::none, 1.F, a.read(), b.read(), 0.F, c.view()); });
    measure([&] { engine.copy(a.read(), Matrix<float>{{5, 10}}.view()); });
  });
  CHECK(t == std::vector{1.0, 50.0});
}

TEST_CASE("what a program reads is zero, and shapes are checked")
{
  (void)seconds(slow_machine(), [](const SimulatedEngine& engine, auto) {
    Matrix<float> a{{2, 3}};
    std::vector<float> host(6, 7.F);
    engine.download(a.read(), {host.data(), {2, 3}});
    if (host != std::vector<float>(6, 0.F)) throw ArgumentError{"not zero"};
    if (engine.fold(5.0, detail::Sum{}, detail::Itself{}, a.read()) != 5.0)
      throw ArgumentError{"not the initial value"};
  });
  const auto mismatch = [](auto call) {
    CHECK_THROWS_AS(seconds(slow_machine(), [&](const SimulatedEngine& e, auto) { call(e); }),
                    ShapeError);
  };
  mismatch([](const SimulatedEngine& engine) {
    Matrix<float> a{{2, 3}}, b{{3, 2}};
    engine.copy(a.read(), b.view());
  });
  mismatch([](const SimulatedEngine& engine) {
    Matrix<float> a{{2, 3}};
    engine.gemm(Op::none, Op::none, 1.F, a.read(), a.read(), 0.F, a.view());
  });
}

TEST_CASE("a scalar without rates, and a computation outside a launch, are refused")
{
  CHECK_THROWS_AS(seconds(slow_machine(),
                          [](const SimulatedEngine& engine, auto) {
                            Matrix<double> a{{2, 2}};
                            engine.gemm(Op::none, Op::none, 1., a.read(), a.read(), 0., a.view());
                          }),
                  ArgumentError);
  std::vector<float> host(4);
  CHECK_THROWS_AS(SimulatedEngine{}.fill(MatrixView<float>{host.data(), {2, 2}}, 0.F),
                  ArgumentError);
}

}  // namespace cubist::test::engine_simulated_engine_test
