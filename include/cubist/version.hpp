// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The version of cubist. CMake, the packages and pkg-config read it here; only the changelog
// repeats it. Between releases it is the next version, with the suffix "-dev".

#define CUBIST_VERSION_MAJOR 0
#define CUBIST_VERSION_MINOR 4
#define CUBIST_VERSION_PATCH 0
#define CUBIST_VERSION_SUFFIX ""  ///< empty in a release

/// The version as one number, for comparisons: 400 is 0.4.0, 10203 is 1.2.3.
#define CUBIST_VERSION                                                                             \
  (CUBIST_VERSION_MAJOR * 10000 + CUBIST_VERSION_MINOR * 100 + CUBIST_VERSION_PATCH)

/// Every header puts its names in `namespace cubist::CUBIST_ABI`, an inline namespace of the
/// version, so that libraries built with different versions of cubist may meet in one program. A
/// patch keeps the sizes and functions of objects; before 1.0 a minor version may change them.
#define CUBIST_ABI inline v0_4
