// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The measurement behind device_elementwise.hpp, for any engine of a GPU.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubist/core/matrix_view.hpp>
#include <cubist/core/scalar.hpp>
#include <cubist/engine/epilogue.hpp>
#include <cubist/engine/functions.hpp>
#include <cubist/nn/dense/activation_passes.hpp>
#include <cubist/nn/dense/linear.hpp>
#include <cubist/nn/losses/loss.hpp>
#include <cubist/nn/optimizers/optimizer.hpp>
#include <cubist/scheme/mesh.hpp>
#include <cubist/scheme/summa25d.hpp>

#include "common/scalars.hpp"
#include "gpu/device_elementwise.hpp"
#include "gpu/device_machine.hpp"

namespace bench
{

/// Measures functions on matrices of one shape, on this rank.
template <class B, class T>
class DevicePasses
{
 public:
  using World = typename B::Communicator;
  using Engine = typename B::Engine;
  using Layer = cubist::Linear<cubist::Summa25D, B, T>;

  DevicePasses(World& world, const DeviceElementwiseTask& task)
      : world_{world},
        calls_{task.calls},
        shape_{task.rows, task.cols}
  {
  }

  [[nodiscard]] std::vector<DevicePass> measure()
  {
    measure_maps();
    measure_losses();
    measure_optimizer();
    return std::move(all_);
  }

 private:
  using In = cubist::MatrixView<const T>;
  using Gelu = cubist::GeluTanh;

  struct Matrix
  {
    explicit Matrix(cubist::Shape s)
        : buffer(s.size()),
          shape{s}
    {
    }
    [[nodiscard]] cubist::MatrixView<T> view() { return {buffer.data(), shape}; }
    [[nodiscard]] In in() { return view(); }
    cubist::CudaBuffer<T> buffer;
    cubist::Shape shape;
  };

  /// Appends the time of f, which reads and writes `bytes` bytes.
  template <class F>
  void row(const std::string& function, double bytes, F f)
  {
    const cubist::Shape half{1, std::max<std::size_t>(static_cast<std::size_t>(bytes) / 8, 1)};
    cubist::CudaBuffer<float> from(half.cols), to(half.cols);
    const auto copy = [&] {
      engine_.copy(cubist::MatrixView<const float>{from.data(), half},
                   cubist::MatrixView<float>{to.data(), half});
    };
    const double copy_seconds = seconds_of_queued<Engine>(world_, calls_, copy);
    all_.push_back({function, bytes, seconds_of_queued<Engine>(world_, calls_, f), copy_seconds});
  }
  /// Appends the time of f, which reads and writes this many matrices.
  template <class F>
  void row(const std::string& function, int matrices, F f)
  {
    row(function, matrices * double(shape_.size()) * sizeof(T), f);
  }

  void measure_maps()
  {
    using cubist::detail::Itself;
    using cubist::detail::Sum;
    Matrix x{shape_}, y{shape_}, z{shape_}, sums{{1, shape_.cols}}, column{{shape_.rows, 1}};
    const Gelu f;
    using A = cubist::Accumulator<T>;
    row("fill", 1, [&] { engine_.fill(y.view(), T{1}); });
    row("map", 2, [&] { engine_.map(y.view(), cubist::detail::Same{}, x.in()); });
    row("sum of two", 3, [&] { engine_.map(y.view(), Sum{}, x.in(), z.in()); });
    row("bias, gelu_tanh", 3, [&] {
      engine_.for_each(cubist::detail::AddAndActivate<Gelu>{f}, z.view(), y.view(),
                       sums.view().repeated(shape_.rows));
    });
    row("gelu_tanh's slope", 3,
        [&] { engine_.map(y.view(), cubist::detail::Slope<Gelu>{f}, x.in(), z.in()); });
    row("the same, column sums", 3, [&] {
      engine_.map_sums(y.view(), sums.view(), cubist::detail::Slope<Gelu>{f}, x.in(), z.in());
    });
    row("column sums", 1, [&] { engine_.column_sums(x.in(), sums.view()); });
    row("row sums", 1, [&] { engine_.row_fold(column.view(), T{}, Sum{}, Itself{}, x.in()); });
    cubist::CudaBuffer<A> total(1);
    row("sum", 1, [&] {
      engine_.fold_to(cubist::MatrixView<A>{total.data(), {1, 1}}, A{}, Sum{}, Itself{}, x.in());
    });
  }

  void measure_losses()
  {
    const cubist::Mesh<cubist::Summa25D, B> mesh{world_};
    const typename Layer::Output y{mesh, shape_}, target{mesh, shape_};
    auto dy = y;
    row("squared error", 3, [&] { (void)mean_squared_error(y, target, dy); });
    std::vector<int> labels(shape_.rows);
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int>(i % shape_.cols);
    row("cross-entropy", 4, [&] { (void)softmax_cross_entropy(y, labels, dy); });
  }

  void measure_optimizer()
  {
    const cubist::Mesh<cubist::Summa25D, B> mesh{world_};
    Layer layer{mesh, shape_.rows, shape_.cols, {.bias = false}};
    cubist::Parameters<T, typename Layer::Mesh> parameters;
    layer.append_parameters(parameters, "");
    cubist::Adam optimizer{parameters};
    // It reads the gradient; it reads and writes the weight, both moments and a master in float.
    const std::size_t state = cubist::ShortReal<T> ? 2 * 3 * sizeof(float) : 2 * 2 * sizeof(T);
    row("adam", double(shape_.size()) * double(3 * sizeof(T) + state),
        [&] { optimizer.step(parameters); });
  }

  World& world_;
  int calls_;
  cubist::Shape shape_;
  Engine engine_;
  std::vector<DevicePass> all_;
};

/// Measures on one rank.
template <class B, class Scalars>
std::optional<std::vector<DevicePass>> measure_device_passes(const DeviceElementwiseTask& task)
{
  std::optional<std::vector<DevicePass>> result;
  Scalars::with(task.scalar, [&]<class T>() {
    cubist::launch<B>({.ranks = 1}, [&](auto& world) {
      result = DevicePasses<B, T>{world, task}.measure();
    });
  });
  return result;
}

}  // namespace bench
