// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/threads.hpp"
#include "cubist/nn/dense/lora.hpp"
#include "cubist/nn/dense/merged_linear.hpp"

#include "nn.hpp"

namespace cubist::test::lora_layer_test
{

TEST_CASE("layers that share a product have one rank and one scale, and a pair is added once")
{
  const auto messages = on_root<Threads>(one_rank, [](const auto& mesh) {
    using Layer = MergedLinear<Summa2D, Threads, double>;
    Layer layer{mesh, 4, {{"gate", 6}, {"up", 5}}, {.bias = false}};
    add_lora(layer, 0, {.rank = 2});
    add_lora(layer, 0, {.rank = 2});
    std::vector<std::string> found{
        message_of<ArgumentError>([&] { add_lora(layer, 1, {.rank = 3}); }),
        message_of<ArgumentError>([&] { add_lora(layer, 1, {.rank = 0}); })};
    const auto list = [&] {
      Parameters<double, typename Layer::Mesh> all;
      layer.append_parameters(all, "");
      std::string names;
      for (const auto& p : all) names += p.name + ' ';
      found.push_back(names);
    };
    list();
    layer.remove_lora(0);
    add_lora(layer, 1, {.rank = 3, .shared_input = true});
    list();
    return found;
  });
  CHECK(mentions(messages[0], "got LoRA of rank 3 and scale",
                 "another output of this layer has rank 2"));
  CHECK(mentions(messages[1], "got a rank of 0 for LoRA"));
  CHECK(messages[2] == "gate.weight up.weight gate.lora_a gate.lora_b ");
  CHECK(messages[3] == "gate.weight up.weight gate_up.lora_a gate.lora_b up.lora_b ");
}

TEST_CASE("a layer that is moved keeps its A and B")
{
  const auto y = on_root<Threads>(one_rank, [](const auto& mesh) {
    Linear<Summa2D, Threads, double> layer{mesh, 1, 1, {.bias = false}};
    add_lora(layer, 0, {.rank = 1, .alpha = 1});
    auto moved = std::move(layer);
    Parameters<double, typename decltype(layer)::Mesh> all;
    moved.append_parameters(all, "");
    scatter(Global<double>{{3}}, all.at(0).value);
    scatter(Global<double>{{2}}, all.at(1).value);
    scatter(Global<double>{{1}}, all.at(2).value);
    return gather(moved.forward(scatter<Summa2D::Input>(mesh, Global<double>{{5}})));
  });
  CHECK(identical(y, Global<double>{{15 + 10}}));
}

}  // namespace cubist::test::lora_layer_test
