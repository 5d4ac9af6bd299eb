// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How headers and the library cubist::compiled share their functions. In a program that is linked
// to the library the macro CUBIST_COMPILED is defined; its value is the library's version.
//
// Functions that are not templates have their bodies in a file beside their header,
// <header>_body.hpp, which the header includes at its end as CUBIST_BODY. There they are
// CUBIST_INLINE. A program that is linked to the library only reads their declarations.
//
// Function templates have a macro at the end of their header that lists their instances;
// cubist/core/instances.hpp says for which types the library has them.

#include "cubist/version.hpp"

#ifdef CUBIST_COMPILED
#include "cubist/core/compiled_schemes.hpp"  // what the library has, written by CMake beside it
static_assert(CUBIST_COMPILED == CUBIST_VERSION,
              "the library cubist_compiled has another version than cubist's headers, so its "
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
