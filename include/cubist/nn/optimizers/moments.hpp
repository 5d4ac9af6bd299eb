// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The state of optimizers for each element of each parameter: means of gradients, and for weights
// of 16 bits master copies in float. The means of 16-bit weights are in float as well.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/state.hpp"
#include "cubist/engine/matrix_groups.hpp"
#include "cubist/engine/span.hpp"
#include "cubist/nn/optimizers/parameter_groups.hpp"
#include "cubist/nn/parameter.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// One value for each element of each parameter that is not frozen, zero at first.
template <class T, class M>
class Moments
{
 public:
  using Value = Accumulator<T>;

  Moments(const Parameters<T, M>& parameters, const std::string& name)
  {
    for (const auto& p : parameters)
    {
      if (p.frozen) continue;
      const auto& v = p.value;
      require<ArgumentError>(
          v.padded.size() == 0 || p.gradient.padded.data() != nullptr, "got an optimizer for ",
          p.name,
          ", which has no gradient, since its model was made for inference; make "
          "the model without `.inference = true`");
      names_and_cuts_.push_back(
          {name + "." + p.name, v.with(MatrixView<Value>{nullptr, v.padded.shape()})});
      shapes_.push_back(v.valid().shape());
      data_.emplace_back(v.padded.size());
    }
  }
  [[nodiscard]] std::size_t size() const { return data_.size(); }
  [[nodiscard]] Shape shape(std::size_t i) const { return shapes_[i]; }
  [[nodiscard]] MatrixView<Value> operator[](std::size_t i)
  {
    return padded(i).block(0, 0, shapes_[i]);
  }

  void append_state(State<T, M>& state, const std::string& prefix)
  {
    for (std::size_t i = 0; i < size(); ++i)
    {
      auto& mine = state.template matrices_of<Value>().emplace_back(names_and_cuts_[i]);
      mine.name = prefix + mine.name;
      mine.matrix.padded = padded(i);
    }
  }

 private:
  MatrixView<Value> padded(std::size_t i)
  {
    return {data_[i].data(), names_and_cuts_[i].matrix.padded.shape()};
  }

  std::vector<NamedMatrix<Value, M>> names_and_cuts_;
  std::vector<Shape> shapes_;  // the shapes of the valid part
  std::vector<typename M::Engine::template Buffer<Value>> data_;
};

template <class T, class M>
void check_parameters(const Parameters<T, M>& parameters, const Moments<T, M>& state)
{
  std::size_t count = 0;
  bool same = true;
  for (const auto& p : parameters)
    if (!p.frozen)
    {
      same = same && count < state.size() && p.value.valid().shape() == state.shape(count);
      ++count;
    }
  require<ShapeError>(
      same && count == state.size(), "got ", parameters.size(),
      " parameters other than those of the optimizer, so its state does not correspond "
      "to them; make a new optimizer for them");
}

/// update(master, x…), then rounds the master to the weight. A weight that is not the rounded
/// master, because the user set it or this is the first update, first becomes the master.
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

/// The weights that an optimizer updates. One call of the engine updates the weights of a set.
/// Weights of 16 bits have masters in float, which accumulate updates that are too small for 16
/// bits.
template <class T, class M>
class Weights
{
 public:
  Weights(const Parameters<T, M>& parameters, const std::string& name, ParameterSets sets)
      : masters_{ShortReal<T> ? parameters : Parameters<T, M>{}, name + ".master"}, sets_{std::move(
                                                                                        sets)},
        kept_(sets_.size())
  {
  }

  [[nodiscard]] const ParameterSets& sets() const { return sets_; }

  /// update(w, g, m…) for all elements of all parameters, g of their gradients, m of the moments.
  /// `update` is make(set), which is called for each set in turn, and again by each replay of a
  /// captured step.
  template <class Make, class... Of>
  void apply(const Parameters<T, M>& parameters, Make make, Of&... moments)
  {
    for (std::size_t set = 0; set < sets_.size(); ++set)
      apply_to(
          set, parameters, [make, set] { return make(set); }, moments...);
  }
  void append_state(State<T, M>& state, const std::string& prefix)
  {
    masters_.append_state(state, prefix);
  }

 private:
  template <class Make, class... Of>
  void apply_to(std::size_t set, const Parameters<T, M>& parameters, Make make, Of&... moments)
  {
    if (parameters.empty()) return static_cast<void>(make());
    groups_.clear();
    std::size_t next = 0;  // the number of the next parameter that is not frozen
    for (const auto& p : parameters)
    {
      if (p.frozen) continue;
      const std::size_t i = next++;
      if (sets_.set_of(i) != set) continue;
      const MatrixView<const T> g = p.gradient.valid();
      const MatrixView<T> w = p.value.valid();
      if constexpr (ShortReal<T>)
        groups_.push_back(make_group(w, masters_[i], g, moments[i]...));
      else
        groups_.push_back(make_group(w, g, moments[i]...));
    }
    const auto& engine = parameters.front().value.mesh.engine();
    const SpanName all{"update of all parameters"};
    const auto name = [](std::size_t i) { return SpanName{"update of parameter", i}; };
    if constexpr (ShortReal<T>)
      kept_[set].for_each(
          engine, groups_, MatrixTypes<T, float, const T, typename Of::Value...>{},
          [make] { return UpdateMaster<T, decltype(make())>{make()}; }, all, name);
    else
      kept_[set].for_each(engine, groups_, MatrixTypes<T, const T, typename Of::Value...>{}, make,
                          all, name);
  }

  Moments<T, M> masters_;  // empty unless T has 16 bits
  ParameterSets sets_;
  std::vector<MatrixGroup> groups_;
  std::vector<MatrixGroups<typename M::Engine>> kept_;  // the groups of each set
};

}  // namespace cubist::CUBIST_ABI::detail
