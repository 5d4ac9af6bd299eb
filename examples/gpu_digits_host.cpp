// SPDX-License-Identifier: BSD-3-Clause

#include "gpu_digits.hpp"

namespace digits
{

Run train_on_host(const cubist::RowBatches& data, const Settings& settings)
{
  using Scheme = cubist::Summa25D;
  return train<cubist::Threads, Scheme, float>(data, settings, 1, Scheme::extents({}, 1), false);
}

}  // namespace digits
