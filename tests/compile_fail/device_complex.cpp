// expect: return cubist::Complex
// SPDX-License-Identifier: BSD-3-Clause
// On a device the operators of std::complex are compiled wrongly, so no kernel takes the results of
// a function that uses them.
#include <complex>
#include <cstddef>

#include "cubist/core/complex.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/engine/cuda/functions.hpp"

struct Product
{
  std::complex<float> factor;

#ifdef CUBIST_CONTROL
  using Number = cubist::Complex<float>;
#else
  using Number = std::complex<float>;
#endif
  CUBIST_HOST_DEVICE Number operator()(std::size_t, std::size_t) const
  {
    return Number{factor} * Number{factor};
  }
};

void map(std::complex<float>& element)
{
  cubist::detail::StoreIndexedResult<Product>{{{1, 2}}}(0, 0, element);
}
