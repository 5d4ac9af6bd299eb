// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Blocks of a matrix along an axis of the mesh: gathered from all ranks of the axis, or summed and
// scattered to them. Blocks are adjacent in memory. If they cut the stored rows, they form one
// matrix, which is multiplied as one piece; otherwise each block is a piece. Blocks are sent either
// all in one collective, or piece by piece, so that ranks multiply what has arrived. Both send the
// same number of elements. GatherBlocks and ScatterSum live as long as one product; the plan owns
// the buffers.

#include <cstddef>
#include <utility>
#include <vector>

#include "cubist/algorithm/gather/tiles.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/engine/operand.hpp"

namespace cubist::CUBIST_ABI::detail
{

template <class C>
using RequestOf = decltype(std::declval<C&>().async_barrier());

/// How blocks are sent along an axis: all in one collective, or one message for each piece.
enum class Granularity : bool
{
  whole,
  piecewise
};

/// The blocks of op(A) on the ranks along an axis.
template <class C>
struct Blocks
{
  C& along;
  Granularity granularity;
  Dimension cut;    // the dimension of op(A) that is cut
  bool transposed;  // whether A is stored transposed

  [[nodiscard]] std::size_t count() const
  {
    return cut == Dimension::none ? 1 : static_cast<std::size_t>(along.size());
  }
  /// The pieces that are multiplied one by one.
  [[nodiscard]] Pieces pieces() const
  {
    const bool one_matrix = (cut == Dimension::cols) == transposed;
    if (count() == 1 || (granularity == Granularity::whole && one_matrix)) return {1, 0, cut};
    return {count(), static_cast<std::size_t>(along.rank()), cut, along.remote()};
  }
};

/// The requests in flight of one product; the plan owns the vector and reuses it.
template <class C>
using Requests = std::vector<RequestOf<C>>;

/// RAII: the requests of one product. The end of the scope drops those that are left.
template <class C>
class RequestScope
{
 public:
  explicit RequestScope(Requests<C>& requests)
      : requests_{requests}
  {
    requests_.clear();
  }
  RequestScope(const RequestScope&) = delete;
  RequestScope& operator=(const RequestScope&) = delete;
  ~RequestScope() { requests_.clear(); }

  Requests<C>* operator->() { return &requests_; }
  Requests<C>& operator*() { return requests_; }

 private:
  Requests<C>& requests_;
};

/// Returns a block of `piece`, which is piece i of a matrix with equal pieces. Rows and columns
/// count from the beginning of the whole matrix.
template <class T>
[[nodiscard]] Operand<T> part_of_piece(Operand<T> piece, std::size_t i, Dimension cut,
                                       Interval rows, Interval cols)
{
  const std::size_t above = cut == Dimension::rows ? i * piece.rows() : 0;
  const std::size_t before = cut == Dimension::cols ? i * piece.cols() : 0;
  return piece.block(rows.begin - above, cols.begin - before, {rows.size(), cols.size()});
}

/// A matrix whose blocks are gathered from the ranks along an axis.
template <class T, class C>
class GatherBlocks
{
 public:
  /// Starts to send the block `mine` to all ranks and to receive theirs, stacked, in `all`.
  /// @param kept  whether they are there already
  GatherBlocks(const Blocks<C>& blocks, Requests<C>& requests, Operand<const T> mine,
               MatrixView<T> all, bool kept = false)
      : pieces_{blocks.pieces()},
        mine_{mine},
        all_{blocks.count() == 1 ? mine.stored() : MatrixView<const T>{all}},
        requests_{requests}
  {
    C& along = blocks.along;
    if (kept || blocks.count() == 1) return;
    if (blocks.granularity == Granularity::whole)
      requests_->push_back(along.async_all_gather(mine.stored().elements(), all.elements()));
    else
      for (std::size_t i = 0; i < pieces_.count; ++i)
        requests_->push_back(along.async_broadcast(
            mine.stored().elements(), stored_piece(all, i).elements(), static_cast<int>(i)));
  }

  /// Returns a block of the whole matrix that lies in piece i, and waits until this has arrived.
  [[nodiscard]] Operand<const T> part(std::size_t i, Interval rows, Interval cols)
  {
    if (pieces_.count > 1 && i == pieces_.own)
      return part_of_piece(mine_, i, pieces_.cut, rows, cols);
    if (!requests_->empty()) (*requests_)[requests_->size() > 1 ? i : 0].wait();
    return part_of_piece(mine_.with(stored_piece(all_, i)), i, pieces_.cut, rows, cols);
  }

  /// Waits until no rank reads this rank's block.
  void finish()
  {
    for (auto& request : *requests_) request.wait();
  }

 private:
  template <class V>
  [[nodiscard]] V stored_piece(V all, std::size_t i) const
  {
    const std::size_t rows = all.rows() / pieces_.count;
    return all.block(i * rows, 0, {rows, all.cols()});
  }

  Pieces pieces_;
  Operand<const T> mine_;
  MatrixView<const T> all_;
  RequestScope<C> requests_;
};

/// A matrix that is a sum of parts, one on each rank along an axis. The sum is scattered by blocks;
/// if no dimension is cut, every rank gets all of it. A rank's block becomes this sum + beta times
/// its former value.
template <class T, class C, class E>
class ScatterSum
{
 public:
  /// Returns the number of blocks in the buffer for a rank's part. `sum_blocks` returns the number
  /// in the buffer where the rank sums its block.
  [[nodiscard]] static std::size_t part_blocks(const Blocks<C>& b)
  {
    return b.along.size() == 1 ? 0 : b.count();
  }
  [[nodiscard]] static std::size_t sum_blocks(const Blocks<C>& b)
  {
    if (b.count() == 1) return 0;
    return b.granularity == Granularity::whole ? 1 : b.count();
  }

  /// @param part, sum buffers of `part_blocks` and `sum_blocks` stacked blocks
  ScatterSum(const Blocks<C>& blocks, Requests<C>& requests, const E& engine, MatrixView<T> part,
             MatrixView<T> sum, T beta, Operand<T> mine)
      : along_{blocks.along},
        engine_{engine},
        whole_{blocks.granularity == Granularity::whole},
        scattered_{blocks.count() > 1},
        pieces_{blocks.pieces()},
        remaining_{pieces_.count},
        sum_{sum},
        beta_{beta},
        mine_{mine},
        communicates_{along_.size() > 1 && mine.stored().size() > 0},
        requests_{requests}
  {
    const bool in_place = along_.size() == 1 || (!scattered_ && beta == T{});
    part_ = in_place ? mine.stored() : part;
    for (std::size_t i = 1; communicates_ && scattered_ && !whole_ && i < pieces_.count; ++i)
      requests_->push_back(along_.async_receive(received(i).elements(), behind(i)));
  }

  /// The memory to which this rank writes a block of piece i of its part, added to part_beta()
  /// times what is there.
  [[nodiscard]] Operand<T> part(std::size_t i, Interval rows, Interval cols) const
  {
    const std::size_t stored = part_.rows() / pieces_.count;
    return part_of_piece(mine_.with(part_.block(i * stored, 0, {stored, part_.cols()})), i,
                         pieces_.cut, rows, cols);
  }
  [[nodiscard]] T part_beta() const { return along_.size() == 1 ? beta_ : T{}; }

  /// Starts to send piece i of the part. Ranks may call this in different orders of the pieces.
  void start(std::size_t i)
  {
    --remaining_;
    if (!communicates_) return;
    if (!scattered_)
      requests_->push_back(along_.async_all_reduce(part_.elements()));
    else if (!whole_)
    {
      if (i != pieces_.own)
        requests_->push_back(along_.async_send(block_of_part(i).elements(), static_cast<int>(i)));
    }
    else if (remaining_ == 0)
      requests_->push_back(along_.async_reduce_scatter(MatrixView<const T>{part_}.elements(),
                                                       (beta_ == T{} ? mine() : sum_).elements()));
  }

  /// Waits until this rank's block is complete and no rank reads its part.
  void finish()
  {
    for (auto& request : *requests_) request.wait();
    if (!communicates_) return;
    if (scattered_ && !whole_) return add_received();
    if (beta_ != T{}) add(mine(), scattered_ ? sum_ : part_, beta_, mine());
  }

 private:
  [[nodiscard]] MatrixView<T> mine() const { return mine_.stored(); }
  /// The i-th rank behind this one on the ring.
  [[nodiscard]] int behind(std::size_t i) const
  {
    return static_cast<int>((pieces_.own + i) % pieces_.count);
  }
  [[nodiscard]] MatrixView<T> received(std::size_t i) const
  {
    return sum_.block((i - 1) * mine().rows(), 0, mine().shape());
  }
  [[nodiscard]] MatrixView<const T> block_of_part(std::size_t i) const
  {
    return part_.block(i * mine().rows(), 0, mine().shape());
  }

  /// Adds up the ranks' blocks in the order of reduction.hpp.
  void add_received()
  {
    const auto block_of = [&](std::size_t rank) -> MatrixView<const T> {
      const std::size_t i = (rank + pieces_.count - pieces_.own) % pieces_.count;
      return i == 0 ? block_of_part(rank) : received(i);
    };
    const MatrixView<T> sum = received(pieces_.own == 0 ? 1 : pieces_.count - pieces_.own);
    MatrixView<const T> so_far = block_of(0);
    for (std::size_t rank = 1; rank < pieces_.count; ++rank)
    {
      const bool is_complete = rank + 1 == pieces_.count && beta_ == T{};
      const MatrixView<T> out = is_complete ? mine() : sum;
      add(out, so_far, T{1}, block_of(rank));
      so_far = out;
    }
    if (beta_ != T{}) add(mine(), sum, beta_, mine());
  }

  /// Computes out = a + factor b.
  void add(MatrixView<T> out, MatrixView<const T> a, T factor, MatrixView<const T> b)
  {
    engine_.map(out, AddScaled<T>{factor}, a, b);
  }

  C& along_;
  const E& engine_;
  bool whole_;
  bool scattered_;
  Pieces pieces_;
  std::size_t remaining_;
  MatrixView<T> part_;
  MatrixView<T> sum_;
  T beta_;
  Operand<T> mine_;
  bool communicates_;
  RequestScope<C> requests_;
};

}  // namespace cubist::CUBIST_ABI::detail
