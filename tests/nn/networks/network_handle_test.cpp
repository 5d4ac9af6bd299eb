// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/networks/network_handle.hpp"

#include "nn.hpp"

namespace cubist::test::network_handle_test
{

TEST_CASE(
    "parameters and forward passes belong to a network that has moved, and awaits its backward")
{
  const auto [same, awaits] = on_root<Threads>(one_rank, [](const auto& mesh) {
    using Net = MLP<Summa2D, Threads, double>;
    Net first{mesh, {3, 4, 2}};
    const auto parameters = first.parameters();
    Net::Kept kept;
    std::vector<bool> waits{kept.awaits_backward()};
    const auto dy = first.forward(scatter<Summa2D::Input>(mesh, uniform<double>(5, 3, 1)), kept);
    Net second{std::move(first)};
    waits.push_back(kept.awaits_backward());
    second.backward(dy, kept);
    waits.push_back(kept.awaits_backward());
    bool is_same = true;
    const auto moved = second.parameters();
    for (std::size_t i = 0; i < moved.size(); ++i)
      is_same = is_same && moved[i].value.padded.data() == parameters[i].value.padded.data();
    return std::pair{is_same && second.mesh() == mesh, waits};
  });
  CHECK(same);
  CHECK(awaits == std::vector<bool>{false, true, false});
}

}  // namespace cubist::test::network_handle_test
