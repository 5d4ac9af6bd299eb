// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How headers and the library cubist::compiled share functions. A program that is linked to the
// library has the macro CUBIST_COMPILED; its value is the library's version.
//
// A function that is not a template has its body in a file beside its header, <header>_body.hpp,
// which the header includes at its end as CUBIST_BODY. There it is CUBIST_INLINE. A program that is
// linked to the library reads only the declarations.
//
// A header of function templates lists their instances in a macro at its end;
// cubist/core/instances.hpp says for which types the library has them.

#include "cubist/version.hpp"

#ifdef CUBIST_COMPILED
#include "cubist/core/compiled_schemes.hpp"  // what the library has, written by CMake beside it
static_assert(CUBIST_COMPILED == CUBIST_VERSION,
              "the library cubist_compiled has a different version from cubist's headers, so its "
              "functions may differ from theirs; take both from one release");
#define CUBIST_BODY(file) "cubist/core/compiled.hpp"  // nothing more
#define CUBIST_INLINE                                 // one source of the library has all bodies
#define CUBIST_IF_COMPILED(...) __VA_ARGS__
#else
#define CUBIST_BODY(file) file
#define CUBIST_INLINE inline
#define CUBIST_IF_COMPILED(...)
#endif

#ifdef CUBIST_COMPILED_MPI
#define CUBIST_IF_COMPILED_MPI(...) __VA_ARGS__
#else
#define CUBIST_IF_COMPILED_MPI(...)
#endif
