// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The number of threads that BLAS uses, one setting for the whole process. OpenBLAS has functions
// for it; with another BLAS the functions here do nothing, and that library's environment variables
// (BLIS_NUM_THREADS, MKL_NUM_THREADS) apply.

#include <list>
#include <mutex>
#include <optional>
#include <string>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

// OpenBLAS's functions, or null if another BLAS is linked. They are weak references rather than
// weak declarations. A weak declaration would also weaken the references of a program that calls
// OpenBLAS's functions itself, and the linker would not search a static library for them.
[[gnu::weakref("openblas_set_num_threads")]] static void set_openblas_threads(int);
[[gnu::weakref("openblas_get_num_threads")]] static int openblas_threads();
[[gnu::weakref("openblas_get_corename")]] static char* openblas_core_name();

}  // namespace detail

/// The kernels that BLAS selected for this processor, or "unknown".
[[nodiscard]] inline std::string blas_core_name()
{
  return detail::openblas_core_name != nullptr ? detail::openblas_core_name() : "unknown";
}

/// The number of threads that a BLAS call uses, or 0 if it is unknown.
[[nodiscard]] inline int blas_threads()
{
  return detail::openblas_threads != nullptr ? detail::openblas_threads() : 0;
}

/// Sets the number of threads of each BLAS call until the end of the scope. Where scopes of several
/// threads overlap, the one that began last decides; when the last one ends, the number from before
/// the first one applies again.
class BlasThreads
{
 public:
  /// Makes BLAS use this many threads until it is destroyed, unless a later scope sets another
  /// number.
  explicit BlasThreads(int threads)
  {
    if (blas_threads() == 0 || detail::set_openblas_threads == nullptr) return;
    Scopes& scopes = all();
    const std::lock_guard lock{scopes.mutex};
    if (scopes.numbers.empty()) scopes.before = blas_threads();
    mine_ = scopes.numbers.insert(scopes.numbers.end(), threads);
    apply(threads);
  }
  BlasThreads(const BlasThreads&) = delete;
  BlasThreads& operator=(const BlasThreads&) = delete;
  ~BlasThreads()
  {
    if (!mine_) return;
    Scopes& scopes = all();
    const std::lock_guard lock{scopes.mutex};
    scopes.numbers.erase(*mine_);
    apply(scopes.numbers.empty() ? scopes.before : scopes.numbers.back());
  }

 private:
  /// The scopes of this process that have not ended yet.
  struct Scopes
  {
    std::mutex mutex;
    std::list<int> numbers;  // the numbers of threads, in the order in which the scopes began
    int before = 0;          // the number of threads outside all scopes
  };

  [[nodiscard]] static Scopes& all()
  {
    static Scopes scopes;
    return scopes;
  }

  static void apply(int threads)
  {
    if (threads != blas_threads()) detail::set_openblas_threads(threads);
  }

  std::optional<std::list<int>::iterator> mine_;
};

}  // namespace cubist::CUBIST_ABI
