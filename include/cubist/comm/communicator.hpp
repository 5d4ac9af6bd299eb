// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The concept of a communicator, and the collectives that every communicator offers.
//
// A communicator implements `rank`, `size`, `split` and `start`, which starts one call and returns
// its request. `Collectives` adds the functions that programs call. It checks arguments in one
// place for all backends, and offers each call in a blocking and an asynchronous form. The
// communicator uses the buffers of an asynchronous call until a wait for its request has returned.
// A request that is destroyed before that abandons the call, and the ranks that wait for it throw
// `PeerFailed`.
//
// All ranks of a communicator call its collectives in the same order, and a rank calls them from
// one thread at a time.

#include <concepts>
#include <cstddef>
#include <span>

#include "cubist/comm/call.hpp"
#include "cubist/comm/element_range.hpp"
#include "cubist/comm/request.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI
{

/// A backend whose header is included. Without cubist/backend/mpi.hpp, Mpi is only declared.
template <class B>
concept BackendWithItsHeader = requires
{
  sizeof(B);
};

/// One rank's handle to a group of ranks that call collectives together.
/// @throws PeerFailed, CollectiveMismatch, DeadlockError, TimeLimitError, CommunicationError from
/// every call
// clang-format off
template <class C>
concept Communicator =
    std::copyable<C> && requires(C c, const C& k, std::span<double> x, std::span<const double> in) {
      { k.rank() } -> std::same_as<int>;
      { k.size() } -> std::same_as<int>;
      { k.remote() } -> std::same_as<bool>;  // whether its ranks are on several nodes
      { c.split(0, 0) } -> std::same_as<C>;  // the ranks of one colour, ordered by key, then rank
      { c.start(Call<double>{}) } -> Request;
      c.barrier();
      c.broadcast(x, 0);
      c.reduce(in, x, 0, ReduceOp::sum);
      c.all_reduce(x, ReduceOp::sum);
      c.all_gather(in, x);
      c.reduce_scatter(in, x, ReduceOp::sum);
      c.all_to_all(in, x);
      c.gather(in, x, 0);
      c.scatter(in, x, 0);
      c.send(in, 0);
      c.receive(x, 0);
      { c.async_broadcast(in, x, 0) } -> Request;
      { c.async_all_gather(in, x) } -> Request;
    };
// clang-format on

/// Returns a communicator of the ranks with this rank's colour, in their present order.
/// colour_of(r) is the colour of rank r; every rank passes the same function.
template <class C, class F>
[[nodiscard]] C split_by(C& c, F colour_of)
{
  if constexpr (requires { c.split_by(colour_of); })
    return c.split_by(colour_of);
  else
    return c.split(colour_of(c.rank()), c.rank());
}

/// Whether reductions of communicator `C` add in the order of reduction.hpp. If not, a sum is
/// bit-identical on every run, but may differ in its last bits between communicators.
template <class C>
inline constexpr bool sums_in_order = true;
/// Whether each message of communicator `C` completes independently, once its peer has posted the
/// other end. If not, the messages that a rank starts before it waits for one of them form a group,
/// as between ncclGroupStart and ncclGroupEnd.
template <class C>
inline constexpr bool independent_messages = true;

/// A communicator whose ranks may let their peers access memory in place: `open` opens a window
/// (window.hpp).
template <class C, class T>
concept OpensWindows = requires(C c, std::span<T> mine)
{
  c.open(mine, mine.size());
};

namespace detail
{

// These are structs so that the types are looked up only when C is complete.
template <class C, class T>
struct Started
{
  using Request = decltype(std::declval<C&>().start(std::declval<const Call<T>&>()));
};
template <class C, class T>
struct Opened
{
  using Window = decltype(std::declval<C&>().open(std::declval<std::span<T>>(), std::size_t{}));
};

}  // namespace detail

/// The request of a call on communicator C with elements of type T.
template <class C, class T>
using RequestOf = typename detail::Started<C, T>::Request;

/// The type of the window that communicator C opens on elements of type T.
template <class C, class T>
using WindowOf = typename detail::Opened<C, T>::Window;

/// The collectives of communicator `C`, built on its `rank`, `size` and `start`, and its windows,
/// built on its `open`.
///
/// Sizes are in elements. "Pieces" means `size()` equal pieces, one for each rank, in rank order.
/// Send and receive buffers may not overlap, except that a rank's own piece may be in place.
/// @throws ShapeError for buffers of wrong sizes; ArgumentError for a rank that does not exist, or
/// buffers that overlap
template <class C>
class Collectives
{
 public:
  /// Returns when every rank has called it.
  void barrier() { async_barrier().wait(); }
  [[nodiscard]] auto async_barrier() { return begin(Call<int>{CallKind::barrier}); }

  /// Copies the root's `data` to `data` of every other rank.
  template <class Data>
  requires SendReceive<Data, Data>
  void broadcast(Data&& data, int root) { async_broadcast(data, root).wait(); }
  template <class Data>
  requires SendReceive<Data, Data>
  [[nodiscard]] RequestOf<C, ElementOf<Data>> async_broadcast(Data&& data, int root)
  {
    return async_broadcast(data, data, root);
  }
  /// Copies the root's `from` to `to` of every other rank. The root's `to` and the other ranks'
  /// `from` are not accessed.
  template <class In, class Out>
  requires SendReceive<In, Out>
  [[nodiscard]] RequestOf<C, ElementOf<Out>> async_broadcast(const In& from, Out&& to, int root)
  {
    const bool is_root = self().rank() == root;
    Call<ElementOf<Out>> call{.kind = CallKind::broadcast, .peer = root};
    if (is_root)
      call.send = detail::read_span(from);
    else
      call.recv = detail::write_span(to);
    call.count = is_root ? std::size(from) : std::size(to);
    return begin(call);
  }

  /// Combines `in` of all ranks, element by element, into `out` of the root.
  template <class In, class Out>
  requires SendReceive<In, Out>
  void reduce(const In& in, Out&& out, int root, ReduceOp op = ReduceOp::sum)
  {
    async_reduce(in, out, root, op).wait();
  }
  template <class In, class Out>
  requires SendReceive<In, Out>
  [[nodiscard]] RequestOf<C, ElementOf<Out>> async_reduce(const In& in, Out&& out, int root,
                                                          ReduceOp op = ReduceOp::sum)
  {
    const bool is_root = self().rank() == root;
    if (is_root) need(CallKind::reduce, "out", std::size(out), std::size(in));
    return begin(Call<ElementOf<Out>>{
        CallKind::reduce, detail::read_span(in),
        is_root ? detail::write_span(out) : std::span<ElementOf<Out>>{}, std::size(in), root, op});
  }

  /// Combines `data` of all ranks, element by element, in place.
  template <class Data>
  requires SendReceive<Data, Data>
  void all_reduce(Data&& data, ReduceOp op = ReduceOp::sum) { async_all_reduce(data, op).wait(); }
  template <class Data>
  requires SendReceive<Data, Data>
  [[nodiscard]] RequestOf<C, ElementOf<Data>> async_all_reduce(Data&& data,
                                                               ReduceOp op = ReduceOp::sum)
  {
    return begin(Call<ElementOf<Data>>{CallKind::all_reduce, detail::read_span(data),
                                       detail::write_span(data), std::size(data), 0, op});
  }

  /// Concatenates every rank's `mine` into `pieces` on every rank.
  template <class In, class Out>
  requires SendReceive<In, Out>
  void all_gather(const In& mine, Out&& pieces) { async_all_gather(mine, pieces).wait(); }
  template <class In, class Out>
  requires SendReceive<In, Out>
  [[nodiscard]] RequestOf<C, ElementOf<Out>> async_all_gather(const In& mine, Out&& pieces)
  {
    need(CallKind::all_gather, "pieces", std::size(pieces), std::size(mine) * ranks());
    return begin(Call<ElementOf<Out>>{CallKind::all_gather, detail::read_span(mine),
                                      detail::write_span(pieces), std::size(mine)});
  }

  /// Combines `pieces` of all ranks, element by element; each rank receives its piece of the
  /// result.
  template <class In, class Out>
  requires SendReceive<In, Out>
  void reduce_scatter(const In& pieces, Out&& mine, ReduceOp op = ReduceOp::sum)
  {
    async_reduce_scatter(pieces, mine, op).wait();
  }
  template <class In, class Out>
  requires SendReceive<In, Out>
  [[nodiscard]] RequestOf<C, ElementOf<Out>> async_reduce_scatter(const In& pieces, Out&& mine,
                                                                  ReduceOp op = ReduceOp::sum)
  {
    need(CallKind::reduce_scatter, "pieces", std::size(pieces), std::size(mine) * ranks());
    return begin(Call<ElementOf<Out>>{CallKind::reduce_scatter, detail::read_span(pieces),
                                      detail::write_span(mine), std::size(mine), 0, op});
  }

  /// Sends piece i of `pieces` to rank i, which receives it as piece `rank()` of its `received`.
  template <class In, class Out>
  requires SendReceive<In, Out>
  void all_to_all(const In& pieces, Out&& received) { async_all_to_all(pieces, received).wait(); }
  template <class In, class Out>
  requires SendReceive<In, Out>
  [[nodiscard]] RequestOf<C, ElementOf<Out>> async_all_to_all(const In& pieces, Out&& received)
  {
    const std::size_t count = std::size(pieces) / ranks();
    need(CallKind::all_to_all, "pieces", std::size(pieces), count * ranks());
    need(CallKind::all_to_all, "received", std::size(received), std::size(pieces));
    return begin(Call<ElementOf<Out>>{CallKind::all_to_all, detail::read_span(pieces),
                                      detail::write_span(received), count});
  }

  /// Concatenates every rank's `mine` into `pieces` on the root; elsewhere `pieces` may be empty.
  template <class In, class Out>
  requires SendReceive<In, Out>
  void gather(const In& mine, Out&& pieces, int root) { async_gather(mine, pieces, root).wait(); }
  template <class In, class Out>
  requires SendReceive<In, Out>
  [[nodiscard]] RequestOf<C, ElementOf<Out>> async_gather(const In& mine, Out&& pieces, int root)
  {
    if (self().rank() == root)
      need(CallKind::gather, "pieces", std::size(pieces), std::size(mine) * ranks());
    return begin(Call<ElementOf<Out>>{CallKind::gather, detail::read_span(mine),
                                      detail::write_span(pieces), std::size(mine), root});
  }

  /// Sends each rank its piece of the root's `pieces`, which may be empty elsewhere.
  template <class In, class Out>
  requires SendReceive<In, Out>
  void scatter(const In& pieces, Out&& mine, int root) { async_scatter(pieces, mine, root).wait(); }
  template <class In, class Out>
  requires SendReceive<In, Out>
  [[nodiscard]] RequestOf<C, ElementOf<Out>> async_scatter(const In& pieces, Out&& mine, int root)
  {
    if (self().rank() == root)
      need(CallKind::scatter, "pieces", std::size(pieces), std::size(mine) * ranks());
    return begin(Call<ElementOf<Out>>{CallKind::scatter, detail::read_span(pieces),
                                      detail::write_span(mine), std::size(mine), root});
  }

  /// Sends `data` to rank `to`, and may block until it is received. Messages between two ranks keep
  /// their order.
  template <ElementRange Data>
  void send(const Data& data, int to)
  {
    async_send(data, to).wait();
  }
  template <ElementRange Data>
  [[nodiscard]] RequestOf<C, ElementOf<const Data>> async_send(const Data& data, int to)
  {
    return begin(Call<ElementOf<const Data>>{
        CallKind::send, detail::read_span(data), {}, std::size(data), to});
  }

  /// Receives exactly `data.size()` elements from rank `from`.
  template <class Data>
  requires SendReceive<Data, Data>
  void receive(Data&& data, int from) { async_receive(data, from).wait(); }
  template <class Data>
  requires SendReceive<Data, Data>
  [[nodiscard]] RequestOf<C, ElementOf<Data>> async_receive(Data&& data, int from)
  {
    return begin(Call<ElementOf<Data>>{
        CallKind::receive, {}, detail::write_span(data), std::size(data), from});
  }

  /// Lets peers read `mine` in place; returns a window. `mine` has the same size on every rank.
  /// @pre exposes()
  template <ElementRange Data>
  requires OpensWindows<C, const ElementOf<const Data>>
  [[nodiscard]] WindowOf<C, const ElementOf<const Data>> expose(const Data& mine)
  {
    return expose(mine, std::size(mine));
  }
  /// Lets peers read blocks that differ in size. The longest block has `size` elements; `mine` may
  /// be shorter, or empty, and no rank may read beyond its end.
  template <ElementRange Data>
  requires OpensWindows<C, const ElementOf<const Data>>
  [[nodiscard]] WindowOf<C, const ElementOf<const Data>> expose(const Data& mine, std::size_t size)
  {
    return self().open(detail::read_span(mine), size);
  }
  /// Lets peers read and write `mine` in place; returns a window.
  /// @pre exposes()
  template <Element T>
  requires OpensWindows<C, T>
  [[nodiscard]] WindowOf<C, T> expose_writable(std::span<T> mine)
  {
    return self().open(mine, mine.size());
  }

 private:
  C& self() { return static_cast<C&>(*this); }
  std::size_t ranks() { return static_cast<std::size_t>(self().size()); }

  template <Element T>
  RequestOf<C, T> begin(const Call<T>& call)
  {
    require<ArgumentError>(call.peer >= 0 && call.peer < self().size(), "got rank ", call.peer,
                           " as the peer or root of a ", to_string(call.kind),
                           ", but this communicator has no such rank; use one of 0 to ",
                           self().size() - 1);
    require<ArgumentError>(!(ComplexScalar<T> && call.op != ReduceOp::sum), "got the reduction ",
                           to_string(call.op), " of ", element_name<T>(),
                           ", but complex numbers have no order; reduce real parts or magnitudes");
    require<ArgumentError>(
        buffers_fit(call, self().rank()), to_string(call.kind),
        " got a receive buffer that overlaps the send buffer, so received elements would overwrite "
        "elements that have not been sent yet; use two buffers, or pass the rank's own piece in "
        "place");
    return self().start(call);
  }

  void need(CallKind c, const char* buffer, std::size_t got, std::size_t wanted)
  {
    require<ShapeError>(got == wanted, to_string(c), " got ", got, " elements as ", buffer,
                        ", but on ", self().size(), " ranks it needs ", wanted,
                        ", so some would be lost; give it a buffer of that size");
  }
};

}  // namespace cubist::CUBIST_ABI
