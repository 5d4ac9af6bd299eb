// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What the simulated programs of layers and of transformers share.

#include <string>

#include <cubist/nn/optimizers/optimizer.hpp>
#include <cubist/plan/plan.hpp>
#include <cubist/scheme/catalogue.hpp>
#include <cubist/training/sharded_optimizer.hpp>

namespace cubist
{

/// Calls f.operator()<S>(extents) for the scheme of a plan with a data axis, of extent 1 if the
/// plan has none, which is the same program: each scheme is compiled once.
template <class F>
decltype(auto) on_data_scheme(const Plan& plan, F f)
{
  const bool has_data = has_scheme<DataCatalogue>(plan.scheme);
  const auto name = has_data ? plan.scheme : "DataParallel<" + plan.scheme + ">";
  return with_scheme<DataCatalogue>(name, [&]<class S>() {
    return f.template operator()<S>(
        has_data ? extents_of<S>(plan) : S::extents_of(1, extents_of<typename S::Scheme>(plan)));
  });
}

/// Calls train(update), where update() is a step of AdamW for these parameters.
template <class T, class M, class F>
void with_adamw(const Parameters<T, M>& parameters, bool sharded, F train)
{
  if (sharded)
  {
    Sharded<AdamW<T, M>> optimizer{parameters};
    train([&] { optimizer.step(); });
    return;
  }
  AdamW<T, M> optimizer{parameters};
  train([&] { optimizer.step(parameters); });
}

}  // namespace cubist
