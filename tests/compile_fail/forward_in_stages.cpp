// expect: interleaves the forwards and backwards of micro-batches.*call compute_gradients.ids,
// length SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/transformer/pipelined_transformer.hpp"
#include "cubist/scheme/summa2d.hpp"

#include "declared_backend.hpp"

using namespace cubist;

#ifdef CUBIST_CONTROL
using Scheme = Summa2D;
#else
using Scheme = Pipeline<Summa2D>;
#endif

void compute(Transformer<Scheme, Declared, double>& model, const std::vector<int>& ids)
{
  model.forward(ids, 2);
}
