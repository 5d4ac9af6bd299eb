// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/threads.hpp"
#include "cubist/scheme/grid3d.hpp"
#include "cubist/scheme/summa25d.hpp"

#include "host_scheme.hpp"

namespace cubist::test
{

template <class S>
SchemeResults results_on_host()
{
  return results_of<S, Threads>({.ranks = 1});
}

template SchemeResults results_on_host<Grid3D>();
#ifndef CUBIST_QUICK_TESTS
template SchemeResults results_on_host<Summa25D>();
#endif

}  // namespace cubist::test
