// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// One rank's part of one collective or message, translated to NCCL.
//
//   broadcast, reduce, all_reduce, all_gather, reduce_scatter    NCCL's collective
//   all_to_all, gather, scatter    a group of sends and receives; a rank copies its own piece
//   send, receive                  grouped by comm/nccl/queue.hpp
//   barrier                        an all_reduce of one integer
//
// Data that is only moved is sent as bytes. Data that is reduced has an NCCL type; a complex number
// is a pair of reals.

#include <concepts>
#include <cstddef>
#include <string>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "cubist/comm/call.hpp"
#include "cubist/comm/call_text.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/function_ref.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/cuda/stream.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Returns what NCCL was asked for, for errors: "all_reduce of 4 double by sum on rank 0 of 2".
using NcclText = FunctionRef<std::string()>;

/// Throws the error of an NCCL call, unless the call has succeeded or is in progress.
/// @throws PeerFailed if NCCL reports that another rank ended, CommunicationError for other errors
inline void nccl_check(ncclResult_t code, const char* call, ncclComm_t comm, NcclText describe)
{
  if (code == ncclSuccess || code == ncclInProgress) return;
  const char* last = ncclGetLastError(comm);
  std::string message = std::string{call} + " failed (" + ncclGetErrorString(code);
  if (last != nullptr && *last != '\0') message += std::string{"; "} + last;
  message += ") for " + describe();
  if (code == ncclRemoteError)
    throw PeerFailed{message +
                     ", so the data that this rank waits for cannot arrive; fix the error of the "
                     "rank that ended"};
  throw CommunicationError{message +
                           ", so its data is undefined; run again with NCCL_DEBUG=WARN, which "
                           "prints the cause"};
}

/// The NCCL type that is used to reduce elements of `T`.
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

struct NcclCall : CallSignature
{
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::size_t element_size = 1;
  std::size_t reals = 0;  // real numbers to reduce: two for each complex number
  ncclDataType_t type = ncclInt8;

  [[nodiscard]] bool is_message() const { return cubist::is_message(kind); }
  [[nodiscard]] bool is_empty() const { return count == 0 && kind != CallKind::barrier; }
  [[nodiscard]] std::size_t bytes() const { return count * element_size; }
  /// Returns "all_reduce of 4 double by sum".
  [[nodiscard]] std::string text() const
  {
    return detail::text(*this) + (is_message() ? " with rank " + std::to_string(peer) : "");
  }
};

/// Translates a call to NCCL.
/// @throws ArgumentError for a reduction of 16-bit integers, which NCCL does not support
template <Element T>
[[nodiscard]] NcclCall nccl_call(const Call<T>& call)
{
  constexpr bool unsupported = std::integral<T> && sizeof(T) == 2;
  require<ArgumentError>(!(unsupported && reduces(call.kind)), "got a ", to_string(call.kind),
                         " of ", element_name<T>(),
                         ", but NCCL cannot reduce 16-bit integers; use 8, 32 or 64 bits");
  return {CallSignature::of(call),
          reinterpret_cast<const std::byte*>(call.send.data()),
          reinterpret_cast<std::byte*>(call.recv.data()),
          sizeof(T),
          call.count * (ComplexScalar<T> ? 2U : 1U),
          nccl_type<T>()};
}

/// A rank of an NCCL communicator, and the stream on which its calls run.
struct NcclRank
{
  int rank = 0;
  int size = 1;
  cudaStream_t stream = nullptr;
  int* scratch = nullptr;  // device memory for the all_reduce of a barrier

  [[nodiscard]] std::string text() const
  {
    return "rank " + std::to_string(rank) + " of " + std::to_string(size);
  }
};

/// Issues one call to NCCL, which may still be in progress on return (ncclInProgress).
struct NcclIssuer
{
  ncclComm_t comm;
  const NcclRank& rank;
  const NcclCall& call;

  /// @throws CommunicationError, PeerFailed
  void operator()() const
  {
    const auto& c = call;
    const auto op = c.op == ReduceOp::sum ? ncclSum : c.op == ReduceOp::min ? ncclMin : ncclMax;
    const auto stream = rank.stream;
    switch (c.kind)
    {
    case CallKind::barrier:
    case CallKind::expose:
      return check(ncclAllReduce(rank.scratch, rank.scratch, 1, ncclInt32, ncclMax, comm, stream),
                   "ncclAllReduce");
    case CallKind::broadcast:
    {
      // The root broadcasts in place.
      auto* const data = rank.rank == c.peer ? const_cast<std::byte*>(c.send) : c.recv;
      return check(ncclBroadcast(data, data, c.bytes(), ncclInt8, c.peer, comm, stream),
                   "ncclBroadcast");
    }
    case CallKind::reduce:
      return check(ncclReduce(c.send, c.recv, c.reals, c.type, op, c.peer, comm, stream),
                   "ncclReduce");
    case CallKind::all_reduce:
      return check(ncclAllReduce(c.send, c.recv, c.reals, c.type, op, comm, stream),
                   "ncclAllReduce");
    case CallKind::all_gather:
      return check(ncclAllGather(c.send, c.recv, c.bytes(), ncclInt8, comm, stream),
                   "ncclAllGather");
    case CallKind::reduce_scatter:
      return check(ncclReduceScatter(c.send, c.recv, c.reals, c.type, op, comm, stream),
                   "ncclReduceScatter");
    case CallKind::all_to_all:
    case CallKind::gather:
    case CallKind::scatter:
      return exchange();
    case CallKind::send:
      return send(c.send, c.peer);
    case CallKind::receive:
      return receive(c.recv, c.peer);
    }
  }

  [[nodiscard]] std::string describe() const { return call.text() + " on " + rank.text(); }

  void check(ncclResult_t code, const char* name) const
  {
    nccl_check(code, name, comm, [this] { return describe(); });
  }
  void send(const std::byte* data, int to) const
  {
    check(ncclSend(data, call.bytes(), ncclInt8, to, comm, rank.stream), "ncclSend");
  }
  void receive(std::byte* data, int from) const
  {
    check(ncclRecv(data, call.bytes(), ncclInt8, from, comm, rank.stream), "ncclRecv");
  }

  /// Sends a piece to each rank that needs one, and receives the pieces for this rank.
  void exchange() const
  {
    const bool is_root = rank.rank == call.peer;
    const bool to_all = call.kind != CallKind::gather;
    const bool from_all = call.kind != CallKind::scatter;
    const auto offset = [&](bool pieces, int peer) {
      return pieces ? static_cast<std::size_t>(peer) * call.bytes() : 0;
    };
    const auto sends_to = [&](int peer) {
      return call.kind == CallKind::all_to_all || (to_all ? is_root : peer == call.peer);
    };
    const auto receives_from = [&](int peer) {
      return call.kind == CallKind::all_to_all || (from_all ? is_root : peer == call.peer);
    };

    const int me = rank.rank;
    if (sends_to(me) && receives_from(me))
    {
      const auto* const from = call.send + offset(to_all, me);
      auto* const to = call.recv + offset(from_all, me);
      if (from != to)
        cuda_check(cudaMemcpyAsync(to, from, call.bytes(), cudaMemcpyDeviceToDevice, rank.stream),
                   "cudaMemcpyAsync", [this] { return describe(); });
    }
    for (int i = 1; i < rank.size; ++i)
    {
      const int to = (me + i) % rank.size;
      const int from = (me + rank.size - i) % rank.size;
      if (sends_to(to)) send(call.send + offset(to_all, to), to);
      if (receives_from(from)) receive(call.recv + offset(from_all, from), from);
    }
  }
};

}  // namespace cubist::CUBIST_ABI::detail
