// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/optimizers/optimizer.hpp"

#include "nn.hpp"

namespace cubist::test::moments_test
{

using M = AxisMesh<Summa25D::Axes, Threads>;
template <class T>
using Matrix = DistMatrix<T, Summa25D::Weight, M>;

constexpr Shape shape{3, 5};

/// Runs body(w, dw, parameters) on 2 x 2 ranks, where all elements of w and dw are 1, and returns
/// its findings.
template <class T, class F>
void on_parameter(F body)
{
  require_clear(on_mesh(single_layer, [&](const auto& mesh) {
    Findings found;
    Matrix<T> w{mesh, shape};
    w.generate([](std::size_t, std::size_t) { return 1.0F; });
    Matrix<T> dw = w;
    body(found, w, Parameters<T, M>{{"weight", w.view(), dw.view()}});
    return found;
  }));
}

template <class T>
void check(Findings& found, const Matrix<T>& w, float expected, const char* when)
{
  const auto valid = w.valid();
  for (std::size_t i = 0; i < valid.rows(); ++i)
    for (std::size_t j = 0; j < valid.cols(); ++j)
      found.check(valid(i, j) == expected, when, ": ", valid(i, j), ", not ", expected);
  found.check(padding(w.view()).largest == 0, when, ": padding");
}

TEST_CASE("updates too small for 16 bits add up")
{
  on_parameter<bfloat16>([](Findings& found, auto& w, const auto& parameters) {
    Sgd<bfloat16, M> sgd{parameters, {.learning_rate = 0x1p-12}};
    sgd.step(parameters);
    check(found, w, 1, "after a step");
    for (int step = 1; step < 64; ++step) sgd.step(parameters);
    check(found, w, 1 - 0x1p-6F, "after 64 steps");
  });
}

TEST_CASE("the factor of a step multiplies the gradients of weights of 16 bits in float")
{
  // 2^-26 is 0 in half.
  on_parameter<half>([](Findings& found, auto& w, const auto& parameters) {
    Sgd<half, M> sgd{parameters, {.learning_rate = 0x1p24}};
    sgd.step(parameters, 0x1p-26);
    check(found, w, 0.75F, "after a step of Sgd");
  });
  on_parameter<bfloat16>([](Findings& found, auto& w, const auto& parameters) {
    // In the first step bias corrections cancel, so the update is rate g / (|g| + epsilon).
    Adam<bfloat16, M> adam{parameters, {.learning_rate = 0.5, .epsilon = 0.25}};
    adam.step(parameters, 0.25);
    check(found, w, 0.75F, "after a step of Adam");
  });
}

TEST_CASE("a weight that the user sets is updated from its new value")
{
  on_parameter<half>([](Findings& found, auto& w, const auto& parameters) {
    Sgd<half, M> sgd{parameters, {.learning_rate = 0.25}};
    sgd.step(parameters);
    check(found, w, 0.75F, "after a step");
    w.generate([](std::size_t, std::size_t) { return -8.0F; });
    sgd.step(parameters);
    check(found, w, -8.25F, "after it was set");
  });
}

TEST_CASE("the state of weights of 16 bits is in float, with master copies")
{
  on_parameter<bfloat16>([](Findings& found, auto&, const auto& parameters) {
    Adam<bfloat16, M> adam{parameters};
    Sgd<bfloat16, M> sgd{parameters};
    adam.step(parameters);
    auto state = state_of(adam, sgd);
    found.check(state.matrices.empty(), "matrices of 16 bits");
    const std::vector<std::string> names{"adam.mean.weight", "adam.square.weight",
                                         "adam.master.weight", "sgd.velocity.weight",
                                         "sgd.master.weight"};
    found.check(state.accumulators.size() == names.size(), state.accumulators.size(), " matrices");
    for (std::size_t i = 0; i < names.size(); ++i)
      found.check(state.accumulators.at(i).name == names[i], state.accumulators[i].name);
    const auto master = state.accumulators[2].matrix.valid();
    if (master.size() > 0)
      found.check(std::abs(master(0, 0) - (1 - 1e-3F)) < 1e-6F, "the master is ", master(0, 0));
  });
  on_parameter<float>([](Findings& found, auto&, const auto& parameters) {
    Adam<float, M> adam{parameters};
    const auto state = state_of(adam);
    found.check(state.matrices.size() == 2 && state.accumulators.empty(), "masters of floats");
  });
}

}  // namespace cubist::test::moments_test
