// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/networks/layer_stack.hpp"

#include "nn.hpp"

namespace cubist::test::layer_stack_test
{

using TestMesh = AxisMesh<Summa25D::Axes, Threads>;
using Matrix = DistMatrix<double, Summa25D::Input, TestMesh>;

using Sums = ImmediateSums<double, TestMesh>;

/// What a Recorder keeps, with the number of the layer that used it last.
struct Matrices : detail::AnyKept
{
  int user = 0;
  std::optional<Matrix> y;
  std::optional<Matrix> dx;
};

/// A layer of a stack that records its calls: Y = X + number, dX = number dY.
class Recorder : public detail::AnyLayer<Matrix, double>
{
 public:
  using Back = BackwardPass<double, TestMesh>;

  Recorder(std::string& log, int number)
      : log_{log},
        number_{number}
  {
  }

  [[nodiscard]] std::unique_ptr<detail::AnyKept> make_kept() const override
  {
    return std::make_unique<Matrices>();
  }
  [[nodiscard]] bool fits(const detail::AnyKept& kept) const override
  {
    return dynamic_cast<const Matrices*>(&kept) != nullptr;
  }
  const Matrix& forward(const Matrix& x, const Pass&, detail::AnyKept& any) override
  {
    auto& kept = static_cast<Matrices&>(any);
    const int before = std::exchange(kept.user, number_);
    if (before != 0 && before != number_)
      log_ += " s" + std::to_string(number_) + std::to_string(before);
    log("f");
    if (fails) throw DataError{"failed"};
    change(x, kept.y, [](double v, int n) { return v + n; });
    return *kept.y;
  }
  const Matrix* backward(const Matrix& x, const Matrix& dy, const Back&, detail::AnyKept& any,
                         bool wants_dx) override
  {
    log("b");
    log_ += "(" + std::to_string(static_cast<int>(x.valid()(0, 0))) + ")";
    auto& kept = static_cast<Matrices&>(any);
    change(dy, kept.dx, [](double v, int n) { return v * n; });
    return wants_dx ? &*kept.dx : nullptr;
  }
  void append_parameters(Parameters<double, TestMesh>&, const std::string&) override {}
  void use_cache(std::size_t) override {}

  bool fails = false;

 private:
  void log(const char* what) { log_ += std::string{" "} + what + std::to_string(number_); }
  template <class F>
  void change(const Matrix& from, std::optional<Matrix>& to, F f)
  {
    fit_like(to, from).valid()(0, 0) = f(from.valid()(0, 0), number_);
  }

  std::string& log_;
  int number_;
};

/// A Recorder that shares its matrices with no other layer.
struct Keeper final : Recorder
{
  using Recorder::Recorder;
  [[nodiscard]] bool fits(const detail::AnyKept&) const override { return false; }
};

using Stack = detail::LayerStack<Matrix, Recorder>;

TEST_CASE("a stack calls its layers one after the other, and backward in the reverse order")
{
  const auto [y, dx, calls] = on_root<Threads>(single_rank, [](const auto& mesh) {
    std::string log;
    Stack stack{"forward", "backward", 0};
    for (int i = 1; i <= 2; ++i) stack.add(std::make_unique<Recorder>(log, i));
    Stack::Kept kept;
    Sums sums;
    const Matrix x{mesh, {1, 1}};
    auto dy = x;
    dy.valid()(0, 0) = 1;
    const double value = stack.forward(x, {}, kept).valid()(0, 0);
    const double slope = stack.backward<double>(dy, sums, kept, true)->valid()(0, 0);
    return std::tuple{value, slope, log};
  });
  CHECK(y == 3);
  CHECK(dx == 2);
  CHECK(calls == " f1 f2 b2(1) b1(0)");
}

TEST_CASE("a stack runs forward again in all segments but the last, whose memory layers share")
{
  struct Run
  {
    std::string forward, backward, again;
    double y, dx, dx_again;
  };
  const auto run = [](std::size_t recompute, bool keeps) {
    return on_root<Threads>(single_rank, [&](const auto& mesh) {
      std::string log;
      Stack::Kept kept;
      Sums sums;
      Stack stack{"forward", "backward", recompute};
      for (int i = 1; i <= 5; ++i)
        if (keeps)
          stack.add(std::make_unique<Keeper>(log, i));
        else
          stack.add(std::make_unique<Recorder>(log, i));
      const Matrix x{mesh, {1, 1}};
      Matrix dy{mesh, {1, 1}};
      dy.valid()(0, 0) = 1;
      Run r;
      const Matrix& y = stack.forward(x, {}, kept);
      r.forward = std::exchange(log, "");
      r.dx = stack.backward<double>(dy, sums, kept, true)->valid()(0, 0);
      r.backward = std::exchange(log, "");
      r.dx_again = stack.backward<double>(dy, sums, kept, true)->valid()(0, 0);
      r.again = log;
      r.y = y.valid()(0, 0);
      return r;
    });
  };
  const std::string all = " f1 f2 f3 f4 f5";
  const std::string back = " b5(10) b4(6) b3(3) b2(1) b1(0)";
  for (const bool keeps : {false, true})
    for (const std::size_t recompute : {0U, 1U, 2U, 3U, 5U, 8U})
    {
      CAPTURE(recompute, keeps);
      const auto r = run(recompute, keeps);
      CHECK(r.y == 15);
      CHECK(r.dx == 120);
      CHECK(r.dx_again == 120);
      if (recompute != 0 && recompute < 5) continue;
      CHECK(r.forward == all);
      CHECK(r.backward == back);
      CHECK(r.again == back);
    }
  CHECK(run(2, false).forward == " f1 f2 s31 f3 s42 f4 s53 f5");
  CHECK(run(2, false).backward == " b5(10) s35 f3 f4 b4(6) b3(3) s13 f1 s24 f2 b2(1) b1(0)");
  CHECK(run(2, true).backward == " b5(10) f3 f4 b4(6) b3(3) f1 f2 b2(1) b1(0)");
  CHECK(run(3, true).again == " f4 f5 b5(10) b4(6) f1 f2 f3 b3(3) b2(1) b1(0)");
}

TEST_CASE(
    "a stack has no backward pass without a forward pass, and one after a recomputation that failed")
{
  const auto [messages, dx] = on_root<Threads>(single_rank, [](const auto& mesh) {
    std::string log;
    Stack::Kept kept;
    Sums sums;
    Stack stack{"forward", "backward", 1};
    for (int i = 1; i <= 3; ++i) stack.add(std::make_unique<Recorder>(log, i));
    const Matrix x{mesh, {1, 1}};
    Matrix dy{mesh, {1, 1}};
    dy.valid()(0, 0) = 1;
    std::vector<std::string> all;
    auto& second = *stack.layers()[1];
    const auto backward = [&] { (void)stack.backward<double>(dy, sums, kept, true); };
    all.push_back(message_of<ArgumentError>(backward));
    second.fails = true;
    all.push_back(message_of<DataError>([&] { (void)stack.forward(x, {}, kept); }));
    all.push_back(message_of<ArgumentError>(backward));
    second.fails = false;
    (void)stack.forward(x, {}, kept);
    second.fails = true;
    all.push_back(message_of<DataError>(backward));
    second.fails = false;
    const double value = stack.backward<double>(dy, sums, kept, true)->valid()(0, 0);
    kept.discard();
    all.push_back(message_of<ArgumentError>(backward));
    return std::tuple{all, value};
  });
  CHECK(mentions(messages[0], "before any forward", "call forward first"));
  CHECK(mentions(messages[1], "failed"));
  CHECK(mentions(messages[2], "after one that failed"));
  CHECK(mentions(messages[3], "failed"));
  CHECK(dx == 6);
  CHECK(mentions(messages[4], "before any forward"));
}

TEST_CASE("several forward passes of a stack may wait for their backward passes, in any order")
{
  for (const std::size_t recompute : {0U, 1U, 2U})
  {
    CAPTURE(recompute);
    const auto found = on_root<Threads>(single_rank, [&](const auto& mesh) {
      std::string log;
      Stack stack{"forward", "backward", recompute};
      for (int i = 1; i <= 3; ++i) stack.add(std::make_unique<Recorder>(log, i));
      Matrix first{mesh, {1, 1}}, second{mesh, {1, 1}}, dy{mesh, {1, 1}};
      second.valid()(0, 0) = 10;
      dy.valid()(0, 0) = 1;
      Stack::Kept of_first, of_second;
      Sums sums;
      const Matrix& y = stack.forward(first, {}, of_first);
      const double y_second = stack.forward(second, {}, of_second).valid()(0, 0);
      const bool waits = of_first.awaits_backward() && of_second.awaits_backward();
      log.clear();
      (void)stack.backward<double>(dy, sums, of_first, true);
      const std::string of_backward = log.substr(log.rfind("b1"));
      log.clear();
      (void)stack.backward<double>(dy, sums, of_second, true);
      return std::tuple{waits && !of_first.awaits_backward(), y.valid()(0, 0), y_second,
                        of_backward, log.substr(log.rfind("b1"))};
    });
    CHECK(found == std::tuple{true, 6.0, 16.0, std::string{"b1(0)"}, std::string{"b1(10)"}});
  }
}

}  // namespace cubist::test::layer_stack_test
