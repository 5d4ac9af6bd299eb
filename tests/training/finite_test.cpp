// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/scheme/megatron1d.hpp"
#include "cubist/training/finite.hpp"

#include "nn.hpp"

namespace cubist::test::finite_test
{

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

TEST_CASE("both parts of a complex number are checked")
{
  const auto code = [](double re, double im) {
    return cubist::detail::fault_code(std::complex<double>{re, im}, 3);
  };
  CHECK(code(1, 2) == cubist::detail::no_fault);
  CHECK((code(1, infinity) == 7 && code(infinity, 1) == 7));
  CHECK((code(1, not_a_number) == 6 && code(not_a_number, 1) == 6));
}

/// A value that is not finite, at a global place in a gradient.
struct Fault
{
  std::size_t parameter;
  std::size_t i;
  std::size_t j;
  double value;
};

template <class T, class M>
void put(const Fault& fault, const Parameters<T, M>& parameters)
{
  const auto& gradient = parameters[fault.parameter].gradient;
  const Block b = gradient.block(gradient.mesh.rank());
  const std::size_t i = fault.i - b.rows.offset;
  const std::size_t j = fault.j - b.cols.offset;
  if (i < b.rows.valid && j < b.cols.valid)
    gradient.valid()(i, j) = static_cast<Real<T>>(fault.value);
}

/// Two weights and a bias on a mesh, without a network around them.
template <class T, class S>
struct Gradients
{
  using M = AxisMesh<typename S::Axes, Threads>;
  using Next = typename S::Next;
  using Bias = RowVector<typename S::Output>;

  explicit Gradients(const M& mesh)
      : w{mesh, {7, 5}},
        v{mesh, {5, 3}},
        b{mesh, {1, 5}},
        parameters{{"w", w.view(), w.view()}, {"b", b.view(), b.view()}, {"v", v.view(), v.view()}}
  {
  }

  DistMatrix<T, typename S::Weight, M> w;
  DistMatrix<T, typename Next::Weight, M> v;
  DistMatrix<T, Bias, M> b;
  Parameters<T, M> parameters;
};

/// The message of the error on all ranks; "different" if ranks disagree.
template <class T = double, class S>
std::string message_on_all(const Place<S>& place, const std::vector<Fault>& faults,
                           double loss = 0.5)
{
  const auto ranks = on_mesh(place, [&](const auto& mesh) {
    const Gradients<T, S> gradients{mesh};
    for (const auto& fault : faults) put(fault, gradients.parameters);
    return message_of<NumericError>([&] { check_finite(loss, gradients.parameters, 17); });
  });
  for (const auto& rank : ranks)
    if (rank != ranks.front()) return "different";
  return ranks.front();
}

template <class S>
void require_found(const Place<S>& place)
{
  if (!fits(place)) return;
  CAPTURE(place.name());
  CHECK(message_on_all(place, {}).empty());
  for (const std::size_t i : {0U, 3U, 6U})
    for (std::size_t j = 0; j < 5; ++j)
      CHECK(mentions(message_on_all(place, {{0, i, j, not_a_number}}),
                     "got a NaN in the gradient of w at row " + std::to_string(i) + ", column " +
                         std::to_string(j) + " in step 17, "));
  CHECK(
      mentions(message_on_all(
                   place, {{2, 4, 1, not_a_number}, {1, 0, 4, -infinity}, {2, 0, 0, not_a_number}}),
               "got an infinity in the gradient of b at row 0, column 4 in step 17, "));
  CHECK(mentions(message_on_all(place, {{0, 6, 0, infinity}, {0, 3, 4, not_a_number}}), "a NaN",
                 "of w at row 3, column 4"));
  CHECK(mentions(message_on_all(place, {{0, 0, 0, not_a_number}}, not_a_number),
                 "got a NaN in the loss in step 17, "));
  CHECK(mentions(message_on_all(place, {}, infinity), "got an infinity in the loss in step 17, "));
}

TEST_CASE("Every rank throws an error with the global place of the first NaN or infinity")
{
  require_found(two_two_two);
  require_found(cube);
  require_found(Place<Megatron1D>{3, {}});
}

TEST_CASE("Complex gradients are finite in both parts")
{
  using C = std::complex<float>;
  CHECK(message_on_all<C>(single_rank, {}).empty());
  CHECK(mentions(message_on_all<C>(single_rank, {{0, 2, 3, not_a_number}}), "a NaN",
                 "row 2, column 3"));
}

TEST_CASE("All active ranks throw when the loss of one is not finite, and idle ranks do nothing")
{
  if (!fits(3)) return;
  const auto messages = on_ranks<Threads>(3, [](Threads::Communicator& world) {
    const AxisMesh<Summa25D::Axes, Threads> mesh{world, {1, 1, 2}, 2, IdleRanks::allowed};
    const Gradients<double, Summa25D> gradients{mesh};
    return message_of<NumericError>(
        [&] { check_finite(world.rank() == 0 ? 0.5 : not_a_number, gradients.parameters, 1); });
  });
  CHECK(mentions(messages[0], "a NaN in the loss in step 1"));
  CHECK(messages == std::vector<std::string>{messages[0], messages[0], ""});
}

TEST_CASE("A loss without parameters is checked, too")
{
  using None = Parameters<double, AxisMesh<Summa25D::Axes, Threads>>;
  CHECK_NOTHROW(check_finite(1.0, None{}, 0));
  CHECK_THROWS_AS(check_finite(not_a_number, None{}, 0), NumericError);
}

}  // namespace cubist::test::finite_test
