// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Z = X W + b, and Y = f(Z) for the GELU that has tanh in it, in one pass by cublasLt, whose
// epilogues do to an element what is to be done before they write it.
//
//   Z^T = W^T X^T by columns, so b is added to each of cublasLt's columns
//
// Which of its algorithms it is to be is asked once for each size. cublasLt has none for some types
// and strides; then nothing is done, and the caller goes another way.

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

namespace cubist::detail
{

/// A product as cublasLt has it described: D = A B with an epilogue, by columns.
template <RealScalar T>
class CublasAffine
{
 public:
  /// @param y empty for no more than Z
  /// @throws ShapeError unless the shapes fit
  CublasAffine(MatrixView<const T> x, MatrixView<const T> w, MatrixView<const T> b, MatrixView<T> z,
               std::optional<MatrixView<T>> y)
      : size_{product_size(Op::none, x.shape(), Op::none, w.shape(), z.shape())}, x_{x}, w_{w},
        b_{b}, z_{z}, out_{y.value_or(z)}, activates_{y.has_value()}
  {
    require_shape(b.shape(), Shape{1, z.cols()});
    require_shape(out_.shape(), z.shape());
  }

  /// @returns whether cublasLt can do it; if not, it has done nothing
  [[nodiscard]] bool run()
  {
    if (size_.m == 0 || size_.n == 0 || size_.k == 0 || !aligned()) return false;
    describe();
    auto& known = algorithms();
    auto found = known.find(key());
    if (found == known.end()) found = known.emplace(key(), ask()).first;
    if (!found->second) return false;
    const auto& best = *found->second;
    auto& room = workspace();
    if (room.size() < best.workspaceSize) room = CudaBuffer<std::uint8_t>(best.workspaceSize);
    const Factor alpha{1};
    const Factor beta{0};
    require_cublas(cublasLtMatmul(lt(), &product_, &alpha, w_.data(), &a_, x_.data(), &b_layout_,
                                  &beta, out_.data(), &d_, out_.data(), &d_, &best.algo,
                                  room.data(), room.size(), ComputeStream::get()),
                   "cublasLtMatmul", "a product of ", x_.shape(), " times ", w_.shape());
    return true;
  }

 private:
  using Factor = Accumulator<T>;
  using Algorithm = std::optional<cublasLtMatmulHeuristicResult_t>;
  using Key = std::tuple<int, cudaDataType, cublasComputeType_t, std::array<std::size_t, 7>, bool>;

  static constexpr std::size_t most_workspace = std::size_t{32} << 20;

  // Of the thread, as the handle of cuBLAS is.
  static std::map<Key, Algorithm>& algorithms()
  {
    static thread_local std::map<Key, Algorithm> known;
    return known;
  }
  static CudaBuffer<std::uint8_t>& workspace()
  {
    static thread_local std::map<int, CudaBuffer<std::uint8_t>> rooms;
    return rooms[device()];
  }
  /// A handle of cuBLAS is one of cublasLt, too.
  static cublasLtHandle_t lt() { return reinterpret_cast<cublasLtHandle_t>(cublas()); }
  static int device()
  {
    int current = 0;
    require_cuda(cudaGetDevice(&current), "cudaGetDevice", "a product");
    return current;
  }

  /// What cublasLt takes for granted when it is asked, and what GELU's epilogue wants.
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
    return {device(),
            cublas_type<T>(),
            cublas_compute<T>(),
            {size_.m, size_.n, size_.k, x_.ld(), w_.ld(), z_.ld(), out_.ld()},
            activates_};
  }

  void describe()
  {
    constexpr auto type = cublas_type<T>();
    constexpr bool wide = std::same_as<T, double>;
    const auto ok = [](cublasStatus_t status) {
      require_cublas(status, "cublasLt", "the description of a product");
    };
    const auto layout = [&](auto& made, std::size_t rows, std::size_t cols, std::size_t ld) {
      ok(cublasLtMatrixLayoutInit(&made, type, rows, cols, static_cast<std::int64_t>(ld)));
    };
    layout(a_, size_.n, size_.k, w_.ld());
    layout(b_layout_, size_.k, size_.m, x_.ld());
    layout(d_, size_.n, size_.m, out_.ld());
    ok(cublasLtMatmulDescInit(&product_, cublas_compute<T>(), wide ? CUDA_R_64F : CUDA_R_32F));
    const auto set = [&](cublasLtMatmulDescAttributes_t what, const auto& value) {
      ok(cublasLtMatmulDescSetAttribute(&product_, what, &value, sizeof value));
    };
    set(CUBLASLT_MATMUL_DESC_EPILOGUE,
        activates_ ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, b_.data());
    if (!activates_) return;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, z_.data());
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(z_.ld()));
  }

  /// The algorithm that cublasLt believes to be the fastest, if it has one.
  [[nodiscard]] Algorithm ask() const
  {
    cublasLtMatmulPreferenceOpaque_t preference;
    require_cublas(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit",
                   "a product");
    require_cublas(cublasLtMatmulPreferenceSetAttribute(&preference,
                                                        CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                        &most_workspace, sizeof most_workspace),
                   "cublasLtMatmulPreferenceSetAttribute", "a product");
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
  // Descriptions, which the handle's functions take by address.
  mutable cublasLtMatmulDescOpaque_t product_{};
  mutable cublasLtMatrixLayoutOpaque_t a_{};
  mutable cublasLtMatrixLayoutOpaque_t b_layout_{};
  mutable cublasLtMatrixLayoutOpaque_t d_{};
};

}  // namespace cubist::detail
