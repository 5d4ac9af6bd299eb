// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>

#include <cubist/comm/nccl/communicator.hpp>

static_assert(cubist::Communicator<cubist::NcclCommunicator>);

int main()
{
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return 1;
  std::printf("NCCL %d\n", version);
}
