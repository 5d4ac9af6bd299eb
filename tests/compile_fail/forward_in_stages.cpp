// expect: in stages interleaves.*call compute_gradients.ids, length
// SPDX-License-Identifier: BSD-3-Clause
#include <vector>

#include "cubist/backend/threads.hpp"
#include "cubist/nn/transformer/pipelined_transformer.hpp"
#include "cubist/scheme/summa2d.hpp"

using namespace cubist;

#ifdef CUBIST_CONTROL
using Scheme = Summa2D;
#else
using Scheme = Pipeline<Summa2D>;
#endif

void compute(Transformer<Scheme, Threads, double>& model, const std::vector<int>& ids)
{
  model.forward(ids, 2);
}
