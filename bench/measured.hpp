// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Any backend, with what each rank sends and how long it spends in communication written down:
// `Measured<Threads>`. Time in communication is time inside `start`, `wait` and `test`, so it has
// the waiting for slower ranks in it, and what travels behind a rank's back is free. What is lent
// and read in place is not sent; waiting for lenders and for readers counts.

#include <chrono>
#include <memory>
#include <utility>

#include <cubist/backend/backend.hpp>
#include <cubist/comm/lender.hpp>
#include <cubist/comm/traffic.hpp>

namespace bench
{

/// What one rank sent, and the seconds that it spent on that and on receiving.
struct Ledger
{
  cubist::Sent sent;
  double seconds = 0;
};

/// Adds its own lifetime to a ledger.
class InCommunication
{
 public:
  explicit InCommunication(Ledger& ledger) : ledger_{ledger} {}
  InCommunication(const InCommunication&) = delete;
  InCommunication& operator=(const InCommunication&) = delete;
  ~InCommunication()
  {
    ledger_.seconds += std::chrono::duration<double>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Ledger& ledger_;
  Clock::time_point start_ = Clock::now();
};

template <cubist::Request R>
class MeasuredRequest
{
 public:
  MeasuredRequest(R inner, std::shared_ptr<Ledger> ledger)
      : inner_{std::move(inner)}, ledger_{std::move(ledger)}
  {
  }

  void wait()
  {
    const InCommunication now{*ledger_};
    inner_.wait();
  }
  bool test()
  {
    const InCommunication now{*ledger_};
    return inner_.test();
  }

 private:
  R inner_;
  std::shared_ptr<Ledger> ledger_;
};

template <class L>
class MeasuredLoan
{
 public:
  MeasuredLoan(L inner, std::shared_ptr<Ledger> ledger)
      : inner_{std::move(inner)}, ledger_{std::move(ledger)}
  {
  }

  [[nodiscard]] auto operator[](int rank)
  {
    const InCommunication now{*ledger_};
    return inner_[rank];
  }
  void close()
  {
    const InCommunication now{*ledger_};
    inner_.close();
  }
  void wait()
  {
    const InCommunication now{*ledger_};
    inner_.wait();
  }

 private:
  L inner_;
  std::shared_ptr<Ledger> ledger_;
};

template <cubist::Communicator C>
class MeasuredCommunicator : public cubist::Collectives<MeasuredCommunicator<C>>
{
 public:
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
    const InCommunication now{*ledger_};
    return MeasuredRequest{inner_.start(call), ledger_};
  }

  [[nodiscard]] bool lends() const requires cubist::Lender<C> { return inner_.lends(); }
  template <cubist::ElementRange Data>
  requires cubist::Lender<C>
  [[nodiscard]] auto lend(const Data& mine)
  {
    const InCommunication now{*ledger_};
    return MeasuredLoan{inner_.lend(mine), ledger_};
  }

 private:
  C inner_;
  std::shared_ptr<Ledger> ledger_;
};

template <cubist::Backend B>
struct Measured
{
  using Communicator = MeasuredCommunicator<typename B::Communicator>;
  using Engine = typename B::Engine;

  template <class F>
  static void launch(int& argc, char**& argv, const cubist::LaunchOptions& options, F&& body)
  {
    B::launch(argc, argv, options, [&](typename B::Communicator& inner) {
      Communicator world{inner};
      body(world);
    });
  }
};

}  // namespace bench
