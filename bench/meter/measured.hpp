// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// `Measured<B>`: any backend B, with a record of what each rank sends and how long it spends in
// communication and in its engine. Time in communication is time inside `start`, `wait` and `test`:
// it includes waiting for slower ranks, but not messages that progress without the rank. Memory
// that is exposed and read in place is not sent; waiting for its window counts.
//
// No function of a communicator only waits: a rank that waits for a broadcast copies it once it has
// arrived. Processor time tells the two apart. While the rank's thread has a processor it copies,
// adds and polls for messages; the rest of the time it waits for other ranks or for a core.
//
// On a GPU the clock is that of the compute stream: time in communication is how long the stream
// waits.

#include <memory>
#include <utility>

#include <cubist/backend/backend.hpp>
#include <cubist/backend/decorator.hpp>
#include <cubist/comm/decorator.hpp>
#include <cubist/comm/traffic.hpp>

#include "common/times.hpp"
#include "meter/measured_engine.hpp"

namespace bench
{

/// What one rank sent, and the seconds it spent in communication.
struct Ledger
{
  cubist::Sent sent = {};
  double seconds = 0;
  bool tells_waiting = false;  // costs two system calls for each call of the library
  double busy = 0;             // if so, the part of `seconds` in which it had a processor
};

/// Adds its lifetime to a ledger, by the engine's clock.
template <class E>
class InCommunication
{
 public:
  explicit InCommunication(Ledger& ledger)
      : ledger_{ledger},
        running_{ledger.seconds}
  {
    if (ledger_.tells_waiting) ledger_.busy -= processor_seconds();
  }
  InCommunication(const InCommunication&) = delete;
  InCommunication& operator=(const InCommunication&) = delete;
  ~InCommunication()
  {
    if (ledger_.tells_waiting) ledger_.busy += processor_seconds();
  }

 private:
  Ledger& ledger_;
  typename Site<E>::Stopwatch running_;
};

/// Wraps a request or a window, and measures its waits.
template <class E, class W>
class MeasuredWait
{
 public:
  MeasuredWait(W inner, std::shared_ptr<Ledger> ledger)
      : inner_{std::move(inner)},
        ledger_{std::move(ledger)}
  {
  }

  void wait()
  {
    const InCommunication<E> now{*ledger_};
    inner_.wait();
  }
  auto test()
  {
    const InCommunication<E> now{*ledger_};
    return inner_.test();
  }
  [[nodiscard]] auto operator[](int rank)
  {
    const InCommunication<E> now{*ledger_};
    return inner_[rank];
  }
  void close()
  {
    const InCommunication<E> now{*ledger_};
    inner_.close();
  }

 private:
  W inner_;
  std::shared_ptr<Ledger> ledger_;
};

template <cubist::Communicator C, class E>
class MeasuredCommunicator : public cubist::CommunicatorDecorator<MeasuredCommunicator<C, E>, C>
{
 public:
  using Engine = E;

  explicit MeasuredCommunicator(C inner)
      : cubist::CommunicatorDecorator<MeasuredCommunicator, C>{std::move(inner)}
  {
  }

  [[nodiscard]] Ledger& ledger() const { return *ledger_; }

  template <cubist::Element T, class Begin>
  [[nodiscard]] auto on_call(const cubist::Call<T>& call, Begin begin)
  {
    ledger_->sent += cubist::sent_by(call, this->rank(), this->size());
    return on_window(call, begin);
  }
  template <cubist::Element T, class Open>
  [[nodiscard]] auto on_window(const cubist::Call<T>& call, Open open)
  {
    const InCommunication<E> now{*ledger_};
    auto inner = open(call);
    return MeasuredWait<E, decltype(inner)>{std::move(inner), ledger_};
  }

 private:
  std::shared_ptr<Ledger> ledger_ = std::make_shared<Ledger>();
};

template <cubist::BackendType B>
struct Measured : cubist::BackendDecorator<Measured<B>, B>
{
  using Communicator = MeasuredCommunicator<typename B::Communicator, typename B::Engine>;
  using Engine = MeasuredEngine<typename B::Engine>;

  template <class F>
  [[nodiscard]] static auto decorate(F& body)
  {
    return [&body](typename B::Communicator& inner) {
      Site<typename B::Engine>::reset_stopwatches();
      Communicator world{inner};
      body(world);
    };
  }
};

}  // namespace bench
