// expect: layout has parts of a sum along an axis that it cuts
// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matrix/layout.hpp"

#ifdef CUBIST_CONTROL
using A = cubist::Col;
#else
using A = cubist::Row;
#endif

bool partial =
    cubist::Layout<cubist::Rows<cubist::Row>, cubist::Cols<>, cubist::Partial<A>>::is_partial;
