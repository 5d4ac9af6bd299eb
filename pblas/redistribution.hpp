// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Copies a sub-matrix, or a trapezoid of it, from the process grid of one context to that of
// another, like ScaLAPACK's p?gemr2d and p?trmr2d:
//
//   A (m, n) block-cyclic on some processes  ->  B (m, n) block-cyclic on some processes
//
// All processes of a third context, which contains both grids, call it. A process outside a grid
// knows nothing about its matrix, so all processes gather what each knows: 22 integers per process.
// The rest is one conversion (foreign/convert.hpp), which sends each element at most once, or none
// in shared memory. A trapezoid that begins with whole rows or columns takes two conversions.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <boost/mpi/communicator.hpp>

#include <cubist/core/block.hpp>
#include <cubist/core/error.hpp>
#include <cubist/core/scalar.hpp>
#include <cubist/engine/engine.hpp>
#include <cubist/foreign/add.hpp>
#include <cubist/foreign/block_cyclic.hpp>
#include <cubist/foreign/distribution.hpp>
#include <cubist/foreign/foreign_matrix.hpp>
#include <cubist/foreign/matrix_part.hpp>
#include <cubist/foreign/pgemm.hpp>

#include "argument_check.hpp"
#include "session.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// What a process knows about one matrix: nothing if it is outside the grid.
template <class T>
struct GridMatrix
{
  T* data = nullptr;
  FortranInt row = 0;  // where the sub-matrix begins, counted from 0
  FortranInt col = 0;
  ArrayDescriptor descriptor;
  ContextGrid grid;

  static constexpr std::size_t numbers = 11;

  [[nodiscard]] bool is_inside() const
  {
    return grid.row >= 0 && grid.col >= 0 && grid.row < grid.rows && grid.col < grid.cols;
  }
  /// Appends the number of this process in its grid, or -1, and what the others have to know.
  void append_to(std::vector<std::int64_t>& all) const
  {
    if (!is_inside()) return all.resize(all.size() + numbers, -1);
    const auto& d = descriptor;
    for (const FortranInt x :
         {FortranInt{grid.row * grid.cols + grid.col}, FortranInt{grid.rows}, FortranInt{grid.cols},
          d.rows, d.cols, d.row_block, d.col_block, d.row_source, d.col_source, row, col})
      all.push_back(x);
  }
};

/// Returns the distribution of a matrix, from what all processes know.
/// @param at the index of its first number among those of a process  @param stride from one process
/// to the next
/// @throws ArgumentError if no process is in the grid, or if integers are wrong
[[nodiscard]] inline Distribution distribution_of(const std::vector<std::int64_t>& all,
                                                  std::size_t at, std::size_t stride,
                                                  const char* name)
{
  std::vector<int> processes;
  const std::int64_t* known = nullptr;
  for (std::size_t k = at; k < all.size(); k += stride)
  {
    processes.push_back(static_cast<int>(all[k]));
    if (all[k] >= 0 && known == nullptr) known = all.data() + k;
  }
  require<ArgumentError>(known != nullptr, "got ", name,
                         " on a context from which no process has called, so it has no elements; "
                         "call from all processes of both grids");
  const std::int64_t* const x = known;
  for (const int k : {3, 4, 5, 6, 9, 10})
    require<ArgumentError>(x[k] >= 0, "got ", name, " with ", x[k],
                           " in its descriptor or as an index, but these cannot be negative; use "
                           "the numbers of ScaLAPACK's descinit");
  const auto size = [&](int k) { return static_cast<std::size_t>(x[k]); };
  const auto number = [&](int k) { return static_cast<int>(x[k]); };
  const Distribution whole{BlockCyclic{.shape = {size(3), size(4)},
                                       .block = {size(5), size(6)},
                                       .grid = {number(1), number(2)},
                                       .row_source = number(7),
                                       .col_source = number(8)},
                           name};
  return whole.on_ranks(std::move(processes));
}

/// Computes B = A in a part of the sub-matrices of this shape; the matrices say where these begin.
/// @param is_strict whether the diagonal is left out
template <PblasScalar T>
void redistribute_between(const boost::mpi::communicator& comm, Shape shape, MatrixPart part,
                          bool is_strict, const GridMatrix<const T>& a, const GridMatrix<T>& b)
{
  auto& session = PblasSession::of(comm);
  session.run([&] {
    auto& world = session.world();
    std::vector<std::int64_t> mine;
    a.append_to(mine);
    b.append_to(mine);
    std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(world.size()));
    world.all_gather(mine, all);
    const auto place = [&]<class U>(const GridMatrix<U>& x, std::size_t at, const char* name) {
      const Distribution d = distribution_of(all, at, mine.size(), name);
      std::size_t first = at;  // the numbers of a process that is in the grid
      while (all[first] < 0) first += mine.size();
      const auto i = static_cast<std::size_t>(all[first + 9]);
      const auto j = static_cast<std::size_t>(all[first + 10]);
      return ForeignMatrix<U>{world, d.submatrix(i, j, shape, name), x.data,
                              x.is_inside() ? static_cast<std::size_t>(x.descriptor.ld) : 1};
    };
    const auto from = place(a, 0, "A");
    const auto to = place(b, GridMatrix<T>::numbers, "B");
    const auto copy = [&](std::size_t i, std::size_t j, Shape s, MatrixPart of) {
      if (s.size() > 0)
        cubist::add(world, from.submatrix(i, j, s), to.submatrix(i, j, s), ConversionOptions<T>{},
                    of);
    };
    // The diagonal ends in the last row and column.
    const auto [m, n] = shape;
    const std::size_t one = is_strict ? 1 : 0;
    if (part == MatrixPart::upper)
    {
      const std::size_t whole = m - std::min(m, n);
      copy(0, 0, {whole, n}, MatrixPart::all);
      copy(whole, one, {m - whole, n - one}, part);
    }
    else if (part == MatrixPart::lower)
    {
      const std::size_t whole = n - std::min(m, n);
      copy(0, 0, {m, whole}, MatrixPart::all);
      copy(one, whole, {m - one, n - whole}, part);
    }
    else
      copy(0, 0, shape, part);
  });
}

}  // namespace cubist::CUBIST_ABI::detail
