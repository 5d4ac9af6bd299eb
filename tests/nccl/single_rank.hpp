// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Creates communicators of a single rank on the mock of NCCL.

#include <nccl.h>

#include "cubist/comm/nccl/handle.hpp"

namespace cubist::test
{

inline void create_alone(cubist::detail::NcclHandle& handle)
{
  ncclUniqueId id{};
  ncclGetUniqueId(&id);
  auto config = cubist::detail::NcclHandle::config();
  ncclCommInitRankConfig(handle.address(), 1, id, 0, &config);
}

}  // namespace cubist::test
