// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The layers of a network in stages. This rank's own layers are LayerStacks on the mesh of its
// stage; the layers of other stages have parameters without elements. Each layer is made with its
// number in the whole network, so its initial values are the same to the bit as on one rank.
//
//   compute_gradients  runs the schedule of the stage. Each micro-batch occupies a Kept of the
//                      stack from its forward to its backward pass. Each rank adds up the gradients
//                      of all micro-batches, and passes their mean to the network's reducer during
//                      the last backward pass.
//   evaluate           runs the forward passes
//
// A network provides what comes before the first layer and after the last, such as a loss, in
// PipelineEnds.
//
// Elements that one rank sends: what the layers send for each micro-batch, what the sums of their
// gradients send once, and what stage_links.hpp sends.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/gradients/gradient_accumulation.hpp"
#include "cubist/gradients/gradient_reducer.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/stage_view.hpp"
#include "cubist/matrix/staging.hpp"
#include "cubist/mesh/stages.hpp"
#include "cubist/model/pipeline_options.hpp"
#include "cubist/model/pipeline_schedule.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/networks/any_layer.hpp"
#include "cubist/nn/networks/layer_stack.hpp"
#include "cubist/nn/pipeline/stage_links.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Turns a parameter of a stage's layer into one for all ranks of the mesh.
/// @param first, second the stages that hold it
template <class T, class M>
[[nodiscard]] Parameter<T, M>
parameter_of_stage(const M& mesh, const Parameter<T, StageMesh<M>>& of_stage, int first, int second)
{
  return {of_stage.name,
          view_of_stage(mesh, of_stage.value, first, second),
          view_of_stage(mesh, of_stage.gradient, first, second),
          {},
          of_stage.decays,
          of_stage.frozen,
          of_stage.freeze,
          of_stage.lora,
          of_stage.lora_weight,
          of_stage.stored};
}

/// Passes gradients of a stage's layers to the reducer of the whole network, which begins and
/// finishes a step.
template <Scalar T, class M>
class ReducerOfStage final : public GradientReducer<T, StageMesh<M>>
{
 public:
  using typename GradientReducer<T, StageMesh<M>>::Communicator;

  /// Sets the reducer of the whole network.
  /// @param whole must outlive the steps
  void use(GradientReducer<T, M>& whole) { whole_ = &whole; }

  void reduce(MatrixView<T> gradient, Communicator* replicas) override
  {
    whole_->reduce(gradient, replicas);
  }

 private:
  GradientReducer<T, M>* whole_ = nullptr;
};

/// What comes before the first layer of a network in stages and after the last. Its functions are
/// called on the stages that have these layers.
/// @tparam A the matrices between layers, on the mesh of a stage
template <class A, Scalar T>
class PipelineEnds
{
 public:
  using Reducer = GradientReducer<T, typename A::Mesh>;

  virtual ~PipelineEnds() = default;

  [[nodiscard]] virtual Pass pass(std::size_t micro_batch) = 0;
  /// Makes `x` fit the X of this layer, which is the first one of any piece but the first.
  virtual A& fit_input(std::optional<A>& x, std::size_t layer, std::size_t micro_batch) = 0;
  /// Returns X of the first layer, made in the memory of a slot.
  [[nodiscard]] virtual const A& input(std::size_t micro_batch, std::size_t slot) = 0;
  /// Takes Y of the last layer.
  virtual void take_output(const A& y, std::size_t micro_batch) = 0;
  /// Returns dY for the Y that was taken last.
  [[nodiscard]] virtual const A& output_gradient(std::size_t micro_batch, Reducer& reducer) = 0;
  /// Whether the caller needs the gradient of X.
  [[nodiscard]] virtual bool wants_input_gradient() const { return false; }
  /// Takes the gradient of X, if the caller needs it.
  virtual void take_input_gradient(const A&, std::size_t, std::size_t, Reducer&) {}
};

/// @tparam A the matrices between layers, on the mesh of a stage  @tparam M the whole mesh
template <class A, RealScalar T, HasStages M>
class PipelineStack
{
 public:
  using Stage = StageMesh<M>;
  using Layer = AnyLayer<A, T>;
  using Ends = PipelineEnds<A, T>;

  /// Every rank of the mesh constructs one; idle ranks may.
  /// @param begins  the first layer of each piece, followed by the number of layers
  PipelineStack(const M& mesh, std::vector<std::size_t> begins, const char* forward,
                const char* backward, std::size_t recompute)
      : mesh_{mesh},
        stage_mesh_{make_stage_mesh(mesh)},
        other_mesh_{make_other_stage_mesh(mesh)},
        begins_{std::move(begins)},
        stages_{stages_of(mesh)}
  {
    for (std::size_t k = 0; k < begins_.size() - 1; ++k)
      if (is_mine(k))
        pieces_.push_back(
            std::make_unique<Piece>(Piece{{forward, backward, recompute, begins_[k]}}));
  }

  [[nodiscard]] const Stage& stage_mesh() const { return stage_mesh_; }
  [[nodiscard]] std::size_t layers() const { return begins_.back(); }
  [[nodiscard]] std::size_t pieces() const { return pieces_.size(); }
  /// The number of pieces on all stages.
  [[nodiscard]] std::size_t all_pieces() const { return begins_.size() - 1; }
  /// The stage of a piece.
  [[nodiscard]] int stage_of_piece(std::size_t k) const { return static_cast<int>(k % stages_); }
  /// Whether this rank is on the stage of a piece.
  [[nodiscard]] bool is_mine(std::size_t k) const
  {
    return mesh_.active() && stage_of_piece(k) == mesh_.template coordinate<PipelineStage>();
  }
  [[nodiscard]] bool has_first() const { return is_mine(0); }
  [[nodiscard]] bool has_last() const { return is_mine(all_pieces() - 1); }
  [[nodiscard]] int last_stage() const { return stage_of_piece(all_pieces() - 1); }

  /// The mesh on which to make a layer of piece k: the mesh of this rank's stage, or one on which
  /// this rank is idle.
  [[nodiscard]] const Stage& mesh_of_piece(std::size_t k) const
  {
    return is_mine(k) ? stage_mesh_ : other_mesh_;
  }
  [[nodiscard]] std::size_t piece_of_layer(std::size_t i) const
  {
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), i);
    return static_cast<std::size_t>(after - begins_.begin()) - 1;
  }

  /// Adds the next layer, made on its mesh_of_piece().
  Layer& add(std::unique_ptr<Layer> layer)
  {
    all_.push_back(layer.get());
    const std::size_t k = piece_of_layer(all_.size() - 1);
    if (is_mine(k))
      pieces_[k / stages_]->stack.add(std::move(layer));
    else
      others_.push_back(std::move(layer));
    return *all_.back();
  }
  /// Calls f(layer) for each layer of this rank.
  template <class F>
  void for_each_layer(F f)
  {
    for (auto& piece : pieces_)
      for (auto& layer : piece->stack.layers()) f(*layer);
  }
  /// Declares that all layers before this one are frozen, and so is what comes before them.
  void set_first_trained(std::size_t layer) { first_trained_ = layer; }

  /// Appends the parameters of layer i.
  void append_parameters(Parameters<T, M>& list, std::size_t i, const std::string& prefix)
  {
    Parameters<T, Stage> of_layer;
    all_[i]->append_parameters(of_layer, prefix);
    const int stage = stage_of_piece(piece_of_layer(i));
    append(list, of_layer, stage, stage);
  }
  void append(Parameters<T, M>& list, const Parameters<T, Stage>& of_stage, int first,
              int second) const
  {
    for (const auto& p : of_stage) list.push_back(parameter_of_stage(mesh_, p, first, second));
  }

  /// Computes the gradients of a step, and passes their means over the micro-batches to `whole`,
  /// which has begun a backward pass.
  /// @pre the number of micro-batches fits pipeline_schedule()
  /// @throws MeshError on an idle rank
  void compute_gradients(Ends& ends, std::size_t micro_batches, GradientReducer<T, M>& whole)
  {
    const auto steps = pipeline_schedule(links().stage(), stages_, micro_batches, pieces_.size());
    reducer_.use(whole);
    for (std::size_t c = 0; c < pieces_.size(); ++c)
    {
      Piece& piece = *pieces_[c];
      piece.in_use = most_in_flight(steps, c);
      while (piece.slots.size() < piece.in_use) piece.slots.push_back(std::make_unique<Slot>());
      if (!piece.sums || piece.sums->count() != micro_batches)
        piece.sums.emplace(stage_mesh_, micro_batches, reducer_);
      piece.sums->restart();
    }
    Work work{*this, ends, false};
    links().run(steps, work);
  }

  /// Passes micro-batches through all layers, without backward passes.
  void evaluate(Ends& ends, std::size_t micro_batches)
  {
    for (auto& piece : pieces_)
    {
      if (piece->slots.empty()) piece->slots.push_back(std::make_unique<Slot>());
      piece->in_use = 1;
    }
    Work work{*this, ends, true};
    links().run(forward_schedule(stages_, micro_batches, pieces_.size()), work);
  }

  /// Broadcasts numbers from the last stage to every rank of the mesh.
  template <class V>
  void broadcast_from_last(std::span<V> numbers)
  {
    with_staging_buffer(mesh_.engine(), numbers,
                        [&](auto all) { links().stages().broadcast(all, last_stage()); });
  }

  /// The messages between stages.
  /// @throws MeshError on an idle rank
  [[nodiscard]] StageLinks<M>& links()
  {
    if (!links_)
    {
      std::size_t first = 0;  // first trained piece
      while (first < all_pieces() && begins_[first + 1] <= first_trained_) ++first;
      static_cast<void>(mesh_.world());
      links_.emplace(mesh_, pieces_.size(), first_trained_ == 0 ? 0 : first);
    }
    return *links_;
  }

 private:
  using Stack = LayerStack<A, Layer>;
  using Slot = typename Stack::Kept;

  struct Piece
  {
    Stack stack;
    std::vector<std::unique_ptr<Slot>> slots = {};
    std::size_t in_use = 0;                     // the number of slots in use
    std::vector<std::optional<A>> inputs = {};  // inputs that arrive, one more than there are slots
    std::vector<std::optional<A>> gradients = {};  // gradients that arrive
    std::optional<GradientAccumulator<T, Stage>> sums = {};
  };

  class Work final : public PipelineWork<T>
  {
   public:
    Work(PipelineStack& stack, Ends& ends, bool evaluates)
        : stack_{stack},
          ends_{ends},
          evaluates_{evaluates}
    {
      for (auto& piece : stack.pieces_)
      {
        if (piece->inputs.size() <= piece->in_use) piece->inputs.resize(piece->in_use + 1);
        piece->gradients.resize(2);
      }
    }

    [[nodiscard]] std::size_t slot(const PipelineStep& step) const override
    {
      std::size_t before = 0;
      for (std::size_t c = 0; c < step.piece; ++c) before += stack_.pieces_[c]->in_use;
      return before + step.micro_batch % piece(step).in_use;
    }
    [[nodiscard]] std::span<T> input(const PipelineStep& step) override
    {
      Piece& p = piece(step);
      auto& x = p.inputs[step.micro_batch % p.inputs.size()];
      A& fitted = ends_.fit_input(x, stack_.begins_[number(step)], step.micro_batch);
      return fitted.view().padded.elements();
    }
    [[nodiscard]] std::span<const T> forward(const PipelineStep& step) override
    {
      Piece& p = piece(step);
      Slot& slot = slot_of(step);
      const bool is_first = number(step) == 0;
      const A& x = is_first ? ends_.input(step.micro_batch, this->slot(step))
                            : *p.inputs[step.micro_batch % p.inputs.size()];
      const Pass pass = ends_.pass(step.micro_batch);
      const A& y = evaluates_ ? p.stack.evaluate(x, pass, slot) : p.stack.forward(x, pass, slot);
      if (number(step) + 1 < stack_.all_pieces()) return std::as_const(y).view().padded.elements();
      ends_.take_output(y, step.micro_batch);
      return {};
    }
    [[nodiscard]] std::span<T> output_gradient(const PipelineStep& step) override
    {
      Piece& p = piece(step);
      auto& dy = p.gradients[step.micro_batch % 2];
      return ends_.fit_input(dy, stack_.begins_[number(step) + 1], step.micro_batch)
          .view()
          .padded.elements();
    }
    [[nodiscard]] std::span<const T> backward(const PipelineStep& step) override
    {
      Piece& p = piece(step);
      Slot& slot = slot_of(step);
      const std::size_t k = number(step);
      const auto& links = *stack_.links_;
      const std::size_t begin = stack_.begins_[k];
      const bool is_last = k + 1 == stack_.all_pieces();
      if (!links.has_backward(k) && !is_last) return {};
      auto& reducer = *p.sums;
      reducer.begin();
      const A& dy = is_last ? ends_.output_gradient(step.micro_batch, reducer)
                            : *p.gradients[step.micro_batch % 2];
      if (!links.has_backward(k))
      {
        reducer.finish();
        return {};
      }
      const bool wants_dx = k == 0 ? ends_.wants_input_gradient() : links.passes_gradient(k);
      const std::size_t first = stack_.first_trained_ > begin ? stack_.first_trained_ - begin : 0;
      const A* dx = p.stack.backward(dy, reducer, slot, wants_dx, first);
      if (k == 0 && wants_dx)
        ends_.take_input_gradient(*dx, step.micro_batch, this->slot(step), reducer);
      reducer.finish();
      if (k == 0 || !wants_dx) return {};
      return std::as_const(*dx).view().padded.elements();
    }

   private:
    [[nodiscard]] Piece& piece(const PipelineStep& step) const
    {
      return *stack_.pieces_[step.piece];
    }
    [[nodiscard]] Slot& slot_of(const PipelineStep& step) const
    {
      Piece& p = piece(step);
      return *p.slots[step.micro_batch % p.in_use];
    }
    /// The number of the step's piece among all pieces.
    [[nodiscard]] std::size_t number(const PipelineStep& step) const
    {
      return stack_.links_->number(step.piece);
    }

    PipelineStack& stack_;
    Ends& ends_;
    bool evaluates_;
  };

  M mesh_;
  Stage stage_mesh_;
  Stage other_mesh_;
  std::vector<std::size_t> begins_;
  std::size_t stages_;
  std::size_t first_trained_ = 0;
  std::vector<std::unique_ptr<Piece>> pieces_;  // the pieces of this rank
  std::vector<std::unique_ptr<Layer>> others_;  // layers of other stages
  std::vector<Layer*> all_;                     // all layers, in the order of the network
  ReducerOfStage<T, M> reducer_;
  std::optional<StageLinks<M>> links_;
};

}  // namespace cubist::CUBIST_ABI::detail
