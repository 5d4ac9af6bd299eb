// SPDX-License-Identifier: BSD-3-Clause
// The mock of a profiler; see fake_nvtx.hpp.
#include <cstdint>

extern "C" int (*InitializeInjectionNvtx2_fnptr)(const void* (*)(std::uint32_t));  // NVTX calls it
#define NVTX_STATIC_INJECTION_IMPL
#include <nvtx3/nvToolsExt.h>

#include "fake_nvtx.hpp"

namespace fake = cubist::test::fake;

namespace
{

thread_local fake::Ranges ranges;
thread_local bool records = false;
int cubist_domain = 0;

nvtxDomainHandle_t NVTX_API create_domain(const char* name)
{
  return std::string{name} == "cubist" ? reinterpret_cast<nvtxDomainHandle_t>(&cubist_domain)
                                       : nullptr;
}

int NVTX_API push(nvtxDomainHandle_t, const nvtxEventAttributes_t* range)
{
  if (!records) return 0;
  const std::string indent(static_cast<std::size_t>(2 * ranges.open), ' ');
  ranges.names.push_back(indent + range->message.ascii);
  return ranges.open++;
}

int NVTX_API pop(nvtxDomainHandle_t) { return records ? --ranges.open : 0; }

template <class F>
void attach(NvtxFunctionTable table, int id, F* function)
{
  *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

int NVTX_API initialize(NvtxGetExportTableFunc_t get_table)
{
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0)
    return 0;
  attach(table, NVTX_CBID_CORE2_DomainCreateA, create_domain);
  attach(table, NVTX_CBID_CORE2_DomainRangePushEx, push);
  attach(table, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}

}  // namespace

NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = initialize;

void fake::record_ranges()
{
  ranges = {};
  records = true;
}

fake::Ranges fake::recorded_ranges()
{
  records = false;
  return ranges;
}
