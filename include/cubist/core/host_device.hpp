// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// CUBIST_HOST_DEVICE marks functions that nvcc compiles for both the host and the device; for other
// compilers it is empty.
//
// A function that an engine maps is an object of a named type at namespace scope, whose call
// operator has this mark. nvcc accepts neither lambdas inside a library's templates nor private
// types. On a device its complex arguments and result are Complex (core/complex.hpp).

#include "cubist/version.hpp"

#ifdef __CUDACC__
#define CUBIST_HOST_DEVICE __host__ __device__
/// Marks a function that takes a callable. On the host the callable may be a host function.
#define CUBIST_CALLS_ANY _Pragma("nv_exec_check_disable")
#else
#define CUBIST_HOST_DEVICE
#define CUBIST_CALLS_ANY
#endif
