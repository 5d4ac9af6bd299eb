// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/batch.hpp"
#include "cubist/engine/host/engine.hpp"

#include "catch.hpp"

namespace cubist::test::engine_batch_test
{

struct BatchingEngine : HostEngine
{
  static inline int products = 0;

  void gemm_batch(Op op_a, Op op_b, double alpha, std::span<const MatrixView<const double>> a,
                  std::span<const MatrixView<const double>> b, double beta,
                  std::span<const MatrixView<double>> c) const
  {
    products = static_cast<int>(c.size());
    for (std::size_t i = 0; i < c.size(); ++i) gemm(op_a, op_b, alpha, a[i], b[i], beta, c[i]);
  }
};

static_assert(detail::MultipliesBatches<BatchingEngine, double>);
static_assert(!detail::MultipliesBatches<BatchingEngine, float>);
static_assert(!detail::MultipliesBatches<HostEngine, double>);

TEST_CASE("products are collected as they are stored, and computed in one call")
{
  const std::vector<double> a{1, 2, 3, 4};
  const std::vector<double> b{5, 6, 7, 8};
  std::vector<double> c(4, 1);
  std::vector<double> ct(4, 1);
  const Operand<const double> op_a{MatrixView<const double>{a.data(), {2, 2}}};
  const Operand<const double> op_b{MatrixView<const double>{b.data(), {2, 2}}};
  const MatrixView<double> out{c.data(), {2, 2}};
  detail::ProductBatch<double> batch;

  batch.multiply(BatchingEngine{}, 1, 0);
  CHECK(BatchingEngine::products == 0);

  batch.add(op_a, op_b, out);
  batch.add(op_b, op_a, MatrixView<double>{ct.data(), {2, 2}});
  batch.multiply(BatchingEngine{}, 2, 10);
  CHECK(BatchingEngine::products == 2);
  CHECK(c == std::vector<double>{48, 54, 96, 110});
  CHECK(ct == std::vector<double>{56, 78, 72, 102});

  batch.clear();
  batch.add(op_a, op_b.t(), {out, Op::transpose});  // C^T = B A^T in memory
  batch.multiply(BatchingEngine{}, 1, 0);
  CHECK(BatchingEngine::products == 1);
  CHECK(c == std::vector<double>{17, 39, 23, 53});

  // More products than before, but of smaller matrices.
  batch.clear();
  std::vector<double> d(3, -1);
  for (std::size_t i = 0; i < 3; ++i)
    batch.add(op_a.block(0, 0, {1, 2}), op_b.block(0, i % 2, {2, 1}),
              MatrixView<double>{d.data() + i, {1, 1}});
  batch.multiply(BatchingEngine{}, 1, 0);
  CHECK(BatchingEngine::products == 3);
  CHECK(d == std::vector<double>{19, 22, 19});
}

}  // namespace cubist::test::engine_batch_test
