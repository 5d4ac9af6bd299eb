// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How functions that are no templates are compiled into the library cubist::compiled. Their
// definitions stand between `#ifndef CUBIST_COMPILED` and `#endif`, so a program that is linked to
// the library has their declarations alone. A function that is called from elsewhere is defined as
// CUBIST_INLINE; cubist/compiled.hpp has what the library has of templates.

#ifdef CUBIST_BUILDS_LIBRARY
#define CUBIST_INLINE [[gnu::used]] inline  // the library has it, whether it calls it or not
#else
#define CUBIST_INLINE inline
#endif
