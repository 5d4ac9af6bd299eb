// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The communicator of simulated ranks.

#include "cubist/comm/group/communicator.hpp"
#include "cubist/comm/request.hpp"
#include "cubist/comm/simulated/group.hpp"
#include "cubist/comm/window.hpp"

namespace cubist::CUBIST_ABI
{

/// A communicator of simulated ranks.
using SimulatedCommunicator = GroupCommunicator<detail::SimulatedGroup>;

/// A call of a SimulatedCommunicator in flight.
using SimulatedRequest = detail::PendingCall<detail::SimulatedGroup>;

static_assert(ExposesMemory<SimulatedCommunicator>);

}  // namespace cubist::CUBIST_ABI
