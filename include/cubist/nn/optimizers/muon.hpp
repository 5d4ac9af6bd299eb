// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Muon orthogonalizes the momentum of each matrix before adding it to the weight.
//
//   m = momentum m + (1 - momentum) g
//   u = momentum m + (1 - momentum) g, or m without Nesterov's momentum
//   u = orthogonalized u (newton_schulz.hpp)
//   w = (1 - rate decay) w - rate scale u
//
// The scale depends on the shape: it is sqrt(max(1, out / in)), or 0.2 sqrt(max(out, in)), which
// makes updates as large as AdamW's. A weight w is (in, out), the transpose of PyTorch's (out, in).
// The orthogonal factor of a transpose is the transpose of the factor.
//
// Muon is for the matrices of layers, including LoRA's A and B. It gives embeddings, positions,
// logits, norms and biases to an AdamW, and other parameters if `.groups` says so:
//
//   Muon optimizer{model.parameters(), {.learning_rate = 0.02,
//                                       .adamw = {.learning_rate = 1e-3},
//                                       .groups = {{.names = {"layers.3.*"}, .muon = false}}}};
//
// Momentum is cut and saved like the weight. u is copied to the grid of ranks that orthogonalizes
// it, and back; plan/muon_cost.hpp says which grid, and how many elements this sends. Replicas get
// copies of the same elements, so they stay equal. Each rank of a `replicated` matrix computes it
// in the same way.
//
// Source: Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024; Liu et
// al., "Muon is Scalable for LLM Training", arXiv 2502.16982; torch.optim.Muon.

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/rounded_product.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/span.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/machine/machine.hpp"
#include "cubist/matrix/redistribute.hpp"
#include "cubist/matrix/state.hpp"
#include "cubist/model/lora_options.hpp"
#include "cubist/nn/optimizers/moments.hpp"
#include "cubist/nn/optimizers/newton_schulz.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/nn/optimizers/parameter_groups.hpp"
#include "cubist/nn/parameter_names.hpp"
#include "cubist/plan/muon_cost.hpp"

namespace cubist::CUBIST_ABI
{

/// How the learning rate of a matrix depends on its shape; in and out are its rows and columns.
enum class MuonScale : std::uint8_t
{
  original,        ///< sqrt(max(1, out / in))
  match_rms_adamw  ///< 0.2 sqrt(max(out, in))
};

/// Options of Muon.
struct MuonOptions
{
  double learning_rate = 1e-3;
  double momentum = 0.95;                  ///< the part of the momentum that is kept
  bool nesterov = true;                    ///< whether u adds the gradient once more
  double weight_decay = 0.1;               ///< decoupled, like AdamW's
  NewtonSchulzOptions newton_schulz = {};  ///< how momentum is orthogonalized
  MuonScale scale = MuonScale::original;   ///< how the rate depends on the shape
  /// Whether the matrices of one product, such as query, key and value, or gate and up, are
  /// orthogonalized as one matrix. By default, each is orthogonalized by itself.
  bool merged = false;
  /// Where a matrix is orthogonalized. The optimizer reads this option when it is made.
  MuonWay way = MuonWay::automatic;
  /// The options for the parameters that AdamW updates. A schedule multiplies their rate by the
  /// same factor as Muon's.
  AdamOptions adamw = {};
  /// Parameters with their own learning rate or weight decay; `.muon` says which optimizer
  /// updates them.
  std::vector<ParameterGroup> groups = {};

  /// @throws ArgumentError for a value out of its range
  void check() const
  {
    detail::check_groups(groups, true);
    adamw.check();
    require<ArgumentError>(adamw.groups.empty(), "got ", adamw.groups.size(),
                           " groups of parameters in the options of Muon's AdamW, which would be "
                           "ignored; put them in the groups of Muon");
    detail::check_option("a learning rate", learning_rate);
    detail::check_option("a momentum", momentum, 1);
    detail::check_option("a weight decay", weight_decay);
    detail::check_option("an epsilon", newton_schulz.epsilon);
    require<ArgumentError>(newton_schulz.steps > 0, "got ", newton_schulz.steps,
                           " steps of Newton-Schulz, after which nothing is orthogonal; use one "
                           "or more, such as 5");
    for (const double c : newton_schulz.coefficients)
      require<ArgumentError>(is_finite(c), "got ", c,
                             " among the coefficients of Newton-Schulz, so no update would be "
                             "finite; use numbers such as 3.4445, -4.7750 and 2.0315");
  }
};

namespace detail
{

/// Whether a parameter is a vector, by its name and shape: a bias, or the weight of a norm.
[[nodiscard]] inline bool is_vector(std::string_view name, Shape shape)
{
  return shape.rows == 1 && (!name.ends_with("weight") || name.ends_with("norm.weight"));
}

/// Whether Muon updates a parameter that no group assigns to it or to AdamW.
[[nodiscard]] inline bool is_muon_by_default(std::string_view name, Shape shape)
{
  for (const std::string_view table : {"embedding.weight", "positions.weight", "logits.weight"})
    if (name.ends_with(table)) return false;
  const bool is_matrix = name.ends_with("weight") || is_of_lora(name);
  return is_matrix && shape.size() > 0 && !is_vector(name, shape);
}

/// Whether Muon updates a parameter; otherwise AdamW does.
/// @throws ArgumentError for a vector in one of Muon's groups
[[nodiscard]] inline bool is_muon(std::string_view name, Shape shape,
                                  const std::vector<ParameterGroup>& groups)
{
  for (const ParameterGroup& group : groups)
    for (const std::string& pattern : group.names)
      if (matches_name(pattern, name))
      {
        if (!group.muon) return is_muon_by_default(name, shape);
        require<ArgumentError>(
            !*group.muon || !is_vector(name, shape), "got ", name,
            ", which is a vector, in one of Muon's groups, but only a matrix can "
            "be orthogonalized; leave it to AdamW, with .muon = false");
        return *group.muon;
      }
  return is_muon_by_default(name, shape);
}

/// Returns all parameters, and marks as frozen those that are not Muon's or, if `muon` is false,
/// not AdamW's.
template <class T, class M>
[[nodiscard]] Parameters<T, M> parameters_of(bool muon, Parameters<T, M> all,
                                             const std::vector<ParameterGroup>& groups)
{
  for (auto& p : all) p.frozen = p.frozen || is_muon(p.name, p.value.shape, groups) != muon;
  return all;
}

/// The common part of the names of merged parameters, such as "layers.0.attention." for
/// "layers.0.attention.key.weight"; the name itself for other parameters.
[[nodiscard]] inline std::string name_of_merged(const std::string& name)
{
  for (const std::string_view each :
       {"query.weight", "key.weight", "value.weight", "gate.weight", "up.weight"})
    if (name.ends_with("." + std::string{each})) return name.substr(0, name.size() - each.size());
  return name;
}

/// Updates m and computes u from a gradient.
template <class T>
struct MuonMomentum
{
  T keep, share, factor;
  bool nesterov;

  template <class G>
  CUBIST_HOST_DEVICE void operator()(T& m, T& u, const G& gradient) const
  {
    const T g = factor * static_cast<T>(gradient);
    m = rounded_product(keep, m) + rounded_product(share, g);
    u = nesterov ? rounded_product(keep, m) + rounded_product(share, g) : m;
  }
};

template <class T>
struct MuonUpdate
{
  T rate, keep;

  CUBIST_HOST_DEVICE void operator()(T& w, const T&, T& u) const
  {
    w = rounded_product(keep, w) - rounded_product(rate, u);
  }
};

/// Maps each rank to a given block of a matrix, or to none.
template <class M>
class GivenBlocks final : public BlockMap<M>
{
 public:
  explicit GivenBlocks(std::vector<Block> blocks)
      : blocks_{std::move(blocks)}
  {
  }

  [[nodiscard]] Block block(const M&, Shape, Quanta, int rank) const override
  {
    const auto r = static_cast<std::size_t>(rank);
    return r < blocks_.size() ? blocks_[r] : Block{};
  }
  [[nodiscard]] bool is_primary(const M&, int rank) const override
  {
    const auto r = static_cast<std::size_t>(rank);
    return r < blocks_.size() &&
           std::find(blocks_.begin(), blocks_.end(), blocks_[r]) == blocks_.begin() + rank;
  }
  [[nodiscard]] typename M::Communicator* replicas(const M&) const override { return nullptr; }
  [[nodiscard]] std::shared_ptr<const BlockMap<M>> parts() const override
  {
    return std::make_shared<GivenBlocks>(*this);
  }

 private:
  std::vector<Block> blocks_;
};

/// Copies momentum to the grids that orthogonalize it, and back.
template <RealScalar V, class M>
class Orthogonalizer
{
  using Plan = NewtonSchulz<V, typename M::Backend>;
  using Grid = typename Plan::Grid;
  using GridKey = std::tuple<std::vector<int>, int, int>;
  using Buffer = typename M::Engine::template Buffer<V>;
  using View = DistView<V, M>;

 public:
  /// A matrix, the numbers of its parameters in the list, and where it is orthogonalized.
  struct Matrix
  {
    std::string name = {};
    MuonMatrix w = {};
    std::vector<std::size_t> parameters = {};
    double scale = 1;  // what the orthogonal factor is multiplied by
    // The constructor sets the rest.
    MuonGrid grid = {};
    std::shared_ptr<Plan> plan = {};      // null on ranks that are not on the grid
    Shape shape = {};                     // the shape of this rank's cell
    Buffer memory = Buffer(0);            // the cell, if the matrix has a home
    std::vector<std::size_t> first = {};  // where the columns of each part begin in the cell
    std::vector<std::shared_ptr<const BlockMap<M>>> cells = {};

    [[nodiscard]] bool has_home() const { return grid.way == MuonWay::home; }
    [[nodiscard]] MatrixView<V> view() { return {memory.data(), shape}; }
  };

  /// @param mesh  the mesh of all parameters; every rank of it makes an Orthogonalizer
  Orthogonalizer(const M& mesh, std::vector<Matrix> matrices, MuonWay way,
                 const NewtonSchulzOptions& options)
      : mesh_{mesh},
        matrices_{std::move(matrices)}
  {
    if (!mesh_.active()) return;
    choose(way, options);
    for (Matrix& m : matrices_)
    {
      const Block mine = m.grid.cell(m.w, mesh_.rank());
      m.plan = plan_of(m);
      m.shape = mine.valid();
      if (m.has_home()) m.memory = Buffer(m.shape.size());
      for (const auto& part : m.w.parts)
      {
        std::vector<Block> cells;
        for (int rank = 0; rank < mesh_.size(); ++rank)
          cells.push_back(columns_of(m.grid.cell(m.w, rank), part.first, part.shape.cols));
        m.first.push_back(std::max(part.first, mine.cols.offset) - mine.cols.offset);
        m.cells.push_back(std::make_shared<GivenBlocks<M>>(std::move(cells)));
      }
    }
  }

  [[nodiscard]] const std::vector<Matrix>& matrices() const { return matrices_; }

  /// The number of elements that all ranks send in total in a step.
  [[nodiscard]] std::uint64_t elements(int steps) const
  {
    std::uint64_t all = 0;
    for (const Matrix& m : matrices_)
      all += muon_cost(m.w, m.grid, steps, 1, usual_machine(), sizeof(V)).elements();
    return all;
  }

  /// Orthogonalizes the matrices. Every rank of the mesh calls it.
  /// @param view_of  view_of(i) returns the view of parameter i of the list
  template <class ViewOf>
  void run(const NewtonSchulzOptions& options, ViewOf view_of)
  {
    if (!mesh_.active()) return;
    // All homes get their matrices before the first one computes, so that they compute in parallel.
    for (Matrix& m : matrices_)
      if (m.has_home()) exchange<false>(m, m.view(), view_of);
    for (Matrix& m : matrices_)
      if (m.has_home()) compute(m, m.view(), options);
    for (Matrix& m : matrices_)
      if (m.has_home()) exchange<true>(m, m.view(), view_of);
    for (const Matrix& m : matrices_)
    {
      if (m.has_home()) continue;
      BorrowedMatrix<V, M> cell{mesh_, m.shape};
      exchange<false>(m, cell.view(), view_of);
      compute(m, cell.view(), options);
      exchange<true>(m, cell.view(), view_of);
    }
  }

 private:
  /// Copies the parameters of a matrix to this rank's cell, or back.
  template <bool back, class ViewOf>
  void exchange(const Matrix& m, MatrixView<V> cell, ViewOf view_of) const
  {
    for (std::size_t i = 0; i < m.parameters.size(); ++i)
    {
      const View u = view_of(m.parameters[i]);
      const View on_grid{mesh_, u.shape, u.quanta, {}, m.cells[i]};
      const Shape mine = on_grid.block(mesh_.rank()).valid();
      const View part = on_grid.with(cell.block(0, m.first[i], mine.size() == 0 ? Shape{} : mine));
      redistribute(back ? part : u, back ? u : part);
    }
  }
  void compute(const Matrix& m, MatrixView<V> cell, const NewtonSchulzOptions& options) const
  {
    if (!m.plan) return;
    const Span span{mesh_.engine(), {"Muon", name_of(m.grid.way), m.w.shape.rows, m.w.shape.cols}};
    m.plan->orthogonalize(cell, !m.w.is_wide(), options, m.scale);
  }

  /// Chooses the grid of each matrix, once for all matrices of the same shape and cut.
  void choose(MuonWay way, const NewtonSchulzOptions& options)
  {
    const auto alike = [](const Matrix& a, const Matrix& b) {
      constexpr auto blocks = &MuonMatrix::Part::blocks;
      return a.w.shape == b.w.shape && std::ranges::equal(a.w.parts, b.w.parts, {}, blocks, blocks);
    };
    std::vector<std::vector<Matrix*>> kinds;
    for (Matrix& m : matrices_)
    {
      const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                     [&](const auto& k) { return alike(*k.front(), m); });
      if (kind == kinds.end())
        kinds.push_back({&m});
      else
        kind->push_back(&m);
    }
    std::vector<Matrix*> at_home;
    std::vector<double> work;
    std::vector<std::vector<int>> ranks;
    for (const auto& kind : kinds)
    {
      const auto choice = choose_muon_way(kind.front()->w, way, options.steps, kind.size(),
                                          usual_machine(), sizeof(V));
      for (Matrix* const m : kind)
      {
        m->grid = choice.grid;
        if (!m->has_home()) continue;
        at_home.push_back(m);
        work.push_back(choice.cost.flops);
        ranks.push_back(m->w.ranks());
      }
    }
    const auto homes = deal_homes(work, ranks);
    for (std::size_t i = 0; i < homes.size(); ++i) at_home[i]->grid.ranks = {homes[i]};
  }

  /// Returns the plan of a matrix. Matrices of the same size on the same grid share one.
  [[nodiscard]] std::shared_ptr<Plan> plan_of(const Matrix& m)
  {
    const MuonGrid& on = m.grid;
    const bool is_on_it =
        std::find(on.ranks.begin(), on.ranks.end(), mesh_.rank()) != on.ranks.end();
    const bool is_one = on.is_one();
    // All ranks make a grid together; all grids of one rank are made by one call.
    const auto [place, is_new] =
        grids_.try_emplace({is_one ? std::vector<int>{} : on.ranks, on.rows, on.cols});
    auto& grid = place->second;
    if (is_new)
    {
      const int colour = is_one ? mesh_.rank() : is_on_it ? 0 : 1;
      auto group = mesh_.world().split(colour, mesh_.rank());
      if (is_one || is_on_it)
        grid = std::make_shared<Grid>(group, typename Grid::Array{on.rows, on.cols}, 1);
    }
    if (!is_on_it) return nullptr;
    auto& plan = plans_[{grid.get(), m.w.n(), m.w.k()}];
    if (!plan) plan = std::make_shared<Plan>(*grid, m.w.n(), m.w.k());
    return plan;
  }

  M mesh_;
  std::vector<Matrix> matrices_;
  std::map<GridKey, std::shared_ptr<Grid>> grids_;  // null on ranks that are not on the grid
  std::map<std::tuple<const Grid*, std::size_t, std::size_t>, std::shared_ptr<Plan>> plans_;
};

}  // namespace detail

/// The Muon optimizer. The constructor and `step` throw ArgumentError for options out of range.
template <RealScalar T, class M>
class Muon : public detail::OptimizerBase<T, M, MuonOptions>
{
  using Base = detail::OptimizerBase<T, M, MuonOptions>;
  using A = Accumulator<T>;

 public:
  /// Makes an optimizer that updates the values of these parameters. Every rank of the mesh makes
  /// one.
  explicit Muon(const Parameters<T, M>& parameters, const MuonOptions& options = {})
      : Base{detail::parameters_of(true, parameters, options.groups), options, "muon", false},
        list_{detail::parameters_of(true, parameters, options.groups)},
        momentum_{list_, "muon.momentum"},
        update_{list_, "muon.update"},
        adamw_{detail::parameters_of(false, parameters, options.groups), adamw_options(options)}
  {
    for (const auto& p : list_) is_muon_.push_back(!p.frozen);
    for (const auto& p : parameters) is_frozen_.push_back(p.frozen);
    if (!list_.empty())
      orthogonalizer_.emplace(list_.front().value.mesh, matrices(), options.way,
                              options.newton_schulz);
  }
  /// Does not compile, because these are not options of the optimizer.
  template <class Other = detail::OptionsOfPyTorch>
  requires(!std::convertible_to<const Other&, MuonOptions>)
      Muon(const Parameters<T, M>& parameters, const Other&)
      : Muon{parameters}
  {
    detail::require_options<Other, MuonOptions>();
  }

  /// Updates the parameters from their gradients, multiplied by `factor`, such as the factor of
  /// clipping or of a loss scale. Every rank of the mesh calls it.
  /// @throws ShapeError unless the constructor got the same parameters
  void step(const Parameters<T, M>& parameters, double factor = 1)
  {
    const auto& o = this->options_;
    o.check();
    set_list(parameters, true);
    detail::check_parameters(list_, momentum_);
    const detail::MuonMomentum<A> momentum{static_cast<A>(o.momentum),
                                           static_cast<A>(1 - o.momentum), static_cast<A>(factor),
                                           o.nesterov};
    std::size_t next = 0;
    for (const auto& p : list_)
    {
      if (p.frozen) continue;
      const MatrixView<const T> g = p.gradient.valid();
      p.value.mesh.engine().for_each(momentum, momentum_[next], update_[next], g);
      ++next;
    }
    if (orthogonalizer_)
      orthogonalizer_->run(o.newton_schulz, [this](std::size_t i) {
        return update_.names_and_cuts[i].matrix.with(update_.padded(i));
      });
    const detail::MakeUpdate<detail::MuonUpdate<A>> make_update = [this](std::size_t set) {
      const ParameterGroup* const group = this->group(set);
      const double rate = this->rate_of(group);
      double decay = this->options_.weight_decay;
      if (group != nullptr) decay = group->weight_decay.value_or(decay);
      return detail::MuonUpdate<A>{static_cast<A>(rate), static_cast<A>(1 - rate * decay)};
    };
    detail::update_weights(this->weights_, list_, make_update, update_);

    set_list(parameters, false);
    set_adamw_options();
    adamw_.step(list_, factor);
  }

  /// Sets the learning rate of the next steps, and multiplies the rates of groups and of AdamW by
  /// rate / base.
  /// @throws ArgumentError for rates that are negative or not finite
  void set_learning_rate(double rate, double base)
  {
    Base::set_learning_rate(rate, base);
    factor_ = rate / base;
  }

  /// Returns the name of each matrix, and the way in which it is orthogonalized.
  [[nodiscard]] std::vector<std::pair<std::string, MuonWay>> ways() const
  {
    std::vector<std::pair<std::string, MuonWay>> all;
    if (orthogonalizer_)
      for (const auto& m : orthogonalizer_->matrices()) all.emplace_back(m.name, m.grid.way);
    return all;
  }

  /// The number of elements that all ranks of the mesh send in total in a step, according to the
  /// cost formulas.
  [[nodiscard]] std::uint64_t elements_of_step() const
  {
    return orthogonalizer_ ? orthogonalizer_->elements(this->options_.newton_schulz.steps) : 0;
  }

  /// Appends the momentum, `muon.momentum.layers.0.weight` and so on, the masters of 16-bit
  /// weights, `muon.master.layers.0.weight` and so on, and the state of AdamW, but not the options.
  void append_state(State<T, M>& state, const std::string& prefix = "")
  {
    detail::append_moments_to_state(momentum_, state, prefix);
    this->weights_.append_state(state, prefix);
    adamw_.append_state(state, prefix);
  }

 private:
  using Matrix = typename detail::Orthogonalizer<A, M>::Matrix;

  [[nodiscard]] static AdamOptions adamw_options(const MuonOptions& options)
  {
    AdamOptions of_adamw = options.adamw;
    of_adamw.groups = options.groups;
    for (ParameterGroup& group : of_adamw.groups) group.muon.reset();
    return of_adamw;
  }
  /// Gives AdamW the options that the program or a schedule may have changed.
  void set_adamw_options()
  {
    const AdamOptions& from = this->options_.adamw;
    AdamOptions& to = adamw_.options();
    to.beta1 = from.beta1, to.beta2 = from.beta2, to.epsilon = from.epsilon;
    to.weight_decay = from.weight_decay;
    for (std::size_t i = 0; i < to.groups.size() && i < this->options_.groups.size(); ++i)
    {
      to.groups[i].learning_rate = this->options_.groups[i].learning_rate;
      to.groups[i].weight_decay = this->options_.groups[i].weight_decay;
    }
    adamw_.set_learning_rate(from.learning_rate * factor_, from.learning_rate);
  }

  /// Sets the list to Muon's parameters, or to AdamW's; the others are marked as frozen.
  void set_list(const Parameters<T, M>& parameters, bool muon)
  {
    list_ = parameters;
    for (std::size_t i = 0; i < list_.size() && i < is_muon_.size(); ++i)
      list_[i].frozen = is_frozen_[i] || is_muon_[i] != muon;
  }

  /// Returns the matrices of the list. Only parameters that are not frozen count.
  [[nodiscard]] std::vector<Matrix> matrices() const
  {
    std::vector<Matrix> all;
    std::size_t next = 0;
    for (const auto& p : list_)
    {
      if (p.frozen) continue;
      const std::string name = this->options_.merged ? detail::name_of_merged(p.name) : p.name;
      const Shape shape = p.value.shape;
      if (all.empty() || all.back().name != name)
        all.push_back({.name = name, .w = {.shape = {shape.rows, 0}}});
      Matrix& m = all.back();
      detail::MuonMatrix::Part part{m.w.shape.cols, shape};
      for (int rank = 0; rank < p.value.mesh.size(); ++rank)
        part.blocks.push_back(p.value.block(rank));
      m.w.shape.cols += shape.cols;
      m.w.parts.push_back(std::move(part));
      m.parameters.push_back(next++);
      const auto in = static_cast<double>(m.w.shape.rows);
      const auto out = static_cast<double>(m.w.shape.cols);
      m.scale = this->options_.scale == MuonScale::original ? std::sqrt(std::max(1.0, out / in))
                                                            : 0.2 * std::sqrt(std::max(out, in));
    }
    return all;
  }

  Parameters<T, M> list_;  // all parameters; those of the other optimizer are marked as frozen
  std::vector<bool> is_muon_;
  std::vector<bool> is_frozen_;
  detail::Moments<T, M> momentum_;
  detail::Moments<T, M> update_;  // u, and then the orthogonalized u
  AdamW<T, M> adamw_;
  double factor_ = 1;  // the schedule's factor
  std::optional<detail::Orthogonalizer<A, M>> orthogonalizer_;
};

}  // namespace cubist::CUBIST_ABI
