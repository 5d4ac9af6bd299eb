// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Look-ups in a distributed table, and the sums of their gradients, by the routes of
// row_routes.hpp.
//
//   table E (V, d), matrix H (M, d): any layouts    ids: M numbers, the same on every rank
//
//   1. list which rows each route sends, and which rows it copies or adds them to
//   2. pack and send
//   3. copy or add what is received, and what this rank has itself, in the order of the senders'
//      blocks
//
// A look-up sends rows of E; the other direction sums of rows of H, one for each distinct id of a
// route. All replicas of a block of E add the same sums in the same order, and so stay equal bit by
// bit: the rows of an id in a block of H are summed and rounded first, even where this rank has
// them itself.

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/nn/functions/row_lists.hpp"
#include "cubist/nn/functions/row_routes.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// For matrices of the blocks of the last `plan`; calls for other ids allocate nothing.
/// @pre the ids are rows of E
template <RealScalar T, class M>
class RowExchange
{
 public:
  explicit RowExchange(const M& mesh) : mesh_{mesh} {}

  void plan(const DistView<const T, M>& e, const DistView<const T, M>& h)
  {
    const int rank = mesh_.rank();
    const auto table = [&](int r) { return e.block(r); };
    const auto matrix = [&](int r) { return h.block(r); };
    e_ = table(rank), h_ = matrix(rank);
    to_h_ = row_routes(mesh_.size(), rank, table, matrix, true);
    to_e_ = row_routes(mesh_.size(), rank, matrix, table, false);
    distinct_.reserve(e.shape.rows, h.shape.rows);
    // Each row of H is looked up once.
    reserve(to_h_, h_.valid().size());
    reserve(to_e_, most_elements(to_e_.receives));
  }

  /// H(i, :) = E(ids[i], :) on this rank's blocks.
  void look_up(std::span<const int> ids, MatrixView<const T> e, MatrixView<T> h)
  {
    prepare(to_h_, ids, [&](const RowRoute& route) {
      const auto entry = [&](int id) { return static_cast<std::size_t>(id) - route.vocab.offset; };
      if (route.to != mesh_.rank())
        for (const int id : distinct_.list()) lists_.add(number(id), entry(id));
      else
        for (std::size_t i = 0; i < route.rows.valid; ++i)
          if (const int id = ids[route.rows.offset + i]; distinct_.has(id))
            lists_.add(i, route.from == route.to ? entry(id) : number(id));
    });
    run(e, e_.cols.offset, h, h_.cols.offset, false);
  }

  /// E(v, :) += the sum of H(i, :) over all i with ids[i] = v, on this rank's blocks.
  void add_sums(std::span<const int> ids, MatrixView<const T> h, MatrixView<T> e)
  {
    prepare(to_e_, ids, [&](const RowRoute& route) {
      const auto& list = distinct_.list();
      const auto entry = [&](std::size_t l) {
        return static_cast<std::size_t>(list[l]) - route.vocab.offset;
      };
      const auto number_of_row = [&](std::size_t i) {
        const int id = ids[route.rows.offset + i];
        return distinct_.has(id) ? distinct_.number(id) : -1;
      };
      if (route.from != mesh_.rank())
        for (std::size_t l = 0; l < list.size(); ++l) lists_.add(entry(l), l);
      else
        lists_.add_grouped(list.size(), route.rows.valid, number_of_row,
                           [&](std::size_t l) { return route.to == route.from ? entry(l) : l; });
    });
    run(h, h_.cols.offset, e, e_.cols.offset, true);
  }

 private:
  template <class V>
  using Buffer = typename M::Engine::template Buffer<V>;
  using Request = decltype(std::declval<typename M::Communicator&>().async_barrier());

  /// What is done for a route: a message of `rows` rows, and its lists.
  struct Step
  {
    const RowRoute* route;
    std::size_t rows;
    std::size_t first;
    std::size_t lists;
  };

  [[nodiscard]] std::size_t number(int id) const
  {
    return static_cast<std::size_t>(distinct_.number(id));
  }

  [[nodiscard]] std::size_t most_elements(const std::vector<RowRoute>& routes) const
  {
    std::size_t n = 0;
    for (const auto& r : routes)
      if (r.from != r.to) n += r.most_rows() * r.cols.size;
    return n;
  }

  /// Memory for the worst case of a direction.
  void reserve(const RowRoutes& routes, std::size_t received)
  {
    std::size_t rows = 0;
    for (const auto* some : {&routes.sends, &routes.receives})
      for (const auto& r : *some) rows += r.rows.valid;
    const auto enlarge = [](auto& buffer, std::size_t n) {
      if (buffer.size() < n) buffer = std::remove_reference_t<decltype(buffer)>(n);
    };
    lists_.reserve(rows, rows);
    enlarge(index_, HostRowLists::numbers(rows, rows));
    enlarge(sent_, most_elements(routes.sends));
    enlarge(received_, std::min(received, most_elements(routes.receives)));
    receives_.reserve(routes.receives.size());
    sends_.reserve(routes.sends.size());
    requests_.reserve(routes.sends.size() + routes.receives.size());
  }

  /// @param add_lists (route) adds lists for the distinct ids of a route
  template <class F>
  void prepare(const RowRoutes& routes, std::span<const int> ids, F add_lists)
  {
    lists_.clear();
    const auto list = [&](const std::vector<RowRoute>& some, std::vector<Step>& steps) {
      steps.clear();
      for (const auto& route : some)
      {
        distinct_.find(ids, route.rows, route.vocab);
        const std::size_t first = lists_.size();
        add_lists(route);
        if (lists_.size() > first)
          steps.push_back({&route, distinct_.list().size(), first, lists_.size() - first});
      }
    };
    list(routes.receives, receives_);
    list(routes.sends, sends_);
    lists_.upload(mesh_.engine(), index_.data());
  }

  /// Exchanges the rows of the steps. Column j of the views is column `from_col` + j, or `to_col` +
  /// j, of their matrices.
  void run(MatrixView<const T> from, std::size_t from_col, MatrixView<T> to, std::size_t to_col,
           bool adds)
  {
    auto& world = mesh_.world();
    const auto is_local = [](const Step& step) { return step.route->from == step.route->to; };
    requests_.clear();  // of a call that failed
    T* next = received_.data();
    for (const Step& step : receives_)
      if (!is_local(step))
        requests_.push_back(world.async_receive(message(step, next).elements(), step.route->from));
    next = sent_.data();
    for (const Step& step : sends_)
    {
      const MatrixView<T> packed = message(step, next);
      sum(step, columns(step, from, from_col), packed, false);
      requests_.push_back(world.async_send(packed.elements(), step.route->to));
    }
    next = received_.data();
    auto request = requests_.begin();
    for (const Step& step : receives_)
      if (is_local(step))
        sum(step, columns(step, from, from_col), columns(step, to, to_col), adds);
      else
      {
        (request++)->wait();
        sum(step, MatrixView<const T>{message(step, next)}, columns(step, to, to_col), adds);
      }
    for (; request != requests_.end(); ++request) request->wait();
    requests_.clear();
  }

  /// The message of a step in a buffer that has them one after the other.
  [[nodiscard]] static MatrixView<T> message(const Step& step, T*& next)
  {
    const Shape shape{step.rows, step.route->cols.size};
    T* const data = next;
    next += shape.size();
    return {data, shape};
  }
  template <class V>
  [[nodiscard]] static MatrixView<V> columns(const Step& step, MatrixView<V> m, std::size_t first)
  {
    const Range& cols = step.route->cols;
    return m.block(0, cols.offset - first, {m.rows(), cols.size});
  }
  void sum(const Step& step, MatrixView<const T> from, MatrixView<T> to, bool adds) const
  {
    mesh_.engine().sum_rows(from, lists_.part(step.first, step.lists, index_.data()), to, adds);
  }

  M mesh_;
  Block e_;
  Block h_;
  RowRoutes to_h_;
  RowRoutes to_e_;
  DistinctIds distinct_;
  HostRowLists lists_;
  std::vector<Step> receives_;
  std::vector<Step> sends_;
  std::vector<Request> requests_;
  Buffer<int> index_ = Buffer<int>(0);
  Buffer<T> sent_ = Buffer<T>(0);
  Buffer<T> received_ = Buffer<T>(0);
};

}  // namespace cubist::CUBIST_ABI::detail
