// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Ranges that a profiler shows (NVIDIA Tools Extension). `nsys profile` displays the parts of a
// program by cubist's names, in the domain "cubist", above the kernels that they enqueue. A range
// measures the time of the host. Without a profiler, a range only tests a pointer.

#include <string>

#include <nvtx3/nvToolsExt.h>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

class Nvtx
{
 public:
  /// Begins a range on this thread, inside the ranges that have not ended.
  /// @param text returns the range's name; called only if a profiler is attached
  template <class Text>
  static void push(Text text)
  {
    if (domain() == nullptr) return;
    const std::string name = text();
    nvtxEventAttributes_t range{};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.messageType = NVTX_MESSAGE_TYPE_ASCII;
    range.message.ascii = name.c_str();
    nvtxDomainRangePushEx(domain(), &range);
  }
  static void pop()
  {
    if (domain() != nullptr) nvtxDomainRangePop(domain());
  }

 private:
  /// Returns the domain, or null if no profiler is attached.
  [[nodiscard]] static nvtxDomainHandle_t domain()
  {
    static const nvtxDomainHandle_t handle = nvtxDomainCreateA("cubist");
    return handle;
  }
};

/// Shows a range until the end of the scope.
class NvtxRange
{
 public:
  template <class Text>
  explicit NvtxRange(Text text)
  {
    Nvtx::push(text);
  }
  NvtxRange(NvtxRange&&) = delete;
  ~NvtxRange() { Nvtx::pop(); }
};

}  // namespace cubist::CUBIST_ABI::detail
