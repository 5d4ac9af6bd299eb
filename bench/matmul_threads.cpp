// SPDX-License-Identifier: BSD-3-Clause

#include <cstddef>
#include <vector>

#include "matmul_run.hpp"

namespace bench
{

namespace
{

template <class T>
struct NoPeer
{
  explicit NoPeer(const MatmulTask&) {}
  static std::size_t count() { return 0; }
  static int block(std::size_t) { return 0; }
  static void multiply(std::size_t) {}
  template <class World>
  static bool equals(std::size_t, World&, const std::vector<T>&)
  {
    return true;
  }
};

}  // namespace

std::optional<Row> matmul_on_threads(const MatmulTask& task)
{
  return measure_matmul<cubist::Threads, NoPeer>(task);
}

}  // namespace bench
