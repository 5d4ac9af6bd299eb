// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Answers to exercises 2 and 4: the loop of SUMMA on a mesh with or without layers, and some wrong
// loops.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "course.hpp"

namespace answers
{

/// Which rank of a row owns index k of X's columns.
struct RightOwner
{
  std::size_t operator()(std::size_t k, std::size_t depth, std::size_t) const { return k / depth; }
};
/// As if the indices were dealt out to the ranks in turn, as in a cyclic distribution.
struct CyclicOwner
{
  std::size_t operator()(std::size_t k, std::size_t, std::size_t ranks) const { return k % ranks; }
};

/// The loop. With CyclicOwner it is wrong.
template <class Owner, class Mesh>
void summa_loop(const Mesh& mesh, cubist::ProductSize size, course::ConstBlock x,
                course::ConstBlock w, course::Block y)
{
  auto& row = mesh.template along<cubist::Col>();
  auto& column = mesh.template along<cubist::Row>();
  const auto& engine = mesh.engine();
  const auto columns = static_cast<std::size_t>(row.size());
  const auto rows = static_cast<std::size_t>(column.size());
  const std::size_t x_depth = cubist::ceil_div(size.k, columns);
  const std::size_t w_depth = cubist::ceil_div(size.k, rows);
  for (std::size_t k = 0, end = 0; k < size.k; k = end)
  {
    end = std::min({size.k, (k / x_depth + 1) * x_depth, (k / w_depth + 1) * w_depth});
    const std::size_t depth = end - k;
    const auto x_owner = static_cast<int>(Owner{}(k, x_depth, columns));
    const auto w_owner = static_cast<int>(RightOwner{}(k, w_depth, rows));

    std::vector<double> p(x.rows() * depth);
    const course::Block x_panel{p.data(), {x.rows(), depth}};
    if (row.rank() == x_owner)
      course::copy(engine, x.block(0, k % x_depth, x_panel.shape()), x_panel);
    row.broadcast(p, x_owner);

    std::vector<double> q(depth * w.cols());
    const course::Block w_panel{q.data(), {depth, w.cols()}};
    if (column.rank() == w_owner)
      course::copy(engine, w.block(k % w_depth, 0, w_panel.shape()), w_panel);
    column.broadcast(q, w_owner);

    course::add_product(engine, x_panel, w_panel, y);
  }
}

inline void summa(const course::Mesh2D& mesh, cubist::ProductSize size, course::ConstBlock x,
                  course::ConstBlock w, course::Block y)
{
  summa_loop<RightOwner>(mesh, size, x, w, y);
}

/// A panel of X is taken from the wrong rank.
inline void summa_wrong_owner(const course::Mesh2D& mesh, cubist::ProductSize size,
                              course::ConstBlock x, course::ConstBlock w, course::Block y)
{
  summa_loop<CyclicOwner>(mesh, size, x, w, y);
}

/// Each rank multiplies the blocks that it holds.
inline void summa_without_messages(const course::Mesh2D& mesh, cubist::ProductSize,
                                   course::ConstBlock x, course::ConstBlock w, course::Block y)
{
  const std::size_t depth = std::min(x.cols(), w.rows());
  course::add_product(mesh.engine(), x.block(0, 0, {x.rows(), depth}),
                      w.block(0, 0, {depth, w.cols()}), y);
}

/// One panel for each rank of the row, although W is cut at other indices.
inline void summa_long_panels(const course::Mesh2D& mesh, cubist::ProductSize size,
                              course::ConstBlock x, course::ConstBlock w, course::Block y)
{
  auto& row = mesh.along<cubist::Col>();
  auto& column = mesh.along<cubist::Row>();
  const auto& engine = mesh.engine();
  const std::size_t w_depth = cubist::ceil_div(size.k, static_cast<std::size_t>(column.size()));
  for (int owner = 0; owner < row.size(); ++owner)
  {
    const auto panel = course::part(size.k, row.size(), owner);
    if (panel.size == 0) continue;
    std::vector<double> p(x.rows() * panel.size);
    std::vector<double> q(panel.size * w.cols());
    const course::Block x_panel{p.data(), {x.rows(), panel.size}};
    const course::Block w_panel{q.data(), {panel.size, w.cols()}};
    const auto w_owner = static_cast<int>(panel.offset / w_depth);
    if (row.rank() == owner) course::copy(engine, x, x_panel);
    row.broadcast(p, owner);
    if (column.rank() == w_owner)
      course::copy(engine, w.block(panel.offset % w_depth, 0, w_panel.shape()), w_panel);
    column.broadcast(q, w_owner);
    course::add_product(engine, x_panel, w_panel, y);
  }
}

/// Neighbours call the broadcasts of their row and column in different orders, so each waits for
/// the next one around a square of four.
inline void summa_crossed_calls(const course::Mesh2D& mesh, cubist::ProductSize size,
                                course::ConstBlock x, course::ConstBlock w, course::Block y)
{
  std::vector<double> number(1);
  auto& row = mesh.along<cubist::Col>();
  auto& column = mesh.along<cubist::Row>();
  const auto along_row = [&] { row.broadcast(number, (column.rank() + 1) % row.size()); };
  const bool row_first = (row.rank() + column.rank()) % 2 == 0;
  if (row_first) along_row();
  column.broadcast(number, row.rank() % column.size());
  if (!row_first) along_row();
  summa(mesh, size, x, w, y);
}

}  // namespace answers
