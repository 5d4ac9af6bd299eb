// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// C = alpha X X^T + beta C0, where R groups of ranks split the rows of X, and the S ranks of each
// group split the columns.
//
//   X (N, K): a group holds a block of rows, and each of its ranks a part of the columns
//   C (N, N): each rank holds the complete rows that belong to its group's rows of X
//
//   1. each rank sends its block to the peers that need it, and multiplies its block by its
//      own transpose, with half the operations of a gemm (engine/syrk.hpp);
//   2. it multiplies its block by the transpose of each block that has arrived (gram_pieces.hpp);
//   3. the ranks of a group sum their results, which are half of the group's rows of C;
//   4. each rank sends the transpose of its blocks to the peers that have not computed them.
//
// If groups can read each other's memory, they read the blocks of steps 2 and 4 in place.
//
// A rank does half the operations of a gemm. Replicas of C are equal bit for bit, and so are
// C(i, j) and C(j, i).
//
// Elements sent, and source: see gram_pieces.hpp.

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "cubist/algorithm/direct/direct_product.hpp"
#include "cubist/algorithm/gather/pieces.hpp"
#include "cubist/algorithm/gram/gram_pieces.hpp"
#include "cubist/algorithm/gram/packed_triangle.hpp"
#include "cubist/algorithm/options.hpp"
#include "cubist/comm/window.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/operand.hpp"
#include "cubist/engine/syrk.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// This rank's place among the groups.
template <class C>
struct GramPlace
{
  C* groups = nullptr;            ///< one rank of each group, or null for a single group
  C* sharing = nullptr;           ///< the ranks of this group, or null for a single rank
  std::vector<int> ranks;         ///< the rank in `groups` of each group
  std::vector<std::size_t> rows;  ///< the number of rows of X that each group holds
  std::size_t index = 0;          ///< the index of this rank's group
  Range inner;                    ///< the columns of its block of X that this rank multiplies
};

/// The plan. It knows communicators, not the mesh and its layouts, so that all schemes of a backend
/// share the type. It owns its workspace.
template <RealScalar T, class C, class E>
class GramProduct
{
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;

 public:
  /// @pre the communicators and the engine outlive this
  /// @param op how X is stored
  GramProduct(GramPlace<C> place, const E& engine, Op op, Method method = Method::automatic)
      : place_{std::move(place)},
        engine_{engine},
        op_{op},
        pieces_{gram_pieces(place_.rows, place_.index)}
  {
    for (std::size_t peer = 0; peer < place_.rows.size(); ++peer)
      for (const GramPiece& p : gram_pieces(place_.rows, peer))
        if (p.peer == place_.index) from_peers_.push_back({peer, p.mine, p.theirs});
    if (place_.groups != nullptr && method != Method::collectives)
      is_direct_ = can_expose(*place_.groups);
    allocate();
  }

  /// Computes C = alpha X X^T + beta C0. The elements of C0 are not read if beta is 0, and C0 may
  /// be C.
  /// @param x this rank's block of X  @param c0, c its rows of C0 and C; all include their padding
  void multiply(T alpha, In x, T beta, In c0, Out c)
  {
    allocate();
    const Operand<const T> whole{x, op_};
    const auto mine = whole.block(0, place_.inner.offset, {rows(), place_.inner.valid});
    if constexpr (ExposesMemory<C>)
      if (is_direct_)
      {
        PeerMatrix<T, C> xs{*place_.groups, whole, true};
        multiply_blocks(alpha, mine, beta, c0, c, [&](std::size_t, const GramPiece& p, const T*) {
          return xs.all().piece({rank_of(p), p.theirs.offset, place_.inner.offset},
                                {p.theirs.valid, place_.inner.valid});
        });
        xs.close();
        complete_sums(beta, c0, c);
        read_mirrored(c);
        xs.wait();
        return;
      }
    RequestScope<C> received{requests_};
    RequestScope<C> sent{send_requests_};
    gather(mine, *received, *sent);
    multiply_blocks(alpha, mine, beta, c0, c,
                    [&](std::size_t i, const GramPiece& p, const T* gathered) {
                      if (!(*received).empty()) (*received)[i].wait();
                      return stored(gathered, {p.theirs.valid, place_.inner.valid});
                    });
    finish(*sent);
    (*received).clear();
    complete_sums(beta, c0, c);
    exchange(c, *received, *sent);
  }

  /// The size of the workspace, in bytes.
  [[nodiscard]] std::size_t workspace_bytes() const
  {
    return (sums_.size() + gathered_.size() + mine_.size()) * sizeof(T);
  }
  /// Frees the workspace; the next call allocates it again.
  void release_workspace()
  {
    sums_ = Buffer(0), gathered_ = Buffer(0), mine_ = Buffer(0);
    is_allocated_ = false;
  }

 private:
  using Buffer = typename E::template Buffer<T>;

  [[nodiscard]] std::size_t rows() const { return place_.rows[place_.index]; }
  [[nodiscard]] std::size_t first_row(std::size_t group) const
  {
    std::size_t first = 0;
    for (std::size_t i = 0; i < group; ++i) first += place_.rows[i];
    return first;
  }

  void allocate()
  {
    if (std::exchange(is_allocated_, true)) return;
    const auto of_x = [&](const std::vector<GramPiece>& pieces) {
      std::size_t size = 0;
      for (const GramPiece& p : pieces) size += p.theirs.valid * place_.inner.valid;
      return size;
    };
    const auto of_c = [&](const std::vector<GramPiece>& pieces) {
      std::size_t size = 0;
      for (const GramPiece& p : pieces) size += p.shape().size();
      return size;
    };
    if (place_.sharing != nullptr) sums_ = Buffer(PackedTriangle<T>::size(rows()) + of_c(pieces_));
    if (is_direct_) return;
    gathered_ = Buffer(std::max(of_x(pieces_), of_c(from_peers_)));
    mine_ = Buffer(std::max(of_x(from_peers_), of_c(pieces_)));
    requests_.reserve(std::max(pieces_.size(), from_peers_.size()));
    send_requests_.reserve(std::max(pieces_.size(), from_peers_.size()));
  }

  /// Multiplies this rank's block by its own transpose and by those of peers. The results are this
  /// rank's part of the sums, or C if the group is this rank alone.
  /// @param theirs theirs(i, piece, gathered) returns the peer's rows of X for piece i; `gathered`
  /// is the memory for rows that were gathered for it
  template <class F>
  void multiply_blocks(T alpha, const Operand<const T>& mine, T beta, In c0, Out c, F theirs)
  {
    const bool sums = place_.sharing != nullptr;
    if (!sums && beta != T{} && c0.data() != c.data()) engine_.copy(c0, c);
    if (sums)
      packed().multiply(engine_, alpha, mine);
    else
      syrk<E, T>(engine_, Triangle::lower, alpha, mine, beta, diagonal(c));
    for_pieces([&](std::size_t i, const GramPiece& p, T* sum, const T* gathered) {
      const Operand<const T> other = theirs(i, p, gathered);
      cubist::multiply<E, T>(engine_, alpha, rows_of(mine, p.mine), other.t(), sums ? T{} : beta,
                             sums ? Out{sum, p.shape()} : in_rows(c, p));
    });
  }

  /// Sums the parts of the group's ranks, and completes the diagonal block of C.
  void complete_sums(T beta, In c0, Out c)
  {
    if (place_.sharing == nullptr) return mirror(engine_, Triangle::lower, diagonal(c));
    if (sums_.size() > 0) place_.sharing->all_reduce(std::span<T>{sums_.data(), sums_.size()});
    packed().unpack(engine_, beta, diagonal(c0), diagonal(c));
    for_pieces([&](std::size_t, const GramPiece& p, const T* sum, const T*) {
      add_scaled<E, T>(engine_, In{sum, p.shape()}, beta, in_rows(c0, p), in_rows(c, p));
    });
  }

  [[nodiscard]] PackedTriangle<T> packed() { return {sums_.data(), rows()}; }
  template <class V>
  [[nodiscard]] MatrixView<V> diagonal(MatrixView<V> c) const
  {
    return c.block(0, first_row(place_.index), {rows(), rows()});
  }

  /// Returns a contiguous block of X that is stored like X.
  template <class V>
  [[nodiscard]] Operand<V> stored(V* data, Shape shape) const
  {
    return {MatrixView<V>{data, op_shape(op_, shape)}, op_};
  }
  template <class V>
  [[nodiscard]] static Operand<V> rows_of(const Operand<V>& m, const Range& rows)
  {
    return m.block(rows.offset, 0, {rows.valid, m.cols()});
  }
  /// Returns where a piece lies in this rank's rows of C.
  template <class V>
  [[nodiscard]] MatrixView<V> in_rows(MatrixView<V> c, const GramPiece& p) const
  {
    return c.block(p.mine.offset, first_row(p.peer) + p.theirs.offset, p.shape());
  }

  /// Returns where the transpose of a piece that a peer computed lies in this rank's rows of C.
  [[nodiscard]] Out mirrored(Out c, const GramPiece& p) const
  {
    return c.block(p.theirs.offset, first_row(p.peer) + p.mine.offset, op_shape(true, p.shape()));
  }

  /// Calls f(i, piece, its part of the sums, the rows of X that were gathered for it) for each
  /// piece.
  template <class F>
  void for_pieces(F f)
  {
    T* sum = sums_.data() + (place_.sharing ? PackedTriangle<T>::size(rows()) : 0);
    const T* gathered = gathered_.data();
    for (std::size_t i = 0; i < pieces_.size(); ++i)
    {
      const GramPiece& p = pieces_[i];
      f(i, p, sum, gathered);
      if (place_.sharing) sum += p.shape().size();
      if (!is_direct_) gathered += p.theirs.valid * place_.inner.valid;
    }
  }

  [[nodiscard]] int rank_of(const GramPiece& p) const { return place_.ranks[p.peer]; }

  /// Starts to receive the rows of X that this rank needs, and to send those that others need.
  void gather(const Operand<const T>& mine, Requests<C>& received, Requests<C>& sent)
  {
    if (place_.inner.valid == 0) return;
    const auto elements = [&](const GramPiece& p) { return p.theirs.valid * place_.inner.valid; };
    T* next = gathered_.data();
    for (const GramPiece& p : pieces_)
    {
      received.push_back(place_.groups->async_receive(std::span<T>{next, elements(p)}, rank_of(p)));
      next += elements(p);
    }
    T* copy = mine_.data();
    std::span<const T> all;
    for (const GramPiece& p : from_peers_)
    {
      const auto part = rows_of(mine, p.theirs);
      const bool is_whole = p.theirs.valid == rows();
      std::span<const T> message = all;
      if (part.stored().contiguous())
        message = part.stored().elements();
      else if (!is_whole || all.empty())
      {
        const auto to = stored(copy, part.shape());
        engine_.copy(part.stored(), to.stored());
        message = In{to.stored()}.elements();
        copy += elements(p);
      }
      if (is_whole) all = message;
      sent.push_back(place_.groups->async_send(message, rank_of(p)));
    }
  }

  /// Sends the transposes of the pieces of C that this rank computed, and receives those that peers
  /// computed.
  void exchange(Out c, Requests<C>& received, Requests<C>& sent)
  {
    T* next = gathered_.data();
    for (const GramPiece& p : from_peers_)
    {
      received.push_back(
          place_.groups->async_receive(std::span<T>{next, p.shape().size()}, rank_of(p)));
      next += p.shape().size();
    }
    T* copy = mine_.data();
    for (const GramPiece& p : pieces_)
    {
      const Out to{copy, op_shape(true, p.shape())};
      transpose<E, T>(engine_, in_rows(c, p), to);
      sent.push_back(place_.groups->async_send(In{to}.elements(), rank_of(p)));
      copy += p.shape().size();
    }
    next = gathered_.data();
    for (std::size_t i = 0; i < from_peers_.size(); ++i)
    {
      const GramPiece& p = from_peers_[i];
      received[i].wait();
      const Out to = mirrored(c, p);
      engine_.copy(In{next, to.shape()}, to);
      next += to.size();
    }
    finish(sent);
  }

  /// Copies the pieces that peers computed out of their rows of C, and mirrors them.
  void read_mirrored(Out c) requires(ExposesMemory<C>)
  {
    PeerMatrix<T, C> cs{*place_.groups, In{c}, true};
    for (const GramPiece& p : from_peers_)
    {
      const auto piece = cs.all().piece(
          {rank_of(p), p.mine.offset, first_row(place_.index) + p.theirs.offset}, p.shape());
      transpose<E, T>(engine_, piece.stored(), mirrored(c, p));
    }
    cs.close();
    cs.wait();
  }

  static void finish(Requests<C>& requests)
  {
    for (auto& request : requests) request.wait();
    requests.clear();
  }

  GramPlace<C> place_;
  const E& engine_;
  Op op_;
  std::vector<GramPiece> pieces_;      // the pieces that this rank computes
  std::vector<GramPiece> from_peers_;  // the pieces that others compute; `mine` is their rows
  bool is_direct_ = false;             // whether groups read each other's memory
  bool is_allocated_ = false;
  Buffer sums_ = Buffer(0);      // the diagonal block, packed, and the pieces
  Buffer gathered_ = Buffer(0);  // rows of X, then pieces of C that others computed
  Buffer mine_ = Buffer(0);      // what this rank sends
  Requests<C> requests_;
  Requests<C> send_requests_;
};

}  // namespace cubist::CUBIST_ABI::detail
