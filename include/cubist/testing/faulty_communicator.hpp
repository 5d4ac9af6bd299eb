// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Injects faults: decorates any communicator so that chosen calls of chosen ranks are delayed,
// fail, or differ from the calls of the other ranks. With it, tests show that a program ends with a
// message, and never hangs or accepts wrong data, whatever fails and wherever it fails.
//
// Windows are forwarded, so direct products run under it, too.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/call_text.hpp"
#include "cubist/comm/communicator.hpp"
#include "cubist/comm/decorator.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI
{

/// A fault in one call of one rank.
struct Fault
{
  /// What happens to the faulty rank.
  enum class Kind : std::uint8_t
  {
    delay,       // the rank sleeps first
    error,       // the call throws CommunicationError, as if the network were broken
    death,       // the process is killed; a thread leaves its body without a message
    wrong_size,  // pieces are one element shorter; barriers and empty calls stay as they are
    wrong_order  // the rank makes a call of another kind first
  };
  Kind kind = Kind::delay;                  ///< what happens
  int rank = 0;                             // the rank within the launch
  std::optional<CallKind> collective = {};  // the kind of call; any kind by default
  std::uint64_t call = 0;  // the index of the call among such calls of the rank, starting at 0
  std::chrono::milliseconds delay{0};  ///< how long a call is delayed
};

/// The faults of one rank. It counts the rank's calls over all communicators.
class RankFaults
{
 public:
  /// @param die ends the rank, and does not return
  RankFaults(std::vector<Fault> faults, int rank, void (*die)())
      : faults_{std::move(faults)},
        rank_{rank},
        die_{die}
  {
    std::erase_if(faults_, [&](const Fault& fault) { return fault.rank != rank; });
  }

  /// Injects the faults of a call, and returns the call to make instead.
  /// @throws CommunicationError if the fault is an error
  template <Communicator C, Element T>
  [[nodiscard]] Call<T> inject(C& inner, Call<T> call)
  {
    const auto of_collective = calls_[static_cast<std::size_t>(call.kind)]++;
    const auto of_all = all_++;
    for (const auto& fault : faults_)
    {
      if (fault.collective.value_or(call.kind) != call.kind) continue;
      const auto number = fault.collective ? of_collective : of_all;
      if (fault.call != number) continue;
      switch (fault.kind)
      {
      case Fault::Kind::delay:
        std::this_thread::sleep_for(fault.delay);
        break;
      case Fault::Kind::error:
        throw CommunicationError{
            text(detail::CallSignature::of(call)) + " failed as call " + std::to_string(number) +
            " of rank " + std::to_string(rank_) +
            ", because a fault was injected, so its data is incomplete; launch without the fault"};
      case Fault::Kind::death:
        die_();
        break;
      case Fault::Kind::wrong_size:
        call = shorter(call);
        break;
      case Fault::Kind::wrong_order:
        call_another(inner, call.kind);
        break;
      }
    }
    return call;
  }

 private:
  template <Element T>
  [[nodiscard]] static Call<T> shorter(Call<T> call)
  {
    if (call.count == 0) return call;
    const auto of = [&](auto span) {
      return span.first(span.size() / call.count * (call.count - 1));
    };
    call.send = of(call.send);
    call.recv = of(call.recv);
    --call.count;
    return call;
  }

  template <Communicator C>
  static void call_another(C& inner, CallKind collective)
  {
    if (collective != CallKind::barrier) return inner.barrier();
    std::array<int, 1> x{};
    inner.all_reduce(x);
  }

  std::vector<Fault> faults_;
  int rank_;
  void (*die_)();
  std::array<std::uint64_t, call_kind_count> calls_{};
  std::uint64_t all_ = 0;
};

/// A communicator that injects its rank's faults, here and in every communicator split from it.
template <Communicator C>
class FaultyCommunicator : public CommunicatorDecorator<FaultyCommunicator<C>, C>
{
 public:
  /// Injects faults in the calls of `inner`.
  FaultyCommunicator(C inner, std::shared_ptr<RankFaults> faults)
      : CommunicatorDecorator<FaultyCommunicator, C>{std::move(inner)},
        faults_{std::move(faults)}
  {
  }

  /// Makes the call with its faults.
  template <Element T, class Begin>
  [[nodiscard]] auto on_call(const Call<T>& call, Begin begin)
  {
    return begin(faults_->inject(this->inner(), call));
  }
  /// Opens a window whose block has the call's faults.
  template <Element T, class Open>
  [[nodiscard]] auto on_window(const Call<T>& call, Open open)
  {
    return on_call(call, open);
  }

 private:
  std::shared_ptr<RankFaults> faults_;
};

}  // namespace cubist::CUBIST_ABI
