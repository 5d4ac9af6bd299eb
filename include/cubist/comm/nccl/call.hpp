// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// One rank's part in one call, as NCCL is given it.
//
//   broadcast, reduce, all_reduce, all_gather, reduce_scatter    NCCL's own
//   all_to_all, gather, scatter    a group of sends and receives; a rank's own piece is copied
//   send, receive                  several of them in one group (nccl/queue.hpp)
//   barrier                        an all_reduce of one number
//
// What only moves travels as bytes. What is combined has a type that NCCL knows: complex numbers
// are pairs of reals, as their sums are.

#include <concepts>
#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "cubist/comm/call.hpp"
#include "cubist/comm/call_text.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/device/stream.hpp"

namespace cubist::detail
{

/// @param doing gives what the call was for
/// @throws PeerFailed if NCCL says that another rank is gone, CommunicationError for other errors
template <class Doing>
void nccl_check(ncclResult_t code, const char* call, ncclComm_t comm, Doing doing)
{
  if (code == ncclSuccess || code == ncclInProgress) return;
  const char* last = ncclGetLastError(comm);
  std::string message = std::string{call} + " failed (" + ncclGetErrorString(code);
  if (last != nullptr && *last != '\0') message += std::string{"; "} + last;
  message += ") for " + std::string{doing()};
  if (code == ncclRemoteError)
    throw PeerFailed{message +
                     ", so what this rank waits for cannot come; mend the error of the rank that "
                     "ended"};
  throw CommunicationError{message +
                           ", so its data cannot be trusted; run again with NCCL_DEBUG=WARN, which "
                           "says more"};
}

/// Elements of `T` as NCCL combines them.
template <Element T>
[[nodiscard]] constexpr ncclDataType_t nccl_type()
{
  if constexpr (std::same_as<T, bfloat16>)
    return ncclBfloat16;
  else if constexpr (std::same_as<T, half>)
    return ncclFloat16;
  else if constexpr (Scalar<T>)
    return std::same_as<Real<T>, float> ? ncclFloat32 : ncclFloat64;
  else if constexpr (sizeof(T) == 1)
    return std::signed_integral<T> ? ncclInt8 : ncclUint8;
  else if constexpr (sizeof(T) == 4)
    return std::signed_integral<T> ? ncclInt32 : ncclUint32;
  else
    return std::signed_integral<T> ? ncclInt64 : ncclUint64;
}

struct NcclCall
{
  Collective collective = Collective::barrier;
  ReduceOp op = ReduceOp::sum;
  int peer = 0;
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::size_t count = 0;
  std::size_t element_size = 1;
  std::size_t numbers = 0;  // that NCCL combines: two for each complex number
  ncclDataType_t type = ncclInt8;
  std::string (*element)() = nullptr;

  [[nodiscard]] bool is_message() const
  {
    return collective == Collective::send || collective == Collective::receive;
  }
  [[nodiscard]] bool is_empty() const { return count == 0 && collective != Collective::barrier; }
  [[nodiscard]] std::size_t bytes() const { return count * element_size; }
  /// "all_reduce of 4 double by sum"
  [[nodiscard]] std::string text() const
  {
    return is_message() ? call_text(collective, count, element(), op, peer) + " with rank " +
                              std::to_string(peer)
                        : call_text(collective, count, element(), op, peer);
  }
};

/// @throws ArgumentError for a reduction of 16-bit integers, which NCCL does not know
template <Element T>
[[nodiscard]] NcclCall nccl_call(const Call<T>& call)
{
  constexpr bool unknown = std::integral<T> && sizeof(T) == 2;
  require<ArgumentError>(!(unknown && reduces(call.collective)), "got a ",
                         to_string(call.collective), " of ", element_name<T>(),
                         ", which NCCL cannot combine; use 8, 32 or 64 bits");
  return {call.collective,
          call.op,
          call.peer,
          reinterpret_cast<const std::byte*>(call.send.data()),
          reinterpret_cast<std::byte*>(call.recv.data()),
          call.count,
          sizeof(T),
          call.count * (ComplexScalar<T> ? 2U : 1U),
          nccl_type<T>(),
          &element_name<T>};
}

[[nodiscard]] constexpr ncclRedOp_t nccl_op(ReduceOp op)
{
  return op == ReduceOp::sum ? ncclSum : op == ReduceOp::min ? ncclMin : ncclMax;
}

/// A rank's place in a communicator of NCCL, and the stream on which its calls run.
struct NcclPlace
{
  int rank = 0;
  int size = 1;
  cudaStream_t stream = nullptr;
  int* scratch = nullptr;  // one number on the device, for barriers
};

/// Gives one call to NCCL, which may still be at it when this returns (ncclInProgress).
class NcclIssue
{
 public:
  NcclIssue(ncclComm_t comm, const NcclPlace& place, const NcclCall& call)
      : comm_{comm}, place_{place}, call_{call}
  {
  }

  /// @throws CommunicationError, PeerFailed
  void operator()() const
  {
    const auto& c = call_;
    const auto op = nccl_op(c.op);
    const auto stream = place_.stream;
    switch (c.collective)
    {
    case Collective::barrier:
    case Collective::expose:
      return check(
          ncclAllReduce(place_.scratch, place_.scratch, 1, ncclInt32, ncclMax, comm_, stream),
          "ncclAllReduce");
    case Collective::broadcast:
    {
      // The root's data stays where it is.
      auto* const data = place_.rank == c.peer ? const_cast<std::byte*>(c.send) : c.recv;
      return check(ncclBroadcast(data, data, c.bytes(), ncclInt8, c.peer, comm_, stream),
                   "ncclBroadcast");
    }
    case Collective::reduce:
      return check(ncclReduce(c.send, c.recv, c.numbers, c.type, op, c.peer, comm_, stream),
                   "ncclReduce");
    case Collective::all_reduce:
      return check(ncclAllReduce(c.send, c.recv, c.numbers, c.type, op, comm_, stream),
                   "ncclAllReduce");
    case Collective::all_gather:
      return check(ncclAllGather(c.send, c.recv, c.bytes(), ncclInt8, comm_, stream),
                   "ncclAllGather");
    case Collective::reduce_scatter:
      return check(ncclReduceScatter(c.send, c.recv, c.numbers, c.type, op, comm_, stream),
                   "ncclReduceScatter");
    case Collective::all_to_all:
    case Collective::gather:
    case Collective::scatter:
      return exchange();
    case Collective::send:
      return send(c.send, c.peer);
    case Collective::receive:
      return receive(c.recv, c.peer);
    }
  }

  [[nodiscard]] std::string doing() const
  {
    return call_.text() + " on rank " + std::to_string(place_.rank) + " of " +
           std::to_string(place_.size);
  }

 private:
  void check(ncclResult_t code, const char* name) const
  {
    nccl_check(code, name, comm_, [this] { return doing(); });
  }
  void send(const std::byte* data, int to) const
  {
    check(ncclSend(data, call_.bytes(), ncclInt8, to, comm_, place_.stream), "ncclSend");
  }
  void receive(std::byte* data, int from) const
  {
    check(ncclRecv(data, call_.bytes(), ncclInt8, from, comm_, place_.stream), "ncclRecv");
  }

  /// Pieces to those who get one from this rank, and from those who have one for it.
  void exchange() const
  {
    const bool is_root = place_.rank == call_.peer;
    const bool to_all = call_.collective != Collective::gather;
    const bool from_all = call_.collective != Collective::scatter;
    const auto offset = [&](bool pieces, int rank) {
      return pieces ? static_cast<std::size_t>(rank) * call_.bytes() : 0;
    };
    const auto sends_to = [&](int peer) {
      return call_.collective == Collective::all_to_all || (to_all ? is_root : peer == call_.peer);
    };
    const auto receives_from = [&](int peer) {
      return call_.collective == Collective::all_to_all ||
             (from_all ? is_root : peer == call_.peer);
    };

    const int me = place_.rank;
    if (sends_to(me) && receives_from(me))
    {
      const auto* const from = call_.send + offset(to_all, me);
      auto* const to = call_.recv + offset(from_all, me);
      if (from != to)
        cuda_check(
            cudaMemcpyAsync(to, from, call_.bytes(), cudaMemcpyDeviceToDevice, place_.stream),
            "cudaMemcpyAsync", [this] { return doing(); });
    }
    for (int i = 1; i < place_.size; ++i)
    {
      const int to = (me + i) % place_.size;
      const int from = (me + place_.size - i) % place_.size;
      if (sends_to(to)) send(call_.send + offset(to_all, to), to);
      if (receives_from(from)) receive(call_.recv + offset(from_all, from), from);
    }
  }

  ncclComm_t comm_;
  const NcclPlace& place_;
  const NcclCall& call_;
};

}  // namespace cubist::detail
