// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The reducer of gradients that every network has (gradients/gradient_reducer.hpp). Small gradients
// that are summed over the same replicas travel in one message, a bucket.
//
//   1. reduce, scatter_sum  copy a small gradient into the open bucket of its replicas; one that
//                           no longer fits closes that bucket. A large gradient travels
//                           alone, and is not copied.
//   2. A closed bucket is sent by an all_reduce or a reduce_scatter, which overlaps with the
//      backward passes of earlier layers.
//   3. finish               sends the open buckets, waits for all sums, and copies those of buckets
//                           back.
//
// A sum in a bucket is bit-identical to the sum alone, because the terms of an element are added in
// the order of the ranks wherever it is in a message (comm/reduction.hpp). NCCL chooses its own
// order.
//
// Elements that one rank sends: 2 (P-1)/P of each gradient over its P replicas, or (P-1)/P of a
// scattered one, the same as without buckets. A bucket takes 2 (P-1) messages; without buckets,
// each gradient takes as many. Source of buckets: Li et al., "PyTorch Distributed", arXiv
// 2006.15704, section 3.2.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/gradients/gradient_reducer.hpp"

namespace cubist::CUBIST_ABI
{

/// How large buckets are.
struct BucketOptions
{
  /// The maximum size of a bucket in bytes, the same on every rank; larger gradients travel alone.
  std::size_t bytes = 65'536;
};

namespace detail
{

/// Views contiguous elements as a matrix of one row.
template <class V>
[[nodiscard]] MatrixView<V> as_row(std::span<V> x)
{
  return {x.data(), {1, x.size()}};
}

}  // namespace detail

/// Sums gradients over replicas, small ones in buckets. Every rank of the mesh makes the same
/// calls.
template <Scalar T, class M>
class GradientBuckets final : public GradientReducer<T, M>
{
 public:
  using typename GradientReducer<T, M>::Communicator;

  /// Makes the reducer of a network on this mesh.
  explicit GradientBuckets(const M& mesh, const BucketOptions& options = {})
      : mesh_{mesh},
        options_{options}
  {
  }

  /// Changes the size of buckets, beginning with the next backward pass.
  void set(const BucketOptions& options) { options_ = options; }

  void begin() override
  {
    wait();
    forget();
  }

  void reduce(MatrixView<T> gradient, Communicator* replicas) override
  {
    if (!replicas || replicas->size() == 1) return;
    const std::span<T> all = gradient.elements();
    if (takes(all.size()))
      add(all, *replicas, all, 0);
    else
      alone_.push_back(replicas->async_all_reduce(all));
  }

  /// Starts the sum of a gradient; `mine` becomes this rank's piece of the sum.
  /// @pre takes(mine.size() replicas.size())
  void scatter_sum(MatrixView<const T> gradient, std::span<T> mine, Communicator& replicas)
  {
    add(gradient.elements(), replicas, mine, mine.size());
  }

  /// Whether a block of this many elements is small enough to be packed.
  [[nodiscard]] bool takes(std::size_t size) const { return size <= options_.bytes / sizeof(T); }

  void finish() override
  {
    for (std::size_t i = 0; i < used_; ++i) send(i);
    wait();
    for (const Entry& e : entries_)
    {
      const Bucket& b = buckets_[e.bucket];
      const T* sums = e.piece == 0 ? b.gradients.data() + e.offset
                                   : b.mine.data() + e.offset / ranks(*b.replicas);
      engine().copy(detail::as_row(std::span<const T>{sums, e.out.size()}), detail::as_row(e.out));
    }
    forget();
  }

 private:
  using Engine = typename M::Engine;
  using Buffer = typename Engine::template Buffer<T>;
  using Request = decltype(std::declval<Communicator&>().async_barrier());

  struct Bucket
  {
    Communicator* replicas = nullptr;
    bool is_scattered = false;
    std::size_t size = 0;
    Buffer gradients = Buffer(0);  // one after the other
    Buffer pieces = Buffer(0);     // the pieces of each rank, one after the other
    Buffer mine = Buffer(0);
    std::optional<Request> request;  // once it is sent
  };
  struct Entry
  {
    std::size_t bucket;
    std::size_t offset;
    std::size_t piece;  // elements of each rank's piece, or 0 for a sum that is not scattered
    std::span<T> out;
  };

  [[nodiscard]] const Engine& engine() const { return mesh_.engine(); }
  /// Waits for what has been sent.
  void wait()
  {
    for (auto& request : alone_) request.wait();
    for (Bucket& b : buckets_)
      if (b.request) b.request->wait();
  }
  void forget()
  {
    for (Bucket& b : buckets_) b.request.reset();
    used_ = 0;
    entries_.clear();
    alone_.clear();
  }
  [[nodiscard]] static std::size_t ranks(const Communicator& replicas)
  {
    return static_cast<std::size_t>(replicas.size());
  }

  /// Packs a gradient. `out` becomes its sum or, if the sum is scattered in pieces of `piece`
  /// elements, this rank's piece.
  void add(std::span<const T> gradient, Communicator& replicas, std::span<T> out, std::size_t piece)
  {
    const std::size_t size = piece == 0 ? gradient.size() : piece * ranks(replicas);
    const std::size_t i = bucket_for(replicas, piece > 0, size);
    Bucket& b = buckets_[i];
    reserve(b, b.size + size);
    const std::span<T> packed{b.gradients.data() + b.size, size};
    engine().copy(detail::as_row(gradient), detail::as_row(packed.first(gradient.size())));
    if (size > gradient.size()) engine().fill(detail::as_row(packed.subspan(gradient.size())), T{});
    entries_.push_back({i, b.size, piece, out});
    b.size += size;
  }

  /// Returns the index of an open bucket with room for this many elements.
  std::size_t bucket_for(Communicator& replicas, bool is_scattered, std::size_t size)
  {
    for (std::size_t i = 0; i < used_; ++i)
    {
      Bucket& b = buckets_[i];
      if (b.request || b.replicas != &replicas || b.is_scattered != is_scattered) continue;
      if (takes(b.size + size)) return i;
      send(i);
    }
    if (used_ == buckets_.size()) buckets_.emplace_back();
    Bucket& b = buckets_[used_];
    b.replicas = &replicas;
    b.is_scattered = is_scattered;
    b.size = 0;
    return used_++;
  }

  /// Grows the buffer of a bucket, which keeps its elements.
  void reserve(Bucket& b, std::size_t size)
  {
    if (size <= b.gradients.size()) return;
    Buffer larger(size);  // only in the first backward passes
    engine().copy(detail::as_row(std::span<const T>{b.gradients.data(), b.size}),
                  detail::as_row(std::span<T>{larger.data(), b.size}));
    b.gradients = std::move(larger);
  }

  void send(std::size_t index)
  {
    Bucket& b = buckets_[index];
    if (b.request) return;
    const std::span<T> all{b.gradients.data(), b.size};
    if (!b.is_scattered) return void(b.request.emplace(b.replicas->async_all_reduce(all)));
    const std::size_t p = ranks(*b.replicas);
    const std::size_t share = b.size / p;
    if (b.pieces.size() < b.size) b.pieces = Buffer(b.size);
    if (b.mine.size() < share) b.mine = Buffer(share);
    const MatrixView<T> by_rank{b.pieces.data(), {p, share}};
    for (const Entry& e : entries_)
      if (e.bucket == index)
        engine().copy(MatrixView<const T>{b.gradients.data() + e.offset, {p, e.piece}},
                      by_rank.block(0, e.offset / p, {p, e.piece}));
    b.request.emplace(b.replicas->async_reduce_scatter(std::span<const T>{by_rank.elements()},
                                                       std::span<T>{b.mine.data(), share}));
  }

  M mesh_;
  BucketOptions options_;
  std::vector<Bucket> buckets_;
  std::size_t used_ = 0;  // the number of buckets in this backward pass
  std::vector<Entry> entries_;
  std::vector<Request> alone_;  // sums of large gradients
};

/// Decides where the gradients of a network go: into buckets, or to another reducer while one is in
/// use.
template <class T, class M>
class Gradients
{
 public:
  /// Sends the gradients of a network on this mesh into buckets.
  explicit Gradients(const M& mesh)
      : buckets_{mesh}
  {
  }

  /// The reducer that takes the gradients of the next backward pass.
  [[nodiscard]] GradientReducer<T, M>& reducer() { return used_ ? *used_ : buckets_; }
  /// The reducer that sums gradients if no other one is in use.
  [[nodiscard]] GradientBuckets<T, M>& buckets() { return buckets_; }

 private:
  template <class, class>
  friend class ReducerScope;

  GradientBuckets<T, M> buckets_;
  GradientReducer<T, M>* used_ = nullptr;
};

namespace detail
{

template <class T, class M>
std::shared_ptr<Gradients<T, M>> make_gradients(const M& mesh)
{
  return std::make_shared<Gradients<T, M>>(mesh);
}

}  // namespace detail

/// RAII: passes this rank's gradients of a network to a reducer until the end of the scope.
template <class T, class M>
class ReducerScope
{
 public:
  /// @param reducer outlives the scope
  ReducerScope(std::shared_ptr<Gradients<T, M>> gradients, GradientReducer<T, M>& reducer)
      : gradients_{std::move(gradients)},
        former_{std::exchange(gradients_->used_, &reducer)}
  {
  }
  ReducerScope(ReducerScope&&) = delete;
  ~ReducerScope() { gradients_->used_ = former_; }

 private:
  std::shared_ptr<Gradients<T, M>> gradients_;
  GradientReducer<T, M>* former_;
};

}  // namespace cubist::CUBIST_ABI
