// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The extents that a scheme chooses, and the message with which it refuses others.

#include <string>

#include "cubist/core/error.hpp"

#include "message.hpp"

namespace cubist::test
{

template <class S>
[[nodiscard]] auto extents_of(typename S::Extents requested, int ranks)
{
  return S::extents(requested, ranks);
}

template <class S>
[[nodiscard]] std::string extents_error(typename S::Extents requested, int ranks)
{
  return message_of<MeshError>([&] { (void)S::extents(requested, ranks); });
}

}  // namespace cubist::test
