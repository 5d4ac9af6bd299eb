// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Functions that run on the host and on a device. nvcc compiles them for both; for other compilers
// the mark is empty.
//
// What an engine maps is an object of a named type, in a namespace, with such a call operator:
// nvcc takes no lambda from the inside of a library's template, and no private type.

#ifdef __CUDACC__
#define CUBIST_HOST_DEVICE __host__ __device__
/// Ahead of one that calls what it is given: on the host alone, that need not be for the device.
#define CUBIST_CALLS_ANY _Pragma("nv_exec_check_disable")
#else
#define CUBIST_HOST_DEVICE
#define CUBIST_CALLS_ANY
#endif
