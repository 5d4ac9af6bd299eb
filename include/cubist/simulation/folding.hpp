// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Simulates replicas that do the same work only once. The ranks of one replica run; those of the
// others are folded onto them, and do at every moment what their representatives do.
//
//   rank (s count + d) inner + r    is rank r of replica d, in part s of the launch
//
//   a call of a communicator   begins when its members that run have posted it; its cost is that of
//                              all members
//   links                      are those of the units of ranks that run; a collective loads the
//                              links of all its units alike, so the others need not be simulated
//   a message to or from       stands for the same message of all replicas: it leaves the sender's
//   another replica            link, and enters that of the receiver's representative
//
// This gives the time of the whole launch, to the last bit, if a permutation of the replicas maps
// units to units. That is so if replicas consist of whole units, or units of whole replicas. If
// parts of several replicas send through one link, they are served one after the other, so they are
// not equal. Then as many replicas are simulated as share the largest such unit, or all of them if
// units cut replicas.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

#include "cubist/core/error.hpp"
#include "cubist/machine/machine.hpp"

namespace cubist::CUBIST_ABI
{

/// Replicas of a program that do the same work, such as those along a data axis.
struct Replicas
{
  int outer = 1;  ///< the number of parts of the launch, each with a part of every replica: stages
  int count = 1;  ///< the number of replicas
  int inner = 1;  ///< the number of consecutive ranks in a part of a replica
  /// Whether replicas send messages to each other, such as rows of an embedding's gradient. If not,
  /// only collectives connect replicas.
  bool messages = true;

  /// The number of their ranks, at most the largest int. Later ranks are in no replica.
  [[nodiscard]] int ranks() const
  {
    constexpr long long most = std::numeric_limits<int>::max();
    return static_cast<int>(std::min(most, std::min(most, 1LL * outer * count) * inner));
  }
};

/// Returns the replicas along the data axis of a mesh of scheme `S`, or one if it has no such axis.
template <class S>
[[nodiscard]] Replicas replicas_of(const typename S::Axes::Array& extents)
{
  Replicas replicas;
  int* part = &replicas.outer;
  for (std::size_t i = 0; i < extents.size(); ++i)
    if (S::Axes::name(i) == std::string_view{"data"})
    {
      replicas.count = extents[i];
      part = &replicas.inner;
    }
    else
      *part *= extents[i];
  return replicas;
}

namespace detail
{

class Folding
{
 public:
  Folding() = default;
  /// @throws ArgumentError for replicas without ranks, or with more than `ranks`
  Folding(const Replicas& replicas, int ranks, const Machine& machine)
      : all_{replicas}
  {
    require<ArgumentError>(
        all_.outer >= 1 && all_.count >= 1 && all_.inner >= 1 && all_.ranks() <= ranks, "got ",
        all_.count, " replicas of ", all_.outer, " x ", all_.inner, " ranks for a launch of ",
        ranks,
        ", so it is unclear which ranks do the same; use positive numbers whose product is no "
        "larger than the number of ranks");
    if (all_.count == 1) return;
    simulated_ = 1;
    for (std::size_t level = 0; level + 1 < machine.links.size(); ++level)
      if (machine.links[level].ranks < ranks)
        share(machine.links[level].ranks, all_.outer > 1 || all_.messages, "links");
    if (machine.shares_cores(ranks)) share(machine.on_the_cores(ranks), true, "cores");
  }

  [[nodiscard]] bool is_folded() const { return simulated_ < all_.count; }
  /// The number of replicas that are simulated.
  [[nodiscard]] int simulated() const { return simulated_; }
  /// The number of ranks of a launch that run.
  [[nodiscard]] int running(int ranks) const
  {
    return ranks - (all_.count - simulated_) * all_.outer * all_.inner;
  }

  /// The rank that runs in place of this one.
  [[nodiscard]] int representative(int rank) const
  {
    const int replica = replica_of(rank);
    return rank - (replica - replica % simulated_) * all_.inner;
  }
  [[nodiscard]] bool runs(int rank) const { return representative(rank) == rank; }
  /// Returns `rank` moved cyclically by as many replicas as `moved` is from its representative.
  [[nodiscard]] int move_with(int moved, int rank) const
  {
    if (rank >= all_.ranks()) return rank;
    const int by = replica_of(moved) - replica_of(moved) % simulated_;
    const int replica = replica_of(rank);
    return rank + ((replica - by + all_.count) % all_.count - replica) * all_.inner;
  }

  /// Returns, for example, "1 of 64 equal replicas is simulated"; empty if there is only one
  /// replica.
  [[nodiscard]] std::string text() const
  {
    if (all_.count == 1) return {};
    if (!is_folded() && why_.empty()) return {};
    return std::to_string(simulated_) + " of " + std::to_string(all_.count) +
           (simulated_ == 1 ? " equal replicas is simulated" : " replicas are simulated") +
           (why_.empty() ? "" : ", because " + why_);
  }

 private:
  [[nodiscard]] int replica_of(int rank) const
  {
    return rank >= all_.ranks() ? 0 : rank / all_.inner % all_.count;
  }

  /// Simulates as many replicas as share a resource of units of this many ranks, if they use it.
  void share(int unit, bool is_used, const std::string& what)
  {
    if (all_.inner % unit == 0) return;
    const auto of = [&](int replicas, const std::string& why) {
      if (replicas <= simulated_) return;
      simulated_ = replicas;
      why_ = why + " the " + what + " of " + std::to_string(unit) + " ranks";
    };
    const bool is_whole = unit % all_.inner == 0 && all_.count * all_.inner % unit == 0;
    if (!is_whole) return of(all_.count, "parts of them share");
    if (is_used) of(unit / all_.inner, "that many share");
  }

  Replicas all_;
  int simulated_ = 1;
  std::string why_;
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
