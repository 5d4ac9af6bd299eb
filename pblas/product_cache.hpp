// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Keeps a communicator's plans of products for later calls with the same sizes and layouts: the
// most recently used plans, up to a limit. All ranks make and drop the same plans.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "product_arguments.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Calls f, and adds the time that it takes to `seconds`.
template <class F>
void time_into(double& seconds, F f)
{
  const auto begin = std::chrono::steady_clock::now();
  f();
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class PlannedProduct
{
 public:
  virtual ~PlannedProduct() = default;
  /// Returns the chosen algorithm and its workspace as text, for a report to the user after a call.
  [[nodiscard]] virtual std::string text() const = 0;
  /// Frees its workspace on this rank, except for at most `limit` bytes, and returns how many it
  /// keeps.
  [[nodiscard]] virtual std::size_t keep(std::size_t /*limit*/) { return 0; }
};

class ProductCache
{
 public:
  static constexpr std::size_t most = 32;  ///< the maximum number of plans

  /// Returns the plan of a call. If the cache has none, `make` makes it.
  /// @tparam P a PlannedProduct with P::scalar_bytes; each P belongs to one scalar
  template <class P, class Make>
  [[nodiscard]] P& find(const ProductArguments& call, Make make)
  {
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry)
      if (entry->call == call)
        if (auto* const product = dynamic_cast<P*>(entry->product.get()))
        {
          entries_.splice(entries_.begin(), entries_, entry);
          entry->repeats = true;
          return *product;
        }
    std::unique_ptr<P> made = make();
    P& product = *made;
    entries_.push_front({call, std::move(made), call.elements() * P::scalar_bytes, false});
    if (entries_.size() > most) entries_.pop_back();
    return product;
  }

  /// Returns a mesh, or other communicators. Several plans share them, because communicators are a
  /// scarce resource.
  /// @tparam M the same type for the same scheme
  template <class M, class Make>
  [[nodiscard]] M& mesh(const std::string& scheme, const std::vector<int>& extents, Make make)
  {
    auto& found = meshes_[{scheme, extents}];
    if (found == nullptr) found = std::make_shared<M>(make());
    return *static_cast<M*>(found.get());
  }

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  /// The size of A, B and C in the largest of the calls, in bytes, on all ranks together.
  [[nodiscard]] std::size_t operand_bytes() const
  {
    std::size_t largest = 0;
    for (const auto& entry : entries_) largest = std::max(largest, entry.operand_bytes);
    return largest;
  }
  /// Whether the last call used a plan that an earlier call made.
  [[nodiscard]] bool repeats() const { return !entries_.empty() && entries_.front().repeats; }
  /// Keeps at most `limit` bytes of workspace on this rank, that of recent calls first. Returns how
  /// many it keeps.
  std::size_t keep(std::size_t limit)
  {
    std::size_t kept = 0;
    for (const auto& entry : entries_) kept += entry.product->keep(limit - kept);
    return kept;
  }
  void clear() { entries_.clear(), meshes_.clear(); }

 private:
  struct Entry
  {
    ProductArguments call;
    std::unique_ptr<PlannedProduct> product;
    std::size_t operand_bytes;
    bool repeats;  // whether it was called more than once
  };

  std::map<std::pair<std::string, std::vector<int>>, std::shared_ptr<void>> meshes_;
  std::list<Entry> entries_;  // the most recently used one first
};

}  // namespace cubist::CUBIST_ABI::detail
