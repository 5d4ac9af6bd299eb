// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The scalars by their names on the command line. To add one, add it to the lists in the last
// lines.

#include <string>
#include <vector>

#include <cubist/core/error.hpp>
#include <cubist/core/scalar.hpp>

namespace bench
{

template <class First, class... T>
struct ScalarList
{
  [[nodiscard]] static std::vector<std::string> names()
  {
    return {cubist::element_name<First>(), cubist::element_name<T>()...};
  }

  /// Calls f.operator()<T>() for each scalar T.
  template <class F>
  static void for_each(F&& f)
  {
    f.template operator()<First>();
    (f.template operator()<T>(), ...);
  }
  /// Calls f.operator()<T>() for the scalar T of this name.
  /// @throws cubist::ArgumentError if there is none
  template <class F>
  static auto with(const std::string& name, F&& f)
  {
    if (name == cubist::element_name<First>()) return f.template operator()<First>();
    if constexpr (sizeof...(T) > 0) return ScalarList<T...>::with(name, f);
    throw cubist::ArgumentError{"got the scalar " + name +
                                ", which the benchmark does not know on this backend; use "
                                "float or double"};
  }
};

using Scalars = ScalarList<float, double>;
/// The scalars on GPUs; gpu/cuda_site.hpp has their names in cuBLAS. nvcc takes 5 s for each scheme
/// and scalar.
#ifdef CUBIST_BENCH_QUICK
using GpuScalars = ScalarList<float>;
#else
using GpuScalars = ScalarList<float, double, cubist::bfloat16>;
#endif

}  // namespace bench
