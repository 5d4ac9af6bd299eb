// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Z = X W + b, and Y = gelu_tanh(Z), in one pass by an epilogue of cublasLt.
//
//   row-major Z = X W is column-major Z^T = W^T X^T, so b is added to each of its columns
//
// The algorithm is looked up once for each size. cublasLt does not support all types and
// strides; then nothing is computed, and the caller uses another path.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include <cublasLt.h>
#include <cublas_v2.h>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/device/check.hpp"
#include "cubist/engine/cuda/blas.hpp"
#include "cubist/engine/cuda/buffer.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/shapes.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// One fused product, described to cublasLt as the column-major D = A B with an epilogue.
template <RealScalar T>
class CublasAffine
{
 public:
  /// @param x (M, K)  @param w (K, N)  @param b (1, N)  @param z (M, N)
  /// @param y (M, N), or nullopt to compute Z only
  /// @throws ShapeError unless the shapes fit
  CublasAffine(MatrixView<const T> x, MatrixView<const T> w, MatrixView<const T> b, MatrixView<T> z,
               std::optional<MatrixView<T>> y)
      : size_{product_size(Op::none, x.shape(), Op::none, w.shape(), z.shape())}, x_{x}, w_{w},
        b_{b}, z_{z}, out_{y.value_or(z)}, activates_{y.has_value()}
  {
    require_shape(b.shape(), Shape{1, z.cols()});
    require_shape(out_.shape(), z.shape());
  }

  /// Computes Z, and Y if there is one.
  /// @returns false, and computes nothing, if cublasLt does not support the product
  [[nodiscard]] bool run()
  {
    if (size_.m == 0 || size_.n == 0 || size_.k == 0 || !aligned()) return false;
    describe();
    auto& cache = algorithms();
    auto found = cache.find(key());
    if (found == cache.end()) found = cache.emplace(key(), find_algorithm()).first;
    if (!found->second) return false;
    const auto& best = *found->second;
    auto& memory = workspace();
    if (memory.size() < best.workspaceSize) memory = CudaBuffer<std::uint8_t>(best.workspaceSize);
    const Factor alpha{1};
    const Factor beta{0};
    require_cublas(cublasLtMatmul(lt(), &product_, &alpha, w_.data(), &a_, x_.data(), &b_layout_,
                                  &beta, out_.data(), &d_, out_.data(), &d_, &best.algo,
                                  memory.data(), memory.size(), ComputeStream::get()),
                   "cublasLtMatmul", "a product of ", x_.shape(), " times ", w_.shape());
    return true;
  }

 private:
  using Factor = Accumulator<T>;
  using Algorithm = std::optional<cublasLtMatmulHeuristicResult_t>;
  using Key = std::tuple<int, cudaDataType, cublasComputeType_t, std::array<std::size_t, 7>, bool>;

  static constexpr std::size_t max_workspace = std::size_t{32} << 20;

  // Thread-local, like the handle of cuBLAS.
  static std::map<Key, Algorithm>& algorithms()
  {
    static thread_local std::map<Key, Algorithm> cache;
    return cache;
  }
  static CudaBuffer<std::uint8_t>& workspace()
  {
    static thread_local std::map<int, CudaBuffer<std::uint8_t>> buffers;
    return buffers[current_device()];
  }
  /// A cuBLAS handle is also a cublasLt handle.
  static cublasLtHandle_t lt() { return reinterpret_cast<cublasLtHandle_t>(cublas()); }

  /// The alignment that cublasLt's heuristic assumes, and that GELU's epilogue needs.
  [[nodiscard]] bool aligned() const
  {
    for (const void* p : {static_cast<const void*>(x_.data()), static_cast<const void*>(w_.data()),
                          static_cast<const void*>(b_.data()), static_cast<const void*>(z_.data()),
                          static_cast<const void*>(out_.data())})
      if (reinterpret_cast<std::uintptr_t>(p) % 256 != 0) return false;
    return !activates_ || z_.ld() % 8 == 0;
  }

  [[nodiscard]] Key key() const
  {
    return {current_device(),
            cublas_type<T>(),
            cublas_compute<T>(),
            {size_.m, size_.n, size_.k, x_.ld(), w_.ld(), z_.ld(), out_.ld()},
            activates_};
  }

  static void ok(cublasStatus_t status)
  {
    require_cublas(status, "cublasLt", "the description of a product");
  }

  void describe()
  {
    constexpr auto type = cublas_type<T>();
    constexpr bool is_double = std::same_as<T, double>;
    const auto layout = [&](auto& layout_out, std::size_t rows, std::size_t cols, std::size_t ld) {
      ok(cublasLtMatrixLayoutInit(&layout_out, type, rows, cols, static_cast<std::int64_t>(ld)));
    };
    layout(a_, size_.n, size_.k, w_.ld());
    layout(b_layout_, size_.k, size_.m, x_.ld());
    layout(d_, size_.n, size_.m, out_.ld());
    ok(cublasLtMatmulDescInit(&product_, cublas_compute<T>(), is_double ? CUDA_R_64F : CUDA_R_32F));
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      ok(cublasLtMatmulDescSetAttribute(&product_, attribute, &value, sizeof value));
    };
    set(CUBLASLT_MATMUL_DESC_EPILOGUE,
        activates_ ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, b_.data());
    if (!activates_) return;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, z_.data());
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(z_.ld()));
  }

  /// The fastest algorithm by cublasLt's heuristic, if there is one.
  [[nodiscard]] Algorithm find_algorithm()
  {
    cublasLtMatmulPreferenceOpaque_t preference;
    ok(cublasLtMatmulPreferenceInit(&preference));
    ok(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                            &max_workspace, sizeof max_workspace));
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const auto status = cublasLtMatmulAlgoGetHeuristic(lt(), &product_, &a_, &b_layout_, &d_, &d_,
                                                       &preference, 1, &best, &found);
    const bool has_one =
        status == CUBLAS_STATUS_SUCCESS && found > 0 && best.state == CUBLAS_STATUS_SUCCESS;
    return has_one ? Algorithm{best} : std::nullopt;
  }

  ProductSize size_;
  MatrixView<const T> x_;
  MatrixView<const T> w_;
  MatrixView<const T> b_;
  MatrixView<T> z_;
  MatrixView<T> out_;
  bool activates_;
  cublasLtMatmulDescOpaque_t product_{};
  cublasLtMatrixLayoutOpaque_t a_{};
  cublasLtMatrixLayoutOpaque_t b_layout_{};
  cublasLtMatrixLayoutOpaque_t d_{};
};

}  // namespace cubist::CUBIST_ABI::detail
