// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The products of a layer on any scheme of the catalogue, behind virtual functions, so that the
// code that measures them is compiled once for all schemes.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <cubist/compiled/loops.hpp>
#include <cubist/matmul/dist_matmul.hpp>
#include <cubist/matrix/dist_matrix.hpp>
#include <cubist/matrix/global.hpp>
#include <cubist/plan/cost.hpp>
#include <cubist/scheme/catalogue.hpp>
#include <cubist/scheme/mesh.hpp>

#include "common/schemes.hpp"

namespace bench
{

/// The scheme, mesh and size of a product.
struct ProductSetting
{
  std::string scheme;
  std::vector<int> mesh;  // empty: it follows from the ranks
  cubist::ProductSize size;
  cubist::Gathered gathered = cubist::Gathered::again;
  cubist::Method method = cubist::Method::automatic;
  bool backward = false;  // whether `backward` will be called
  bool idle = false;      // whether the mesh may leave ranks idle
};

/// The products of one rank. Every active rank calls the same functions.
template <class B, class T>
class Product
{
 public:
  virtual ~Product() = default;

  virtual void forward() = 0;
  virtual void backward() = 0;

  /// Gathers the global matrix on rank 0, row by row.
  [[nodiscard]] virtual std::vector<T> gather_x() const = 0;
  [[nodiscard]] virtual std::vector<T> gather_w() const = 0;
  [[nodiscard]] virtual std::vector<T> gather_y() const = 0;

  /// The shape of the padded block of Y.
  [[nodiscard]] virtual cubist::Shape block() const = 0;
  [[nodiscard]] virtual cubist::Method method() const = 0;
  [[nodiscard]] virtual std::string scheme() const = 0;
  [[nodiscard]] virtual std::string mesh() const = 0;
  /// Elements that one rank sends by collectives in forward.
  [[nodiscard]] virtual double formula_words() const = 0;
  [[nodiscard]] virtual const typename B::Engine& engine() const = 0;
};

/// The elements of X and W: small integers, so that products are exact in any order of summation.
template <class T>
struct XAt
{
  CUBIST_HOST_DEVICE T operator()(std::size_t i, std::size_t j) const
  {
    return static_cast<T>(static_cast<float>((3 * i + 5 * j) % 7) - 3);
  }
};
template <class T>
struct WAt
{
  CUBIST_HOST_DEVICE T operator()(std::size_t i, std::size_t j) const
  {
    return static_cast<T>(static_cast<float>((2 * i + 3 * j) % 5) - 2);
  }
};

template <class B, class S, class T>
class SchemeProduct final : public Product<B, T>
{
  using Matmul = cubist::DistMatMul<S, B, T>;

 public:
  using Mesh = cubist::Mesh<S, B>;

  SchemeProduct(const Mesh& mesh, const ProductSetting& p)
      : product_{mesh, p.size, p.gathered, p.method},
        size_{p.size},
        x_{mesh, {size_.m, size_.k}},
        w_{mesh, {size_.k, size_.n}},
        y_{mesh, {size_.m, size_.n}}
  {
    x_.generate(XAt<T>{});
    w_.generate(WAt<T>{});
    if (!p.backward) return;
    dx_ = std::make_unique<typename Matmul::Input>(x_);
    dw_ = std::make_unique<typename Matmul::Weight>(w_);
  }

  void forward() override { product_.forward(x_, w_, y_); }
  void backward() override { product_.backward(x_, w_, y_, *dx_, *dw_); }
  [[nodiscard]] std::vector<T> gather_x() const override { return gather(x_); }
  [[nodiscard]] std::vector<T> gather_w() const override { return gather(w_); }
  [[nodiscard]] std::vector<T> gather_y() const override { return gather(y_); }
  [[nodiscard]] cubist::Shape block() const override { return y_.block().padded(); }
  [[nodiscard]] cubist::Method method() const override { return product_.method(); }
  [[nodiscard]] std::string scheme() const override { return S::name; }
  [[nodiscard]] std::string mesh() const override
  {
    return S::Axes::to_string(product_.mesh().extents());
  }
  [[nodiscard]] double formula_words() const override
  {
    return cubist::cost<S>(product_.mesh().extents(), size_).forward.words();
  }
  [[nodiscard]] const typename B::Engine& engine() const override
  {
    return product_.mesh().engine();
  }

 private:
  template <class M>
  [[nodiscard]] static std::vector<T> gather(const M& matrix)
  {
    const auto global = cubist::gather(matrix);
    return std::vector<T>(global.data(), global.data() + global.size());
  }

  Matmul product_;
  cubist::ProductSize size_;
  typename Matmul::Input x_;
  typename Matmul::Weight w_;
  typename Matmul::Output y_;
  std::unique_ptr<typename Matmul::Input> dx_;
  std::unique_ptr<typename Matmul::Weight> dw_;
};

/// Makes a product; null on a rank that the mesh leaves idle. Every rank of `world` calls it.
/// @throws cubist::ArgumentError for a scheme that the list does not have
template <class B, class T, class List = cubist::Catalogue>
[[nodiscard]] std::unique_ptr<Product<B, T>> make_product(const typename B::Communicator& world,
                                                          const ProductSetting& p)
{
  return cubist::with_scheme<List>(p.scheme, [&]<class S>() -> std::unique_ptr<Product<B, T>> {
    using Result = SchemeProduct<B, S, T>;
    const auto extents =
        p.idle ? cubist::extents_from_list<S>(p.mesh) : extents_for<S>(p.mesh, world.size());
    const typename Result::Mesh mesh{
        world, extents, p.idle ? cubist::IdleRanks::allowed : cubist::IdleRanks::refused};
    if (!mesh.active()) return nullptr;
    return std::make_unique<Result>(mesh, p);
  });
}

}  // namespace bench
