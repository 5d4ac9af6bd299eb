// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The communicator of ranks that are threads of one process.

#include "cubist/comm/group/communicator.hpp"
#include "cubist/comm/request.hpp"
#include "cubist/comm/threads/group.hpp"
#include "cubist/comm/window.hpp"

namespace cubist::CUBIST_ABI
{

/// A communicator of threads of one process.
using ThreadsCommunicator = GroupCommunicator<detail::ThreadGroup>;

/// A call of a ThreadsCommunicator in flight.
using ThreadsRequest = detail::PendingCall<detail::ThreadGroup>;

static_assert(ExposesMemory<ThreadsCommunicator>);

}  // namespace cubist::CUBIST_ABI
