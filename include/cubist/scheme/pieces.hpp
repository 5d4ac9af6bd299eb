// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Blocks of rows on their way along an axis of the mesh: gathered from all ranks there, or summed
// and scattered to them. Each can travel whole, in one collective, or piece by piece, one block of
// rows after the other, so that ranks multiply what has come. Both send the same words. The objects
// live as long as one product; the memory is the plan's.

#include <cstddef>
#include <utility>
#include <vector>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/scheme/tiles.hpp"

namespace cubist::detail
{

template <class C>
using RequestOf = decltype(std::declval<C&>().async_barrier());

/// How blocks of rows travel along an axis.
enum class Travel : bool
{
  whole,
  piecewise
};

/// The pieces that `along` cuts a matrix into.
template <class C>
[[nodiscard]] Pieces pieces_along(const C& along, Travel travel)
{
  if (travel == Travel::whole) return {};
  return {static_cast<std::size_t>(along.size()), static_cast<std::size_t>(along.rank())};
}

/// A matrix whose blocks of rows come from the ranks along an axis.
template <class T, class C>
class GatherRows
{
 public:
  /// Sends the block `mine` to all, and receives theirs in `all`.
  GatherRows(C& along, Travel travel, MatrixView<const T> mine, MatrixView<T> all)
      : GatherRows{along, travel, mine, MatrixView<const T>{all}}
  {
    if (along.size() == 1) return;
    if (travel == Travel::whole)
      requests_.push_back(along.async_all_gather(mine.elements(), all.elements()));
    else
      for (std::size_t i = 0; i < pieces_.count; ++i)
        requests_.push_back(along.async_broadcast(mine.elements(), piece_of(all, i).elements(),
                                                  static_cast<int>(i)));
  }

  /// One whose other blocks are in `all` already.
  GatherRows(C& along, Travel travel, MatrixView<const T> mine, MatrixView<const T> all)
      : pieces_{pieces_along(along, travel)}, mine_{mine}, all_{along.size() == 1 ? mine : all}
  {
  }

  [[nodiscard]] Pieces pieces() const { return pieces_; }

  /// Piece i, once it has come.
  [[nodiscard]] MatrixView<const T> operator[](std::size_t i)
  {
    if (pieces_.count > 1 && i == pieces_.own) return mine_;
    if (!requests_.empty()) requests_[i].wait();
    return piece_of(all_, i);
  }

  /// Waits until nobody needs this rank's block any more.
  void finish()
  {
    for (auto& request : requests_) request.wait();
  }

 private:
  template <class V>
  [[nodiscard]] V piece_of(V all, std::size_t i) const
  {
    const std::size_t rows = all.rows() / pieces_.count;
    return all.block(i * rows, 0, {rows, all.cols()});
  }

  Pieces pieces_;
  MatrixView<const T> mine_;
  MatrixView<const T> all_;
  std::vector<RequestOf<C>> requests_;
};

/// A matrix that every rank along an axis has a part of. Its sum is scattered by blocks of rows,
/// each block becoming the sum + beta times what it was.
template <class T, class C, class E>
class ScatterSum
{
 public:
  /// How many blocks of room the sum of one block takes.
  [[nodiscard]] static std::size_t room(const C& along, Travel travel)
  {
    return travel == Travel::whole ? 1 : static_cast<std::size_t>(along.size());
  }

  /// @param part room for this rank's part  @param sum `room` blocks of the size of `mine`
  ScatterSum(C& along, Travel travel, const E& engine, MatrixView<T> part, MatrixView<T> sum,
             T beta, MatrixView<T> mine)
      : along_{along}, engine_{engine}, pieces_{pieces_along(along, travel)}, part_{along.size() ==
                                                                                            1
                                                                                        ? mine
                                                                                        : part},
        sum_{sum}, beta_{beta}, mine_{mine}, travels_{along.size() > 1 && mine.size() > 0}
  {
    for (std::size_t i = 1; travels_ && i < pieces_.count; ++i)
      requests_.push_back(along_.async_receive(received(i).elements(), behind(i)));
  }

  [[nodiscard]] Pieces pieces() const { return pieces_; }

  /// Where, and onto how much of it, this rank's part is to be written.
  [[nodiscard]] MatrixView<T> part() const { return part_; }
  [[nodiscard]] T part_beta() const { return along_.size() == 1 ? beta_ : T{}; }

  /// Sends piece i of the part on its way. Ranks may differ in the order of the pieces.
  void start(std::size_t i)
  {
    if (!travels_) return;
    if (pieces_.count == 1)
      requests_.push_back(along_.async_reduce_scatter(MatrixView<const T>{part_}.elements(),
                                                      (beta_ == T{} ? mine_ : sum_).elements()));
    else if (i != pieces_.own)
      requests_.push_back(along_.async_send(part_of(i).elements(), static_cast<int>(i)));
  }

  /// Waits for this rank's block, and until nobody needs its parts any more.
  void finish()
  {
    for (auto& request : requests_) request.wait();
    if (!travels_) return;
    if (pieces_.count > 1) return add_received();
    if (beta_ != T{}) add(mine_, sum_, beta_, mine_);
  }

 private:
  /// The i-th rank behind this one: sums go around the ring, and end here.
  [[nodiscard]] int behind(std::size_t i) const
  {
    return static_cast<int>((pieces_.own + i) % pieces_.count);
  }
  [[nodiscard]] MatrixView<T> received(std::size_t i) const
  {
    return sum_.block((i - 1) * mine_.rows(), 0, mine_.shape());
  }
  [[nodiscard]] MatrixView<const T> part_of(std::size_t i) const
  {
    return part_.block(i * mine_.rows(), 0, mine_.shape());
  }

  void add_received()
  {
    const auto sum = received(1);
    for (std::size_t i = 2; i < pieces_.count; ++i) add(sum, sum, T{1}, received(i));
    if (beta_ == T{}) return add(mine_, sum, T{1}, part_of(pieces_.own));
    add(sum, sum, T{1}, part_of(pieces_.own));
    add(mine_, sum, beta_, mine_);
  }

  /// out = a + factor b
  void add(MatrixView<T> out, MatrixView<const T> a, T factor, MatrixView<const T> b)
  {
    engine_.map(
        out, [factor](T s, T t) { return s + factor * t; }, a, b);
  }

  C& along_;
  const E& engine_;
  Pieces pieces_;
  MatrixView<T> part_;
  MatrixView<T> sum_;
  T beta_;
  MatrixView<T> mine_;
  bool travels_;
  std::vector<RequestOf<C>> requests_;
};

}  // namespace cubist::detail
