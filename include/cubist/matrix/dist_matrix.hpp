// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A distributed matrix: each rank holds one block, cut as the layout says.
//
// The block is padded with zeros to the same size on every rank; users see only the valid part.
// Code that writes to the padding keeps it zero. An idle rank of the mesh has an empty block.
//
// Dimensions that are cut are padded to multiples of the mesh's quantum. A matrix may have larger
// quanta, which are multiples of the mesh's, for example so that each rank holds whole sequences of
// tokens (rows) or whole attention heads (columns).

#include <algorithm>
#include <cstddef>
#include <iosfwd>
#include <memory>
#include <type_traits>
#include <utility>

#include "cubist/core/block.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/mesh/mesh.hpp"

namespace cubist::CUBIST_ABI
{

/// Maps ranks to the blocks that they hold, for matrices of any shape on a mesh of type M. Ranks
/// are those of the mesh's parent.
template <class M>
class BlockMap
{
 public:
  using Communicator = typename M::Communicator;

  virtual ~BlockMap() = default;
  /// Returns the block of a rank; that of an idle rank is empty.
  [[nodiscard]] virtual Block block(const M& mesh, Shape shape, Quanta quanta, int rank) const = 0;
  /// Whether a rank holds the first replica of its block.
  [[nodiscard]] virtual bool is_primary(const M& mesh, int rank) const = 0;
  /// Returns the ranks that hold replicas of this rank's block, itself included, or null if there
  /// are no others. The first call is collective.
  [[nodiscard]] virtual Communicator* replicas(const M& mesh) const = 0;
  /// Returns the map in which the replicas of a block split it among themselves.
  [[nodiscard]] virtual std::shared_ptr<const BlockMap> parts() const = 0;
};

/// A distributed matrix whose layout is known only at run time: a reference to this rank's block,
/// and the map from ranks to blocks. That suffices to gather, print, save or update the matrix.
template <class T, class M>
struct DistView
{
  M mesh;
  Shape shape;
  Quanta quanta;         ///< rows and columns that are cut are padded to multiples of these
  MatrixView<T> padded;  ///< this rank's block with its padding; rows may have gaps between them
  std::shared_ptr<const BlockMap<M>> blocks;  ///< the block of each rank

  /// Returns the block that a rank of the mesh's parent holds; that of an idle rank is empty.
  [[nodiscard]] Block block(int rank) const { return blocks->block(mesh, shape, quanta, rank); }
  /// Whether a rank holds the first replica of its block.
  [[nodiscard]] bool is_primary(int rank) const { return blocks->is_primary(mesh, rank); }
  /// Returns the ranks that hold replicas of this rank's block, or null if there are no others. The
  /// first call is collective.
  [[nodiscard]] typename M::Communicator* replica_ranks() const { return blocks->replicas(mesh); }
  [[nodiscard]] MatrixView<T> valid() const
  {
    return padded.block(0, 0, block(mesh.rank()).valid());
  }

  /// Returns a view of other memory that is cut in the same way.
  template <class V>
  [[nodiscard]] DistView<V, M> with(MatrixView<V> other) const
  {
    return {mesh, shape, quanta, other, blocks};
  }
  /// Returns the view of a sharded optimizer: replicas split each block among themselves. This
  /// rank's part has no memory yet.
  [[nodiscard]] DistView parts() const
  {
    DistView view{mesh, shape, quanta, {}, blocks->parts()};
    view.padded = {nullptr, view.block(mesh.rank()).padded()};
    return view;
  }

  operator DistView<const T, M>() const requires(!std::is_const_v<T>)
  {
    return with(MatrixView<const T>{padded});
  }
};

namespace detail
{

/// Returns the block of a rank in a matrix of layout `L`.
template <class L, class M>
[[nodiscard]] Block block_of(const M& mesh, Shape shape, Quanta quanta, int rank)
{
  if (rank >= mesh.size()) return {};
  return L::template block<typename M::Axes>(shape, mesh.extents(), mesh.coordinates(rank), quanta);
}

/// A layout on the axes of a mesh, as data. One class serves all layouts, which compiles faster.
struct LayoutAxes
{
  AxisNumbers rows, cols, replicas;
  unsigned replica_bits;
};
template <class A, class... R, class... C, class... Replica>
[[nodiscard]] constexpr LayoutAxes axes_of(Rows<R...>, Cols<C...>, Axes<Replica...>)
{
  return {numbers_of<A, R...>, numbers_of<A, C...>, numbers_of<A, Replica...>,
          A::template bits<Replica...>};
}

/// The blocks of a layout that is not partial, or the parts into which their replicas split them.
template <class M>
class LayoutBlocks final : public BlockMap<M>
{
 public:
  /// @param parts  the parts of these blocks; null for the blocks of parts
  LayoutBlocks(const LayoutAxes& axes, const LayoutBlocks* parts)
      : axes_{axes},
        parts_{parts}
  {
  }

  /// Returns the blocks of layout `L`.
  template <class L>
  [[nodiscard]] static std::shared_ptr<const BlockMap<M>> get()
  {
    using A = typename M::Axes;
    static constexpr LayoutAxes axes = axes_of<A>(typename L::RowAxes{}, typename L::ColAxes{},
                                                  typename PendingAxes<L, A>::type{});
    static const LayoutBlocks of_parts{axes, nullptr}, whole{axes, &of_parts};
    return share(whole);
  }

  [[nodiscard]] Block block(const M& mesh, Shape shape, Quanta quanta, int rank) const override
  {
    if (rank >= mesh.size()) return {};
    const auto at = mesh.coordinates(rank);
    const int* const extents = mesh.extents().data();
    const Block whole = block_by(shape, axes_.rows, axes_.cols, extents, at.data(), quanta);
    if (parts_) return whole;
    const Cut by = cut_by(axes_.replicas, extents, at.data());
    return part_of_block(whole, by.parts, by.index);
  }
  [[nodiscard]] bool is_primary(const M& mesh, int rank) const override
  {
    if (rank >= mesh.size()) return false;
    return !parts_ ||
           cut_by(axes_.replicas, mesh.extents().data(), mesh.coordinates(rank).data()).index == 0;
  }
  [[nodiscard]] typename M::Communicator* replicas(const M& mesh) const override
  {
    return parts_ ? replicas_along(mesh, axes_.replica_bits) : nullptr;
  }
  [[nodiscard]] std::shared_ptr<const BlockMap<M>> parts() const override
  {
    return share(parts_ ? *parts_ : *this);
  }

 private:
  /// Returns a pointer that does not own the object.
  [[nodiscard]] static std::shared_ptr<const BlockMap<M>> share(const LayoutBlocks& blocks)
  {
    return {std::shared_ptr<void>{}, &blocks};
  }

  LayoutAxes axes_;
  const LayoutBlocks* parts_;
};

/// Turns f(i, j) of global indices into a function of indices in a block.
template <class F>
struct GlobalIndexed
{
  F f;
  std::size_t i0;
  std::size_t j0;

  CUBIST_HOST_DEVICE auto operator()(std::size_t i, std::size_t j) const
  {
    return f(i0 + i, j0 + j);
  }
};

/// @throws MeshError unless both are multiples of the mesh's quantum
inline Quanta require_multiples(Quanta quanta, std::size_t quantum)
{
  require<MeshError>(quanta.rows > 0 && quanta.cols > 0 && quanta.rows % quantum == 0 &&
                         quanta.cols % quantum == 0,
                     "got a matrix padded to multiples of ", quanta.rows, " rows and ", quanta.cols,
                     " columns on a mesh with a quantum of ", quantum,
                     ", so the parts of collectives would have unequal lengths; use multiples of "
                     "the mesh's quantum");
  return quanta;
}

/// The elements of a block, in its own memory or in memory that the block's replicas share
/// (matrix/replica_memory.hpp). A copy always has its own memory.
template <class T, class Buffer>
class BlockMemory
{
 public:
  /// @param common the shared memory, or null for its own
  BlockMemory(std::shared_ptr<T> common, std::size_t size)
      : own_(common ? 0 : size),
        common_{std::move(common)},
        size_{common_ ? size : 0}
  {
  }
  BlockMemory(const BlockMemory& other)
      : own_(0)
  {
    *this = other;
  }
  BlockMemory(BlockMemory&&) noexcept = default;
  BlockMemory& operator=(const BlockMemory& other)
  {
    if (this == &other) return *this;
    if (other.common_)
    {
      own_ = Buffer(other.size_);
      std::copy_n(other.common_.get(), other.size_, own_.data());
    }
    else
      own_ = other.own_;
    common_.reset();
    return *this;
  }
  BlockMemory& operator=(BlockMemory&&) noexcept = default;
  ~BlockMemory() = default;

  [[nodiscard]] T* data() { return common_ ? common_.get() : own_.data(); }
  [[nodiscard]] const T* data() const { return common_ ? common_.get() : own_.data(); }
  [[nodiscard]] std::size_t size() const { return common_ ? size_ : own_.size(); }
  [[nodiscard]] bool is_common() const { return common_ != nullptr; }

 private:
  Buffer own_;
  std::shared_ptr<T> common_;
  std::size_t size_ = 0;
};

}  // namespace detail

/// A tag for a matrix that has a shape and blocks but no elements, such as the gradient of a
/// parameter that is not trained.
struct WithoutElements
{
};

template <Scalar T, class L, class M>
class DistMatrix
{
  static_assert(detail::is_layout<L>,
                "this is not a layout, so it does not say how a matrix is cut; "
                "name one, such as Scheme::Input, Scheme::Weight or "
                "Scheme::Output, where this type is");

 public:
  using Value = T;
  using Layout = L;
  using Mesh = M;

  /// Makes a matrix (M, N) of zeros. All ranks of the mesh call it; idle ranks may.
  /// @throws ShapeError if its size in bytes exceeds 64 bits
  DistMatrix(const M& mesh, Shape shape)
      : DistMatrix{mesh, shape, mesh.quantum()}
  {
  }

  /// Makes a matrix whose blocks are padded to other quanta.
  /// @param memory shared by the replicas of a block (matrix/replica_memory.hpp), so that each
  /// computes a part of it; it has as many elements as the padded block. Without it, and in a copy,
  /// each replica has its own memory.
  /// @throws MeshError for quanta that are not multiples of the mesh's
  DistMatrix(M mesh, Shape shape, Quanta quanta, std::shared_ptr<T> memory = nullptr)
      : DistMatrix{std::move(mesh), shape, quanta, std::move(memory), true}
  {
  }
  /// Makes a matrix of this shape without elements; nobody may read or write it.
  DistMatrix(M mesh, Shape shape, Quanta quanta, WithoutElements)
      : DistMatrix{std::move(mesh), shape, quanta, nullptr, false}
  {
  }

  /// Assigns the sum of the parts that the ranks hold, as `sum_partial` does
  /// (matrix/sum_partial.hpp).
  /// @throws ShapeError, MeshError for parts of a different shape or on another mesh
  template <class P>
  requires P::is_partial DistMatrix& operator=(const DistMatrix<T, P, M>& parts)
  {
    sum_partial(parts, *this);
    return *this;
  }

  [[nodiscard]] const M& mesh() const { return mesh_; }
  /// The global shape (M, N).
  [[nodiscard]] Shape shape() const { return shape_; }
  [[nodiscard]] std::size_t rows() const { return shape_.rows; }
  [[nodiscard]] std::size_t cols() const { return shape_.cols; }
  /// The quanta: rows and columns that are cut are padded to multiples of these.
  [[nodiscard]] Quanta quanta() const { return quanta_; }
  /// The block of the global matrix that this rank holds.
  [[nodiscard]] const Block& block() const { return block_; }
  /// Whether the block has memory.
  [[nodiscard]] bool has_elements() const { return storage_.size() >= block_.padded().size(); }

  /// Whether the replicas of this rank's block share its memory.
  [[nodiscard]] bool has_common_memory() const { return storage_.is_common(); }

  /// Returns this rank's shard as the engine's view: an xtensor view in host memory.
  [[nodiscard]] auto local() { return mesh_.engine().view(valid()); }
  [[nodiscard]] auto local() const { return mesh_.engine().view(valid()); }

  /// Returns this rank's shard.
  [[nodiscard]] MatrixView<T> valid() { return padded().block(0, 0, block_.valid()); }
  [[nodiscard]] MatrixView<const T> valid() const { return padded().block(0, 0, block_.valid()); }

  /// Returns this rank's shard with its padding, for collectives and products.
  [[nodiscard]] MatrixView<T> padded() { return {storage_.data(), block_.padded()}; }
  [[nodiscard]] MatrixView<const T> padded() const { return {storage_.data(), block_.padded()}; }

  /// Sets element (i, j) to f(i, j), for global i and j. For a matrix on a device, f must be
  /// callable there (core/host_device.hpp).
  template <class F>
  void generate(F f)
  {
    const detail::GlobalIndexed<F> at{f, block_.rows.offset, block_.cols.offset};
    mesh_.engine().map_indexed(valid(), at);
  }

  /// Returns a reference whose type does not name the layout.
  [[nodiscard]] DistView<T, M> view()
  {
    detail::require_not_partial<L>();
    return {mesh_, shape_, quanta_, padded(), detail::LayoutBlocks<M>::template get<L>()};
  }
  [[nodiscard]] DistView<const T, M> view() const
  {
    detail::require_not_partial<L>();
    return {mesh_, shape_, quanta_, padded(), detail::LayoutBlocks<M>::template get<L>()};
  }

 private:
  DistMatrix(M mesh, Shape shape, Quanta quanta, std::shared_ptr<T> memory, bool has_elements)
      : mesh_{std::move(mesh)},
        shape_{require_countable(shape, sizeof(T))},
        quanta_{detail::require_multiples(quanta, mesh_.quantum())},
        block_{detail::block_of<L>(mesh_, shape, quanta_, mesh_.rank())},
        storage_(std::move(memory),
                 has_elements ? require_countable(block_.padded(), sizeof(T)).size() : 0)
  {
  }

  M mesh_;
  Shape shape_;
  Quanta quanta_;
  Block block_;
  detail::BlockMemory<T, typename M::Engine::template Buffer<T>> storage_;
};

/// Makes the gradient of a parameter: zeros that are cut like `value`, or a matrix without
/// elements.
template <class T, class L, class M>
[[nodiscard]] DistMatrix<T, L, M> gradient_like(const DistMatrix<T, L, M>& value, bool has_elements)
{
  if (has_elements) return {value.mesh(), value.shape(), value.quanta()};
  return {value.mesh(), value.shape(), value.quanta(), WithoutElements{}};
}

/// Does not compile. Print x.local(), this rank's elements, or gather(x) on rank 0.
template <class T, class L, class M>
std::ostream& operator<<(std::ostream&, const DistMatrix<T, L, M>&) = delete;

/// Makes zeros that are cut like `y`: the gradient of an output, for a loss to fill.
template <class T, class L, class M>
[[nodiscard]] DistMatrix<T, L, M> zeros_like(const DistMatrix<T, L, M>& y)
{
  return {y.mesh(), y.shape(), y.quanta()};
}

namespace detail
{

template <class T, class M, class L>
void accept(const DistMatrix<T, L, M>&);

template <class X, class T, class M>
concept DistMatrixOf = requires(const X& x)
{
  accept<T, M>(x);
};

template <class X>
inline constexpr bool is_dist_matrix = false;
template <class T, class L, class M>
inline constexpr bool is_dist_matrix<DistMatrix<T, L, M>> = true;

/// Fails to compile unless X is a distributed matrix of scalar T on a mesh M.
template <class X, class T, class M>
constexpr void require_distributed()
{
  static_assert(DistMatrixOf<X, T, M> || is_dist_matrix<X>,
                "this argument is not distributed, so ranks hold no blocks of it; scatter it "
                "first: cubist::scatter<Scheme::Input>(mesh, X), or for a target "
                "scatter_like(y, T)");
  static_assert(DistMatrixOf<X, T, M> || !is_dist_matrix<X>,
                "this matrix has a different scalar or type of mesh from what is needed here, so "
                "its elements would be misread; create it with the same scalar, scheme "
                "and backend");
}

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
