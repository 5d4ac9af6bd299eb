// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Checks what every scheme must do on every backend: its products are those of a serial oracle, for
// every size on every mesh. A scheme's test file passes its meshes to these functions:
//
//   TEMPLATE_LIST_TEST_CASE("…", "", (Subjects<MyScheme, TestBackend>))
//   {
//     conform_exactly<TestType>(meshes, 10);
//     conform_within_rounding<TestType>(meshes);
//   }
//
// `Products` (products.hpp) hides what depends on the scheme, so that the checks are compiled once
// for each scalar.

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/backend/backend.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/matrix/global.hpp"
#include "cubist/scheme/mesh.hpp"
#include "cubist/scheme/scheme.hpp"

#include "backend.hpp"
#include "catch.hpp"
#include "economy.hpp"
#include "products.hpp"
#include "ranks.hpp"

namespace cubist::test
{

/// A subject of the checks: a scheme with a scalar and a backend.
template <SchemeType S, BackendType B, Scalar T, Op x = Op::none, Op w = Op::none>
struct Subject
{
  static constexpr Op op_x = x;
  static constexpr Op op_w = w;

  using Scheme = S;
  using Backend = B;
  using Value = T;
  using Product = DistMatMul<S, B, T, x, w>;
  using Mesh = typename Product::Mesh;
};

/// A scheme with one real and one complex scalar. What depends on the scalar and the backend does
/// not depend on the scheme, so it is enough to test one scheme with all scalars (cube3d_test.cpp).
template <SchemeType S, BackendType B>
using Subjects = std::tuple<Subject<S, B, double>, Subject<S, B, std::complex<float>>>;

/// A mesh for the checks.
template <SchemeType S>
struct TestMesh
{
  int ranks;
  typename S::Extents extents;
};

template <SchemeType S>
using TestMeshes = std::vector<TestMesh<S>>;

/// Those of the given meshes that fit.
template <BackendType B = TestBackend, SchemeType S>
[[nodiscard]] TestMeshes<S> those_that_fit(const std::vector<TestMesh<S>>& meshes)
{
  TestMeshes<S> fitting;
  for (const auto& mesh : meshes)
    if (fits<B>(mesh.ranks)) fitting.push_back(mesh);
  return fitting;
}

/// Computes the product of {{1, 2}, {3, 4}} and {{5, 6}, {7, 8}} on a mesh.
template <SchemeType S>
[[nodiscard]] xt::xtensor<double, 2> small_product(const TestMesh<S>& on)
{
  return on_ranks<TestBackend>(
             on.ranks,
             [&](TestBackend::Communicator& world) {
               const Mesh<S, TestBackend> mesh{world, on.extents};
               const auto x =
                   scatter<typename S::Input>(mesh, xt::xtensor<double, 2>{{1, 2}, {3, 4}});
               const auto w =
                   scatter<typename S::Weight>(mesh, xt::xtensor<double, 2>{{5, 6}, {7, 8}});
               DistMatMul<S, TestBackend, double> product{mesh, {.m = 2, .n = 2, .k = 2}};
               return gather(product.forward(x, w));
             })
      .front();
}
/// The elements of this product, computed by hand.
inline const xt::xtensor<double, 2> small_product_by_hand{{19, 22}, {43, 50}};

template <class Sub>
class Conformance final : public Products<typename Sub::Value>
{
  using T = typename Sub::Value;
  using Product = typename Sub::Product;

 public:
  Conformance(const typename Sub::Mesh& mesh, ProductSize s, const Way& way)
      : Products<T>{s, Sub::op_x, Sub::op_w, way},
        plan_{mesh, s, way.policy, way.method, quanta(mesh, way)},
        x_{mesh, op_shape(Sub::op_x, {s.m, s.k}),
           cubist::detail::op_quanta(Sub::op_x, {plan_.quanta().m, plan_.quanta().k})},
        w_{mesh, op_shape(Sub::op_w, {s.k, s.n}),
           cubist::detail::op_quanta(Sub::op_w, {plan_.quanta().k, plan_.quanta().n})},
        dy_{mesh, {s.m, s.n}, {plan_.quanta().m, plan_.quanta().n}},
        y_{dy_},
        dx_{x_},
        dw_{w_}
  {
  }

  void check_exactly(const Layer<T>& layer, Findings& found)
  {
    check_products_exactly<T>(*this, layer, found);
  }

  void load_operands(const Layer<T>& layer) override
  {
    load(x_, stored(Sub::op_x, layer.x));
    load(w_, stored(Sub::op_w, layer.w));
    load(dy_, layer.dy);
  }
  void forget_results() override
  {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    for (const auto& block : {y_.valid(), dx_.valid(), dw_.valid()})
      y_.mesh().engine().fill(block, scalar<T>(nan, nan));
  }
  void forward(T alpha, T beta) override { plan_.forward(x_, w_, y_, alpha, beta); }
  void grad_input(T alpha, T beta) override
  {
    if constexpr (has_gradients) plan_.grad_input(dy_, w_, dx_, alpha, beta);
  }
  void grad_weight(T alpha, T beta) override
  {
    if constexpr (has_gradients) plan_.grad_weight(x_, dy_, dw_, alpha, beta);
  }
  void backward(T beta) override
  {
    if constexpr (has_gradients) plan_.backward(x_, w_, dy_, dx_, dw_, beta);
  }
  void backward_weight(T beta) override
  {
    if constexpr (has_gradients) plan_.backward(x_, dy_, dw_, beta);
  }
  [[nodiscard]] Shard<T> y() const override { return shard_of(y_); }
  [[nodiscard]] Shard<T> dx() const override { return shard_of(dx_); }
  [[nodiscard]] Shard<T> dw() const override { return shard_of(dw_); }

 private:
  static constexpr bool has_gradients =
      !ComplexScalar<T> || (Sub::op_x != Op::adjoint && Sub::op_w != Op::adjoint);

  [[nodiscard]] static ProductQuanta quanta(const typename Sub::Mesh& mesh, const Way& way)
  {
    const std::size_t q = mesh.quantum();
    return {.m = q * way.quanta.m, .n = q * way.quanta.n, .k = q * way.quanta.k};
  }

  Product plan_;
  typename Product::Input x_;
  typename Product::Weight w_;
  typename Product::Output dy_;
  typename Product::Output y_;
  typename Product::Input dx_;
  typename Product::Weight dw_;
};

/// Makes the plans of a subject on one mesh, which it makes once.
template <class T>
struct ProductsMaker
{
  ProductsMaker() = default;
  ProductsMaker(const ProductsMaker&) = delete;
  ProductsMaker& operator=(const ProductsMaker&) = delete;
  virtual ~ProductsMaker() = default;
  [[nodiscard]] virtual std::unique_ptr<Products<T>> make(ProductSize size, const Way& way) = 0;
};

template <class Sub>
class ConformanceMaker final : public ProductsMaker<typename Sub::Value>
{
 public:
  ConformanceMaker(typename Sub::Backend::Communicator& world,
                   const TestMesh<typename Sub::Scheme>& on)
      : mesh_{world, on.extents}
  {
  }
  [[nodiscard]] std::unique_ptr<Products<typename Sub::Value>> make(ProductSize size,
                                                                    const Way& way) override
  {
    return std::make_unique<Conformance<Sub>>(mesh_, size, way);
  }

 private:
  Mesh<typename Sub::Scheme, typename Sub::Backend> mesh_;
};

/// A subject on a mesh, of which the type tells only the scalar and the backend.
template <class T, BackendType B>
struct ConformanceCase
{
  int ranks;
  std::string name;
  const void* on;
  std::unique_ptr<ProductsMaker<T>> (*maker)(typename B::Communicator& world, const void* on);
};

template <class Sub>
[[nodiscard]] auto case_of(const TestMesh<typename Sub::Scheme>& on)
{
  using S = typename Sub::Scheme;
  using B = typename Sub::Backend;
  using T = typename Sub::Value;
  const auto maker = [](typename B::Communicator& world,
                        const void* mesh) -> std::unique_ptr<ProductsMaker<T>> {
    return std::make_unique<ConformanceMaker<Sub>>(world, *static_cast<const TestMesh<S>*>(mesh));
  };
  return ConformanceCase<T, B>{on.ranks,
                               S::name +
                                   (" on " + S::Axes::to_string(S::extents(on.extents, on.ranks))) +
                                   " in " + element_name<T>(),
                               &on, maker};
}

template <class T, BackendType B>
void check_case_exactly(const ConformanceCase<T, B>& on, const std::vector<ProductSize>& sizes,
                        std::uint64_t& seed, const std::vector<Way>& some_ways)
{
  INFO(on.name);
  std::vector<std::vector<Layer<T>>> layers;
  for (const auto& s : sizes)
  {
    auto& of_size = layers.emplace_back();
    // The second layer finds what the first left in the workspace.
    for (int i = 0; i < (s.m * s.n * s.k > 1 ? 2 : 1); ++i)
      of_size.push_back(random_layer<T>(s, ++seed));
  }
  require_clear(on_ranks<B>(on.ranks, [&](typename B::Communicator& world) {
    const auto maker = on.maker(world, on.on);
    Findings found;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      for (auto way : some_ways)
      {
        if (i % 2 == 1) way.quanta = {.m = 3, .n = 2, .k = 5};  // more padding
        const auto products = maker->make(sizes[i], way);
        for (const auto& layer : layers[i]) check_products_exactly(*products, layer, found);
      }
    return found;
  }));
}

/// Checks on one mesh, at these sizes, that all products of small integers equal the oracle's.
template <class Sub>
void conform_exactly(const TestMesh<typename Sub::Scheme>& on,
                     const std::vector<ProductSize>& sizes, std::uint64_t& seed,
                     const std::vector<Way>& some_ways = ways<typename Sub::Backend>())
{
  if (fits<typename Sub::Backend>(on.ranks))
    check_case_exactly(case_of<Sub>(on), sizes, seed, some_ways);
}

/// Checks on each mesh, at `random` random sizes and some hard ones, that all products of small
/// integers equal the oracle's.
template <class Sub>
void conform_exactly(const TestMeshes<typename Sub::Scheme>& meshes, std::size_t random)
{
  std::uint64_t seed = 0;
  for (const auto& on : meshes)
  {
    const std::size_t fewer = sanitized ? 6 : few_suffice<typename Sub::Backend> ? 3 : 1;
    const auto sizes = hard_sizes((random + fewer - 1) / fewer, ++seed);
    conform_exactly<Sub>(on, sizes, seed);
  }
}

template <class T, BackendType B>
void check_case_within_rounding(const ConformanceCase<T, B>& on, const RoundedLayer<T>& layer,
                                ProductSize size)
{
  INFO(on.name);
  // Two runs of each method, as bits must not depend on whether a plan gathers again or keeps.
  auto all_ways = ways<B>();
  if (exposes<B>()) all_ways.push_back(all_ways.back());
  std::vector<std::vector<T>> first;
  Method method = Method::automatic;
  for (const auto& way : all_ways)
  {
    std::vector<Findings> found;
    std::vector<std::vector<T>> run;
    for (auto& [findings, result] : on_ranks<B>(on.ranks, [&](typename B::Communicator& world) {
           const auto products = on.maker(world, on.on)->make(size, way);
           std::pair<Findings, std::vector<T>> r;
           r.second = check_products_within_rounding(*products, layer, r.first);
           return r;
         }))
    {
      found.push_back(findings);
      run.push_back(result);
    }
    require_clear(found);
    if (std::exchange(method, way.method) != way.method)
    {
      first = std::move(run);
      continue;
    }
    const auto same_bits = [](const std::vector<T>& a, const std::vector<T>& b) {
      return !a.empty() && a.size() == b.size() &&
             std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
    };
    CHECK(std::equal(run.begin(), run.end(), first.begin(), first.end(), same_bits));
  }
}

/// Checks on each mesh that products of fractions are as near the serial ones as rounding allows,
/// and have the same bits on every run, whether or not the plan keeps what it gathered.
template <class Sub>
void conform_within_rounding(const TestMeshes<typename Sub::Scheme>& meshes)
{
  const ProductSize size{.m = 53, .n = 37, .k = 101};
  const RoundedLayer<typename Sub::Value> layer{
      random_layer<typename Sub::Value, Fractions>(size, 7)};
  for (const auto& on : those_that_fit<typename Sub::Backend>(meshes))
    check_case_within_rounding(case_of<Sub>(on), layer, size);
}

}  // namespace cubist::test
