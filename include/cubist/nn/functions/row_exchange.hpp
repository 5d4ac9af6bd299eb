// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The exchange of rows between a table and a matrix whose rows are rows of the table: the look-ups
// of an embedding, and the sums of their gradients.
//
//   table E (V, d), matrix H (M, d): any layouts    ids: M numbers, the same on every rank
//
//   look_up    H(i, :) = E(ids[i], :)
//   add_sums   E(v, :) += the sum of H(i, :) over all i with ids[i] = v
//
// Rows go from the blocks of one matrix to the blocks of the other along the routes of
// row_routes.hpp, in one message a route. Every rank knows all ids, and so it knows what each
// message holds: a row for each distinct id of the route, in the order in which the ids first
// occur. The sender packs the message (it copies rows of E, or adds up the rows of H with the same
// id). The receiver unpacks it (it copies a row to all rows of H with its id, or adds it to a row
// of E). A rank that holds both blocks does both at once, without a message. Each of these is one
// call of the engine's sum_rows, with lists that say which rows are added up (row_lists.hpp).
//
// The replicas of a block of E stay equal bit by bit, because each adds the same sums in the order
// of the blocks of H. The rows of an id in a block of H are therefore summed and rounded first,
// even where this rank holds them itself.

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
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

/// The matrices must have the blocks of the last `plan`. Calls for other ids allocate nothing.
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
    to_h_ = row_routes(mesh_.size(), rank, table, matrix, true);
    to_e_ = row_routes(mesh_.size(), rank, matrix, table, false);
    distinct_.reserve(e.shape.rows, h.shape.rows);
    // Each row of H is looked up once.
    reserve(to_h_, std::min(h.valid().size(), most_elements(to_h_.receives)));
    reserve(to_e_, most_elements(to_e_.receives));
  }

  /// H(i, :) = E(ids[i], :) on this rank's blocks.
  void look_up(std::span<const int> ids, MatrixView<const T> e, MatrixView<T> h)
  {
    list_steps(to_h_, ids, [&](const RowRoute& route) {
      if (route.to != mesh_.rank())
        for (std::size_t n = 0; n < distinct_.size(); ++n) lists_.add(n, entry(route, n));
      else
        for (std::size_t i = 0; i < route.rows.valid; ++i)
          if (const auto n = distinct_.number(ids[route.rows.offset + i]))
            lists_.add(i, route.is_local() ? entry(route, *n) : *n);
    });
    exchange(e, h, false);
  }

  /// E(v, :) += the sum of H(i, :) over all i with ids[i] = v, on this rank's blocks.
  void add_sums(std::span<const int> ids, MatrixView<const T> h, MatrixView<T> e)
  {
    list_steps(to_e_, ids, [&](const RowRoute& route) {
      const auto number = [&](std::size_t i) {
        return distinct_.number(ids[route.rows.offset + i]);
      };
      const auto target = [&](std::size_t n) { return route.is_local() ? entry(route, n) : n; };
      if (route.from == mesh_.rank())
        lists_.add_grouped(distinct_.size(), route.rows.valid, number, target);
      else
        for (std::size_t n = 0; n < distinct_.size(); ++n) lists_.add(entry(route, n), n);
    });
    exchange(h, e, true);
  }

 private:
  template <class V>
  using Buffer = typename M::Engine::template Buffer<V>;
  using Request = decltype(std::declval<typename M::Communicator&>().async_barrier());

  /// A step for one route: its message, which is empty if the route is local, and its lists.
  struct Step
  {
    const RowRoute* route;
    MatrixView<T> message;
    std::size_t first_list;
    std::size_t lists;
  };

  [[nodiscard]] static std::size_t most_elements(const std::vector<RowRoute>& routes)
  {
    std::size_t n = 0;
    for (const auto& route : routes) n += route.most_elements();
    return n;
  }

  /// Reserves memory for the worst case of a direction.
  /// @param received the most elements that this rank receives
  void reserve(const RowRoutes& routes, std::size_t received)
  {
    std::size_t rows = 0;
    for (const auto* some : {&routes.sends, &routes.receives})
      for (const auto& route : *some) rows += route.rows.valid;
    const auto enlarge = [](auto& buffer, std::size_t n) {
      if (buffer.size() < n) buffer = std::remove_reference_t<decltype(buffer)>(n);
    };
    lists_.reserve(rows, rows);
    enlarge(index_, HostRowLists::numbers(rows, rows));
    enlarge(sent_, most_elements(routes.sends));
    enlarge(received_, received);
    receives_.reserve(routes.receives.size());
    sends_.reserve(routes.sends.size());
    requests_.reserve(routes.sends.size() + routes.receives.size());
  }

  /// The row with distinct id `number` in the block of E of a route.
  [[nodiscard]] std::size_t entry(const RowRoute& route, std::size_t number) const
  {
    return distinct_[number] - route.vocab.offset;
  }

  /// The steps for the routes on which there are ids.
  /// @param add_lists (route) adds the lists of a route's distinct ids
  template <class F>
  void list_steps(const RowRoutes& routes, std::span<const int> ids, F add_lists)
  {
    lists_.clear();
    const auto list = [&](const std::vector<RowRoute>& some, T* message, std::vector<Step>& steps) {
      steps.clear();
      for (const auto& route : some)
      {
        distinct_.find(ids, route.rows, route.vocab);
        if (distinct_.size() == 0) continue;
        const std::size_t first = lists_.size();
        add_lists(route);
        const Shape shape{route.is_local() ? 0 : distinct_.size(), route.cols};
        steps.push_back({&route, {message, shape}, first, lists_.size() - first});
        message += shape.size();
      }
    };
    list(routes.receives, received_.data(), receives_);
    list(routes.sends, sent_.data(), sends_);
    lists_.upload(mesh_.engine(), index_.data());
  }

  /// Executes the steps: from this rank's block of one matrix to its block of the other.
  void exchange(MatrixView<const T> from, MatrixView<T> to, bool adds)
  {
    requests_.clear();  // an earlier call may have failed
    auto& world = mesh_.world();
    for (const Step& step : receives_)
      if (!step.route->is_local())
        requests_.push_back(world.async_receive(step.message.elements(), step.route->from));
    for (const Step& step : sends_)
    {
      sum(step, source(step, from), step.message, false);
      requests_.push_back(world.async_send(step.message.elements(), step.route->to));
    }
    auto request = requests_.begin();
    for (const Step& step : receives_)
    {
      if (!step.route->is_local()) (request++)->wait();
      sum(step, step.route->is_local() ? source(step, from) : step.message, target(step, to), adds);
    }
    for (; request != requests_.end(); ++request) request->wait();
    requests_.clear();
  }

  /// The columns of a step in this rank's block of the matrix that rows are read from.
  [[nodiscard]] static MatrixView<const T> source(const Step& step, MatrixView<const T> m)
  {
    return m.block(0, step.route->from_col, {m.rows(), step.route->cols});
  }
  /// The columns of a step in this rank's block of the matrix that rows are written to.
  [[nodiscard]] static MatrixView<T> target(const Step& step, MatrixView<T> m)
  {
    return m.block(0, step.route->to_col, {m.rows(), step.route->cols});
  }
  void sum(const Step& step, MatrixView<const T> from, MatrixView<T> to, bool adds) const
  {
    const RowLists lists = lists_.part(step.first_list, step.lists, index_.data());
    mesh_.engine().sum_rows(from, lists, to, adds);
  }

  M mesh_;
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
