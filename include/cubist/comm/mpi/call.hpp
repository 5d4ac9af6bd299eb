// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// One rank's part in one call of ranks that are MPI processes, as messages between pairs of ranks:
// MPI's own collectives either do not go on by themselves or add in an order of their own choice.
//
//   all_gather, all_to_all,  every pair exchanges pieces, all posted at once; of several ranks of a
//     gather, scatter        node one passes on what is gathered from other nodes
//     (mpi/topology.hpp)
//   reduce_scatter           the same, then the pieces are combined
//   all_reduce               reduce_scatter of shares, then all_gather of shares
//   broadcast                a chain that starts at the root (mpi/chain.hpp): a message that has
//                            come goes on to the next rank while those behind it travel
//   reduce                   a chain that ends at the root, each rank adding its elements
//   barrier, expose            a meeting where ranks share memory (mpi/barrier.hpp); else every
//   pair
//                            exchanges what it exposes, and a barrier is MPI_Ibarrier, or, where it
//                            must be known who has not come, an empty message between every pair
//
// Pieces are cut into messages of a length that the network carries well, so counts are not bound
// by MPI's 32 bits either. Words: as traffic.hpp counts them; of a chain and of pairs alike.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/call_text.hpp"
#include "cubist/comm/mpi/barrier.hpp"
#include "cubist/comm/mpi/blocks.hpp"
#include "cubist/comm/mpi/chain.hpp"
#include "cubist/comm/mpi/messages.hpp"
#include "cubist/comm/mpi/signature.hpp"
#include "cubist/comm/reduction.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::detail
{

class MpiCall
{
 public:
  /// Posts what can be posted at once; messages of this call bear `tag`.
  template <Element T>
  void start(const MpiContext& place, int tag, const Call<T>& call)
  {
    place_ = place;
    signature_ = MpiSignature::of(call);
    blocks_ = {call, place.size};
    combine_ = &combine_bytes<T>;
    chained_ = 0;
    sharing_ = false;
    messages_.begin(place, tag, to_string(call.collective));
    meets_ = place.meetings != nullptr && (call.collective == Collective::barrier || tells());
    if (meets_)
      meeting_.begin(*place.meetings, tag, tells() ? blocks_.sent() : Part{},
                     blocks_.received().data);
    else
      begin();
  }

  /// Moves messages on; says whether the call is complete.
  /// @throws CommunicationError for what MPI reports, CollectiveMismatch
  bool advance()
  {
    if (meets_) return meet();
    const auto arrived = [this](std::size_t i) {
      if (i < chained_) pass_on(i);
    };
    do
      if (!messages_.advance(arrived)) return false;
    while (next_phase());
    return true;
  }

  /// Whether the last to come rings for the others.
  [[nodiscard]] bool meets() const { return meets_; }

  /// Takes back what peers have not sent yet. What is under way already stays so.
  void cancel() noexcept { messages_.cancel(); }
  /// How many messages are still under way; none is passed on any more.
  std::size_t under_way() noexcept { return messages_.under_way(); }
  /// Leaves the messages under way to MPI; the call can be started anew.
  void forget() noexcept { messages_.forget(); }

  /// "reduce_scatter on rank 3 of 8"
  [[nodiscard]] std::string describe() const { return messages_.describe(); }

  /// "all_reduce of 4 double by sum on ranks {0, 1}"
  [[nodiscard]] std::string text() const { return detail::text(place_, signature_); }

  /// "; nothing has come from ranks {2}": whom the call waits for.
  [[nodiscard]] std::string awaited()
  {
    const auto from = meets_ ? meeting_.missing() : messages_.awaited(true);
    const auto to = messages_.awaited(false);
    std::string t;
    if (!from.empty()) t += "; nothing has come from ranks " + rank_list(in_world(place_, from));
    if (const auto behind = sources_behind(from); !from.empty() && !behind.empty())
      t += ", which pass on what comes from ranks " + rank_list(in_world(place_, behind));
    if (!to.empty())
      t += "; ranks " + rank_list(in_world(place_, to)) + " have not taken what was sent to them";
    return t;
  }

  /// @throws CollectiveMismatch if a peer called something else
  void look_for_mismatch() const
  {
    const auto [peer, tag] = messages_.stranger();
    if (peer >= 0) throw mismatch(place_, signature_, peer, tag);
    if (!place_.meetings || messages_.tag() == 0) return;
    int of_meeting = 0;
    const int met = place_.meetings->stranger([&](const Told& told) {
      of_meeting = static_cast<int>(told[0]);
      return place_.tags.differ(of_meeting, messages_.tag());
    });
    if (met >= 0) throw mismatch(place_, signature_, met, of_meeting);
  }

 private:
  using Combine = void (*)(ReduceOp, const std::vector<const std::byte*>&, std::size_t count,
                           std::byte* out);

  template <Element T>
  static void combine_bytes(ReduceOp op, const std::vector<const std::byte*>& in, std::size_t count,
                            std::byte* out)
  {
    combine(
        op, in.size(), [&](std::size_t i) { return reinterpret_cast<const T*>(in[i]); }, count,
        reinterpret_cast<T*>(out));
  }

  void begin()
  {
    const int root = signature_.root;
    const bool is_root = place_.rank == root;
    switch (signature_.collective)
    {
    case Collective::barrier:
      return begin_barrier();
    case Collective::broadcast:
      return begin_broadcast();
    case Collective::reduce:
      return begin_reduce();
    case Collective::all_gather:
      if (place_.nodes && place_.size > 1) return begin_all_gather(*place_.nodes);
      [[fallthrough]];
    case Collective::expose:  // the places of what is lent: mpi/window.hpp
      return exchange([&](int) { return blocks_.sent(); },
                      [&](int peer) { return blocks_.piece_received(peer); });
    case Collective::all_to_all:
      return exchange([&](int peer) { return blocks_.piece_sent(peer); },
                      [&](int peer) { return blocks_.piece_received(peer); });
    case Collective::gather:
      return exchange([&](int peer) { return peer == root ? blocks_.sent() : Part{}; },
                      [&](int peer) { return is_root ? blocks_.piece_received(peer) : Room{}; });
    case Collective::scatter:
      return exchange([&](int peer) { return is_root ? blocks_.piece_sent(peer) : Part{}; },
                      [&](int peer) { return peer == root ? blocks_.received() : Room{}; });
    case Collective::reduce_scatter:
      return exchange_to_combine([&](int peer) { return blocks_.piece_sent(peer); },
                                 blocks_.bytes());
    case Collective::all_reduce:
      return exchange_to_combine([&](int peer) { return blocks_.share_sent(peer); },
                                 blocks_.share_sent(place_.rank).size);
    case Collective::send:
      return messages_.send(root, blocks_.sent(), true);
    case Collective::receive:
      return messages_.receive(root, blocks_.received(), true);
    }
  }

  /// Says whether there is more to do once all messages of a phase have come.
  bool next_phase()
  {
    if (place_.size == 1) return false;
    if (signature_.collective == Collective::reduce_scatter && !sharing_)
    {
      sharing_ = true;
      combine_received(blocks_.piece_sent(place_.rank), blocks_.received());
    }
    if (signature_.collective == Collective::all_reduce && !sharing_)
    {
      sharing_ = true;
      const auto mine = blocks_.share_received(place_.rank);
      combine_received(blocks_.share_sent(place_.rank), mine);
      messages_.clear();
      exchange(
          [&](int) {
            return Part{mine.data, mine.size};
          },
          [&](int peer) { return blocks_.share_received(peer); });
      return true;
    }
    return false;
  }

  /// @throws CollectiveMismatch
  bool meet()
  {
    MpiBarrierCall::Stranger stranger;
    if (!meeting_.advance(stranger)) return false;
    if (stranger.rank >= 0) throw mismatch(place_, signature_, stranger.rank, stranger.tag);
    return true;
  }
  /// Whether the call is one in which each rank tells something at a meeting.
  [[nodiscard]] bool tells() const
  {
    return signature_.collective == Collective::expose && blocks_.bytes() == MpiBarrierCall::most;
  }

  [[nodiscard]] int around(int steps) const
  {
    return (place_.rank + steps + place_.size) % place_.size;
  }

  /// Sends `part(peer)` to every peer, and receives its into `room(peer)`.
  template <class GetPart, class GetRoom>
  void exchange(GetPart part, GetRoom room)
  {
    for (int i = 1; i < place_.size; ++i) messages_.receive(around(-i), room(around(-i)));
    for (int i = 1; i < place_.size; ++i) messages_.send(around(i), part(around(i)));
    copy_bytes(part(place_.rank), room(place_.rank));
  }

  /// Sends `part(peer)` to every peer, and receives theirs, of `size` bytes, one behind the other.
  template <class GetPart>
  void exchange_to_combine(GetPart part, std::size_t size)
  {
    if (place_.size == 1) return copy_bytes(part(0), blocks_.received());
    const auto peers = static_cast<std::size_t>(place_.size - 1);
    auto* const rooms = scratch(peers * size);
    // In the order of the sum: from the rank behind this one around to the one before.
    for (int i = 1; i < place_.size; ++i)
      messages_.receive(around(i), {rooms + static_cast<std::size_t>(i - 1) * size, size});
    for (int i = 1; i < place_.size; ++i) messages_.send(around(-i), part(around(-i)));
  }

  void combine_received(Part mine, Room out)
  {
    inputs_.clear();
    for (int i = 0; i + 1 < place_.size; ++i)
      inputs_.push_back(scratch_.get() + static_cast<std::size_t>(i) * out.size);
    inputs_.push_back(mine.data);
    combine_(signature_.op, inputs_, out.size / blocks_.element_size(), out.data);
  }

  /// Each rank's messages come from one peer in the order in which that posts or passes them on.
  void begin_all_gather(const MpiTopology& nodes)
  {
    for (const auto& [_, source] : nodes.passed_on())
      messages_.receive(source, blocks_.piece_received(source));
    chained_ = messages_.count();
    const auto passes_on = [&](int source) {
      return std::any_of(nodes.passed_on().begin(), nodes.passed_on().end(),
                         [&](const auto& p) { return p.source == source; });
    };
    for (int i = 1; i < place_.size; ++i)
      if (const int source = around(-i); nodes.directly(source, place_.rank) && !passes_on(source))
        messages_.receive(source, blocks_.piece_received(source));
    for (const auto& [mate, source] : nodes.passed_by_mates())
      messages_.receive(mate, blocks_.piece_received(source));
    for (int i = 1; i < place_.size; ++i)
      if (nodes.directly(place_.rank, around(i))) messages_.send(around(i), blocks_.sent());
    copy_bytes(blocks_.sent(), blocks_.piece_received(place_.rank));
  }

  void begin_barrier()
  {
    if (!place_.tells_whom) return messages_.barrier();
    for (int i = 1; i < place_.size; ++i) messages_.receive(around(-i), {}, true);
    for (int i = 1; i < place_.size; ++i) messages_.send(around(i), {}, true);
  }

  [[nodiscard]] MpiChain chain() const { return {place_, signature_.collective, signature_.root}; }

  void begin_broadcast()
  {
    const int from = chain().before(place_.rank);
    const int to = chain().after(place_.rank);
    if (from >= 0)
      messages_.receive(from, blocks_.received());
    else if (to >= 0)
      messages_.send(to, blocks_.sent());
    if (from >= 0 && to >= 0) chained_ = messages_.count();
  }

  void begin_reduce()
  {
    if (place_.size == 1) return copy_bytes(blocks_.sent(), blocks_.received());
    const int from = chain().before(place_.rank);
    if (from < 0) return messages_.send(chain().after(place_.rank), blocks_.sent());
    messages_.receive(from, {scratch(blocks_.bytes()), blocks_.bytes()});
    chained_ = messages_.count();
  }

  /// Whose data the ranks pass on from which this rank receives.
  [[nodiscard]] std::vector<int> sources_behind(const std::vector<int>& from) const
  {
    const Collective c = signature_.collective;
    if (c == Collective::broadcast || c == Collective::reduce) return chain().behind(place_.rank);
    std::vector<int> ranks;
    if (c == Collective::all_gather && place_.nodes)
      for (const auto& [mate, source] : place_.nodes->passed_by_mates())
        if (std::find(from.begin(), from.end(), mate) != from.end()) ranks.push_back(source);
    return ranks;
  }

  /// Message i of those that are passed on has come.
  void pass_on(std::size_t i)
  {
    if (signature_.collective == Collective::all_gather) return pass_on_in_node(i);
    const auto to = chain().after(place_.rank);
    const std::size_t offset = i * place_.message_bytes;
    const std::size_t size = std::min(place_.message_bytes, blocks_.bytes() - offset);
    std::byte* out = blocks_.received().data;
    if (signature_.collective == Collective::reduce)
    {
      auto* const partial = scratch_.get() + offset;
      out = to >= 0 ? partial : out + offset;
      inputs_.assign({partial, blocks_.sent().data + offset});
      combine_(signature_.op, inputs_, size / blocks_.element_size(), out);
    }
    else
      out += offset;
    if (to >= 0) messages_.send(to, {out, size});
  }

  void pass_on_in_node(std::size_t i)
  {
    const auto& passed = place_.nodes->passed_on();
    const std::size_t of_each = chained_ / passed.size();
    const auto whole = blocks_.piece_received(passed[i / of_each].source);
    const std::size_t offset = i % of_each * place_.message_bytes;
    const std::size_t size = std::min(place_.message_bytes, whole.size - offset);
    for (const int mate : place_.nodes->mates()) messages_.send(mate, {whole.data + offset, size});
  }

  /// Room for `size` bytes, kept for later calls.
  std::byte* scratch(std::size_t size)
  {
    if (size > scratch_size_)
    {
      scratch_.reset(new std::byte[size]);
      scratch_size_ = size;
    }
    return scratch_.get();
  }

  // Calls are used in turn, so each would grow when it meets its first small message.
  static constexpr std::size_t small = 4096;

  MpiContext place_;
  MpiSignature signature_;
  MpiBlocks blocks_;
  Combine combine_ = nullptr;

  MpiMessages messages_;
  std::size_t chained_ = 0;  // how many of them are to be passed on
  bool sharing_ = false;     // the second phase has begun
  MpiBarrierCall meeting_;
  bool meets_ = false;  // instead
  std::vector<const std::byte*> inputs_ = std::vector<const std::byte*>(64);
  std::unique_ptr<std::byte[]> scratch_{new std::byte[small]};
  std::size_t scratch_size_ = small;
};

}  // namespace cubist::detail
