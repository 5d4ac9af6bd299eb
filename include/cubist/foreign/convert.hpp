// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Converts to = alpha op(from) + beta to, between arrays in host memory. All ranks choose the same
// one of four ways, which depends on the communicator and on where the arrays of both matrices are:
//
//   read   If peers can read `from` in place, each rank copies what its part of `to` needs.
//   write  If peers can write to `to` in place, each rank copies its part of `from` there.
//   pack   If ranks share memory, but neither matrix is in it, each rank packs what its peers need
//          into shared memory, from which they read it.
//   send   Otherwise each rank sends one message to each rank that needs elements of it.
//
// If ranks share memory, peers can read and write a DistMatrix in place. They can read and write
// the arrays of a program only if windows expose any memory in place, as on threads.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cubist/comm/communicator.hpp"
#include "cubist/comm/window.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/foreign/conversion_plan.hpp"
#include "cubist/foreign/copy_blocks.hpp"
#include "cubist/foreign/foreign_matrix.hpp"
#include "cubist/foreign/matrix_part.hpp"
#include "cubist/memory/huge_pages.hpp"
#include "cubist/memory/shared_arena.hpp"

namespace cubist::CUBIST_ABI
{

/// The options of to = alpha op(from) + beta to. If beta is 0, `to` is overwritten, NaNs included.
/// If alpha is 0, `from` is not read.
template <Scalar T>
struct ConversionOptions
{
  Op op = Op::none;  ///< the operation on `from`
  T alpha = T{1};    ///< the factor of op(from)
  T beta = T{};      ///< the factor of the old elements of `to`
};

namespace detail
{

/// Memory for elements that are written before they are read.
template <class T, class Allocator>
class MessageBuffer
{
 public:
  explicit MessageBuffer(std::size_t size)
      : size_{size},
        data_{size > 0 ? Allocator{}.allocate(size) : nullptr}
  {
  }
  MessageBuffer(const MessageBuffer&) = delete;
  MessageBuffer& operator=(const MessageBuffer&) = delete;
  ~MessageBuffer()
  {
    if (data_ != nullptr) Allocator{}.deallocate(data_, size_);
  }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  std::size_t size_;
  T* data_;
};

/// Takes the place of the engine if messages are sent from host memory.
struct HostMemory
{
  template <class T>
  using Buffer = std::vector<T>;
};

/// The messages that a rank sends, or those that it receives, one after the other in host memory.
/// If the communicator sends from the memory of engine `E`, there is a copy in that memory.
template <class E, class T>
class Messages
{
 public:
  Messages(const E& engine, std::size_t size)
      : engine_{engine},
        host_{size},
        staged_(in_host_memory<E> ? 0 : size)
  {
  }

  /// The messages in host memory.
  [[nodiscard]] T* host() const { return host_.data(); }
  /// The memory in which the communicator reads or writes elements [begin, begin + size).
  [[nodiscard]] std::span<T> wire(std::size_t begin, std::size_t size)
  {
    return {(in_host_memory<E> ? host_.data() : staged_.data()) + begin, size};
  }
  /// Copies elements from host memory to the memory that they are sent from.
  void upload(std::size_t begin, std::size_t size)
  {
    if constexpr (!in_host_memory<E>)
      engine_.upload(MatrixView<const T>{host_.data() + begin, {1, size}},
                     MatrixView<T>{staged_.data() + begin, {1, size}});
  }
  /// Copies received elements to host memory.
  void download(std::size_t begin, std::size_t size)
  {
    if constexpr (!in_host_memory<E>)
      engine_.download(MatrixView<const T>{staged_.data() + begin, {1, size}},
                       MatrixView<T>{host_.data() + begin, {1, size}});
  }

 private:
  const E& engine_;
  MessageBuffer<T, HugePages<T>> host_;
  typename E::template Buffer<T> staged_;
};

/// One rank's part of a conversion.
/// @tparam A the function that computes an element of the target from one of the source:
/// CopyElement or Combine
/// @tparam E the engine of a DistMatrix that is not in host memory, or HostMemory
template <class C, class E, class T, class A>
class Conversion
{
 public:
  Conversion(C& world, const E& engine, const ConversionPlan& plan,
             const ForeignMatrix<const T>& from, const ForeignMatrix<T>& to, const A& assign)
      : world_{world},
        engine_{engine},
        plan_{plan},
        from_{from},
        to_{to},
        assign_{assign}
  {
  }

  void run()
  {
    if constexpr (ExposesMemory<C> && in_host_memory<E>)
      if (world_.exposes())
      {
        if (!plan_.is_exchange()) return copy_local();
        constexpr bool in_place = exposes_in_place<C>;
        if (from_.exposed() != Shape{} || (in_place && from_.distribution().is_block_cyclic()))
          return read();
        if (to_.exposed() != Shape{} || (in_place && to_.distribution().is_block_cyclic()))
          return write();
        return pack();
      }
    send();
  }

  /// Sends the messages of this rank, and copies what is its own. After that, `from` may change.
  void post()
  {
    auto& m = in_flight_.emplace(engine_, size_of(plan_.receives), size_of(plan_.sends));
    std::size_t at = 0;
    for_each_peer(plan_.receives, [&](Iterator first, Iterator last) {
      const std::size_t size = size_of(first, last);
      m.receives.push_back(world_.async_receive(m.received.wire(at, size), first->peer));
      at += size;
    });
    pack_messages(m.packed.host(), [&](int peer, const T* begin, const T* end) {
      const auto first = static_cast<std::size_t>(begin - m.packed.host());
      const auto size = static_cast<std::size_t>(end - begin);
      m.packed.upload(first, size);
      m.sends.push_back(world_.async_send(m.packed.wire(first, size), peer));
    });
    copy_local();
  }
  /// Waits for the messages, if any are in flight, and assigns their elements.
  void finish()
  {
    if (!in_flight_) return;
    auto& m = *in_flight_;
    auto request = m.receives.begin();
    std::size_t at = 0;
    for_each_peer(plan_.receives, [&](Iterator first, Iterator last) {
      const std::size_t size = size_of(first, last);
      (request++)->wait();
      m.received.download(at, size);
      unpack_message(first, last, m.received.host() + at);
      at += size;
    });
    for (Request& r : m.sends) r.wait();
    in_flight_.reset();
  }
  /// Advances the messages, if any are in flight.
  void advance()
  {
    if (!in_flight_) return;
    for (auto* requests : {&in_flight_->receives, &in_flight_->sends})
      for (Request& r : *requests)
        if (!r.test()) return;
  }

 private:
  using Iterator = std::vector<PatchPair>::const_iterator;
  using Request = decltype(std::declval<C&>().async_barrier());

  /// The messages between `post` and `finish`.
  struct InFlight
  {
    Messages<E, T> received;
    Messages<E, T> packed;
    std::vector<Request> receives = {};
    std::vector<Request> sends = {};

    InFlight(const E& engine, std::size_t to_receive, std::size_t to_send)
        : received{engine, to_receive},
          packed{engine, to_send}
    {
    }
  };

  [[nodiscard]] const LocalArray<const T>& source(const PatchPair& t) const
  {
    return from_.arrays()[plan_.from.all[t.source].array];
  }
  [[nodiscard]] const LocalArray<T>& target(const PatchPair& t) const
  {
    return to_.arrays()[plan_.to.all[t.target].array];
  }
  [[nodiscard]] CommonBlocks blocks(const PatchPair& t) const
  {
    return {plan_.from.sets(plan_.from.all[t.source]), plan_.to.sets(plan_.to.all[t.target]),
            plan_.part};
  }

  void copy_local() const
  {
    for (const PatchPair& t : plan_.local)
      blocks(t).copy(source(t).data, source(t).ld, target(t).data, target(t).ld, assign_);
  }

  /// Returns the leading dimension of every rank's array, and the size of the longest array.
  template <class U>
  std::pair<std::vector<std::uint64_t>, std::size_t> exposed_arrays(const ForeignMatrix<U>& m)
  {
    const auto ranks = static_cast<std::size_t>(world_.size());
    const Distribution& d = m.distribution();
    std::vector<std::uint64_t> lds(ranks, m.exposed().cols);
    std::size_t size = m.exposed().size();
    if (m.exposed() == Shape{})
    {
      const std::uint64_t mine = m.arrays().empty() ? 0 : m.arrays()[0].ld;
      world_.all_gather(std::span{&mine, 1}, lds);
      for (int r = 0; r < d.ranks(); ++r)
        size = std::max(size, array_length(d.local_shape(r), d.local_order(r),
                                           lds[static_cast<std::size_t>(r)]));
    }
    return {std::move(lds), size};
  }
  /// Returns this rank's array, as a window exposes it.
  template <class U>
  std::span<U> exposed_array(const ForeignMatrix<U>& m) const
  {
    if (m.arrays().empty()) return {};
    const Distribution& d = m.distribution();
    const LocalArray<U>& a = m.arrays()[0];
    const std::size_t size = m.exposed() != Shape{} ? m.exposed().size()
                                                    : array_length(d.local_shape(m.rank()),
                                                                   d.local_order(m.rank()), a.ld);
    return {size > 0 ? a.data : nullptr, size};
  }

  void read()
  {
    const auto [lds, size] = exposed_arrays(from_);
    auto window = world_.expose(exposed_array(from_), size);
    copy_local();
    for (const PatchPair& t : plan_.receives)
      blocks(t).copy(window[t.peer].data(), lds[static_cast<std::size_t>(t.peer)], target(t).data,
                     target(t).ld, assign_);
    window.close();
    window.wait();
  }

  void write()
  {
    const auto [lds, size] = exposed_arrays(to_);
    auto window = world_.open(exposed_array(to_), size);
    for (const auto* transfers : {&plan_.local, &plan_.sends})
      for (const PatchPair& t : *transfers)
        blocks(t).copy(source(t).data, source(t).ld, window[t.peer].data(),
                       lds[static_cast<std::size_t>(t.peer)], assign_);
    window.close();
    window.wait();
  }

  /// Packs what this rank sends, and calls f(peer, first element, end) for each peer.
  template <class F>
  void pack_messages(T* buffer, F f) const
  {
    for_each_peer(plan_.sends, [&](Iterator first, Iterator last) {
      T* const begin = buffer;
      for (auto t = first; t != last; ++t)
        buffer = blocks(*t).pack(source(*t).data, source(*t).ld, buffer);
      f(first->peer, begin, buffer);
    });
  }
  void unpack_message(Iterator first, Iterator last, const T* message) const
  {
    for (auto t = first; t != last; ++t)
      message = blocks(*t).unpack(message, target(*t).data, target(*t).ld, assign_);
  }

  void pack()
  {
    const auto ranks = static_cast<std::size_t>(world_.size());
    const MessageBuffer<T, ArenaAllocator<T>> packed{size_of(plan_.sends)};
    std::vector<std::uint64_t> offsets(ranks);  // the offsets of the messages to all ranks
    pack_messages(packed.data(), [&](int peer, const T* begin, const T*) {
      offsets[static_cast<std::size_t>(peer)] = static_cast<std::uint64_t>(begin - packed.data());
    });
    std::vector<std::uint64_t> offsets_of_mine(ranks);  // offsets of the messages from all ranks
    world_.all_to_all(offsets, offsets_of_mine);
    std::vector<std::uint64_t> size{packed.size()};
    world_.all_reduce(size, ReduceOp::max);
    auto window =
        world_.expose(std::span<const T>{packed.data(), packed.size()}, std::size_t{size[0]});
    copy_local();
    for_each_peer(plan_.receives, [&](Iterator first, Iterator last) {
      unpack_message(first, last,
                     window[first->peer].data() +
                         offsets_of_mine[static_cast<std::size_t>(first->peer)]);
    });
    window.close();
    window.wait();
  }

  void send()
  {
    post();
    finish();
  }

  [[nodiscard]] static std::size_t size_of(Iterator first, Iterator last)
  {
    std::size_t n = 0;
    for (auto t = first; t != last; ++t) n += t->elements;
    return n;
  }
  [[nodiscard]] static std::size_t size_of(const std::vector<PatchPair>& transfers)
  {
    return size_of(transfers.begin(), transfers.end());
  }

  C& world_;
  const E& engine_;
  const ConversionPlan& plan_;
  const ForeignMatrix<const T>& from_;
  const ForeignMatrix<T>& to_;
  A assign_;
  std::optional<InFlight> in_flight_;
};

/// Computes to = beta to for this rank's elements of a part.
template <class T>
void scale_own(const ForeignMatrix<T>& to, MatrixPart part, const Combine<T>& beta)
{
  const Patches patches = to.distribution().patches();
  for (std::size_t k = patches.begin(to.rank()); k < patches.end(to.rank()); ++k)
  {
    const LocalArray<T>& a = to.arrays()[patches.all[k].array];
    const StoredSets sets = patches.sets(patches.all[k]);
    CommonBlocks{sets, sets, part}.for_each([&](const CommonRun& rows, const CommonRun& cols) {
      for (std::size_t i = 0; i < rows.size; ++i)
        beta.scale(a.data + (rows.target + i) * a.ld + cols.target, cols.size);
    });
  }
}

/// @throws ShapeError unless the shapes fit, MeshError for a matrix on another communicator
template <class C, class T>
void require_convertible(const C& world, const ForeignMatrix<const T>& from,
                         const ForeignMatrix<T>& to, Op op)
{
  const Shape got = op_shape(op, from.shape());
  require<ShapeError>(got == to.shape(), "got a matrix of ", from.shape(),
                      op == Op::none ? "" : ", transposed,", " for one of ", to.shape(),
                      ", so their elements do not correspond; give sub-matrices of the same shape");
  const auto require_on_world = [&](int rank, int ranks) {
    require<MeshError>(rank == world.rank() && ranks == world.size(),
                       "got a matrix that was made as rank ", rank, " of ", ranks,
                       " for a conversion on rank ", world.rank(), " of ", world.size(),
                       ", so elements would reach other ranks; make both matrices on the "
                       "communicator that converts them");
  };
  require_on_world(from.rank(), from.ranks());
  require_on_world(to.rank(), to.ranks());
}

/// Computes to = alpha op(from) + beta to in a part of `to`.
template <class C, class E, class T>
void convert(C& world, const E& engine, const ForeignMatrix<const T>& from,
             const ForeignMatrix<T>& to, const ConversionOptions<T>& how, MatrixPart part)
{
  require_convertible(world, from, to, how.op);
  const bool conjugates = ComplexScalar<T> && how.op == Op::adjoint;
  const Combine<T> combine{how.alpha, conjugates, how.beta};
  if (how.alpha == T{}) return scale_own(to, part, combine);
  const ConversionPlan plan{from.distribution(), to.distribution(), how.op, part,
                            world.rank(),        world.size()};
  if (how.alpha == T{1} && how.beta == T{} && !conjugates)
    Conversion<C, E, T, CopyElement>{world, engine, plan, from, to, {}}.run();
  else
    Conversion<C, E, T, Combine<T>>{world, engine, plan, from, to, combine}.run();
}

/// A conversion in messages that is in flight while its rank computes. All ranks start and finish
/// theirs in the same order.
template <class C, class T>
class ConversionInFlight
{
 public:
  /// Starts it. After that, `from` may change.
  ConversionInFlight(C& world, const ForeignMatrix<const T>& from, const ForeignMatrix<T>& to,
                     const ConversionOptions<T>& how = {}, MatrixPart part = MatrixPart::all)
      : from_{from},
        to_{to},
        plan_{from.distribution(), to.distribution(), how.op, part, world.rank(), world.size()},
        conversion_{world, host_, plan_,
                    from_, to_,   {how.alpha, ComplexScalar<T> && how.op == Op::adjoint, how.beta}}
  {
    require_convertible(world, from, to, how.op);
    conversion_.post();
  }
  ConversionInFlight(ConversionInFlight&&) = delete;

  /// Advances it, and all other calls of this rank.
  void advance() { conversion_.advance(); }
  /// Returns when `to` is complete.
  void finish() { conversion_.finish(); }

 private:
  ForeignMatrix<const T> from_;
  ForeignMatrix<T> to_;
  HostMemory host_;
  ConversionPlan plan_;
  Conversion<C, HostMemory, T, Combine<T>> conversion_;
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
