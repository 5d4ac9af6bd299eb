// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/host/shared_engine.hpp"

#include "catch.hpp"

namespace cubist::test::engine_host_shared_engine_test
{

TEST_CASE("A shared engine computes like the host's, in the shared arena")
{
  const SharedEngine engine;
  SharedEngine::Buffer<double> x(64 * 64, 2.0);
  SharedEngine::Buffer<double> y(64 * 64);
  CHECK(SharedArena::mine().contains(x.data()));
  CHECK(SharedArena::mine().contains(y.data()));
  const Shape shape{64, 64};
  engine.gemm(Op::none, Op::transpose, 0.5, MatrixView<const double>{x.data(), shape},
              MatrixView<const double>{x.data(), shape}, 0.0, MatrixView<double>{y.data(), shape});
  CHECK(y == SharedEngine::Buffer<double>(64 * 64, 128.0));
}

}  // namespace cubist::test::engine_host_shared_engine_test
