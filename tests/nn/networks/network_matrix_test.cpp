// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/networks/network_matrix.hpp"

#include "nn.hpp"

namespace cubist::test::network_matrix_test
{

/// Calls f with activations in each layout of scheme S.
template <class S, class F>
auto with_both(const Mesh<S, Threads>& mesh, const Global<double>& global, F f)
{
  using Matrix = NetworkMatrix<S, Threads, double>;
  return std::pair{f(Matrix{scatter<typename S::Input>(mesh, global)}),
                   f(Matrix{scatter<typename S::Output>(mesh, global)})};
}

TEST_CASE("activations of either layout have the properties of their matrix")
{
  const auto global = uniform<double>(13, 11, 1);
  for_each_place([&]<class S>(const Place<S>& place) {
    const auto both = on_mesh(place, [&](const auto& mesh) {
      return with_both<S>(mesh, global, [&](const auto& y) {
        const auto local = y.local();
        bool same = y.rows() == 13 && y.cols() == 11 && y.shape() == Shape{13, 11} &&
                    y.mesh() == mesh && local.shape()[0] == y.block().rows.valid &&
                    local.shape()[1] == y.block().cols.valid;
        for (std::size_t i = 0; same && i < local.shape()[0]; ++i)
          for (std::size_t j = 0; same && j < local.shape()[1]; ++j)
            same = local(i, j) == global(y.block().rows.offset + i, y.block().cols.offset + j);
        return std::pair{same, gather(y)};
      });
    });
    CAPTURE(place.name());
    CHECK(identical(both[0].first.second, global));
    CHECK(identical(both[0].second.second, global));
    for (const auto& [even, odd] : both)
    {
      CHECK(even.first);
      CHECK(odd.first);
    }
  });
}

TEST_CASE("a copy of activations is independent")
{
  if (!fits(cube)) return;
  const auto global = uniform<double>(13, 11, 1);
  const auto [original, copied] = on_root(cube, [&](const auto& mesh) {
    NetworkMatrix<Cube3D, Threads, double> y{scatter<Cube3D::Output>(mesh, global)};
    const auto copy = y;
    for (auto& v : y.local()) v = 7;
    return std::pair{gather(y), gather(copy)};
  });
  CHECK(original(12, 10) == 7);
  CHECK(identical(copied, global));
}

TEST_CASE("activations may refer to a matrix, but a copy, or a change, has elements")
{
  if (!fits(cube)) return;
  const auto found = on_root(cube, [&](const auto& mesh) {
    using Matrix = NetworkMatrix<Cube3D, Threads, double>;
    const auto fill = [](auto& m, double value) {
      m.generate([value](std::size_t, std::size_t) { return value; });
    };
    auto y = scatter<Cube3D::Output>(mesh, uniform<double>(13, 11, 1));
    fill(y, 1);
    Matrix reference{&y};
    const auto copy = std::as_const(reference);
    auto assigned = copy;
    assigned = std::as_const(reference);
    fill(y, 2);
    const auto value = [&](const Matrix& m) {
      const auto all = gather(m);
      return mesh.rank() == 0 ? all(12, 10) : 0;
    };
    const bool is_same = &std::as_const(reference).template as<Cube3D::Output>() == &y;
    const std::vector<double> before{value(reference), value(copy), value(assigned)};
    fill(reference.template as<Cube3D::Output>(), 3);
    return std::tuple{is_same, before, std::vector{value(reference), value(Matrix{&y})}};
  });
  CHECK(std::get<0>(found));
  CHECK(std::get<1>(found) == std::vector<double>{2, 1, 1});
  CHECK(std::get<2>(found) == std::vector<double>{3, 2});
}

TEST_CASE("zeros and global matrices like activations have their shape, layout and scalar")
{
  const auto global = uniform<double>(13, 11, 1);
  const auto other = uniform<float>(13, 11, 2);
  for_each_place([&]<class S>(const Place<S>& place) {
    const auto [even, odd] = on_root(place, [&](const auto& mesh) {
      return with_both<S>(mesh, global, [&](const auto& y) {
        const auto zeros = zeros_like(y);
        const auto scattered = scatter_like(y, other);
        return std::tuple{gather(zeros), gather(scattered),
                          zeros.block() == y.block() && scattered.block() == y.block()};
      });
    });
    CAPTURE(place.name());
    const auto zeros = generate<double>(13, 11, [](std::size_t, std::size_t) { return 0.0; });
    for (const auto& [zeros_found, scattered, same_block] : {even, odd})
    {
      CHECK(identical(zeros_found, zeros));
      CHECK(identical(scattered, Global<double>{other}));
      CHECK(same_block);
    }
  });
}

TEST_CASE("`as` returns the matrix for its layout only")
{
  if (!fits(cube)) return;
  const auto global = uniform<double>(6, 5, 1);
  const auto take = [&](auto layout) {
    using Wanted = typename decltype(layout)::type;
    return message_of<ShapeError>([&] {
      on_mesh(cube, [&](const auto& mesh) {
        NetworkMatrix<Cube3D, Threads, double> y{scatter<Cube3D::Output>(mesh, global)};
        const auto& unchanged = y;
        y.template as<Wanted>().local()(0, 0) = 1;
        return unchanged.template as<Wanted>().rows();
      });
    });
  };
  CHECK(take(std::type_identity<Cube3D::Output>{}) == "");
  CHECK(mentions(take(std::type_identity<Cube3D::Input>{}), Cube3D::Output::to_string(),
                 Cube3D::Input::to_string(), "after an odd number of layers", "scatter_like(y"));
}

TEST_CASE("losses of activations are those of their matrices")
{
  if (!fits(cube)) return;
  const auto global = uniform<double>(13, 11, 1, 3);
  const auto target = uniform<double>(13, 11, 2, 3);
  const auto labels = classes(13, 11);
  struct Found
  {
    double entropy, error, accuracy;
    Global<double> entropy_gradient, error_gradient;
  };
  const auto [wrapped, plain, mixed] = on_root(cube, [&](const auto& mesh) {
    const auto y = scatter<Cube3D::Output>(mesh, global);
    const auto wanted = scatter<Cube3D::Output>(mesh, target);
    const auto found = [&](const auto& of, const auto& towards, auto dy) {
      Found f;
      f.entropy = softmax_cross_entropy(of, labels, dy);
      f.entropy_gradient = gather(dy);
      f.error = mean_squared_error(of, towards, dy);
      f.error_gradient = gather(dy);
      f.accuracy = accuracy(of, labels);
      return f;
    };
    using Wrapped = NetworkMatrix<Cube3D, Threads, double>;
    const Wrapped activations{y};
    auto dy = zeros_like(activations);
    return std::tuple{found(activations, Wrapped{wanted}, dy), found(y, wanted, y),
                      mean_squared_error(activations, wanted, dy)};
  });
  CHECK(mixed == plain.error);
  CHECK(wrapped.entropy == plain.entropy);
  CHECK(wrapped.error == plain.error);
  CHECK(wrapped.accuracy == plain.accuracy);
  CHECK(identical(wrapped.entropy_gradient, plain.entropy_gradient));
  CHECK(identical(wrapped.error_gradient, plain.error_gradient));
}

TEST_CASE("a gradient or a target of the other layout is refused")
{
  if (!fits(cube)) return;
  const auto global = uniform<double>(6, 5, 1);
  const std::vector<int> labels(6, 0);
  enum class Loss
  {
    entropy,
    error,
    error_of_matrix
  };
  const auto with = [&]<class Other>(std::type_identity<Other>, Loss loss) {
    return message_of<ShapeError>([&] {
      on_mesh(cube, [&](const auto& mesh) {
        using Matrix = NetworkMatrix<Cube3D, Threads, double>;
        const Matrix y{scatter<Cube3D::Output>(mesh, global)};
        const auto matrix = scatter<Other>(mesh, global);
        Matrix other{matrix};
        auto dy = zeros_like(y);
        return loss == Loss::entropy ? softmax_cross_entropy(y, labels, other)
               : loss == Loss::error ? mean_squared_error(y, other, dy)
                                     : mean_squared_error(y, matrix, dy);
      });
    });
  };
  for (const auto loss : {Loss::entropy, Loss::error, Loss::error_of_matrix})
  {
    CAPTURE(loss);
    CHECK(with(std::type_identity<Cube3D::Output>{}, loss) == "");
    CHECK(mentions(with(std::type_identity<Cube3D::Input>{}, loss),
                   "got a matrix with " + Cube3D::Input::to_string(),
                   "one with " + Cube3D::Output::to_string()));
  }
}

}  // namespace cubist::test::network_matrix_test
