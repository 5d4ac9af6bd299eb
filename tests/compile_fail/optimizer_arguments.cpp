// expect: a mesh with a scheme.*not options of the optimizer.*not options of the optimizer
// SPDX-License-Identifier: BSD-3-Clause
// An optimizer takes the mesh of the parameters, and options by cubist's names.
#include "cubist/backend/threads.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/scheme/summa2d.hpp"

using namespace cubist;

using Net = MLP<Summa2D, Threads, float>;
#ifdef CUBIST_CONTROL
using M = Net::Mesh;
#else
using M = Mesh<Summa2D, Threads>;
#endif

void update(Net& net)
{
  const AdamW<float, M>* with_mesh = nullptr;
  static_cast<void>(sizeof(*with_mesh));
#ifdef CUBIST_CONTROL
  Adam adam{net.parameters(), {.learning_rate = 1e-3}};
  Sgd sgd{net.parameters(), SgdOptions{1e-3}};
  Sgd none{net.parameters(), {}};
#else
  Adam adam{net.parameters(), {.lr = 1e-3}};
  Sgd sgd{net.parameters(), 1e-3};
#endif
}
