// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// One rank's part in one call of ranks that are MPI processes, as messages between pairs of ranks:
// MPI's own collectives either do not go on by themselves or add in an order of their own choice.
//
//   all_gather, all_to_all,  every pair exchanges pieces, all posted at once; of several ranks of a
//     gather, scatter        node one passes on what is gathered from other nodes (mpi_nodes.hpp)
//   reduce_scatter           the same, then the pieces are combined
//   all_reduce               reduce_scatter of shares, then all_gather of shares
//   broadcast                a chain that starts at the root, node by node: a message that has come
//                            goes on to the next rank while those behind it travel
//   reduce                   a chain that ends at the root, each rank adding its elements
//   barrier, lend            a meeting where ranks share memory (mpi_meetings.hpp); else every pair
//                            exchanges what it lends, and a barrier is MPI_Ibarrier, or, where it
//                            must be known who has not come, an empty message between every pair
//
// Pieces are cut into messages of a length that the network carries well, so counts are not bound
// by MPI's 32 bits either. Words: as traffic.hpp counts them; of a chain and of pairs alike.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/call_text.hpp"
#include "cubist/comm/combine.hpp"
#include "cubist/comm/mpi_meetings.hpp"
#include "cubist/comm/mpi_messages.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::detail
{

class MpiCall
{
 public:
  /// Posts what can be posted at once; messages of this call bear `tag`.
  template <Element T>
  void start(const MpiPlace& place, int tag, const Call<T>& call)
  {
    place_ = place;
    collective_ = call.collective;
    op_ = call.op;
    root_ = call.peer;
    count_ = call.count;
    element_size_ = sizeof(T);
    element_ = &element_name<T>;
    combine_ = &combine_bytes<T>;
    send_ = reinterpret_cast<const std::byte*>(call.send.data());
    recv_ = reinterpret_cast<std::byte*>(call.recv.data());
    chained_ = 0;
    sharing_ = false;
    meeting_ = 0;
    messages_.begin(place, tag, to_string(collective_));
    begin();
  }

  /// Moves messages on; says whether the call is complete.
  /// @throws CommunicationError for what MPI reports, CollectiveMismatch
  bool advance()
  {
    if (meeting_ > 0) return meet();
    const auto arrived = [this](std::size_t i) {
      if (i < chained_) pass_on(i);
    };
    do
      if (!messages_.advance(arrived)) return false;
    while (next_phase());
    return true;
  }

  /// Whether the last to come rings for the others.
  [[nodiscard]] bool meets() const { return meeting_ > 0; }

  /// Takes back what peers have not sent yet. What is under way already stays so.
  void cancel() noexcept { messages_.cancel(); }
  /// How many messages are still under way; none is passed on any more.
  std::size_t under_way() noexcept { return messages_.under_way(); }
  /// Leaves the messages under way to MPI; the call can be started anew.
  void forget() noexcept { messages_.forget(); }

  /// "reduce_scatter on rank 3 of 8"
  [[nodiscard]] std::string describe() const { return messages_.describe(); }

  /// "all_reduce of 4 double by sum on ranks {0, 1}"
  [[nodiscard]] std::string text() const
  {
    const bool message = collective_ == Collective::send || collective_ == Collective::receive;
    std::vector<int> ranks(message ? 0 : static_cast<std::size_t>(place_.size));
    std::iota(ranks.begin(), ranks.end(), 0);
    if (message) ranks = {place_.rank, root_};
    // What a loan tells of its block has another size than the block.
    const auto what = collective_ == Collective::lend
                          ? to_string(collective_)
                          : call_text(collective_, count_, element_(), op_, root_);
    return what + " on ranks " + rank_list(in_world(place_, ranks));
  }

  /// "; nothing has come from ranks {2}": whom the call waits for.
  [[nodiscard]] std::string awaited()
  {
    const auto from = meeting_ > 0 ? place_.meetings->missing(meeting_) : messages_.awaited(true);
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
    if (peer >= 0) throw mismatch(peer, tag);
    if (!place_.meetings || messages_.tag() == 0) return;
    int of_meeting = 0;
    const int met = place_.meetings->stranger([&](const Told& told) {
      of_meeting = static_cast<int>(told[0]);
      return place_.tags.differ(of_meeting, messages_.tag());
    });
    if (met >= 0) throw mismatch(met, of_meeting);
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
    if (place_.meetings && (collective_ == Collective::barrier || tells()))
    {
      meeting_ = place_.meetings->next();
      came_ = false;
      return;
    }
    switch (collective_)
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
    case Collective::lend:  // the places of what is lent: mpi_loan.hpp
      return exchange(
          [&](int) {
            return Part{send_, bytes(count_)};
          },
          [&](int peer) { return piece(recv_, peer); });
    case Collective::all_to_all:
      return exchange([&](int peer) { return piece(send_, peer); },
                      [&](int peer) { return piece(recv_, peer); });
    case Collective::gather:
      return exchange(
          [&](int peer) {
            return Part{send_, peer == root_ ? bytes(count_) : 0};
          },
          [&](int peer) { return place_.rank == root_ ? piece(recv_, peer) : Room{}; });
    case Collective::scatter:
      return exchange([&](int peer) { return place_.rank == root_ ? piece(send_, peer) : Part{}; },
                      [&](int peer) {
                        return Room{recv_, peer == root_ ? bytes(count_) : 0};
                      });
    case Collective::reduce_scatter:
      return exchange_to_combine([&](int peer) { return piece(send_, peer); }, bytes(count_));
    case Collective::all_reduce:
      return exchange_to_combine([&](int peer) { return share(send_, peer); },
                                 share(send_, place_.rank).size);
    case Collective::send:
      return messages_.send(root_, {send_, bytes(count_)}, true);
    case Collective::receive:
      return messages_.receive(root_, {recv_, bytes(count_)}, true);
    }
  }

  /// Says whether there is more to do once all messages of a phase have come.
  bool next_phase()
  {
    if (place_.size == 1) return false;
    if (collective_ == Collective::reduce_scatter && !sharing_)
    {
      sharing_ = true;
      combine_received(piece(send_, place_.rank), {recv_, bytes(count_)});
    }
    if (collective_ == Collective::all_reduce && !sharing_)
    {
      sharing_ = true;
      const auto mine = share(recv_, place_.rank);
      combine_received(share(send_, place_.rank), mine);
      messages_.clear();
      exchange(
          [&](int) {
            return Part{mine.data, mine.size};
          },
          [&](int peer) { return share(recv_, peer); });
      return true;
    }
    return false;
  }

  /// A peer called something else, whose messages bear this tag.
  [[nodiscard]] CollectiveMismatch mismatch(int peer, int tag) const
  {
    const auto ranks = in_world(place_, {place_.rank, peer});
    const auto other = place_.tags.collective(tag);
    return CollectiveMismatch{
        "rank " + std::to_string(ranks[0]) + " called " + text() + ", but rank " +
        std::to_string(ranks[1]) + " called " +
        (other != collective_                 ? to_string(other)
         : collective_ == Collective::barrier ? "split, or the other way round"
                                              : "it with another size, type, root or operation") +
        ", so neither can complete; let all ranks of a communicator make the same calls in the "
        "same order, with the same element type, size, root and operation"};
  }

  /// Says whether all have come; then this rank has what they told.
  /// @throws CollectiveMismatch
  bool meet()
  {
    const auto tag = static_cast<std::uint64_t>(messages_.tag());
    if (!came_)
    {
      Told mine{tag};
      if (tells()) std::memcpy(&mine[1], send_, bytes(count_));
      came_ = place_.meetings->come(meeting_, mine);
    }
    if (!came_ || !place_.meetings->complete(meeting_)) return false;
    int stranger = -1;
    std::uint64_t other = tag;
    place_.meetings->hear(meeting_, [&](std::size_t rank, const Told& told) {
      if (told[0] != tag) stranger = static_cast<int>(rank), other = told[0];
      if (tells()) std::memcpy(recv_ + rank * bytes(count_), &told[1], bytes(count_));
    });
    if (stranger >= 0) throw mismatch(stranger, static_cast<int>(other));
    return true;
  }
  [[nodiscard]] bool tells() const
  {
    return collective_ == Collective::lend && bytes(count_) == 2 * sizeof(std::uint64_t);
  }

  [[nodiscard]] std::size_t bytes(std::size_t count) const { return count * element_size_; }
  [[nodiscard]] Part piece(const std::byte* all, int rank) const
  {
    return {all + static_cast<std::size_t>(rank) * bytes(count_), bytes(count_)};
  }
  [[nodiscard]] Room piece(std::byte* all, int rank) const
  {
    return {all + static_cast<std::size_t>(rank) * bytes(count_), bytes(count_)};
  }
  [[nodiscard]] Part share(const std::byte* all, int rank) const
  {
    const auto s = share_of(rank, place_.size, count_);
    return {all + bytes(s.offset), bytes(s.count)};
  }
  [[nodiscard]] Room share(std::byte* all, int rank) const
  {
    const auto s = share_of(rank, place_.size, count_);
    return {all + bytes(s.offset), bytes(s.count)};
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
    copy(part(place_.rank), room(place_.rank));
  }

  /// Sends `part(peer)` to every peer, and receives theirs, of `size` bytes, one behind the other.
  template <class GetPart>
  void exchange_to_combine(GetPart part, std::size_t size)
  {
    if (place_.size == 1) return copy(part(0), {recv_, size});
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
    combine_(op_, inputs_, out.size / element_size_, out.data);
  }

  /// Each rank's messages come from one peer in the order in which that posts or passes them on.
  void begin_all_gather(const MpiNodes& nodes)
  {
    for (const auto& [_, source] : nodes.passed_on())
      messages_.receive(source, piece(recv_, source));
    chained_ = messages_.count();
    const auto passes_on = [&](int source) {
      return std::any_of(nodes.passed_on().begin(), nodes.passed_on().end(),
                         [&](const auto& p) { return p.source == source; });
    };
    for (int i = 1; i < place_.size; ++i)
      if (const int source = around(-i); nodes.directly(source, place_.rank) && !passes_on(source))
        messages_.receive(source, piece(recv_, source));
    for (const auto& [mate, source] : nodes.passed_by_mates())
      messages_.receive(mate, piece(recv_, source));
    for (int i = 1; i < place_.size; ++i)
      if (nodes.directly(place_.rank, around(i))) messages_.send(around(i), {send_, bytes(count_)});
    copy({send_, bytes(count_)}, piece(recv_, place_.rank));
  }

  void begin_barrier()
  {
    if (!place_.tells_whom) return messages_.barrier();
    for (int i = 1; i < place_.size; ++i) messages_.receive(around(-i), {}, true);
    for (int i = 1; i < place_.size; ++i) messages_.send(around(i), {}, true);
  }

  /// From whom a broadcast comes to a rank, and to whom it goes from there; -1 for nobody.
  [[nodiscard]] int before(int rank) const
  {
    if (place_.nodes) return place_.nodes->before(rank, root_);
    return rank == root_ ? -1 : (rank + place_.size - 1) % place_.size;
  }
  [[nodiscard]] int after(int rank) const
  {
    if (place_.nodes) return place_.nodes->after(rank, root_);
    const int next = (rank + 1) % place_.size;
    return next == root_ ? -1 : next;
  }

  /// Whose data the ranks pass on from which this rank receives.
  [[nodiscard]] std::vector<int> sources_behind(const std::vector<int>& from) const
  {
    std::vector<int> ranks;
    if (collective_ == Collective::broadcast)
      for (int r = before(place_.rank); r >= 0 && (r = before(r)) >= 0;) ranks.push_back(r);
    if (collective_ == Collective::reduce)
      for (int r = around(-1); r != (root_ + 1) % place_.size && r != place_.rank;)
        ranks.push_back(r = (r + place_.size - 1) % place_.size);
    if (collective_ == Collective::all_gather && place_.nodes)
      for (const auto& [mate, source] : place_.nodes->passed_by_mates())
        if (std::find(from.begin(), from.end(), mate) != from.end()) ranks.push_back(source);
    return ranks;
  }

  void begin_broadcast()
  {
    const int to = after(place_.rank);
    if (place_.rank == root_)
    {
      if (to >= 0) messages_.send(to, {send_, bytes(count_)});
      return;
    }
    messages_.receive(before(place_.rank), {recv_, bytes(count_)});
    if (to >= 0) chained_ = messages_.count();
  }

  void begin_reduce()
  {
    if (place_.size == 1) return copy({send_, bytes(count_)}, {recv_, bytes(count_)});
    if (around(-1) == root_) return messages_.send(around(1), {send_, bytes(count_)});
    messages_.receive(around(-1), {scratch(bytes(count_)), bytes(count_)});
    chained_ = messages_.count();
  }

  /// Message i of those that are passed on has come.
  void pass_on(std::size_t i)
  {
    if (collective_ == Collective::all_gather) return pass_on_in_node(i);
    const std::size_t offset = i * place_.message_bytes;
    const std::size_t size = std::min(place_.message_bytes, bytes(count_) - offset);
    if (collective_ == Collective::broadcast)
      return messages_.send(after(place_.rank), {recv_ + offset, size});
    auto* const partial = scratch_.get() + offset;
    auto* const out = place_.rank == root_ ? recv_ + offset : partial;
    inputs_.assign({partial, send_ + offset});
    combine_(op_, inputs_, size / element_size_, out);
    if (place_.rank != root_) messages_.send(around(1), {out, size});
  }

  void pass_on_in_node(std::size_t i)
  {
    const auto& passed = place_.nodes->passed_on();
    const std::size_t of_each = chained_ / passed.size();
    const auto whole = piece(static_cast<const std::byte*>(recv_), passed[i / of_each].source);
    const std::size_t offset = i % of_each * place_.message_bytes;
    const std::size_t size = std::min(place_.message_bytes, whole.size - offset);
    for (const int mate : place_.nodes->mates()) messages_.send(mate, {whole.data + offset, size});
  }

  static void copy(Part in, Room out)
  {
    if (out.size != 0 && out.data != in.data) std::memcpy(out.data, in.data, out.size);
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

  MpiPlace place_;
  Collective collective_{};
  ReduceOp op_{};
  int root_ = 0;
  std::size_t count_ = 0;
  std::size_t element_size_ = 1;
  std::string (*element_)() = nullptr;
  Combine combine_ = nullptr;
  const std::byte* send_ = nullptr;
  std::byte* recv_ = nullptr;

  MpiMessages messages_;
  std::size_t chained_ = 0;    // how many of them are to be passed on
  bool sharing_ = false;       // the second phase has begun
  std::uint64_t meeting_ = 0;  // its number, if the call is one
  bool came_ = false;          // to it
  std::vector<const std::byte*> inputs_ = std::vector<const std::byte*>(64);
  std::unique_ptr<std::byte[]> scratch_{new std::byte[small]};
  std::size_t scratch_size_ = small;
};

}  // namespace cubist::detail
