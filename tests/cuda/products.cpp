// SPDX-License-Identifier: BSD-3-Clause

// Compares CudaEngine's products that are one library call with HostEngine's: products with
// epilogues of cublasLt, and batches. They use no kernel of cubist, so any compiler will do.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/philox.hpp"
#include "cubist/engine/batch.hpp"
#include "cubist/engine/cuda/engine.hpp"
#include "cubist/engine/epilogue.hpp"
#include "cubist/engine/host/engine.hpp"
#include "cubist/engine/syrk.hpp"
#include "cubist/nn/dense/activation_passes.hpp"

#include "checks.hpp"

using namespace cubist;
using namespace cubist::test;

namespace
{

/// A matrix on the host, and one on the device with the same random elements.
template <RealScalar T>
class Twin
{
 public:
  Twin(Shape shape, std::uint64_t seed)
      : shape_{shape},
        host_(shape.size()),
        device_(shape.size())
  {
    for (std::size_t i = 0; i < host_.size(); ++i)
      host_[i] = Philox{seed, 1}.symmetric<Accumulator<T>>(i, 1);
    CudaEngine{}.upload(MatrixView<const T>{host()}, device());
  }

  [[nodiscard]] MatrixView<T> host() { return {host_.data(), shape_}; }
  [[nodiscard]] MatrixView<T> device() { return {device_.data(), shape_}; }
  [[nodiscard]] MatrixView<const T> host_in() { return host(); }
  [[nodiscard]] MatrixView<const T> device_in() { return device(); }

  void set_device_to_zeros()
  {
    const std::vector<T> zeros(host_.size());
    CudaEngine{}.upload(MatrixView<const T>{zeros.data(), shape_}, device());
  }

  /// @param length the length of the sums that make up the elements
  void compare(Comparison& found, std::size_t length, const std::string& what)
  {
    std::vector<T> got(host_.size());
    CudaEngine{}.download(device_in(), MatrixView<T>{got.data(), shape_});
    double most = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      most = std::max(most, std::abs(static_cast<double>(got[i]) - static_cast<double>(host_[i])));
    const double bound =
        8 * static_cast<double>(length) * std::numeric_limits<Accumulator<T>>::epsilon() +
        8 * static_cast<double>(std::numeric_limits<T>::epsilon());
    found.check(most <= bound, what + ": off by " + std::to_string(most));
  }

 private:
  Shape shape_;
  std::vector<T> host_;
  CudaBuffer<T> device_;
};

template <class T>
std::string name_of(const char* what, std::size_t m, std::size_t n, std::size_t k)
{
  return std::string{what} + " of " + std::to_string(m) + " x " + std::to_string(k) + " x " +
         std::to_string(n) + " in " + element_name<T>();
}

/// Prints whether a product was fused, and checks that it was for sizes that cublasLt documents.
bool was_fused(Comparison& found, bool fused, bool must_be, const std::string& what)
{
  std::printf("%s: %s\n", what.c_str(), fused ? "in one pass" : "cublasLt has none");
  found.check(fused || !must_be, what + ": cublasLt has none");
  return fused;
}

/// Compares Z = X W + b, and Y = gelu_tanh(Z), for which only 16-bit products must use cublasLt.
template <RealScalar T>
void compare_affine(Comparison& found, std::size_t m, std::size_t n, std::size_t k, bool must_be)
{
  const CudaEngine engine;
  Twin<T> x{{m, k}, 1}, w{{k, n}, 2}, b{{1, n}, 3}, z{{m, n}, 4}, y{{m, n}, 5};
  cubist::detail::multiply(HostEngine{}, x.host_in(), w.host_in(),
                           cubist::detail::Epilogue<T, GeluTanh>{b.host_in(), gelu_tanh, y.host()},
                           z.host());
  auto what = name_of<T>("Y = gelu(X W + b)", m, n, k);
  const bool has_gelu = engine.fused_affine(x.device_in(), w.device_in(), b.device_in(), gelu_tanh,
                                            z.device(), y.device());
  if (!ShortReal<T>)
    found.check(!has_gelu, what + ": computed with cublasLt's tanh, which is inaccurate");
  else if (was_fused(found, has_gelu, must_be, what))
  {
    z.compare(found, k, what + ", Z");
    y.compare(found, k, what + ", Y");
  }
  what = name_of<T>("Z = X W + b", m, n, k);
  z.set_device_to_zeros();
  if (was_fused(found, engine.fused_affine(x.device_in(), w.device_in(), b.device_in(), z.device()),
                must_be, what))
    z.compare(found, k, what);
}

/// Compares five products in one call with five calls.
template <RealScalar T>
void compare_batch(Comparison& found)
{
  constexpr Shape a{7, 9}, b{9, 6}, c{7, 6};
  constexpr std::size_t count = 5;
  std::vector<T> numbers(count * (a.size() + b.size() + c.size()));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = Philox{7, 1}.symmetric<Accumulator<T>>(i, 1);
  const MatrixView<const T> host{numbers.data(), {1, numbers.size()}};
  const auto multiplied = [&](bool at_once) {
    const CudaEngine engine;
    CudaBuffer<T> buffer(numbers.size());
    engine.upload(host, MatrixView<T>{buffer.data(), host.shape()});
    cubist::detail::ProductBatch<T> batch;
    T* next = buffer.data();
    for (std::size_t i = 0; i < count; ++i)
    {
      // A is stored transposed.
      const MatrixView<const T> at{std::exchange(next, next + a.size()), {a.cols, a.rows}};
      const MatrixView<const T> bi{std::exchange(next, next + b.size()), b};
      const MatrixView<T> ci{std::exchange(next, next + c.size()), c};
      if (at_once)
        batch.add({at, Op::transpose}, bi, ci);
      else
        engine.gemm(Op::transpose, Op::none, T{2}, at, bi, T{3}, ci);
    }
    batch.multiply(engine, T{2}, T{3});
    std::vector<T> result(numbers.size());
    engine.download(MatrixView<const T>{buffer.data(), host.shape()},
                    MatrixView<T>{result.data(), host.shape()});
    return result;
  };
  const auto got = multiplied(true);
  const auto wanted = multiplied(false);
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(got[i]) - static_cast<double>(wanted[i])));
  found.check(most <= 64 * static_cast<double>(std::numeric_limits<T>::epsilon()),
              "a batch of products in " + element_name<T>() + ": off by " + std::to_string(most));
}

/// Compares both triangles of C = 2 A A^T + 3 C, with A stored as it is or transposed.
template <RealScalar T>
void compare_syrk(Comparison& found)
{
  for (const Op op : {Op::none, Op::transpose})
    for (const auto triangle : {Triangle::lower, Triangle::upper})
    {
      constexpr Shape a{37, 65};
      Twin<T> x{op_shape(op, a), 1}, c{{a.rows, a.rows}, 2};
      syrk<HostEngine, T>(HostEngine{}, triangle, T{2}, {x.host_in(), op}, T{3}, c.host());
      syrk<CudaEngine, T>(CudaEngine{}, triangle, T{2}, {x.device_in(), op}, T{3}, c.device());
      c.compare(found, a.cols, name_of<T>("a triangle of A A^T", a.rows, a.rows, a.cols));
    }
}

}  // namespace

void cubist::test::check_products(Comparison& found)
{
  for (const std::size_t n : std::initializer_list<std::size_t>{64, 40, 37})
  {
    const bool aligned = n != 37;
    compare_affine<float>(found, 96, n, 128, aligned);
    compare_affine<double>(found, 96, n, 128, false);
    compare_affine<cubist::half>(found, 96, n, 128, aligned);
    compare_affine<bfloat16>(found, 96, n, 128, aligned);
  }
  compare_batch<float>(found);
  compare_batch<bfloat16>(found);
  compare_syrk<float>(found);
  compare_syrk<double>(found);
}
