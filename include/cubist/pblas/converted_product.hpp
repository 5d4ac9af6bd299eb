// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// C = alpha op(A) op(B) + beta C of block-cyclic matrices, by any scheme on any mesh:
//
//   1. op(A) is converted to the scheme's X (M, K), op(B) to its W (K, N);
//   2. Y = X W;
//   3. C = alpha Y + beta C is converted back.
//
// The planner predicts the product on every mesh; the time of the conversions, from the elements
// that they send, is added for the fastest ones.
//
// Memory: X, W and Y, and what the scheme gathers.
// Words: those of the scheme and of the conversions.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cubist/backend/mpi.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/foreign/distribution.hpp"
#include "cubist/foreign/redistribute.hpp"
#include "cubist/machine/machine.hpp"
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/mesh/mesh.hpp"
#include "cubist/pblas/local_part.hpp"
#include "cubist/pblas/product_cache.hpp"
#include "cubist/plan/meshes.hpp"
#include "cubist/plan/plan.hpp"
#include "cubist/scheme/catalogue.hpp"
#include "cubist/scheme/grid3d.hpp"
#include "cubist/scheme/summa2d.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The schemes of a single product: C stays, or the matrices are cut along three axes, of which one
/// or two may have a single rank.
using ProductSchemes = Schemes<Summa2D, Grid3D>;

[[nodiscard]] inline Distribution distribution_of(const SubMatrixPlace& place, Shape shape)
{
  return Distribution{place.layout}.submatrix(place.i, place.j, shape);
}

/// A product on a mesh of one scheme, for any scheme.
template <Scalar T>
class ConvertedProduct : public PlannedProduct
{
 public:
  /// All ranks of the world call it; those outside of a grid have no array.
  virtual void run(MpiCommunicator& world, T alpha, LocalColumns<const T> a,
                   LocalColumns<const T> b, T beta, LocalColumns<T> c, PgemmReport& report) = 0;
};

template <SchemeType S, Scalar T>
class SchemeProduct final : public ConvertedProduct<T>
{
  using Matmul = DistMatMul<S, Mpi, T>;
  using Mesh = typename Matmul::Mesh;

 public:
  SchemeProduct(const Mesh& mesh, const ProductArguments& call, Method method)
      : call_{call}, x_{mesh, {call.size.m, call.size.k}}, w_{mesh, {call.size.k, call.size.n}},
        y_{mesh, {call.size.m, call.size.n}}
  {
    if (mesh.active()) product_.emplace(mesh, call.size, Gathered::again, method);
  }

  void run(MpiCommunicator& world, T alpha, LocalColumns<const T> a, LocalColumns<const T> b,
           T beta, LocalColumns<T> c, PgemmReport& report) override
  {
    const ProductSize s = call_.size;
    time_into(report.conversion, [&] {
      redistribute(foreign_matrix(world, call_.a, op_shape(call_.op_a, {s.m, s.k}), a), x_,
                   ConversionOptions<T>{call_.op_a});
      redistribute(foreign_matrix(world, call_.b, op_shape(call_.op_b, {s.k, s.n}), b), w_,
                   ConversionOptions<T>{call_.op_b});
    });
    if (product_) time_into(report.product, [&] { product_->forward(x_, w_, y_); });
    time_into(report.conversion, [&] {
      redistribute(std::as_const(y_), foreign_matrix(world, call_.c, {s.m, s.n}, c),
                   ConversionOptions<T>{Op::none, alpha, beta});
    });
  }

  [[nodiscard]] std::size_t bytes() const override
  {
    return (x_.block().padded().size() + w_.block().padded().size() + y_.block().padded().size()) *
           sizeof(T);
  }
  [[nodiscard]] std::string text() const override
  {
    return join({S::name, " on ", S::Axes::to_string(x_.mesh().extents()), ", ",
                 (bytes() + (1U << 20U) - 1) >> 20U, " MiB of workspace a rank"});
  }

 private:
  ProductArguments call_;
  typename Matmul::Input x_;
  typename Matmul::Weight w_;
  typename Matmul::Output y_;
  std::optional<Matmul> product_;
};

/// Seconds of the conversions of A, B and C for a scheme on a mesh.
template <SchemeType S>
[[nodiscard]] double conversion_seconds(const typename S::Axes::Array& extents,
                                        const ProductArguments& call, std::size_t scalar_bytes,
                                        const Machine& machine, int ranks)
{
  using A = typename S::Axes;
  const auto [m, n, k] = call.size;
  const Quanta quanta{S::quantum(extents)};
  const auto x = Distribution::of<typename S::Input, A>({m, k}, extents, quanta);
  const auto w = Distribution::of<typename S::Weight, A>({k, n}, extents, quanta);
  const auto y = Distribution::of<typename S::Output, A>({m, n}, extents, quanta);
  const auto& link = machine.shares_memory(ranks) ? machine.inside() : machine.across();
  // The ranks of a node share its link to the other nodes.
  const int sharing = machine.shares_memory(ranks) ? 1 : machine.on_a_node(ranks);
  double seconds = 0;
  for (const auto& cost :
       {conversion_cost(distribution_of(call.a, op_shape(call.op_a, {m, k})), x, call.op_a),
        conversion_cost(distribution_of(call.b, op_shape(call.op_b, {k, n})), w, call.op_b),
        conversion_cost(y, distribution_of(call.c, {m, n}))})
    seconds += static_cast<double>(std::max(cost.sent, cost.received) * scalar_bytes) * sharing /
               link.bandwidth;
  return seconds;
}

/// The scheme and mesh that are predicted to take the least time, conversions included.
template <Scalar T>
[[nodiscard]] Plan plan_product(const ProductArguments& call, int ranks, const Machine& machine)
{
  constexpr std::size_t counted = 12;  // conversions of so many of the fastest products
  const PlanOptions options{.scalar_bytes = sizeof(T),
                            .training = false,
                            .gathered = Gathered::again,
                            .method = Method::collectives};
  std::vector<Plan> plans;
  for_each_scheme<ProductSchemes>([&]<class S>() {
    cubist::for_each_mesh<S>(ranks, [&](const typename S::Axes::Array& extents) {
      if (2 * S::Axes::ranks(extents) > ranks)
        plans.push_back(plan_on<S>(extents, {call.size}, ranks, machine, options));
    });
  });
  std::stable_sort(plans.begin(), plans.end(),
                   [](const Plan& a, const Plan& b) { return a.seconds() < b.seconds(); });
  plans.resize(std::min(plans.size(), counted));
  for (auto& plan : plans)
    plan.time.across += with_scheme<ProductSchemes>(plan.scheme, [&]<class S>() {
      return conversion_seconds<S>(extents_of<S>(plan), call, sizeof(T), machine, ranks);
    });
  return *std::min_element(plans.begin(), plans.end(), [](const Plan& a, const Plan& b) {
    return a.seconds() + a.time.across < b.seconds() + b.time.across;
  });
}

}  // namespace cubist::CUBIST_ABI::detail
