// SPDX-License-Identifier: BSD-3-Clause
// The deprecated names of all layers: each stands for the new one.
#include <type_traits>

#include "cubist/nn/activation.hpp"
#include "cubist/nn/activations.hpp"
#include "cubist/nn/dense.hpp"
#include "cubist/nn/dropout.hpp"
#include "cubist/nn/kernels/softmax.hpp"
#include "cubist/nn/linear.hpp"
#include "cubist/nn/loss.hpp"
#include "cubist/nn/mlp.hpp"
#include "cubist/nn/optimizer.hpp"
#include "cubist/nn/random.hpp"
#include "cubist/nn/transformer/next_token_loss.hpp"
#include "cubist/scheme/summa2d.hpp"

#include "backend.hpp"
#include "catch.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace cubist::test::deprecated_names_test
{

TEST_CASE("a deprecated type is the new one")
{
  STATIC_REQUIRE(
      std::is_same_v<Activations<Summa2D, Threads, float>, NetworkMatrix<Summa2D, Threads, float>>);
}

}  // namespace cubist::test::deprecated_names_test

#pragma GCC diagnostic pop
