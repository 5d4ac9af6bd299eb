// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The communicator of ranks that are MPI processes, and its requests. Boost.MPI owns and splits
// MPI's communicators; data is sent in messages (mpi/call.hpp), without serialisation.

#include "cubist/comm/group/communicator.hpp"
#include "cubist/comm/mpi/group.hpp"
#include "cubist/comm/request.hpp"
#include "cubist/comm/window.hpp"

namespace cubist::CUBIST_ABI
{

/// A request that is dropped before its call is complete aborts the job, unless an exception drops
/// it.
using MpiRequest = detail::PendingCall<detail::MpiGroup>;

/// A communicator of MPI processes.
using MpiCommunicator = GroupCommunicator<detail::MpiGroup>;

static_assert(ExposesMemory<MpiCommunicator>);

/// A window copies a block that is not in shared memory.
template <>
inline constexpr bool exposes_in_place<MpiCommunicator> = false;

}  // namespace cubist::CUBIST_ABI
