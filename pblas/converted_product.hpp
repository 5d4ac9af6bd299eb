// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Computes C = alpha op(A) op(B) + beta C for block-cyclic matrices, with any scheme on any mesh:
//
//   1. op(A) is converted to the scheme's X (M, K), op(B) to its W (K, N);
//   2. Y = X W;
//   3. Y is converted back: C = alpha Y + beta C.
//
// The indices of X, W and Y are in the order that needs the fewest messages (ordered_product.hpp).
//
// The planner predicts the time of the product on every mesh. For the fastest ones, it adds the
// time of the conversions, which follows from the elements that they send.
//
// Memory: X, W and Y, and what the scheme gathers. What is not kept for the next call is freed.
// Elements sent: those of the scheme and of the conversions.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubist/backend/mpi.hpp>
#include <cubist/core/error.hpp>
#include <cubist/core/scalar.hpp>
#include <cubist/foreign/conversion_plan.hpp>
#include <cubist/foreign/distribution.hpp>
#include <cubist/foreign/foreign_matrix.hpp>
#include <cubist/foreign/matrix_part.hpp>
#include <cubist/foreign/pgemm.hpp>
#include <cubist/foreign/redistribute.hpp>
#include <cubist/machine/machine.hpp>
#include <cubist/matmul/dist_matmul.hpp>
#include <cubist/matrix/dist_matrix.hpp>
#include <cubist/plan/meshes.hpp>
#include <cubist/plan/plan.hpp>
#include <cubist/scheme/catalogue.hpp>
#include <cubist/scheme/grid3d.hpp>
#include <cubist/scheme/mesh.hpp>
#include <cubist/scheme/summa2d.hpp>

#include "message_product.hpp"
#include "ordered_product.hpp"
#include "product_cache.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The schemes that are considered for a single product. Either C stays in place, or the matrices
/// are cut along three axes, one or two of which may have a single rank.
using ProductSchemes = Schemes<Summa2D, Grid3D>;

/// A product on a mesh of a scheme.
template <SchemeType S, Scalar T>
class SchemeProduct final : public MessageProduct<T>
{
  using Matmul = DistMatMul<S, Mpi, T>;
  using Mesh = typename Matmul::Mesh;

 public:
  SchemeProduct(const Mesh& mesh, const ProductArguments& call, Method method)
      : op_a_{call.op_a},
        op_b_{call.op_b},
        size_{call.size},
        matrices_{call},
        mesh_{mesh}
  {
    if (!mesh.active()) return;
    product_.emplace(mesh, call.size, Gathered::again, method);
    product_->release_workspace();  // buffers for gradients are never used
  }

  void run(MpiCommunicator& world, T alpha, LocalArray<const T> a, LocalArray<const T> b, T beta,
           LocalArray<T> c, PgemmReport& report) override
  {
    if (!x_) x_.emplace(mesh_, Shape{size_.m, size_.k});
    if (!w_) w_.emplace(mesh_, Shape{size_.k, size_.n});
    if (!y_) y_.emplace(mesh_, Shape{size_.m, size_.n});
    time_into(report.conversion, [&] {
      redistribute(ForeignMatrix<const T>{world, matrices_.a, a.data, a.ld}, *x_,
                   ConversionOptions<T>{op_a_});
      redistribute(ForeignMatrix<const T>{world, matrices_.b, b.data, b.ld}, *w_,
                   ConversionOptions<T>{op_b_});
    });
    if (product_) time_into(report.product, [&] { product_->forward(*x_, *w_, *y_); });
    time_into(report.conversion, [&] {
      redistribute(std::as_const(*y_), ForeignMatrix<T>{world, matrices_.c, c.data, c.ld},
                   ConversionOptions<T>{Op::none, alpha, beta});
    });
  }

  [[nodiscard]] std::size_t keep(std::size_t limit) override
  {
    std::size_t kept = 0;
    const auto keep_or_free = [&](std::size_t bytes, auto free) {
      if (kept + bytes > limit) return free();
      kept += bytes;
    };
    keep_or_free(bytes_of(x_), [&] { x_.reset(); });
    keep_or_free(bytes_of(w_), [&] { w_.reset(); });
    keep_or_free(bytes_of(y_), [&] { y_.reset(); });
    if (product_) keep_or_free(product_->workspace_bytes(), [&] { product_->release_workspace(); });
    return kept;
  }
  [[nodiscard]] std::string text() const override
  {
    const std::size_t bytes =
        bytes_of(x_) + bytes_of(w_) + bytes_of(y_) + (product_ ? product_->workspace_bytes() : 0);
    return join({S::name, " on ", S::Axes::to_string(mesh_.extents()), ", ",
                 (bytes + (1U << 20U) - 1) >> 20U, " MiB of workspace a rank"});
  }

 private:
  template <class M>
  [[nodiscard]] static std::size_t bytes_of(const std::optional<M>& matrix)
  {
    return matrix ? matrix->block().padded().size() * sizeof(T) : 0;
  }

  Op op_a_;
  Op op_b_;
  ProductSize size_;
  OrderedProduct matrices_;
  Mesh mesh_;
  std::optional<typename Matmul::Input> x_;  // the next call makes what is not kept
  std::optional<typename Matmul::Weight> w_;
  std::optional<typename Matmul::Output> y_;
  std::optional<Matmul> product_;
};

/// Returns the predicted time, in seconds, of the conversions of A, B and C for a scheme on a mesh.
/// Elements that leave a node go through its link, and every rank packs or copies the elements that
/// it exchanges.
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
  const OrderedProduct matrices{call};
  const auto seconds = [&](const Distribution& from, const Distribution& to, Op op) {
    const auto on_link = [&](int ranks_of_unit, double bandwidth) {
      const auto cost = conversion_cost(from, to, op, MatrixPart::all, ranks_of_unit);
      return static_cast<double>(std::max(cost.sent, cost.received) * scalar_bytes) / bandwidth;
    };
    return on_link(1, machine.inside().bandwidth) +
           on_link(machine.on_a_node(ranks), machine.across().bandwidth);
  };
  return seconds(matrices.a, x, call.op_a) + seconds(matrices.b, w, call.op_b) +
         seconds(y, matrices.c, Op::none);
}

/// A plan of the product, and the time of its conversions in seconds.
struct ConvertedPlan
{
  Plan product;
  double conversion = 0;

  [[nodiscard]] double seconds() const { return product.seconds() + conversion; }
};

/// The options of the planner for a product of `T` that ranks compute in messages.
template <Scalar T>
[[nodiscard]] PlanOptions options_of_plan()
{
  return {.scalar_bytes = sizeof(T),
          .training = false,
          .gathered = Gathered::again,
          .method = Method::collectives};
}

/// Returns the scheme and mesh that are predicted to be the fastest, conversions included.
template <Scalar T>
[[nodiscard]] ConvertedPlan plan_product(const ProductArguments& call, int ranks,
                                         const Machine& machine)
{
  constexpr std::size_t counted = 12;  // the fastest products, for which conversions are predicted
  const PlanOptions options = options_of_plan<T>();
  std::vector<ConvertedPlan> plans;
  for_each_scheme<ProductSchemes>([&]<class S>() {
    cubist::for_each_mesh<S>(ranks, [&](const typename S::Axes::Array& extents) {
      if (2 * S::Axes::ranks(extents) > ranks)
        plans.push_back({plan_on<S>(extents, {call.size}, ranks, machine, options)});
    });
  });
  const auto faster = [](const ConvertedPlan& p, const ConvertedPlan& q) {
    return p.seconds() < q.seconds();
  };
  std::stable_sort(plans.begin(), plans.end(), faster);
  plans.resize(std::min(plans.size(), counted));
  for (auto& plan : plans)
    plan.conversion = with_scheme<ProductSchemes>(plan.product.scheme, [&]<class S>() {
      return conversion_seconds<S>(extents_of<S>(plan.product), call, sizeof(T), machine, ranks);
    });
  return *std::min_element(plans.begin(), plans.end(), faster);
}

/// Returns the time of a plan, conversions included, on a machine on which only the links between
/// nodes take time.
template <Scalar T>
[[nodiscard]] double link_seconds(const Plan& plan, const ProductArguments& call, int ranks,
                                  Machine machine)
{
  constexpr double fast = 1e30;
  machine.rates = {{"float", RateTable::peak(fast)}, {"double", RateTable::peak(fast)}};
  machine.memory_bandwidth = fast;
  machine.node_memory_bandwidth = 0;
  machine.call_seconds = 0;
  for (Link& link : machine.links)
  {
    if (&link != &machine.links.back()) link.bandwidth = fast;
    link.latency = 0;
    link.rank_bandwidth = 0;
    link.core_seconds_per_byte = 0;
    link.core_seconds_per_message = 0;
  }
  return with_scheme<ProductSchemes>(plan.scheme, [&]<class S>() {
    const auto extents = extents_of<S>(plan);
    return plan_on<S>(extents, {call.size}, ranks, machine, options_of_plan<T>()).seconds() +
           conversion_seconds<S>(extents, call, sizeof(T), machine, ranks);
  });
}

}  // namespace cubist::CUBIST_ABI::detail
