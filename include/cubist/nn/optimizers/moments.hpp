// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The state that optimizers keep for each element of each parameter: means of gradients, and master
// copies in float of 16-bit weights. The means of 16-bit weights are in float, too.

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/matrix_groups.hpp"
#include "cubist/engine/span.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/state.hpp"
#include "cubist/nn/optimizers/parameter_groups.hpp"

namespace cubist::CUBIST_ABI::detail
{

// The functions of optimizers that take long to compile are not members, so that the compiled
// library can contain them.

/// One value for each element of each parameter that is not frozen; all are initially 0.
template <class T, class M>
struct Moments
{
  using Value = Accumulator<T>;

  Moments() = default;
  Moments(const Parameters<T, M>& parameters, const std::string& name)
  {
    append_moments(*this, parameters, name);
  }

  std::vector<NamedMatrix<Value, M>> names_and_cuts;
  std::vector<Shape> shapes;  // the shapes of the valid parts
  std::vector<typename M::Engine::template Buffer<Value>> data;

  [[nodiscard]] std::size_t size() const { return data.size(); }
  [[nodiscard]] MatrixView<Value> padded(std::size_t i)
  {
    return {data[i].data(), names_and_cuts[i].matrix.padded.shape()};
  }
  [[nodiscard]] MatrixView<Value> operator[](std::size_t i)
  {
    return padded(i).block(0, 0, shapes[i]);
  }
};

/// Adds moments for these parameters.
template <class T, class M>
void append_moments(Moments<T, M>& moments, const Parameters<T, M>& parameters,
                    const std::string& name)
{
  for (const auto& p : parameters)
  {
    if (p.frozen) continue;
    const auto& v = p.value;
    require<ArgumentError>(v.padded.size() == 0 || p.gradient.padded.data() != nullptr,
                           "got an optimizer for ", p.name,
                           ", but its model was made for inference, so it has no gradient; make "
                           "the model without `.inference = true`");
    moments.names_and_cuts.push_back(
        {name + "." + p.name, v.with(MatrixView<Accumulator<T>>{nullptr, v.padded.shape()})});
    moments.shapes.push_back(v.valid().shape());
    moments.data.emplace_back(v.padded.size());
  }
}

template <class T, class M>
void append_moments_to_state(Moments<T, M>& moments, State<T, M>& state, const std::string& prefix)
{
  for (std::size_t i = 0; i < moments.size(); ++i)
  {
    auto& mine =
        state.template matrices_of<Accumulator<T>>().emplace_back(moments.names_and_cuts[i]);
    mine.name = prefix + mine.name;
    mine.matrix.padded = moments.padded(i);
  }
}

/// @throws ShapeError unless the moments belong to these parameters
template <class T, class M>
void check_parameters(const Parameters<T, M>& parameters, const Moments<T, M>& state)
{
  std::size_t count = 0;
  bool same = true;
  for (const auto& p : parameters)
    if (!p.frozen)
    {
      same = same && count < state.size() && p.value.valid().shape() == state.shapes[count];
      ++count;
    }
  require<ShapeError>(
      same && count == state.size(), "got ", parameters.size(),
      " parameters that are not those of the optimizer, so its state does not belong to them; "
      "make a new optimizer for them");
}

/// Calls update(master, x…), and rounds the master to the weight. A weight that is not the rounded
/// master, because the user set it or this is the first update, is first copied to the master.
template <class T, class Update>
struct UpdateMaster
{
  Update update;

  template <class... X>
  CUBIST_HOST_DEVICE void operator()(float& w, float& master, X&... x) const
  {
    if (T{master} != w) master = w;
    update(master, x...);
    w = master;
  }
};

/// The weights that an optimizer updates. One call of the engine updates all weights of a set.
/// 16-bit weights have masters in float, which accumulate updates that are too small for 16 bits.
template <class T, class M>
struct Weights
{
  static_assert(
      !requires { typename M::Scheme; },
      "this optimizer has a mesh with a scheme, cubist::Mesh<S, B>, but the parameters of "
      "networks have one without; name the network's mesh, decltype(mlp)::Mesh, which is "
      "cubist::AxisMesh<S::Axes, B>, or let it be deduced: cubist::Adam "
      "optimizer{mlp.parameters()}");

  Weights(const Parameters<T, M>& parameters, const std::string& name, ParameterSets parameter_sets)
      : sets{std::move(parameter_sets)},
        kept(sets.size())
  {
    if constexpr (ShortReal<T>) append_moments(masters, parameters, name + ".master");
  }

  void append_state(State<T, M>& state, const std::string& prefix)
  {
    if constexpr (ShortReal<T>) append_moments_to_state(masters, state, prefix);
  }

  Moments<T, M> masters = {};  // empty unless T has 16 bits
  ParameterSets sets;
  std::vector<MatrixGroup> groups = {};
  std::vector<MatrixGroups<typename M::Engine>> kept;  // the groups of each set
};

/// Returns the update for the weights of a set.
template <class Update>
using MakeUpdate = std::function<Update(std::size_t set)>;

template <class T, class M, class Update, class... Of>
void update_set(Weights<T, M>& weights, std::size_t set, const Parameters<T, M>& parameters,
                const MakeUpdate<Update>& make_update, Of&... moments)
{
  const auto make = [make_update, set] { return make_update(set); };
  if (parameters.empty()) return static_cast<void>(make());
  auto& groups = weights.groups;
  groups.clear();
  std::size_t next = 0;  // the number of the next parameter that is not frozen
  for (const auto& p : parameters)
  {
    if (p.frozen) continue;
    const std::size_t i = next++;
    if (weights.sets.set_of(i) != set) continue;
    const MatrixView<const T> g = p.gradient.valid();
    const MatrixView<T> w = p.value.valid();
    if constexpr (ShortReal<T>)
      groups.push_back(make_group(w, weights.masters[i], g, moments[i]...));
    else
      groups.push_back(make_group(w, g, moments[i]...));
  }
  const auto& engine = parameters.front().value.mesh.engine();
  const SpanName all{"update of all parameters"};
  const auto name = [](std::size_t i) { return SpanName{"update of parameter", i}; };
  if constexpr (ShortReal<T>)
    weights.kept[set].for_each(
        engine, groups, MatrixTypes<T, float, const T, typename Of::Value...>{},
        [make] { return UpdateMaster<T, Update>{make()}; }, all, name);
  else
    weights.kept[set].for_each(engine, groups, MatrixTypes<T, const T, typename Of::Value...>{},
                               make, all, name);
}

/// Calls update(w, g, m…) for each element w of all parameters, with its gradient g and its moments
/// m. make_update(set) returns `update` for each set in turn, and again in each replay of a
/// captured step.
/// @throws ShapeError unless the moments belong to these parameters
template <class T, class M, class Update, class First, class... Rest>
void update_weights(Weights<T, M>& weights, const Parameters<T, M>& parameters,
                    const MakeUpdate<Update>& make_update, First& first, Rest&... rest)
{
  check_parameters(parameters, first);
  for (std::size_t set = 0; set < weights.sets.size(); ++set)
    update_set(weights, set, parameters, make_update, first, rest...);
}

/// Lists the instances in the compiled library (cubist/core/instances.hpp).
#define CUBIST_MOMENTS_INSTANCES(prefix, M, T)                                                     \
  CUBIST_INSTANCE(prefix, detail::append_moments<T, M>)                                            \
  CUBIST_INSTANCE(prefix, detail::append_moments_to_state<T, M>)
CUBIST_FOR_TRAINED_MESHES(CUBIST_MOMENTS_INSTANCES)

}  // namespace cubist::CUBIST_ABI::detail
