// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The scheduler of simulated ranks. Each rank is a fiber of one thread, and runs until it waits.
// Then the rank with the earliest clock continues, after everything that happens before its time.
// So everything happens in the order of simulated time, and a result does not depend on the machine
// that simulates.
//
// A comparison with threads: docs/decisions/0032-simulated-time.md.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "cubist/comm/group/failure.hpp"
#include "cubist/core/rank_local.hpp"
#include "cubist/core/repeated_work.hpp"
#include "cubist/machine/machine.hpp"
#include "cubist/simulation/activities.hpp"
#include "cubist/simulation/fiber.hpp"
#include "cubist/simulation/folding.hpp"
#include "cubist/simulation/links.hpp"
#include "cubist/simulation/rank.hpp"

namespace cubist::CUBIST_ABI::detail
{

class Simulation
{
 public:
  using Failure = GroupFailure;

  /// @param overlap whether ranks compute during transfers between nodes
  /// @param replicas  which ranks do the same work
  /// @throws ArgumentError for replicas that the launch cannot have
  Simulation(Machine machine, int ranks, bool overlap = true, const Replicas& replicas = {})
      : machine_{std::move(machine)},
        overlap_{overlap},
        folding_{replicas, ranks, machine_},
        links_{machine_, ranks, folding_},
        activities_{links_.resources(), links_.links()},
        shares_cores_{machine_.shares_cores(ranks)},
        threads_{machine_.threads(ranks)},
        pass_bandwidth_{machine_.pass_bandwidth(ranks)},
        ranks_{static_cast<std::size_t>(ranks)},
        unfinished_{folding_.running(ranks)}
  {
    for (int r = 0; r < ranks; ++r)
    {
      this->rank(r).simulation = this;
      this->rank(r).number = r;
      if (folding_.runs(r))
        ready_.push({0, r});
      else
        this->rank(r).state = SimulatedRank::State::finished;
    }
  }

  [[nodiscard]] const Machine& machine() const { return machine_; }
  [[nodiscard]] bool overlap() const { return overlap_; }
  [[nodiscard]] const Folding& folding() const { return folding_; }
  [[nodiscard]] const SimulatedLinks& links() const { return links_; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] SimulatedRank& rank(int number) { return ranks_[static_cast<std::size_t>(number)]; }

  /// Calls f(seconds) now and then with the clock of the next rank.
  void report_progress_to(std::function<void(double)> f) { progress_ = std::move(f); }

  /// Runs body(rank) for all ranks that run, on this thread, until all have ended. A body must not
  /// throw.
  /// @throws CommunicationError if there is no memory for the stacks of all ranks
  void run(const std::function<void(SimulatedRank&)>& body)
  {
    for (auto& rank : ranks_)
      if (folding_.runs(rank.number))
        rank.fiber = std::make_unique<Fiber>([this, &body, &rank] {
          body(rank);
          finish(rank);
        });
    auto* const outside = std::exchange(SimulatedRank::current(), nullptr);
    auto* const local_outside = std::exchange(rank_local(), nullptr);
    SimulatedRank& first = *choose();
    SimulatedRank::current() = &first;
    thread_.switch_to(*first.fiber);
    SimulatedRank::current() = outside;
    rank_local() = local_outside;
    end();
    for (auto& rank : ranks_) rank.fiber.reset();
  }

  /// Blocks `self` until it is made ready.
  /// @throws PeerFailed, CollectiveMismatch, DeadlockError once a rank has failed
  void block(SimulatedRank& self, const SimulatedWait& waits_for)
  {
    raise();
    self.state = SimulatedRank::State::blocked;
    self.waits_for = &waits_for;
    pass_turn(self);
    raise();
  }

  /// Returns once everything before the time of `self` has happened.
  /// @throws what `block` throws
  void catch_up(SimulatedRank& self)
  {
    raise();
    self.state = SimulatedRank::State::blocked;
    make_ready(self, self.clock);
    pass_turn(self);
    raise();
  }

  /// Lets a blocked rank continue at a time.
  void make_ready(SimulatedRank& rank, double time)
  {
    if (rank.state != SimulatedRank::State::blocked) return;
    rank.state = SimulatedRank::State::ready;
    rank.clock = std::max(rank.clock, time);
    ready_.push({rank.clock, rank.number});
  }

  /// Returns the turn of an activity between ranks, one of which has posted this many calls: ranks
  /// take turns, and within a turn those nearest to each other come first. The order of activities
  /// on one link must be the same for all replicas.
  /// @param distance  between the ranks; for a message, around the ring of its communicator's ranks
  /// @param place  the number of the first rank; for a message, its sender's position on its node
  [[nodiscard]] static std::uint64_t turn_of(std::uint64_t posts, int distance, int place)
  {
    constexpr unsigned bits = 18;  // bits of a rank's number
    return posts << 2 * bits | static_cast<std::uint64_t>(distance) << bits |
           static_cast<std::uint64_t>(place);
  }

  /// Starts an activity at a time that is not in the past.
  void start(double time, double seconds, std::vector<ResourceUse> uses, Activities::OnEnd on_end,
             std::uint64_t turn)
  {
    activities_.start(time, seconds, std::move(uses), std::move(on_end), turn);
  }

  /// Returns the seconds of a product, or of a part of it, on the cores of a rank.
  /// @throws ArgumentError for a scalar whose rates the machine lacks
  [[nodiscard]] double product_seconds(const std::string& scalar, std::size_t scalar_bytes,
                                       ProductSize size, double part = 1) const
  {
    const RateTable& rates = machine_.rates_of(scalar);
    return machine_.call_seconds +
           part * machine_.product_seconds(rates, size, scalar_bytes) / threads_;
  }
  /// The number of cores on which a rank multiplies.
  [[nodiscard]] int threads() const { return threads_; }
  /// The seconds in which a rank reads or writes this many bytes, on one core.
  [[nodiscard]] double pass_seconds(double bytes) const
  {
    return machine_.call_seconds + bytes / pass_bandwidth_;
  }

  /// Called when a program reads a value. Simulated matrices have no elements, so it gets 0; the
  /// first such read prints a warning.
  static void note_zeros()
  {
    static bool is_noted = false;
    if (std::exchange(is_noted, true)) return;
    std::fputs("cubist: the simulated backend computes no elements, so values that the program "
               "reads, such as a loss, are 0\n",
               stderr);
  }

  /// Calls f, in which `self` computes. From the second call for this work on, only time passes,
  /// unless the time depends on what other ranks do.
  /// @pre f() only computes, for a time that depends only on what `work` names
  template <class F>
  void repeat(SimulatedRank& self, const RepeatedWork& work, const F& f)
  {
    if (shares_cores_) return f();
    const auto known = times_.find(work);
    if (known == times_.end())
    {
      const double begin = self.clock;
      const SimulatedRankReport before = self.report;
      f();
      times_[work] = {self.clock - begin, self.report.products - before.products,
                      self.report.passes - before.passes, self.report.flops - before.flops};
      self.clock = begin + (self.clock - begin);  // rounded as on ranks that repeat it
      return;
    }
    const WorkTime& time = known->second;
    self.clock += time.seconds;
    self.report.products += time.products;
    self.report.passes += time.passes;
    self.report.flops += time.flops;
  }

  /// Lets `self` compute for this many seconds on this many cores; it takes longer if others share
  /// them.
  void compute(SimulatedRank& self, double seconds, int cores = 1)
  {
    if (seconds == 0) return;
    if (!shares_cores_)
    {
      self.clock += seconds;
      return;
    }
    start(
        self.clock, seconds, {{links_.cores_of(self.number), cores / links_.cores_together()}},
        [this, &self](double time) { make_ready(self, time); },
        turn_of(self.posts, 0, self.number));
    block(self, Computation{});
  }

  /// Writes bytes of `self` to the disk, which serves one request after the other. Returns the time
  /// at which they are written.
  /// @throws ArgumentError if replicas are folded
  double write(SimulatedRank& self, double bytes)
  {
    require<ArgumentError>(!folding_.is_folded(),
                           "got a write to disk from a replica that stands for others, which would "
                           "wait for the disk one after the other, so its time would be wrong; "
                           "simulate all replicas, without Simulated::options.replicas");
    catch_up(self);
    return disk_is_free_ = std::max(disk_is_free_, self.clock) + bytes / machine_.write_bandwidth;
  }

  /// Fails all ranks, in their current wait or in their next one. Only the first failure counts.
  void fail(Failure failure, std::string message)
  {
    if (failure_ != Failure::none) return;
    failure_ = failure;
    message_ = std::move(message);
    for (auto& rank : ranks_) make_ready(rank, rank.clock);
  }

  /// @throws what `block` throws
  void raise() const { raise_failure(failure_, message_); }

 private:
  struct Computation final : SimulatedWait
  {
    [[nodiscard]] std::string describe() const override { return "a computation"; }
  };

  /// Lets the next rank continue, which may be `self`.
  void pass_turn(SimulatedRank& self)
  {
    SimulatedRank& next = *choose();
    if (&next == &self) return;
    self.local = std::exchange(rank_local(), next.local);
    SimulatedRank::current() = &next;
    self.fiber->switch_to(*next.fiber);
  }

  /// Called when the body of `self` has ended.
  void finish(SimulatedRank& self)
  {
    self.state = SimulatedRank::State::finished;
    self.report.seconds = self.clock;
    self.report.memory = self.memory->now;
    self.report.peak_memory = self.memory->peak;
    --unfinished_;
    SimulatedRank* const next = choose();
    rank_local() = next != nullptr ? next->local : nullptr;
    SimulatedRank::current() = next;
    self.fiber->leave(next != nullptr ? *next->fiber : thread_);
  }

  /// Called when all bodies have ended.
  void end()
  {
    activities_ = Activities{};
    failure_ = Failure::none;
    fail(Failure::ended, ended_text);
  }

  /// Returns the rank that runs next, or null if all are finished.
  SimulatedRank* choose()
  {
    while (unfinished_ > 0)
    {
      const double earliest = ready_.empty() ? Activities::never : ready_.top().first;
      const double event = failure_ == Failure::none ? activities_.next() : Activities::never;
      if (event < Activities::never && event <= earliest)
        activities_.step();
      else if (ready_.empty())
        fail(Failure::deadlock, deadlock_text(size(), [this](int number) {
               return rank(number).state == SimulatedRank::State::finished ? nullptr
                                                                           : rank(number).waits_for;
             }));
      else
      {
        SimulatedRank& next = rank(ready_.top().second);
        ready_.pop();
        constexpr std::uint64_t turns_between_reports = 1 << 12;
        if (progress_ && ++turns_ % turns_between_reports == 0) progress_(next.clock);
        return &next;
      }
    }
    return nullptr;
  }

  using Turn = std::pair<double, int>;  // a clock, and its rank

  /// What a piece of work adds to a rank's clock and report.
  struct WorkTime
  {
    double seconds = 0;
    double products = 0;
    double passes = 0;
    double flops = 0;
  };

  Machine machine_;
  bool overlap_;
  Folding folding_;
  SimulatedLinks links_;
  Activities activities_;
  bool shares_cores_;
  int threads_;
  double pass_bandwidth_;
  Fiber thread_;
  std::vector<SimulatedRank> ranks_;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> ready_;
  std::map<RepeatedWork, WorkTime> times_;
  double disk_is_free_ = 0;  // the time from which the disk is free
  std::function<void(double)> progress_;
  std::uint64_t turns_ = 0;
  int unfinished_;
  Failure failure_ = Failure::none;
  std::string message_;
};

}  // namespace cubist::CUBIST_ABI::detail
