// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Functions that the simulated programs of layers and of transformers share.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include <unistd.h>

#include <cubist/backend/simulated.hpp>
#include <cubist/nn/optimizers/optimizer.hpp>
#include <cubist/plan/plan.hpp>
#include <cubist/plan/reason.hpp>
#include <cubist/scheme/catalogue.hpp>
#include <cubist/training/sharded_optimizer.hpp>

namespace cubist
{

/// Calls f.operator()<S>(extents) for a plan's scheme S, with a data axis. A plan without that axis
/// gets one of extent 1, which is the same program, so each scheme is compiled only once.
template <class F>
decltype(auto) on_data_scheme(const Plan& plan, F f)
{
  const bool has_data = has_scheme<DataCatalogue>(plan.scheme);
  const auto name = has_data ? plan.scheme : "DataParallel<" + plan.scheme + ">";
  return with_scheme<DataCatalogue>(name, [&]<class S>() {
    return f.template operator()<S>(
        has_data ? extents_of<S>(plan) : S::extents_of(1, extents_of<typename S::Scheme>(plan)));
  });
}

/// Returns the replicas of a mesh with a data axis of scheme `S`, if all have the same number of
/// rows of X (rows, width); otherwise one replica, so that all are simulated.
/// @param quantum the quantum of the rows
template <class S>
[[nodiscard]] Replicas equal_replicas(const typename S::Axes::Array& extents, Shape x,
                                      std::size_t quantum)
{
  const auto replicas = replicas_of<S>(extents);
  const auto rows_of = [&](int rank) {
    return S::Input::template block<typename S::Axes>(
               x, extents, S::Axes::coordinates(rank, extents), {quantum, S::quantum(extents)})
        .rows.valid;
  };
  for (int rank = replicas.inner; rank < replicas.ranks(); ++rank)
    if (rows_of(rank) != rows_of(rank % replicas.inner)) return {};
  return replicas;
}

/// Says which replicas were simulated, and why.
[[nodiscard]] inline std::string folding_text(int replicas)
{
  const auto& text = Simulated::report().folding;
  if (replicas == 1 || !text.empty()) return text;
  return "all " + std::to_string(replicas) +
         " replicas are simulated, because they have different numbers of rows";
}

/// Tells a terminal once a second how far the simulation of a plan is, and how long the rest takes.
class ProgressLine
{
 public:
  explicit ProgressLine(const Plan& plan)
  {
    if (isatty(STDERR_FILENO) == 0) return;
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    const auto name = plan.scheme + " " + mesh_text(plan);
    Simulated::options.progress = [begin, last = begin, name,
                                   all = plan.seconds()](double simulated) mutable {
      const auto now = Clock::now();
      if (now - last < std::chrono::seconds{1}) return;
      last = now;
      const double part = std::clamp(simulated / all, 1e-3, 0.99);
      const double seconds = std::chrono::duration<double>(now - begin).count();
      std::fprintf(stderr, "\r%s: %.0f %% simulated, about %.0f s left \x1b[K", name.c_str(),
                   100 * part, seconds / part - seconds);
    };
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine()
  {
    if (Simulated::options.progress) std::fprintf(stderr, "\r\x1b[K");
    Simulated::options.progress = {};
  }
};

/// Calls train(update), where update() takes a step of AdamW on these parameters.
template <class T, class M, class F>
void with_adamw(const Parameters<T, M>& parameters, bool sharded, F train)
{
  if (sharded)
  {
    Sharded<AdamW<T, M>> optimizer{parameters};
    train([&] { optimizer.step(); });
    return;
  }
  AdamW<T, M> optimizer{parameters};
  train([&] { optimizer.step(parameters); });
}

}  // namespace cubist
