// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/model/lora_options.hpp"

#include "catch.hpp"
#include "message.hpp"

namespace cubist::test::lora_options_test
{

TEST_CASE("the scale of LoRA is alpha / r, or alpha / sqrt(r)")
{
  CHECK(LoraOptions{.rank = 4, .alpha = 8}.scale() == 2);
  CHECK(LoraOptions{.rank = 4, .alpha = 8, .rank_stabilized = true}.scale() == 4);
}

TEST_CASE("options of LoRA out of range are refused, each by its name")
{
  const auto refusal = [](const LoraOptions& wrong) {
    return message_of<ArgumentError>([&] { wrong.check(); });
  };
  CHECK(refusal({}).empty());
  CHECK(refusal({.rank = 0}).starts_with("got a rank of 0 for LoRA"));
  CHECK(refusal({.alpha = std::nan("")}).starts_with("got an alpha of nan"));
  CHECK(refusal({.alpha = std::numeric_limits<double>::infinity()}).starts_with("got an alpha"));
  CHECK(refusal({.dropout = 1}).starts_with("got a dropout probability of 1 for LoRA"));
  CHECK(refusal({.dropout = std::nan("")}).starts_with("got a dropout probability of nan"));
  CHECK(refusal({.layers = {}}).starts_with("got no layers for LoRA"));
}

TEST_CASE("parameters of LoRA are recognised by their names")
{
  CHECK(is_of_lora("layers.0.attention.query.lora_b"));
  CHECK(is_of_lora("lora_a"));
  CHECK_FALSE(is_of_lora("layers.0.attention.query.weight"));
}

}  // namespace cubist::test::lora_options_test
