// expect: MLP.*BackendWithItsHeader.*Mesh.*BackendWithItsHeader.*include its header
// SPDX-License-Identifier: BSD-3-Clause
// cubist.hpp declares the backends that it does not include, so that the compiler can name their
// headers.
#include "cubist/backend/threads.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/scheme/summa2d.hpp"

using namespace cubist;

#ifdef CUBIST_CONTROL
using Backend = Threads;
using OnGpus = Threads;
#else
using Backend = Mpi;
using OnGpus = Nccl;
#endif

const MLP<Summa2D, OnGpus, float>* network = nullptr;

int main(int argc, char** argv)
{
  launch<Backend>(argc, argv, {.ranks = 4},
                  [](auto& world) { Mesh<Summa2D, Backend> mesh{world}; });
}
