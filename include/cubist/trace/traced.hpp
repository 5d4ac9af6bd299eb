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
      if (wanted.records(inner.rank()))
      {
        const Recording recording{trace};
        body(world);
      }
      else
        body(world);
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

  /// RAII: records a rank's events while its body runs.
  class Recording
  {
   public:
    /// Sends events of this thread to `trace` until this object is destroyed.
    explicit Recording(detail::RankTrace& trace) { detail::rank_local() = &trace; }
    Recording(Recording&&) = delete;
    ~Recording() { detail::rank_local() = nullptr; }
  };

  /// Writes the events of all recorded ranks; rank 0 writes the file.
  static void write(typename B::Communicator& world, const detail::RankTrace& trace, double zero,
                    const TraceOptions& wanted)
  {
    const typename B::Engine engine;
    const auto mine = wanted.records(world.rank())
                          ? detail::chrome_events(trace.events(), world.rank(), zero)
                          : std::string{};
    if (world.rank() > 0)
    {
      if (wanted.records(world.rank())) send(world, engine, mine);
      return;
    }
    const std::filesystem::path path{wanted.file};
    auto part = path;
    part += ".part";
    std::ofstream out{part};
    out << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" << mine;
    bool first = mine.empty();
    for (int r = 1; r < world.size(); ++r)
      if (wanted.records(r))
        out << (std::exchange(first, false) ? "" : ",\n") << receive(world, engine, r);
    out << "\n]}\n";
    out.close();
    std::error_code error;
    if (out) std::filesystem::rename(part, path, error);
    require<DataError>(
        out && !error, "cannot write the trace ", wanted.file,
        ", so it is lost; give a file in a folder that exists, on a disk with free space");
  }

  static void send(typename B::Communicator& world, const typename B::Engine& engine,
                   const std::string& text)
  {
    std::uint64_t size = text.size();
    std::vector<std::uint8_t> bytes(text.begin(), text.end());
    with_staging_buffer(engine, std::span{&size, 1}, [&](auto values) { world.send(values, 0); });
    with_staging_buffer(engine, std::span{bytes}, [&](auto values) { world.send(values, 0); });
  }
  [[nodiscard]] static std::string receive(typename B::Communicator& world,
                                           const typename B::Engine& engine, int rank)
  {
    std::uint64_t size = 0;
    with_staging_buffer(engine, std::span{&size, 1},
                        [&](auto values) { world.receive(values, rank); });
    std::vector<std::uint8_t> bytes(size);
    with_staging_buffer(engine, std::span{bytes},
                        [&](auto values) { world.receive(values, rank); });
    return {bytes.begin(), bytes.end()};
  }
};

}  // namespace cubist::CUBIST_ABI
