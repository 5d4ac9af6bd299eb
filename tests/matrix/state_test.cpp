// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matrix/state.hpp"

#include "nn.hpp"

namespace cubist::test::matrix_state_test
{

using M = AxisMesh<Summa2D::Axes, TestBackend>;

/// A part with a matrix and a number.
struct Part
{
  using Value = double;
  using Mesh = M;

  std::string name;
  DistMatrix<double, Summa2D::Input, M> matrix;
  std::uint64_t number = 0;

  void append_state(State<double, M>& state)
  {
    state.matrices.push_back({name + ".matrix", matrix.view()});
    state.numbers.push_back({name + ".number", &number});
  }
};

TEST_CASE("state_of: refers to the matrices and numbers of its parts, in order")
{
  const auto ranks = on_mesh(one_rank, [](const M& mesh) {
    Findings found;
    Part a{"a", {mesh, {2, 3}}};
    Part b{"b", {mesh, {4, 1}}};
    const auto state = state_of(a, b);
    found.check(state.matrices.size() == 2 && state.numbers.size() == 2, "other parts");
    found.check(state.matrices[0].name == "a.matrix", state.matrices[0].name);
    found.check(state.matrices[1].name == "b.matrix", state.matrices[1].name);
    found.check(state.matrices[1].matrix.shape == Shape{4, 1}, state.matrices[1].matrix.shape);
    state.matrices[1].matrix.valid()(3, 0) = 7;
    *state.numbers[0].value = 5;
    found.check(b.matrix.valid()(3, 0) == 7 && a.number == 5, "copies");
    return found;
  });
  require_clear(ranks);
}

}  // namespace cubist::test::matrix_state_test
