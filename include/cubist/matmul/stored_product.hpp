// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The product with a weight that is stored in fewer bits than the network's scalar, on any scheme:
// Y = X W, without gradients.
//
//   X (M, K) S::Input    W (K, N) S::Weight, stored    Y (M, N) S::Output
//
// W stays where it is, whatever the scheme's own algorithm does, because X and Y are small when few
// rows are multiplied:
//
//   1. Redistribute X to rows [kept] cols [the axes of W's rows], unless it is already cut so.
//   2. Multiply by this rank's block of W, which is read once, as it is stored.
//   3. All-reduce the parts of Y, rows [kept] cols [the axes of W's columns], along the axes of W's
//      rows.
//   4. Redistribute the result to Y's layout, unless it already has that.
//
// `kept` are the outermost axes of the rows of both X and Y that do not cut W, such as Data. Ranks
// along other axes that do not cut W compute the same product.
//
// Elements that one rank sends: 2 (k-1)/k M'N' for k ranks along W's rows, blocks M' of rows [kept]
// and N' of W's columns, as Megatron1D sends; and at most M'K' + M'N' where X and Y change their
// layouts.
// Source: Schatz et al., "Parallel Matrix Multiplication: A Systematic Journey", SIAM J. Sci.
// Comput. 38(6), 2016, section 4 (the stationary-B form of SUMMA).

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/algorithm/local_product.hpp"
#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/core/stored_weights.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/shapes.hpp"
#include "cubist/engine/stored_weight.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/matrix/redistribute.hpp"
#include "cubist/mesh/mesh.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// A layer's stored weight, and the product with it.
template <Scalar T, class M>
class StoredProduct
{
 public:
  StoredProduct() = default;
  StoredProduct(const StoredProduct&) = delete;
  StoredProduct& operator=(const StoredProduct&) = delete;
  virtual ~StoredProduct() = default;

  /// The matrices of a product between X and Y. Layers that run one after the other share them.
  struct Workspace
  {
    virtual ~Workspace() = default;
  };

  /// Computes Y = X W. Every rank of the mesh calls it.
  /// @param workspace is null before the first call, or comes from a product on the same scheme
  /// @throws ShapeError for matrices that do not fit
  virtual void forward(const DistView<const T, M>& x, const DistView<T, M>& y,
                       std::unique_ptr<Workspace>& workspace) const = 0;

  /// The columns of W that this rank holds.
  [[nodiscard]] virtual const Range& columns() const = 0;
  /// This rank's block of W.
  [[nodiscard]] virtual const StoredView& stored() const = 0;
  /// W as the value of a parameter. It is valid as long as this object.
  [[nodiscard]] virtual const StoredValue<T>& value() const = 0;

  /// Sets `count` columns of this rank's block, starting at column `at`, to columns [first, …) of
  /// the matrix that `source` reads, in pieces that are small beside the block.
  /// @throws NumericError for elements that are not finite, and what `source` throws
  virtual void set(std::size_t at, std::size_t first, std::size_t count,
                   const BlockSource<T>& source) = 0;
};

namespace detail
{

/// The first axes of a tuple that do not cut matrices of layout L.
template <class L, class Tuple, class Found = Rows<>>
struct FirstUncut
{
  using type = Found;
};
template <class L, class A, class... Rest, class... Found>
requires(!L::template cuts<A>) struct FirstUncut<L, Axes<A, Rest...>, Rows<Found...>>
    : FirstUncut<L, Axes<Rest...>, Rows<Found..., A>>
{
};

template <class Tuple>
struct AsCols;
template <class... A>
struct AsCols<Rows<A...>>
{
  using type = Cols<A...>;
};

/// The size of the pieces in which a stored weight is set. A reader needs up to four times as much:
/// for the piece, for what it reads, for its conversion, and for its transpose.
inline constexpr std::size_t piece_bytes = std::size_t{1} << 18;

template <SchemeType S, class B, RealScalar T>
class StationaryProduct final : public StoredProduct<T, AxisMesh<typename S::Axes, B>>
{
  using M = AxisMesh<typename S::Axes, B>;
  using W = typename S::Weight;
  using RowsOfBoth =
      typename Split<typename S::Input::RowAxes, typename S::Output::RowAxes>::common;
  using Kept = typename FirstUncut<W, RowsOfBoth>::type;
  using Input = Layout<Kept, typename AsCols<typename W::RowAxes>::type>;
  using Part = Layout<Kept, typename W::ColAxes>;
  static constexpr bool sums = !std::is_same_v<typename W::RowAxes, Rows<>>;
  using typename StoredProduct<T, M>::Workspace;
  struct Arranged final : Workspace
  {
    std::optional<DistMatrix<T, Input, M>> x;
    std::optional<DistMatrix<T, Part, M>> y;
  };

 public:
  StationaryProduct(const M& mesh, StoredWeights type, Shape shape, Quanta quanta)
      : mesh_{mesh},
        shape_{shape},
        quanta_{quanta},
        columns_{block_of<W>(mesh, shape, quanta, mesh.rank()).cols},
        weight_{type, block_of<W>(mesh, shape, quanta, mesh.rank()).rows, shape.rows,
                columns_.valid},
        value_{shape, type, [this](const BlockSource<T>& source) {
                 set(0, columns_.offset, columns_.valid, source);
               }}
  {
  }

  void forward(const DistView<const T, M>& x, const DistView<T, M>& y,
               std::unique_ptr<Workspace>& workspace) const override
  {
    require_shape({x.shape.cols, y.shape.cols}, {shape_.rows, shape_.cols});
    require_shape({x.shape.rows, 1}, {y.shape.rows, 1});
    if (!mesh_.active()) return;
    if (!workspace) workspace = std::make_unique<Arranged>();
    [[maybe_unused]] auto& kept = static_cast<Arranged&>(*workspace);
    MatrixView<const T> mine = x.valid();
    if constexpr (!std::is_same_v<typename S::Input, Input>)
    {
      auto& arranged = fit_to(kept.x, x.shape, {x.quanta.rows, quanta_.rows});
      redistribute(x, arranged.view());
      mine = std::as_const(arranged).valid();
    }
    if constexpr (std::is_same_v<typename S::Output, Part>)
      return multiply(mine, y.valid(), y.padded);
    else
    {
      auto& part = fit_to(kept.y, y.shape, {y.quanta.rows, quanta_.cols});
      multiply(mine, part.valid(), part.padded());
      redistribute(std::as_const(part).view(), y);
    }
  }

  [[nodiscard]] const Range& columns() const override { return columns_; }
  [[nodiscard]] const StoredView& stored() const override { return weight_.view(); }
  [[nodiscard]] const StoredValue<T>& value() const override { return value_; }

  void set(std::size_t at, std::size_t first, std::size_t count,
           const BlockSource<T>& source) override
  {
    const Range rows = weight_.rows();
    if (rows.size == 0 || count == 0) return;
    constexpr std::size_t most = piece_bytes / sizeof(T);
    const std::size_t wide =
        source.by_columns ? std::clamp<std::size_t>(most / rows.size, 1, count) : count;
    const std::size_t high = source.by_columns ? rows.size : pad(most / count + 1, q8_block);
    std::vector<T> elements;
    for (std::size_t j = 0; j < count; j += wide)
      for (std::size_t i = 0; i < rows.size; i += high)
      {
        const Shape piece{std::min(high, rows.size - i), std::min(wide, count - j)};
        elements.resize(piece.size());
        const MatrixView<T> read{elements.data(), piece};
        source.read(
            {{rows.offset + i, piece.rows, piece.rows}, {first + j, piece.cols, piece.cols}}, read);
        weight_.set(rows.offset + i, at + j, MatrixView<const T>{read}, source.name);
      }
  }

 private:
  template <class L>
  DistMatrix<T, L, M>& fit_to(std::optional<DistMatrix<T, L, M>>& kept, Shape shape,
                              Quanta quanta) const
  {
    if (!kept || kept->shape() != shape || kept->quanta() != quanta)
      kept.emplace(mesh_, shape, quanta);
    return *kept;
  }

  void multiply(MatrixView<const T> x, MatrixView<T> y, MatrixView<T> padded) const
  {
    if constexpr (ReadsStoredWeights<typename M::Engine, T>)
      mesh_.engine().multiply_stored(x, weight_.view(), y);
    if constexpr (sums) along_axes(mesh_, typename W::RowAxes{}).all_reduce(padded.elements());
  }

  M mesh_;
  Shape shape_;    // of W
  Quanta quanta_;  // of W
  Range columns_;  // of W, on this rank
  StoredWeight weight_;
  StoredValue<T> value_;
};

}  // namespace detail

/// Makes a weight (in, out) of zeros that is stored as `type` says, and the product with it. Every
/// rank of the mesh calls it.
/// @throws ArgumentError for an engine that has no product with such a weight
template <SchemeType S, class B, RealScalar T>
[[nodiscard]] std::shared_ptr<StoredProduct<T, AxisMesh<typename S::Axes, B>>>
make_stored_product(const AxisMesh<typename S::Axes, B>& mesh, StoredWeights type, Shape shape,
                    Quanta quanta)
{
  require<ArgumentError>(detail::ReadsStoredWeights<typename B::Engine, T>,
                         "got weights to be stored as ", to_string(type),
                         " on an engine that multiplies by scalars only, such as a GPU's; store "
                         "scalars, or compute on the host");
  return std::make_shared<detail::StationaryProduct<S, B, T>>(mesh, type, shape, quanta);
}

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_STORED_PRODUCT_INSTANCES(prefix, S, B, T)                                           \
  CUBIST_INSTANCE(prefix, make_stored_product<S, B, T>)
CUBIST_FOR_SCHEMES(CUBIST_STORED_PRODUCT_INSTANCES)

/// How the layers of a network on schemes S and S::Next store their weights. Only programs that
/// make it from StoredWeights compile the products with weights stored in fewer bits.
template <SchemeType S, class B, Scalar T>
class WeightStorage
{
  using Next = typename S::Next;
  template <class Scheme>
  using MeshOf = AxisMesh<typename Scheme::Axes, B>;
  template <class Scheme>
  using Make = std::shared_ptr<StoredProduct<T, MeshOf<Scheme>>> (*)(const MeshOf<Scheme>&,
                                                                     StoredWeights, Shape, Quanta);

 public:
  /// Stores scalars.
  WeightStorage() = default;
  /// Stores weights as `type` says.
  /// @throws ArgumentError for complex numbers in fewer bits
  WeightStorage(StoredWeights type)
      : type_{type}
  {
    require<ArgumentError>(type == StoredWeights::scalar || RealScalar<T>,
                           "got weights to be stored as ", to_string(type),
                           " for complex numbers, but stored weights are real; store scalars");
    if constexpr (RealScalar<T>)
    {
      make_ = &make_stored_product<S, B, T>;
      make_next_ = &make_stored_product<Next, B, T>;
    }
  }

  /// Returns how the layers on S::Next store their weights.
  [[nodiscard]] WeightStorage<Next, B, T> next() const
  {
    static_assert(std::is_same_v<typename Next::Next, S>);
    return {type_, make_next_, make_};
  }

  /// How weights are stored.
  [[nodiscard]] StoredWeights type() const { return type_; }

  /// Makes a weight (in, out) of zeros for a layer on S. Returns null if weights are scalars. Every
  /// rank of the mesh calls it.
  /// @throws as make_stored_product()
  [[nodiscard]] std::shared_ptr<StoredProduct<T, MeshOf<S>>> make(const MeshOf<S>& mesh,
                                                                  Shape shape, Quanta quanta) const
  {
    if (type_ == StoredWeights::scalar) return nullptr;
    return make_(mesh, type_, shape, quanta);
  }

 private:
  template <SchemeType, class, Scalar>
  friend class WeightStorage;
  WeightStorage(StoredWeights type, Make<S> on_s, Make<Next> on_next)
      : type_{type},
        make_{on_s},
        make_next_{on_next}
  {
  }

  StoredWeights type_ = StoredWeights::scalar;
  Make<S> make_ = nullptr;
  Make<Next> make_next_ = nullptr;
};

}  // namespace cubist::CUBIST_ABI
