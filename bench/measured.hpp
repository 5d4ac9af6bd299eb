// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// `Measured<Threads>`: any backend, with a record of what each rank sends and how long it is in
// communication and in its engine. Time in communication is time inside `start`, `wait` and `test`:
// waiting for slower ranks is included, messages that progress without the rank are not. Memory
// that is exposed and read in place is not sent; waiting for its window counts.
//
// No function of a communicator only waits: a rank that waits for a broadcast copies it when it has
// arrived. The processor distinguishes the two: while the thread of the rank has one it copies,
// adds and polls for messages; the rest of the time it waits, for other ranks or for a core.
//
// On a GPU the clock is the compute stream's: time in communication is how long that stream waits.

#include <ctime>
#include <memory>
#include <utility>

#include <cubist/backend/backend.hpp>
#include <cubist/comm/window.hpp>
#include <cubist/testing/traffic.hpp>

#include "measured_engine.hpp"

namespace bench
{

/// What one rank sent, and the seconds in which it communicated.
struct Ledger
{
  cubist::Sent sent = {};
  double seconds = 0;
  bool tells_waiting = false;  // which costs two system calls for each call of the library
  double busy = 0;             // if so: the seconds of these in which it had a processor
};

/// Seconds that this thread has had a processor.
inline double processor_seconds()
{
  std::timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Adds its own lifetime to a ledger, by the clock of the engine.
template <class E>
class InCommunication
{
 public:
  explicit InCommunication(Ledger& ledger) : ledger_{ledger}, running_{ledger.seconds}
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

template <class E, cubist::Request R>
class MeasuredRequest
{
 public:
  MeasuredRequest(R inner, std::shared_ptr<Ledger> ledger)
      : inner_{std::move(inner)}, ledger_{std::move(ledger)}
  {
  }

  void wait()
  {
    const InCommunication<E> now{*ledger_};
    inner_.wait();
  }
  bool test()
  {
    const InCommunication<E> now{*ledger_};
    return inner_.test();
  }

 private:
  R inner_;
  std::shared_ptr<Ledger> ledger_;
};

template <class E, class W>
class MeasuredWindow
{
 public:
  MeasuredWindow(W inner, std::shared_ptr<Ledger> ledger)
      : inner_{std::move(inner)}, ledger_{std::move(ledger)}
  {
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
  void wait()
  {
    const InCommunication<E> now{*ledger_};
    inner_.wait();
  }

 private:
  W inner_;
  std::shared_ptr<Ledger> ledger_;
};

template <cubist::Communicator C, class E>
class MeasuredCommunicator : public cubist::Collectives<MeasuredCommunicator<C, E>>
{
 public:
  using Engine = E;

  explicit MeasuredCommunicator(C inner,
                                std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>())
      : inner_{std::move(inner)}, ledger_{std::move(ledger)}
  {
  }

  [[nodiscard]] int rank() const { return inner_.rank(); }
  [[nodiscard]] int size() const { return inner_.size(); }
  [[nodiscard]] bool remote() const { return inner_.remote(); }
  [[nodiscard]] Ledger& ledger() const { return *ledger_; }

  [[nodiscard]] MeasuredCommunicator split(int colour, int key)
  {
    return MeasuredCommunicator{inner_.split(colour, key), ledger_};
  }

  template <cubist::Element T>
  [[nodiscard]] auto start(const cubist::Call<T>& call)
  {
    ledger_->sent += cubist::sent_by(call, rank(), size());
    const InCommunication<E> now{*ledger_};
    auto request = inner_.start(call);
    return MeasuredRequest<E, decltype(request)>{std::move(request), ledger_};
  }

  [[nodiscard]] bool exposes() const requires cubist::ExposesMemory<C> { return inner_.exposes(); }
  [[nodiscard]] int cores() const requires cubist::ExposesMemory<C> { return inner_.cores(); }
  template <cubist::ElementRange Data>
  requires cubist::ExposesMemory<C>
  [[nodiscard]] auto expose(const Data& mine) { return expose(mine, std::size(mine)); }
  template <cubist::ElementRange Data>
  requires cubist::ExposesMemory<C>
  [[nodiscard]] auto expose(const Data& mine, std::size_t size)
  {
    const InCommunication<E> now{*ledger_};
    auto window = inner_.expose(mine, size);
    return MeasuredWindow<E, decltype(window)>{std::move(window), ledger_};
  }
  template <cubist::Element T>
  requires cubist::ExposesMemory<C>
  [[nodiscard]] auto expose_writable(std::span<T> mine)
  {
    const InCommunication<E> now{*ledger_};
    auto window = inner_.expose_writable(mine);
    return MeasuredWindow<E, decltype(window)>{std::move(window), ledger_};
  }

 private:
  C inner_;
  std::shared_ptr<Ledger> ledger_;
};

template <cubist::BackendType B>
struct Measured
{
  using Communicator = MeasuredCommunicator<typename B::Communicator, typename B::Engine>;
  using Engine = MeasuredEngine<typename B::Engine>;

  template <class F>
  static void launch(int& argc, char**& argv, const cubist::LaunchOptions& options, F&& body)
  {
    B::launch(argc, argv, options, [&](typename B::Communicator& inner) {
      Site<typename B::Engine>::reset_stopwatches();
      Communicator world{inner};
      body(world);
    });
  }
};

}  // namespace bench

namespace cubist
{
template <class C, class E>
inline constexpr bool sums_in_order<bench::MeasuredCommunicator<C, E>> = sums_in_order<C>;
template <class C, class E>
inline constexpr bool independent_messages<bench::MeasuredCommunicator<C, E>> =
    independent_messages<C>;
}  // namespace cubist
