// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The embedding of tokens, on any scheme: H(i, :) = E(ids[i], :).
//
//   ids: M numbers, the same on every rank    E (V, d) Transposed<S::Weight>    H (M, d) S::Input
//
// E is stored as the weight of the logits H E^T is, so that both may be the same matrix.
//
//   forward    a rank receives the rows of E with the distinct ids of its rows of H, as far as it
//              does not hold them, and copies them to its rows
//   backward   a holder of a block of E, replicas included, receives the sums of dH's rows with
//   each
//              distinct id from each block of dH, and adds them, in the order of the blocks
//
// Words: forward, for each block of H and each block of E on other ranks, the distinct ids times
// the columns that both have; backward the same to each holder of a block of E. No rank sends more
// than one block for another, and nothing is sent for ids that do not occur.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/dist/layout.hpp"
#include "cubist/nn/kernels/row_routes.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/parameter.hpp"
#include "cubist/nn/random.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist
{

struct EmbeddingOptions
{
  std::uint64_t seed = 0;
  /// The layer's number, below 2^16.
  std::size_t index = 0;
  Initial initial = Normal{};
};

/// @throws from every call: ArgumentError for an id that the vocabulary does not have
template <SchemeType S, class B, RealScalar T>
class Embedding
{
 public:
  using Value = T;
  using Mesh = AxisMesh<typename S::Axes, B>;
  using Table = DistMatrix<T, Transposed<typename S::Weight>, Mesh>;
  using Output = DistMatrix<T, typename S::Input, Mesh>;

  /// @throws ShapeError for no tokens or no features
  Embedding(const Mesh& mesh, std::size_t vocabulary, std::size_t features,
            const EmbeddingOptions& options = {})
      : mesh_{mesh}, e_{mesh, {vocabulary, features}}, de_{e_}
  {
    require<ShapeError>(vocabulary > 0 && features > 0, "got an embedding of ", vocabulary,
                        " tokens in ", features,
                        " features, which has no elements; give it at least one of each");
    detail::initialize(e_, options.initial, stream(options.seed, Draw::weight, options.index),
                       features);
  }

  [[nodiscard]] Table& table() { return e_; }
  [[nodiscard]] Table& table_gradient() { return de_; }

  /// H, which the layer owns, and overwrites in the next `forward`. Its rows are padded to whole
  /// sequences.
  Output& forward(std::span<const int> ids, const Pass& pass)
  {
    check(ids);
    const Quanta quanta{pass.sequence * mesh_.quantum(), mesh_.quantum()};
    const Shape shape{ids.size(), e_.cols()};
    if (!h_ || h_->shape() != shape || h_->quanta() != quanta)
    {
      detail::fit(h_, mesh_, shape, quanta);
      make_routes();
    }
    exchange(ids, to_h_, e_.valid(), e_.block().cols, [&](const detail::RowRoute& route) {
      for (const int id : distinct_.list())
        add_entry(entries_.size(), static_cast<std::size_t>(id) - route.vocab.offset);
    });
    combine(ids, to_h_, h_->valid(), h_->block().cols, false,
            [&](const detail::RowRoute& route, std::size_t first) {
              for (std::size_t i = 0; i < route.rows.valid; ++i)
                if (const int id = ids[route.rows.offset + i]; distinct_.has(id))
                  add_entry(i, first + static_cast<std::size_t>(distinct_.number(id)));
            });
    return *h_;
  }

  /// The gradient of the table, for the gradient of the last H: overwritten or, with `accumulate`,
  /// added to what is there. It is complete on every replica.
  /// @pre the ids are those of the last `forward`
  void backward(std::span<const int> ids, const Output& dh, bool accumulate = false)
  {
    check(ids);
    require<ShapeError>(h_ && dh.shape() == h_->shape() && dh.quanta() == h_->quanta(),
                        "got a gradient of ", dh.shape(),
                        " that is not like the last output, so its rows have no ids; make it like "
                        "that output");
    exchange(ids, to_e_, dh.valid(), dh.block().cols, [&](const detail::RowRoute& route) {
      for (std::size_t i = 0; i < route.rows.valid; ++i)
        if (const int id = ids[route.rows.offset + i]; distinct_.has(id))
          add_entry(static_cast<std::size_t>(distinct_.number(id)), i);
    });
    combine(ids, to_e_, de_.valid(), de_.block().cols, accumulate,
            [&](const detail::RowRoute& route, std::size_t first) {
              for (const int id : distinct_.list())
                add_entry(static_cast<std::size_t>(id) - route.vocab.offset, first++);
            });
  }

  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix)
  {
    list.push_back({prefix + "weight", e_.view(), de_.view()});
  }

 private:
  template <class V>
  using Buffer = typename Mesh::Engine::template Buffer<V>;

  void check(std::span<const int> ids) const
  {
    for (std::size_t i = 0; i < ids.size(); ++i)
      require<ArgumentError>(ids[i] >= 0 && static_cast<std::size_t>(ids[i]) < e_.rows(), "got id ",
                             ids[i], " for token ", i, " of a vocabulary of ", e_.rows(),
                             ", which has no such token; use 0 to ", e_.rows() - 1);
  }

  void make_routes()
  {
    const auto e = std::as_const(e_).view();
    const auto h = std::as_const(*h_).view();
    const auto table = [&](int rank) { return e.block(rank); };
    const auto rows = [&](int rank) { return h.block(rank); };
    to_h_ = detail::row_routes(mesh_.size(), mesh_.rank(), table, rows, true);
    to_e_ = detail::row_routes(mesh_.size(), mesh_.rank(), rows, table, false);
    // For any ids: no later call allocates.
    std::size_t entries = std::max(h_->block().rows.size, e_.block().rows.size);
    distinct_.reserve(e_.rows());
    lists_.starts.reserve(entries + 1);
    requests_.reserve(std::max(to_h_.size(), to_e_.size()));
    for (const auto* routes : {&to_h_, &to_e_})
    {
      std::size_t sent = 0, stacked = 0, stack_rows = 0;
      for (const auto& route : *routes)
      {
        const std::size_t most = std::min(route.rows.valid, route.vocab.valid);
        (route.to == mesh_.rank() ? stacked : sent) += most * route.cols.size;
        if (route.to == mesh_.rank()) stack_rows += most;
      }
      if (packed_.size() < sent) packed_ = Buffer<T>(sent);
      if (stack_.size() < stacked) stack_ = Buffer<T>(stacked);
      entries = std::max(entries, stack_rows);
    }
    entries_.reserve(entries);
    all_entries_.reserve(entries);
    lists_.rows.reserve(entries);
    starts_ = Buffer<int>(lists_.starts.capacity());
    rows_ = Buffer<int>(entries);
  }

  void add_entry(std::size_t list, std::size_t row)
  {
    entries_.push_back({static_cast<int>(list), static_cast<int>(row)});
  }
  void find(std::span<const int> ids, const detail::RowRoute& route)
  {
    distinct_.find(ids, route.rows, route.vocab);
    entries_.clear();
  }

  /// Packs and sends what `source` has for others, and receives what this rank needs: into
  /// `stack_`, the routes to this rank one after the other.
  /// @param add_entries (route) adds, for each row of the message, the rows of `source` in it
  template <class F>
  void exchange(std::span<const int> ids, const std::vector<detail::RowRoute>& routes,
                MatrixView<const T> source, const Range& cols, F add_entries)
  {
    const int rank = mesh_.rank();
    T* to_send = packed_.data();
    T* to_stack = stack_.data();
    auto& world = mesh_.world();
    for (const auto& route : routes)
    {
      find(ids, route);
      const Shape shape{distinct_.list().size(), route.cols.size};
      if (shape.rows == 0) continue;
      T*& next = route.to == rank ? to_stack : to_send;
      const MatrixView<T> message{next, shape};
      next += shape.size();
      if (route.from == rank)
      {
        add_entries(route);
        lists_.group(shape.rows, entries_);
        sum_rows(source.block(0, route.cols.offset - cols.offset, {source.rows(), shape.cols}),
                 message, false);
      }
      if (route.from != rank)
        requests_.push_back(world.async_receive(message.elements(), route.from));
      else if (route.to != rank)
        requests_.push_back(world.async_send(message.elements(), route.to));
    }
    for (auto& request : requests_) request.wait();
    requests_.clear();
  }

  /// out = the sums of rows of `stack_`, or with `adds` what is there and these.
  /// @param add_entries (route, the number of its first row) adds those for the rows of `out`
  template <class F>
  void combine(std::span<const int> ids, const std::vector<detail::RowRoute>& routes,
               MatrixView<T> out, const Range& cols, bool adds, F add_entries)
  {
    const T* data = stack_.data();
    const auto is_mine = [&](const detail::RowRoute& route) { return route.to == mesh_.rank(); };
    for (auto route = std::find_if(routes.begin(), routes.end(), is_mine);
         route != routes.end() && is_mine(*route);)
    {
      // The routes of the same columns.
      const Range group = route->cols;
      std::size_t rows = 0;
      all_entries_.clear();
      for (; route != routes.end() && is_mine(*route) && route->cols == group; ++route)
      {
        find(ids, *route);
        add_entries(*route, rows);
        all_entries_.insert(all_entries_.end(), entries_.begin(), entries_.end());
        rows += distinct_.list().size();
      }
      if (rows == 0 && adds) continue;
      lists_.group(out.rows(), all_entries_);
      sum_rows({data, {rows, group.size}},
               out.block(0, group.offset - cols.offset, {out.rows(), group.size}), adds);
      data += rows * group.size;
    }
  }

  /// out(i, :) = the sum of the rows of `in` in list i; added to what is there, if `adds`.
  void sum_rows(MatrixView<const T> in, MatrixView<T> out, bool adds)
  {
    const auto& engine = mesh_.engine();
    const detail::SumOfRows<T> sum{in.data(), in.ld(), upload(lists_.starts, starts_),
                                   upload(lists_.rows, rows_)};
    if (adds)
      engine.map_indexed(out, sum, MatrixView<const T>{out});
    else
      engine.map_indexed(out, sum);
  }
  [[nodiscard]] const int* upload(const std::vector<int>& values, Buffer<int>& buffer) const
  {
    const Shape shape{1, values.size()};
    mesh_.engine().upload(MatrixView<const int>{values.data(), shape},
                          MatrixView<int>{buffer.data(), shape});
    return buffer.data();
  }

  using Request = decltype(std::declval<typename B::Communicator&>().async_barrier());

  Mesh mesh_;
  Table e_;
  Table de_;
  std::optional<Output> h_;
  std::vector<detail::RowRoute> to_h_;
  std::vector<detail::RowRoute> to_e_;
  detail::DistinctIds distinct_;
  detail::RowLists lists_;
  std::vector<detail::RowLists::Entry> entries_;
  std::vector<detail::RowLists::Entry> all_entries_;
  Buffer<T> packed_ = Buffer<T>(0);
  Buffer<T> stack_ = Buffer<T>(0);
  Buffer<int> starts_ = Buffer<int>(0);
  Buffer<int> rows_ = Buffer<int>(0);
  std::vector<Request> requests_;
};

}  // namespace cubist
