// SPDX-License-Identifier: BSD-3-Clause

// The input is the text of a config.json.

#include <cstddef>
#include <cstdint>
#include <string>

#include "cubist/nn/transformer/config.hpp"

#include "fuzz.hpp"

using namespace cubist;
using cubist::fuzz::accepts;
using cubist::fuzz::demand;

namespace
{

/// Demands that reading a configuration's text gives the same configuration.
void check_text(const TransformerConfig& config)
{
  const bool accepted = accepts<Error>([&] {
    demand(parse_config(config_text(config, "float32"), "again") == config,
           "a written configuration is parsed as the same");
  });
  demand(accepted, "a written configuration is accepted");
}

}  // namespace

CUBIST_FUZZ_TARGET(config)
{
  const std::string text{reinterpret_cast<const char*>(data), size};
  accepts<Error>([&] {
    auto config = parse_config(text, "file");
    demand(config.vocabulary > 0 && config.positions > 0 && config.width > 0 && config.layers > 0 &&
               config.heads > 0 && config.feed_forward > 0,
           "a model has sizes");
    demand(config.epsilon > 0 && config.rotary_base > 0, "numbers are positive");
    check_text(config);
    config.source = {};
    check_text(config);
  });
  return 0;
}
