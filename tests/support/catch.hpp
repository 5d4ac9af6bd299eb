// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Catch2 3 split the one header of Catch2 2; Approx moved into a namespace of its own matchers.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
