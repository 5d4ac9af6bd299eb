// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Computes Z = X W + b, and Y = gelu_tanh(Z), in one pass. An epilogue of cublasLt changes the
// elements of a product as they are written.
//
//   row-major Z = X W is column-major Z^T = W^T X^T, so b is added to each of its columns
//
// The algorithm is looked up once for each size. Where cublasLt does not support the types or
// strides, nothing is computed, and the caller takes another path.
// Source: NVIDIA, cuBLAS documentation, cublasLtEpilogue_t.

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
#include "cubist/engine/cuda/blas.hpp"
#include "cubist/engine/cuda/buffer.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/shapes.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A product C = A B with an epilogue.
template <RealScalar T>
class CublasEpilogue
{
 public:
  /// Prepares Z = X W + b, for x (M, K), w (K, N), b (1, N), z (M, N).
  /// @throws ShapeError unless the shapes fit
  static CublasEpilogue affine(MatrixView<const T> x, MatrixView<const T> w, MatrixView<const T> b,
                               MatrixView<T> z)
  {
    return {CUBLASLT_EPILOGUE_BIAS, x, w, b, {}, z};
  }
  /// Prepares Z = X W + b, Y = gelu_tanh(Z).
  /// @throws ShapeError unless the shapes fit
  static CublasEpilogue affine_gelu(MatrixView<const T> x, MatrixView<const T> w,
                                    MatrixView<const T> b, MatrixView<T> z, MatrixView<T> y)
  {
    return {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, x, w, b, z, y};
  }

  /// Computes all results.
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
    require_cublas(cublasLtMatmul(lt(), &product_, &alpha, b_.data(), &b_layout_, a_.data(),
                                  &a_layout_, &beta, c_.data(), &c_layout_, c_.data(), &c_layout_,
                                  &best.algo, memory.data(), memory.size(), ComputeStream::get()),
                   "cublasLtMatmul", "a product of ", a_.shape(), " times ", b_.shape());
    return true;
  }

 private:
  using Factor = Accumulator<T>;
  using Algorithm = std::optional<cublasLtMatmulHeuristicResult_t>;
  using Key = std::tuple<int, cudaDataType, cublasComputeType_t, std::array<std::size_t, 7>,
                         cublasLtEpilogue_t>;

  static constexpr std::size_t max_workspace = std::size_t{32} << 20;

  // Thread-local, as cuBLAS's handle is.
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

  /// @param row  the row that is added to each row of the product
  /// @param aux  the matrix to which GELU's epilogue writes the sum, or none
  CublasEpilogue(cublasLtEpilogue_t epilogue, MatrixView<const T> a, MatrixView<const T> b,
                 MatrixView<const T> row, MatrixView<T> aux, MatrixView<T> c)
      : epilogue_{epilogue},
        size_{product_size(Op::none, a.shape(), Op::none, b.shape(), c.shape())},
        a_{a},
        b_{b},
        row_{row},
        aux_{aux},
        c_{c}
  {
    require_shape(row.shape(), Shape{1, c.cols()});
    if (has_aux()) require_shape(aux.shape(), c.shape());
  }

  [[nodiscard]] bool has_aux() const { return epilogue_ != CUBLASLT_EPILOGUE_BIAS; }

  /// Whether the matrices have the alignment that cublasLt's heuristic assumes and GELU's epilogue
  /// needs.
  [[nodiscard]] bool aligned() const
  {
    for (const MatrixView<const T>& m :
         {a_, b_, row_, MatrixView<const T>{aux_}, MatrixView<const T>{c_}})
      if (reinterpret_cast<std::uintptr_t>(m.data()) % 256 != 0) return false;
    return !has_aux() || aux_.ld() % 8 == 0;
  }

  [[nodiscard]] Key key() const
  {
    return {current_device(),
            cublas_type<T>(),
            cublas_compute<T>(),
            {size_.m, size_.n, size_.k, a_.ld(), b_.ld(), aux_.ld(), c_.ld()},
            epilogue_};
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
    layout(b_layout_, size_.n, size_.k, b_.ld());
    layout(a_layout_, size_.k, size_.m, a_.ld());
    layout(c_layout_, size_.n, size_.m, c_.ld());
    ok(cublasLtMatmulDescInit(&product_, cublas_compute<T>(), is_double ? CUDA_R_64F : CUDA_R_32F));
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      ok(cublasLtMatmulDescSetAttribute(&product_, attribute, &value, sizeof value));
    };
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, row_.data());
    if (!has_aux()) return;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux_.data());
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(aux_.ld()));
  }

  /// Returns the fastest algorithm by cublasLt's heuristic, if there is one.
  [[nodiscard]] Algorithm find_algorithm()
  {
    cublasLtMatmulPreferenceOpaque_t preference;
    ok(cublasLtMatmulPreferenceInit(&preference));
    ok(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                            &max_workspace, sizeof max_workspace));
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const auto status =
        cublasLtMatmulAlgoGetHeuristic(lt(), &product_, &b_layout_, &a_layout_, &c_layout_,
                                       &c_layout_, &preference, 1, &best, &found);
    const bool has_one =
        status == CUBLAS_STATUS_SUCCESS && found > 0 && best.state == CUBLAS_STATUS_SUCCESS;
    return has_one ? Algorithm{best} : std::nullopt;
  }

  cublasLtEpilogue_t epilogue_;
  ProductSize size_;
  MatrixView<const T> a_;
  MatrixView<const T> b_;
  MatrixView<const T> row_;
  MatrixView<T> aux_;
  MatrixView<T> c_;
  cublasLtMatmulDescOpaque_t product_{};
  cublasLtMatrixLayoutOpaque_t a_layout_{};
  cublasLtMatrixLayoutOpaque_t b_layout_{};
  cublasLtMatrixLayoutOpaque_t c_layout_{};
};

}  // namespace cubist::CUBIST_ABI::detail
