// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A training step that is captured once and then replayed, so that a whole step costs the host only
// one launch:
//
//   LossValue loss;
//   Step step{mesh, [&](const auto& x, const auto& target) {
//     loss = mean_squared_error(mlp.forward(x), target, dy);
//     mlp.backward(dy);
//     optimizer.step(parameters);
//   }};
//   for (each batch)
//   {
//     ... overwrite x and target ...
//     step(x, target);
//   }
//
// The first call runs the function, which allocates. The second call captures the work that the
// function enqueues, and replays it, as later calls do. Results are bit-identical to those of the
// function. Engines that do not capture (engine/replay.hpp) run the function in every call.
//
// Values that change from step to step must be in the engine's memory: matrices, an optimizer's
// rate and its number of steps, the numbers of dropout masks. Values that the function computes on
// the host, such as a `factor` of an optimizer's step, stay as they were at the capture. The
// function must not upload or download, read a loss, or make communicators.

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/engine/replay.hpp"

namespace cubist::CUBIST_ABI
{

/// How to run a step.
struct CaptureOptions
{
  /// Whether to capture the step; if not, every call runs the function.
  bool capture = true;
};

/// @tparam F callable with the matrices of a step
template <class M, class F>
class Step
{
  using Engine = typename M::Engine;
  static constexpr bool captures_on_engine = detail::Captures<Engine>;

 public:
  /// @pre what `function` refers to outlives the step and is not moved
  Step(const M& mesh, F function, const CaptureOptions& options = {})
      : mesh_{mesh},
        function_{std::move(function)},
        options_{options}
  {
  }
  Step(Step&&) = delete;

  /// Runs one step with these matrices. The step is captured again for matrices at another address
  /// or of another shape, and after memory that existed at the capture has been freed. So pass
  /// memory that the program allocates for each call as an argument. Every rank of the mesh calls
  /// it.
  /// @throws CaptureError if the function cannot be captured; nothing is enqueued then, and the
  /// function can still be run without capturing. Otherwise what the function throws
  template <class... Matrix>
  void operator()(const Matrix&... matrices)
  {
    if constexpr (!captures_on_engine)
      function_(matrices...);
    else
    {
      if (!options_.capture) return static_cast<void>(function_(matrices...));
      std::vector<Key> keys{key(matrices)...};
      if (!has_run_ || keys != keys_ || (graph_ && !graph_->is_valid()))
      {
        graph_.reset();
        has_run_ = false;
        function_(matrices...);
        keys_ = std::move(keys);
        has_run_ = true;
        return;
      }
      if (!graph_)
      {
        graph_.emplace(mesh_.engine().capture([&] { function_(matrices...); }));
        for (const Key& k : keys_) graph_->ignore(k.data);
        ++captures_;
      }
      replay();
    }
  }

  /// The number of captures so far.
  [[nodiscard]] std::size_t captures() const { return captures_; }

 private:
  struct Key
  {
    const void* data;
    Shape shape;
    friend bool operator==(const Key&, const Key&) = default;
  };
  template <class Matrix>
  [[nodiscard]] static Key key(const Matrix& matrix)
  {
    const auto view = matrix.view();
    return {view.padded.data(), view.shape};
  }

  void replay()
  {
    auto& world = mesh_.world();
    const auto launch = [this] { graph_->replay(); };
    if constexpr (requires { world.replay("", launch); })
      world.replay("a replay of a step", launch);
    else
      launch();
  }

  struct NoGraph
  {
  };
  template <class E>
  struct GraphOf
  {
    using type = NoGraph;
  };
  template <detail::Captures E>
  struct GraphOf<E>
  {
    using type = typename E::Graph;
  };

  M mesh_;
  F function_;
  CaptureOptions options_;
  std::vector<Key> keys_;
  bool has_run_ = false;
  std::size_t captures_ = 0;
  std::optional<typename GraphOf<Engine>::type> graph_;  // destroyed before the communicators
};

}  // namespace cubist::CUBIST_ABI
