// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How functions that are not templates are compiled into the library cubist::compiled. Their
// definitions are between `#ifndef CUBIST_COMPILED` and `#endif`, so a program that is linked to
// the library only reads their declarations. A function that other headers call is defined as
// CUBIST_INLINE. It is no constructor, of which clang would emit only the part for base classes.
// cubist/compiled.hpp lists the instances of templates that the library has.

#ifdef CUBIST_BUILDS_LIBRARY
#define CUBIST_INLINE [[gnu::used]] inline  // the library has it, whether it calls it or not
#else
#define CUBIST_INLINE inline
#endif
