// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/cuda/nvtx.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"

#include "fake_engine.hpp"
#include "fake_nvtx.hpp"
#include "ranks.hpp"

namespace cubist::test::cuda_nvtx_test
{

using cubist::detail::NvtxRange;

TEST_CASE("NvtxRange: names, and which range is in which")
{
  fake::record_ranges();
  {
    const NvtxRange outer{[] { return std::string{"outer"}; }};
    {
      const NvtxRange inner{[] { return std::string{"inner"}; }};
    }
    const NvtxRange last{[] { return std::string{"last"}; }};
  }
  const auto found = fake::recorded_ranges();
  CHECK(found.names == std::vector<std::string>{"outer", "  inner", "  last"});
  CHECK(found.open == 0);
}

TEST_CASE("a profiler sees layers, the products in them, and their collectives")
{
  const auto found = on_ranks<FakeNccl>(4, [](NcclCommunicator& world) {
    using S = Summa2D;
    const Mesh<S, FakeNccl> mesh{world, {.q = 2}};
    MLP<S, FakeNccl, float> mlp{mesh, {8, 16, 8}, {.activation = relu}};
    Sgd optimizer{mlp.parameters(), {}};
    const DistMatrix<float, S::Input, AxisMesh<S::Axes, FakeNccl>> x{mesh, {4, 8}};
    fake::record_ranges();
    const auto y = mlp.forward(x);
    mlp.backward(y);
    optimizer.step(mlp.parameters());
    return fake::recorded_ranges();
  });
  for (const auto& rank : found)
  {
    CHECK(rank.open == 0);
    std::string layer;
    std::string product;
    std::vector<std::string> parts;
    int collectives = 0;
    for (const auto& name : rank.names)
    {
      const auto depth = name.find_first_not_of(' ') / 2;
      const auto text = name.substr(2 * depth);
      if (depth == 0) parts.push_back(layer = text), product = "";
      if (text.rfind("Summa2D ", 0) == 0)
      {
        CHECK(depth == 1);
        product = text;
      }
      if (text.rfind("broadcast of ", 0) == 0 && depth == 2)
      {
        CHECK(product.rfind("Summa2D ", 0) == 0);
        ++collectives;
      }
    }
    CHECK(parts ==
          std::vector<std::string>{"forward of layer 0", "forward of layer 1",
                                   "backward of layer 1", "backward of layer 0",
                                   "all_reduce of 12 float by sum",  // of the biases' gradients
                                   "update of all parameters"});
    CHECK(collectives > 0);
  }
}

}  // namespace cubist::test::cuda_nvtx_test
