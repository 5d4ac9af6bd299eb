// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/networks/network.hpp"

#include "nn.hpp"

namespace cubist::test::network_test
{

using Net = MLP<Summa2D, TestBackend, double>;

/// Records what it is called for.
struct Recorder final : GradientReducer<double, Net::Mesh>
{
  std::string calls;

  void begin() override { calls += 'b'; }
  void reduce(MatrixView<double>, Communicator*) override { calls += 'r'; }
  void finish() override { calls += 'f'; }
};

/// What a forward pass may keep.
struct Kept
{
  bool awaits = false;
  [[nodiscard]] bool awaits_backward() const { return awaits; }
};

TEST_CASE("a backward pass gives the reducer in use every gradient, between begin and finish")
{
  const auto [calls, after] = on_root(one_rank, [](const auto& mesh) {
    Net mlp{mesh, {3, 4, 2}};
    auto parameters = mlp.parameters();
    Recorder recorder;
    const typename Net::Activations x{Net::Activations::Matrix<Summa2D::Input>{mesh, {5, 3}}};
    {
      const ReducerScope<double, Net::Mesh> scope{parameters.front().gradients, recorder};
      mlp.backward(mlp.forward(x));
    }
    const std::string first = std::exchange(recorder.calls, "");
    mlp.backward(mlp.forward(x));
    return std::pair{first, recorder.calls};
  });
  CHECK(calls == "brrrrf");
  CHECK(after == "");
}

TEST_CASE("an evaluation has its own memory while a forward pass waits for its backward pass")
{
  detail::KeptOfNetwork<Kept> kept;
  CHECK(&kept.for_evaluation() == &kept.of_forward());
  kept.of_forward().awaits = true;
  CHECK(&kept.for_evaluation() != &kept.of_forward());
  kept.of_forward().awaits = false;
  CHECK(&kept.for_evaluation() == &kept.of_forward());
}

}  // namespace cubist::test::network_test
