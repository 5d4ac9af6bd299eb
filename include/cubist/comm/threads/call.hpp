// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What happens in one call of ranks that share memory. Nothing is sent: each rank leaves the
// addresses of its buffers with the call, and its peers copy or combine straight from them.
//
// A call goes through stages. A stage waits for a gate (all have posted, the source has posted, all
// pieces are reduced, all have read), does its share of the work, and signals another gate:
//
//   broadcast       source posted -> copy it -> done          the source waits for done
//   all_gather      all posted -> copy all -> done -> all done
//   reduce_scatter  all posted -> reduce my piece -> done -> all done
//   all_reduce      all posted -> reduce piece r in place -> reduced -> copy the others' pieces ->
//                   done -> all done
//   expose            all posted -> read on, until the rank closes its window -> done -> all done

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/reduction.hpp"
#include "cubist/comm/threads/scheduler.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::detail
{

enum class Gate : std::uint8_t
{
  source,
  posted,
  reduced,
  done,
  none
};

enum class CopyWork : std::uint8_t
{
  none,
  copy_source,
  copy_piece,
  gather_pieces,
  exchange_pieces,
  reduce_piece,
  copy_reduced,
  read_on  // what peers have lent, from now on
};

struct Stage
{
  Gate waits_for;
  CopyWork work = CopyWork::none;
  Gate signals = Gate::none;
};

/// What a member of a call does; `source` is the root, or the sender of a message.
inline std::span<const Stage> stages(Collective c, bool source)
{
  static constexpr Stage wait_done[] = {{Gate::done}};
  static constexpr Stage barrier[] = {{Gate::posted}};
  static constexpr Stage copy[] = {{Gate::source, CopyWork::copy_source, Gate::done}};
  static constexpr Stage scatter_root[] = {{Gate::source, CopyWork::copy_piece}, {Gate::done}};
  static constexpr Stage scatter[] = {{Gate::source, CopyWork::copy_piece, Gate::done}};
  static constexpr Stage gather_root[] = {{Gate::posted, CopyWork::gather_pieces, Gate::done}};
  static constexpr Stage all_gather[] = {{Gate::posted, CopyWork::gather_pieces, Gate::done},
                                         {Gate::done}};
  static constexpr Stage all_to_all[] = {{Gate::posted, CopyWork::exchange_pieces, Gate::done},
                                         {Gate::done}};
  static constexpr Stage reduce[] = {{Gate::posted, CopyWork::reduce_piece, Gate::done},
                                     {Gate::done}};
  static constexpr Stage all_reduce[] = {{Gate::posted, CopyWork::reduce_piece, Gate::reduced},
                                         {Gate::reduced, CopyWork::copy_reduced, Gate::done},
                                         {Gate::done}};
  static constexpr Stage expose[] = {{Gate::posted, CopyWork::read_on}, {Gate::done}};
  switch (c)
  {
  case Collective::barrier:
    return barrier;
  case Collective::broadcast:
  case Collective::send:
  case Collective::receive:
    return source ? std::span{wait_done} : std::span<const Stage>{copy};
  case Collective::scatter:
    return source ? std::span<const Stage>{scatter_root} : scatter;
  case Collective::gather:
    return source ? std::span<const Stage>{gather_root} : wait_done;
  case Collective::all_gather:
    return all_gather;
  case Collective::all_to_all:
    return all_to_all;
  case Collective::reduce:
  case Collective::reduce_scatter:
    return reduce;
  case Collective::all_reduce:
    return all_reduce;
  case Collective::expose:
    return expose;
  }
  return {};
}

class ThreadGroup;
struct ThreadCall;

/// One rank's part in a call.
struct ThreadMember final : Waiter
{
  bool advance() override;
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] std::vector<int> awaited() const override;

  ThreadCall* call = nullptr;
  std::size_t index = 0;
  int world_rank = 0;
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::span<const Stage> remaining;
  bool posted = false;
  bool reads_on = false;
};

/// What all ranks of a call must agree on.
struct Signature
{
  Collective collective{};
  std::size_t count = 0;
  std::size_t element_size = 0;
  std::string (*element)() = nullptr;
  int root = 0;
  ReduceOp op{};
  void (*reduce)(const ThreadCall&, std::size_t keeper, std::size_t first, std::size_t count,
                 std::byte* out) = nullptr;

  friend bool operator==(const Signature&, const Signature&) = default;
};

/// A call under way, on all its ranks.
struct ThreadCall
{
  ThreadGroup* group = nullptr;
  int from = -1;  // of a message; a collective has none
  int to = -1;
  std::uint64_t number = 0;
  Signature signature;
  int first_rank = 0;
  std::vector<ThreadMember> members;
  std::array<std::size_t, 4> gates{};
  std::size_t left = 0;
  int readers = 0;
  int revoked_by = -1;

  [[nodiscard]] bool open(Gate g) const
  {
    const auto all = members.size();
    std::size_t target = g == Gate::source ? 1 : all;
    if (g == Gate::done)
    {
      if (signature.collective == Collective::gather) target = 1;
      if (signature.collective == Collective::broadcast ||
          signature.collective == Collective::scatter || from >= 0)
        target = all - 1;
    }
    return gates[static_cast<std::size_t>(g)] >= target;
  }

  [[nodiscard]] Share share(std::size_t member) const
  {
    return share_of(static_cast<int>(member), static_cast<int>(members.size()), signature.count);
  }

  void perform(CopyWork work, const ThreadMember& me) const
  {
    const std::size_t bytes = signature.count * signature.element_size;
    const auto copy = [](std::byte* out, const std::byte* in, std::size_t n) {
      if (n != 0 && out != in) std::memcpy(out, in, n);
    };
    const auto root = static_cast<std::size_t>(signature.root);
    switch (work)
    {
    case CopyWork::none:
    case CopyWork::read_on:
      break;
    case CopyWork::copy_source:
      copy(me.recv, members[from >= 0 ? 0 : root].send, bytes);
      break;
    case CopyWork::copy_piece:
      copy(me.recv, members[root].send + me.index * bytes, bytes);
      break;
    case CopyWork::gather_pieces:
      for (const auto& m : members) copy(me.recv + m.index * bytes, m.send, bytes);
      break;
    case CopyWork::exchange_pieces:
      for (const auto& m : members)
        copy(me.recv + m.index * bytes, m.send + me.index * bytes, bytes);
      break;
    case CopyWork::reduce_piece:
      if (signature.collective == Collective::reduce_scatter)
        return signature.reduce(*this, me.index, me.index * signature.count, signature.count,
                                me.recv);
      else
      {
        const bool rooted = signature.collective == Collective::reduce;
        const auto keeper = rooted ? root : me.index;
        const auto [first, n] = share(me.index);
        return signature.reduce(*this, keeper, first, n,
                                members[keeper].recv + first * signature.element_size);
      }
    case CopyWork::copy_reduced:
      for (const auto& m : members)
      {
        const auto [first, n] = share(m.index);
        copy(me.recv + first * signature.element_size, m.recv + first * signature.element_size,
             n * signature.element_size);
      }
      break;
    }
  }
};

/// Combines elements [first, first + count) of all members, for `keeper`.
template <Element T>
void combine_members(const ThreadCall& call, std::size_t keeper, std::size_t first,
                     std::size_t count, std::byte* out)
{
  const auto in = [&](std::size_t i) {
    const auto m = (keeper + 1 + i) % call.members.size();
    return reinterpret_cast<const T*>(call.members[m].send) + first;
  };
  combine(call.signature.op, call.members.size(), in, count, reinterpret_cast<T*>(out));
}

}  // namespace cubist::detail
