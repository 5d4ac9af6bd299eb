// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A decorator of any backend that writes a trace of what its ranks do, in real time or in the time
// of `Simulated`. ui.perfetto.dev shows it.
//
//   Traced<Threads>::options = {.file = "step.json"};
//   launch<Traced<Threads>>({.ranks = 4}, [](auto& world) { … });

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cubist/backend/backend.hpp"
#include "cubist/backend/decorator.hpp"
#include "cubist/core/error.hpp"
#include "cubist/matrix/staging.hpp"
#include "cubist/trace/chrome_trace.hpp"
#include "cubist/trace/rank_trace.hpp"
#include "cubist/trace/traced_communicator.hpp"
#include "cubist/trace/traced_engine.hpp"

namespace cubist::CUBIST_ABI
{

/// The options of a trace, the same on all ranks.
struct TraceOptions
{
  std::string file = {};  ///< the file to write; if it is empty, nothing is recorded
  int ranks = 64;         ///< how many ranks are recorded, starting with rank 0
  /// If this is not empty, these ranks are recorded instead.
  std::vector<int> only = {};
  /// Whether to also record the processor time of a rank's thread in each event ("tdur" in the
  /// file). If ranks share cores, other ranks run for the rest of the event's time. It takes two
  /// system calls per event. Simulated ranks have no such time.
  bool processor_time = false;

  /// Whether this rank's events are written.
  [[nodiscard]] bool records(int rank) const
  {
    if (only.empty()) return rank < ranks;
    return std::find(only.begin(), only.end(), rank) != only.end();
  }
};

template <BackendType B>
struct Traced : BackendDecorator<Traced<B>, B>
{
  using Communicator = TracedCommunicator<typename B::Communicator>;
  using Engine = TracedEngine<typename B::Engine>;

  /// The options that `launch` reads.
  static inline TraceOptions options = {};

  /// Runs `body` with a communicator that traces, and then writes the file.
  /// @throws ArgumentError for a rank to record that the launch does not have; DataError if the
  /// file cannot be written
  template <class F>
  [[nodiscard]] static auto decorate(F& body)
  {
    // Rank 0 sets it for all ranks of its process, which leave the barrier at different times.
    auto zero_of_first = std::make_shared<std::atomic<double>>(-1);
    return [&body, wanted = options, zero_of_first](typename B::Communicator& inner) {
      Communicator world{inner};
      if (wanted.file.empty()) return body(world);
      for (const int rank : wanted.only)
        require<ArgumentError>(
            rank >= 0 && rank < inner.size(), "got rank ", rank, " for a trace of ", inner.size(),
            " ranks, but none of them has this number; use 0 to ", inner.size() - 1);
      const bool is_simulated = requires { B::now(); };
      detail::RankTrace trace{&now,
                              wanted.processor_time && !is_simulated ? &processor_now : nullptr};
      if (inner.rank() == 0) *zero_of_first = now();
      if (!is_simulated) inner.barrier();  // clocks of several hosts differ
      const double zero = is_simulated ? 0 : *zero_of_first < 0 ? now() : zero_of_first->load();
      {
        const detail::TraceScope scope{wanted.records(inner.rank()) ? &trace : nullptr};
        body(world);
      }
      write(inner, trace, zero, wanted);
    };
  }

 private:
  /// Returns the time on the calling rank's clock, in seconds.
  static double now()
  {
    if constexpr (requires { B::now(); })
      return B::now();
    else
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
          .count();
  }

  /// Returns the processor time of the calling thread, in seconds.
  static double processor_now()
  {
    std::timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  /// Writes the events of all recorded ranks; rank 0 writes the file.
  static void write(typename B::Communicator& world, const detail::RankTrace& trace, double zero,
                    const TraceOptions& wanted)
  {
    auto text = wanted.records(world.rank())
                    ? detail::chrome_events(trace.events(), world.rank(), zero)
                    : std::string{};
    if (world.rank() > 0)
    {
      if (wanted.records(world.rank())) transfer(text, [&](auto values) { world.send(values, 0); });
      return;
    }
    const std::filesystem::path path{wanted.file};
    auto part = path;
    part += ".part";
    std::ofstream out{part};
    out << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" << text;
    bool first = text.empty();
    for (int r = 1; r < world.size(); ++r)
    {
      if (!wanted.records(r)) continue;
      transfer(text, [&](auto values) { world.receive(values, r); });
      out << (std::exchange(first, false) ? "" : ",\n") << text;
    }
    out << "\n]}\n";
    out.close();
    std::error_code error;
    if (out) std::filesystem::rename(part, path, error);
    require<DataError>(
        out && !error, "cannot write the trace ", wanted.file,
        ", so it is lost; give a file in a folder that exists, on a disk with free space");
  }

  /// Calls message(values) with the size of a text, and then with its bytes, to send or receive
  /// them.
  template <class F>
  static void transfer(std::string& text, F message)
  {
    const typename B::Engine engine;
    std::uint64_t size = text.size();
    with_staging_buffer(engine, std::span{&size, 1}, message);
    std::vector<std::uint8_t> bytes(text.begin(), text.end());
    bytes.resize(size);
    with_staging_buffer(engine, std::span{bytes}, message);
    text.assign(bytes.begin(), bytes.end());
  }
};

}  // namespace cubist::CUBIST_ABI
