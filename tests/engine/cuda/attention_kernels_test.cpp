// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/cuda/attention_kernels.hpp"
#include "cubist/engine/host/engine.hpp"
#include "cubist/nn/attention/local_attention.hpp"

#include "attention_cases.hpp"
#include "catch.hpp"
#include "host_warp.hpp"

namespace cubist::test::engine_cuda_attention_kernels_test
{

template <class T, unsigned head_size>
void equals_attention_by_blocks(const AttentionCase& c)
{
  INFO(c.name << ", heads of " << head_size);
  AttentionProblem<T> problem{c, head_size};
  run_on_host<T>(cubist::detail::AttentionForward<T, head_size>{problem.operands(), problem.o()});
  run_on_host<T>(
      cubist::detail::AttentionQueryGradient<T, head_size>{problem.operands(), problem.dq()});
  run_on_host<T>(cubist::detail::AttentionKeyGradient<T, head_size>{problem.operands(),
                                                                    problem.dk(), problem.dv()});
  for (const auto& [name, error] : problem.errors())
  {
    INFO(name);
    CHECK(error < problem.allowed());
  }
}

TEST_CASE("attention of one head in one pass equals attention by blocks of scores")
{
  equals_attention_by_blocks<bfloat16, 64>({"one head", 1, 5, 5, 1, 1, true});
}

TEST_CASE("attention in one pass equals attention by blocks of scores")
{
  for (const auto& c : attention_cases())
  {
    equals_attention_by_blocks<bfloat16, 64>(c);
    equals_attention_by_blocks<cubist::half, 64>(c);
  }
  equals_attention_by_blocks<bfloat16, 128>(attention_cases().front());
}

TEST_CASE("attention in one pass keeps a NaN")
{
  AttentionProblem<bfloat16> problem{{"a NaN", 1, 20, 20, 2, 1, true}, 64};
  problem.set_query(19, std::numeric_limits<float>::quiet_NaN());
  run_on_host<bfloat16>(
      cubist::detail::AttentionForward<bfloat16, 64>{problem.operands(), problem.o()});
  CHECK(std::isnan(static_cast<float>(problem.o()(19, 0))));
  CHECK_FALSE(std::isnan(static_cast<float>(problem.o()(18, 0))));
}

}  // namespace cubist::test::engine_cuda_attention_kernels_test
