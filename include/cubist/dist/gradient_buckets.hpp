// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Buckets: small gradients that are summed over the same replicas travel in one message.
//
//   1. sum, scatter_sum  copy a gradient into the open bucket of its replicas, if it is small; one
//                        that does not fit any more closes that bucket. A large gradient travels
//                        alone, and is not copied.
//   2. A bucket that is closed is sent: an all_reduce, or a reduce_scatter. It overlaps with the
//      backward passes of earlier layers.
//   3. The first wait, at the end of a backward, closes all buckets. Each wait copies its sum back.
//
// The bits of a sum are those of a message of its own, since an element's terms are added in the
// order of the ranks wherever it is in a message (comm/reduction.hpp); NCCL chooses its own order.
//
// Words: those of the gradients one by one; 2 (P-1) messages a bucket instead of a gradient.
// Source of buckets: Li et al., "PyTorch Distributed", arXiv 2006.15704, section 3.2.

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/pending_sum.hpp"

namespace cubist::CUBIST_ABI
{

/// How large buckets are.
struct BucketOptions
{
  /// The most bytes of a bucket, the same on every rank; larger gradients travel alone.
  std::size_t bytes = 65'536;
};

namespace detail
{

/// Elements one after the other as a matrix of one row.
template <class V>
[[nodiscard]] MatrixView<V> as_row(std::span<V> x)
{
  return {x.data(), {1, x.size()}};
}

/// The buckets of one backward.
template <Scalar T, class C, class E>
class BucketsOfBackward final : public PackedSums
{
 public:
  BucketsOfBackward(const E& engine, std::size_t most) : engine_{&engine}, most_{most} {}

  /// Whether all buckets are closed.
  [[nodiscard]] bool closed() const { return closed_; }
  void reopen()
  {
    for (auto& b : buckets_) b.request.reset();  // of sums without a wait, after an error
    used_ = 0;
    entries_.clear();
    closed_ = false;
  }

  /// Packs a gradient; `out` becomes its sum or, if it is scattered in pieces of so many elements,
  /// this rank's piece. Returns its number.
  std::size_t add(std::span<const T> gradient, C& replicas, std::span<T> out, std::size_t piece)
  {
    const std::size_t size = piece == 0 ? gradient.size() : piece * ranks(replicas);
    const std::size_t i = bucket_for(replicas, piece > 0, size);
    Bucket& b = buckets_[i];
    reserve(b, b.size + size);
    const std::span<T> packed{b.gradients.data() + b.size, size};
    engine_->copy(as_row(gradient), as_row(packed.first(gradient.size())));
    if (size > gradient.size()) engine_->fill(as_row(packed.subspan(gradient.size())), T{});
    entries_.push_back({i, b.size, piece, out});
    b.size += size;
    return entries_.size() - 1;
  }

  void wait(std::size_t number) override
  {
    for (std::size_t i = 0; i < used_; ++i) send(buckets_[i], i);
    closed_ = true;
    const Entry& e = entries_[number];
    Bucket& b = buckets_[e.bucket];
    if (b.request) b.request->wait();
    b.request.reset();
    const T* sums = e.piece == 0 ? b.gradients.data() + e.offset
                                 : b.mine.data() + e.offset / ranks(*b.replicas);
    engine_->copy(as_row(std::span<const T>{sums, e.out.size()}), as_row(e.out));
  }

 private:
  using Buffer = typename E::template Buffer<T>;
  using Request = decltype(std::declval<C&>().async_barrier());

  struct Bucket
  {
    C* replicas = nullptr;
    bool is_scattered = false;
    bool is_sent = false;
    std::size_t size = 0;
    Buffer gradients = Buffer(0);  // one after the other
    Buffer pieces = Buffer(0);     // those of each rank one after the other
    Buffer mine = Buffer(0);
    std::optional<Request> request;
  };
  struct Entry
  {
    std::size_t bucket;
    std::size_t offset;
    std::size_t piece;
    std::span<T> out;
  };

  [[nodiscard]] static std::size_t ranks(const C& replicas)
  {
    return static_cast<std::size_t>(replicas.size());
  }

  /// An open bucket with room for so many elements.
  std::size_t bucket_for(C& replicas, bool is_scattered, std::size_t size)
  {
    for (std::size_t i = 0; i < used_; ++i)
    {
      Bucket& b = buckets_[i];
      if (b.is_sent || b.replicas != &replicas || b.is_scattered != is_scattered) continue;
      if (b.size + size <= most_) return i;
      send(b, i);
    }
    if (used_ == buckets_.size()) buckets_.emplace_back();
    Bucket& b = buckets_[used_];
    b.replicas = &replicas;
    b.is_scattered = is_scattered;
    b.is_sent = false;
    b.size = 0;
    return used_++;
  }

  /// Grows a buffer, which keeps its elements.
  void reserve(Bucket& b, std::size_t size)
  {
    if (size <= b.gradients.size()) return;
    Buffer larger(size);  // in the first backwards only
    engine_->copy(as_row(std::span<const T>{b.gradients.data(), b.size}),
                  as_row(std::span<T>{larger.data(), b.size}));
    b.gradients = std::move(larger);
  }

  void send(Bucket& b, std::size_t index)
  {
    if (std::exchange(b.is_sent, true)) return;
    const std::span<T> all{b.gradients.data(), b.size};
    if (!b.is_scattered) return void(b.request.emplace(b.replicas->async_all_reduce(all)));
    const std::size_t p = ranks(*b.replicas);
    const std::size_t share = b.size / p;
    if (b.pieces.size() < b.size) b.pieces = Buffer(b.size);
    if (b.mine.size() < share) b.mine = Buffer(share);
    const MatrixView<T> by_rank{b.pieces.data(), {p, share}};
    for (const Entry& e : entries_)
      if (e.bucket == index)
        engine_->copy(MatrixView<const T>{b.gradients.data() + e.offset, {p, e.piece}},
                      by_rank.block(0, e.offset / p, {p, e.piece}));
    b.request.emplace(b.replicas->async_reduce_scatter(std::span<const T>{by_rank.elements()},
                                                       std::span<T>{b.mine.data(), share}));
  }

  const E* engine_;
  std::size_t most_;  // elements of a bucket
  std::deque<Bucket> buckets_;
  std::size_t used_ = 0;
  std::vector<Entry> entries_;
  bool closed_ = false;
};

}  // namespace detail

/// The buckets of a mesh: `buckets_of<T>(mesh)`. Every rank makes the same calls.
template <Scalar T, class C, class E>
class GradientBuckets
{
 public:
  /// Of the backwards that begin later.
  void set(const BucketOptions& options)
  {
    options_ = options;
    backwards_.clear();
  }

  /// Starts the sum of a gradient, in place.
  /// @pre it is not accessed before `wait` returns
  [[nodiscard]] ReplicaSum<C> sum(const E& engine, MatrixView<T> gradient, C& replicas)
  {
    if (replicas.size() == 1) return {};
    if (!takes(gradient.size())) return {replicas, gradient};
    const std::span<T> all = gradient.elements();
    const auto& open = open_backward(engine);
    return {open, open->add(all, replicas, all, 0)};
  }

  /// Whether a block of so many elements is small enough to be packed.
  [[nodiscard]] bool takes(std::size_t size) const { return size <= options_.bytes / sizeof(T); }

  /// Starts the sum of a gradient, of which `mine` becomes this rank's piece.
  /// @pre takes(mine.size() replicas.size())
  [[nodiscard]] ReplicaSum<C> scatter_sum(const E& engine, MatrixView<const T> gradient,
                                          std::span<T> mine, C& replicas)
  {
    const auto& open = open_backward(engine);
    return {open, open->add(gradient.elements(), replicas, mine, mine.size())};
  }

 private:
  using Backward = detail::BucketsOfBackward<T, C, E>;

  /// The open one; else one without pending waits, so that a step allocates nothing.
  const std::shared_ptr<Backward>& open_backward(const E& engine)
  {
    for (const auto& b : backwards_)
      if (!b->closed()) return b;
    for (const auto& b : backwards_)
      if (b.use_count() == 1)
      {
        b->reopen();
        return b;
      }
    return backwards_.emplace_back(std::make_shared<Backward>(engine, options_.bytes / sizeof(T)));
  }

  BucketOptions options_;
  std::vector<std::shared_ptr<Backward>> backwards_;
};

/// The buckets for gradients of type T, which all copies of a mesh share on this rank.
template <Scalar T, class M>
[[nodiscard]] auto& buckets_of(const M& mesh)
{
  using Buckets = GradientBuckets<T, typename M::Communicator, typename M::Engine>;
  return mesh.template workspace<Buckets>();
}

}  // namespace cubist::CUBIST_ABI
