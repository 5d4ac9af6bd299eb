// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "cubist/model/transformer_config.hpp"

namespace cubist::test
{

/// A model of these sizes with Llama's architecture.
[[nodiscard]] inline TransformerConfig llama_like(TransformerConfig c)
{
  c.kind = TransformerKind::llama;
  c.learned_positions = c.tied = false;
  c.bias = false;
  return c;
}

}  // namespace cubist::test
