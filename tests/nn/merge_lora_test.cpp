// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/threads.hpp"
#include "cubist/nn/merge_lora.hpp"
#include "cubist/nn/networks/mlp.hpp"

#include "nn.hpp"

namespace cubist::test::merge_lora_test
{

using Net = MLP<Summa2D, Threads, double>;

TEST_CASE("merging adds s A B to a weight, and unmerging restores its bits")
{
  const auto [merged, restored, before, names, message] =
      on_root<Threads>(two_by_two, [](const auto& mesh) {
        Net net{mesh, {2, 2}, {.bias = false}, LoraOptions{.rank = 1, .alpha = 3}};
        std::vector<std::string> all;
        const auto append_names = [&] {
          for (const auto& p : net.parameters()) all.push_back(p.name);
        };
        const auto parameters = net.parameters();
        scatter(Global<double>{{0.1, 2}, {3, 4}}, parameters[0].value);
        scatter(Global<double>{{1}, {10}}, parameters[1].value);
        scatter(Global<double>{{5, 7}}, parameters[2].value);
        merge_lora(net, KeepWeights::yes);
        const auto sum = gather(parameters[0].value);
        append_names();
        unmerge_lora(net);
        const auto after = gather(parameters[0].value);
        append_names();
        merge_lora(net);
        return std::tuple{sum, after, Global<double>{{0.1, 2}, {3, 4}}, all,
                          message_of<ArgumentError>([&] { unmerge_lora(net); })};
      });
  CHECK(difference(merged, Global<double>{{15.1, 23}, {153, 214}}) < 1e-12);
  CHECK(identical(restored, before));
  CHECK(names == std::vector<std::string>{"layers.0.weight", "layers.0.weight", "layers.0.lora_a",
                                          "layers.0.lora_b"});
  CHECK(mentions(message, "merged without its original"));
}

TEST_CASE("a network without LoRA has nothing to merge, and a merged one no gradients")
{
  const auto messages = on_root<Threads>(one_rank, [](const auto& mesh) {
    Net plain{mesh, {2, 2}};
    Net net{mesh, {2, 2}, {}, LoraOptions{}};
    merge_lora(net);
    const auto x = scatter<Summa2D::Input>(mesh, Global<double>{{1, 2}});
    return std::vector{
        message_of<ArgumentError>([&] { merge_lora(plain); }),
        message_of<ArgumentError>([&] { (void)net.compute_gradients(x, std::vector<int>{1}); })};
  });
  CHECK(mentions(messages[0], "got a network without LoRA matrices"));
  CHECK(mentions(messages[1], "got backward for LoRA's A and B while they are part of the weight"));
}

}  // namespace cubist::test::merge_lora_test
