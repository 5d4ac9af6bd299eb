// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Looks up rows of a table by their numbers, and sums rows of gradients by the same numbers, for an
// embedding or a selection of rows.
//
//   table E (V, d), matrix H (M, d): any layouts    ids: M numbers, the same on every rank
//
//   look_up    H(i, :) = E(ids[i], :)
//   add_sums   E(v, :) += the sum of H(i, :) over all i with ids[i] = v
//
// Rows go from the blocks of one matrix to the blocks of the other along routes, in one message per
// route. A receiver gets each distinct id of a block once, from one of the ranks that hold the
// block. If it holds the block itself, it reads it there. The replicas of a block share the other
// receivers evenly, in the order of the ranks.
//
// Every rank knows all ids, so it knows what each message holds: a row for each distinct id of the
// route, in the order in which the ids first occur. The sender packs the message: it copies rows of
// E, or sums the rows of H with the same id. The receiver unpacks it: it copies a row to all rows
// of H with its id, or adds it to a row of E. A rank that holds both blocks packs and unpacks at
// once, without a message. Each of these is one call of the engine's sum_rows, with lists that say
// which rows are summed.
//
// Replicas of E may divide the sums: each adds those of its rows only, and the gradient is the sum
// of these terms over the replicas.
//
// The replicas of a block of E stay equal bit by bit, because each adds the same sums in the order
// of the blocks of H. To this end, the rows of an id in a block of H are summed and rounded first,
// even on a rank that holds them itself. The replicas also take the same time: a rank packs its own
// sums like those for others, and adds when all messages have arrived.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/placement.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A route along which the holder of one block sends rows to the holder of another, in the columns
/// that both blocks have.
struct LookupRoute
{
  int from = 0;
  int to = 0;
  Range rows;                ///< the rows of H in its block
  Range vocab;               ///< the rows of E in its block
  std::size_t cols = 0;      ///< the number of common columns
  std::size_t from_col = 0;  ///< the first common column in the sender's block
  std::size_t to_col = 0;    ///< the first common column in the receiver's block

  /// Whether one rank holds both blocks, so that nothing is sent.
  [[nodiscard]] bool is_local() const { return from == to; }
  /// The largest number of elements in a message on this route, which it has if no id repeats.
  [[nodiscard]] std::size_t most_elements() const
  {
    return is_local() ? 0 : std::min(rows.valid, vocab.valid) * cols;
  }
};

/// The routes of one rank.
struct LookupRoutes
{
  std::vector<LookupRoute> sends;     // to other ranks; no two ranks send in the same order
  std::vector<LookupRoute> receives;  // from others and itself, in the order of the sent blocks
};

/// Calls visit(sender, receiver) for each receiver of a block. The block's holders share the
/// receivers evenly.
/// @param holders the ranks that hold the block, in ascending order
template <class F>
void for_each_message(const std::vector<int>& holders, const std::vector<int>& receivers, F visit)
{
  std::vector<int> others;
  for (const int receiver : receivers)
    if (std::binary_search(holders.begin(), holders.end(), receiver))
      visit(receiver, receiver);
    else
      others.push_back(receiver);
  // If holders are consecutive, receivers after them come first, so that equal networks side by
  // side do the same.
  if (holders.back() - holders.front() + 1 == static_cast<int>(holders.size()))
    std::rotate(others.begin(), std::upper_bound(others.begin(), others.end(), holders.back()),
                others.end());
  for (std::size_t k = 0; k < others.size(); ++k)
    visit(holders[k * holders.size() / others.size()], others[k]);
}

/// Finds the routes of a rank from blocks of one matrix to blocks of the other.
/// @param from, to  from(r) and to(r) return the blocks of rank r
/// @param to_h  whether `to` is H and `from` is E
[[nodiscard]] inline LookupRoutes lookup_routes(int ranks, int rank,
                                                const std::function<Block(int)>& from,
                                                const std::function<Block(int)>& to, bool to_h)
{
  std::vector<Block> targets;
  for (int r = 0; r < ranks; ++r) targets.push_back(to(r));
  // Many blocks of `from` have the same columns, and so the same receivers.
  std::map<std::pair<std::size_t, std::size_t>, std::vector<int>> receivers_of;
  const auto has = [](const std::vector<int>& some, int r) {
    return std::binary_search(some.begin(), some.end(), r);
  };

  LookupRoutes mine;
  for (const auto& [corner, holders] : replica_map(ranks, from))
  {
    const Block source = from(holders.front());
    const auto [entry, is_new] = receivers_of.try_emplace({source.cols.offset, source.cols.valid});
    std::vector<int>& receivers = entry->second;
    for (int r = 0; is_new && r < ranks; ++r)
    {
      const Block& target = targets[static_cast<std::size_t>(r)];
      if (target.valid().size() > 0 && intersection(source.cols, target.cols).size > 0)
        receivers.push_back(r);
    }
    if (!has(holders, rank) && !has(receivers, rank)) continue;
    for_each_message(holders, receivers, [&](int sender, int receiver) {
      if (sender != rank && receiver != rank) return;
      const Block& target = targets[static_cast<std::size_t>(receiver)];
      const Range cols = intersection(source.cols, target.cols);
      (receiver == rank ? mine.receives : mine.sends)
          .push_back({sender, receiver, to_h ? target.rows : source.rows,
                      to_h ? source.rows : target.rows, cols.size, cols.offset - source.cols.offset,
                      cols.offset - target.cols.offset});
    });
  }
  const auto distance = [&](const LookupRoute& route) { return (route.to - rank + ranks) % ranks; };
  std::sort(mine.sends.begin(), mine.sends.end(),
            [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  return mine;
}

/// Finds the distinct ids of some rows in a range of the vocabulary, and numbers them in the order
/// in which they first occur. Its memory grows with the number of rows, not with the vocabulary.
class DistinctIds
{
 public:
  /// Reserves memory for a vocabulary, and for the ids of `rows` rows.
  void reserve(std::size_t vocabulary, std::size_t rows)
  {
    const std::size_t most = std::min(vocabulary, rows);
    // At most half of the slots are in use, so a search ends after a few of them.
    slots_.assign(std::bit_ceil(2 * most + 1), Slot{});
    list_.reserve(most);
    stamp_ = 0;
  }

  /// @pre the ids are in the vocabulary, and memory is reserved
  void find(std::span<const int> ids, const Range& rows, const Range& vocab)
  {
    if (++stamp_ == 0)  // after 2^32 searches
    {
      std::fill(slots_.begin(), slots_.end(), Slot{});
      stamp_ = 1;
    }
    list_.clear();
    for (std::size_t i = rows.offset; i < rows.offset + rows.valid; ++i)
    {
      const auto id = static_cast<unsigned>(ids[i]);
      if (id - vocab.offset >= vocab.valid) continue;
      Slot& slot = slots_[place(id)];
      if (slot.stamp == stamp_) continue;
      slot = {stamp_, id, static_cast<unsigned>(list_.size())};
      list_.push_back(id);
    }
  }

  [[nodiscard]] std::size_t size() const { return list_.size(); }
  /// The id that has this number.
  [[nodiscard]] std::size_t operator[](std::size_t number) const { return list_[number]; }
  /// The number of an id; empty if the id was not found.
  [[nodiscard]] std::optional<std::size_t> number(int id) const
  {
    const Slot& slot = slots_[place(static_cast<unsigned>(id))];
    if (slot.stamp != stamp_) return std::nullopt;
    return slot.number;
  }

 private:
  /// A place in a hash table with linear probing.
  struct Slot
  {
    unsigned stamp = 0;  // the number of the search that last used the slot
    unsigned id = 0;
    unsigned number = 0;
  };

  /// Returns the slot of an id that this search has found, or else the free slot for it.
  [[nodiscard]] std::size_t place(unsigned id) const
  {
    const std::size_t last = slots_.size() - 1;
    std::size_t at = (id * 2654435769U >> 7) & last;  // 2^32 / the golden ratio
    while (slots_[at].stamp == stamp_ && slots_[at].id != id) at = (at + 1) & last;
    return at;
  }

  std::vector<Slot> slots_;
  std::vector<unsigned> list_;
  unsigned stamp_ = 0;
};

/// Builds lists of rows on the host, one after the other, and uploads all at once.
class HostRowLists
{
 public:
  void reserve(std::size_t lists, std::size_t rows)
  {
    starts_.reserve(lists + 2);  // add_grouped needs one more
    targets_.reserve(lists);
    rows_.reserve(rows);
  }
  void clear()
  {
    starts_.assign(1, 0);
    targets_.clear();
    rows_.clear();
  }
  /// The number of lists.
  [[nodiscard]] std::size_t size() const { return targets_.size(); }

  /// Adds a list of one row.
  void add(std::size_t target, std::size_t row)
  {
    targets_.push_back(static_cast<int>(target));
    rows_.push_back(static_cast<int>(row));
    starts_.push_back(static_cast<int>(rows_.size()));
  }

  /// Adds `count` lists. Each row i in [0, n) goes to list number(i), unless number(i) is empty;
  /// rows are in ascending order in each list. List l is for row target(l).
  template <class Number, class Target>
  void add_grouped(std::size_t count, std::size_t n, Number number, Target target)
  {
    // A counting sort: next[l + 1] first counts the rows of list l; then next[l] is where its next
    // row goes, and in the end where the list ends.
    starts_.resize(starts_.size() + count + 1, 0);
    int* const next = &starts_[size() + 1];
    for (std::size_t i = 0; i < n; ++i)
      if (const auto l = number(i)) ++next[*l + 1];
    next[0] = static_cast<int>(rows_.size());
    for (std::size_t l = 0; l < count; ++l) next[l + 1] += next[l];
    rows_.resize(static_cast<std::size_t>(next[count]));
    for (std::size_t i = 0; i < n; ++i)
      if (const auto l = number(i))
        rows_[static_cast<std::size_t>(next[*l]++)] = static_cast<int>(i);
    starts_.pop_back();
    for (std::size_t l = 0; l < count; ++l) targets_.push_back(static_cast<int>(target(l)));
  }

  /// Returns the lists [first, first + count) that `upload` has copied to `memory`.
  [[nodiscard]] RowLists part(std::size_t first, std::size_t count, const int* memory) const
  {
    const int* const targets = memory + starts_.size();
    return {count, memory + first, targets + targets_.size(), targets + first};
  }
  /// The number of integers that `upload` copies for this many lists and rows.
  [[nodiscard]] static std::size_t numbers(std::size_t lists, std::size_t rows)
  {
    return 2 * lists + 1 + rows;
  }
  template <Engine E>
  void upload(const E& engine, int* memory) const
  {
    for (const auto* v : {&starts_, &targets_, &rows_})
    {
      const Shape shape{1, v->size()};
      engine.upload(MatrixView<const int>{v->data(), shape}, MatrixView<int>{memory, shape});
      memory += v->size();
    }
  }

 private:
  std::vector<int> starts_{0};
  std::vector<int> targets_;
  std::vector<int> rows_;
};

/// Looks up and sums rows of matrices that are cut into the blocks of the last `plan`. Calls with
/// other ids allocate nothing.
/// @pre the ids are rows of E
template <RealScalar T, class M>
class RowLookup
{
 public:
  explicit RowLookup(const M& mesh)
      : mesh_{mesh}
  {
  }

  /// @param apart  axes, as bits, along which `add_sums` adds only the rows of ranks with the same
  /// coordinate
  void plan(const DistView<const T, M>& e, const DistView<const T, M>& h, unsigned apart = 0)
  {
    const int rank = mesh_.rank();
    const auto table = [&](int r) { return e.block(r); };
    const auto matrix = [&](int r) { return h.block(r); };
    const auto is_near = [&](int r) {
      for (std::size_t i = 0; i < M::Axes::count; ++i)
        if ((apart >> i & 1U) != 0 && mesh_.coordinates(r)[i] != mesh_.coordinates()[i])
          return false;
      return true;
    };
    const auto near_table = [&](int r) { return is_near(r) ? e.block(r) : Block{}; };
    const auto near_matrix = [&](int r) { return is_near(r) ? h.block(r) : Block{}; };
    to_h_ = lookup_routes(mesh_.size(), rank, table, matrix, true);
    to_e_ = lookup_routes(mesh_.size(), rank, near_matrix, near_table, false);
    for (const LookupRoute& own : to_e_.receives)
      if (own.is_local() && to_e_.receives.size() > 1) to_e_.sends.push_back(own);
    distinct_.reserve(e.shape.rows, h.shape.rows);
    // Each row of H is looked up once.
    reserve(to_h_, std::min(h.valid().size(), most_elements(to_h_.receives)));
    reserve(to_e_, most_elements(to_e_.receives));
  }

  /// Computes H(i, :) = E(ids[i], :) on this rank's blocks.
  void look_up(std::span<const int> ids, MatrixView<const T> e, MatrixView<T> h)
  {
    list_steps(to_h_, ids, [&](const LookupRoute& route, bool packs) {
      if (packs)
        for (std::size_t n = 0; n < distinct_.size(); ++n) lists_.add(n, entry(route, n));
      else
        for (std::size_t i = 0; i < route.rows.valid; ++i)
          if (const auto n = distinct_.number(ids[route.rows.offset + i]))
            lists_.add(i, route.is_local() ? entry(route, *n) : *n);
    });
    exchange(e, h, false);
  }

  /// Adds to E(v, :) the sum of H(i, :) over all i with ids[i] = v, on this rank's blocks.
  void add_sums(std::span<const int> ids, MatrixView<const T> h, MatrixView<T> e)
  {
    const bool packs_own = !to_e_.sends.empty() && to_e_.sends.back().is_local();
    list_steps(to_e_, ids, [&](const LookupRoute& route, bool packs) {
      const auto number = [&](std::size_t i) {
        return distinct_.number(ids[route.rows.offset + i]);
      };
      const auto target = [&](std::size_t n) { return packs ? n : entry(route, n); };
      if (packs || (route.is_local() && !packs_own))
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

  /// The message and the lists of one route. The message is empty if this rank receives from
  /// itself.
  struct Step
  {
    const LookupRoute* route;
    MatrixView<T> message;
    std::size_t first_list;
    std::size_t lists;
  };

  [[nodiscard]] static std::size_t most_elements(const std::vector<LookupRoute>& routes)
  {
    std::size_t n = 0;
    for (const auto& route : routes) n += route.most_elements();
    return n;
  }
  /// The largest number of elements that a rank packs, including its own sums.
  [[nodiscard]] static std::size_t most_packed(const std::vector<LookupRoute>& sends)
  {
    if (sends.empty() || !sends.back().is_local()) return most_elements(sends);
    const LookupRoute& own = sends.back();
    return most_elements(sends) + std::min(own.rows.valid, own.vocab.valid) * own.cols;
  }

  /// Reserves the maximum memory that a call in one direction can need.
  /// @param received the maximum number of elements that this rank receives
  void reserve(const LookupRoutes& routes, std::size_t received)
  {
    std::size_t rows = 0;
    for (const auto* some : {&routes.sends, &routes.receives})
      for (const auto& route : *some) rows += route.rows.valid;
    lists_.reserve(rows, rows);
    enlarge(index_, HostRowLists::numbers(rows, rows));
    enlarge(sent_, most_packed(routes.sends));
    enlarge(received_, received);
    receives_.reserve(routes.receives.size());
    sends_.reserve(routes.sends.size());
    requests_.reserve(routes.sends.size() + routes.receives.size());
  }

  /// The row of distinct id `number` in the route's block of E.
  [[nodiscard]] std::size_t entry(const LookupRoute& route, std::size_t number) const
  {
    return distinct_[number] - route.vocab.offset;
  }

  /// Lists the steps for the routes that have ids.
  /// @param add_lists  add_lists(route, packs) adds the lists of a route's distinct ids, which pack
  /// its message or unpack it
  template <class F>
  void list_steps(const LookupRoutes& routes, std::span<const int> ids, F add_lists)
  {
    lists_.clear();
    const auto list = [&](const std::vector<LookupRoute>& some, bool packs, T* message,
                          std::vector<Step>& steps) {
      steps.clear();
      for (const auto& route : some)
      {
        distinct_.find(ids, route.rows, route.vocab);
        if (distinct_.size() == 0) continue;
        const std::size_t first = lists_.size();
        add_lists(route, packs);
        const bool has_message = packs || !route.is_local();
        const Shape shape{has_message ? distinct_.size() : 0, route.cols};
        steps.push_back({&route, {message, shape}, first, lists_.size() - first});
        message += shape.size();
      }
    };
    list(routes.receives, false, received_.data(), receives_);
    list(routes.sends, true, sent_.data(), sends_);
    lists_.upload(mesh_.engine(), index_.data());
  }

  /// Executes the steps, from this rank's block of one matrix to its block of the other.
  void exchange(MatrixView<const T> from, MatrixView<T> to, bool adds)
  {
    requests_.clear();  // an earlier call may have failed
    const auto read_by = [&](const LookupRoute& route) {
      return from.block(0, route.from_col, {from.rows(), route.cols});
    };
    auto& world = mesh_.world();
    for (const Step& step : receives_)
      if (!step.route->is_local())
        requests_.push_back(world.async_receive(step.message.elements(), step.route->from));
    const auto received = static_cast<std::ptrdiff_t>(requests_.size());
    const Step* own = nullptr;  // what this rank has packed for itself
    for (const Step& step : sends_)
    {
      sum(step, read_by(*step.route), step.message, false);
      if (step.route->is_local())
        own = &step;
      else
        requests_.push_back(world.async_send(step.message.elements(), step.route->to));
    }
    auto request = requests_.begin();
    while (adds && request != requests_.begin() + received) (request++)->wait();
    for (const Step& step : receives_)
    {
      const bool is_local = step.route->is_local();
      if (!adds && !is_local) (request++)->wait();
      const MatrixView<const T> rows = !is_local ? step.message
                                       : own     ? own->message
                                                 : read_by(*step.route);
      const MatrixView<T> written = to.block(0, step.route->to_col, {to.rows(), step.route->cols});
      sum(step, rows, written, adds);
    }
    for (; request != requests_.end(); ++request) request->wait();
    requests_.clear();
  }

  void sum(const Step& step, MatrixView<const T> from, MatrixView<T> to, bool adds) const
  {
    const RowLists lists = lists_.part(step.first_list, step.lists, index_.data());
    mesh_.engine().sum_rows(from, lists, to, adds);
  }

  M mesh_;
  LookupRoutes to_h_;
  LookupRoutes to_e_;
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
