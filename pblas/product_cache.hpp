// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Keeps the plans of the products of a communicator for later calls with the same sizes and
// layouts: those that were used last, up to a limit. All ranks make and drop the same plans.

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

/// Adds the seconds that f takes.
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
  /// The algorithm that was chosen and its workspace, for a report to the user after a call.
  [[nodiscard]] virtual std::string text() const = 0;
  /// Frees its workspace on this rank, except for at most `limit` bytes, and returns how much it
  /// keeps.
  [[nodiscard]] virtual std::size_t keep(std::size_t /*limit*/) { return 0; }
};

class ProductCache
{
 public:
  static constexpr std::size_t most = 32;  ///< plans

  /// The plan of a call; `make` makes one that the cache does not have.
  /// @tparam P a PlannedProduct; the one type of plans for its scalar, of P::scalar_bytes
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

  /// A mesh that several plans use, as communicators are few.
  template <class M, class Make>
  [[nodiscard]] M& mesh(const std::string& scheme, const std::vector<int>& extents, Make make)
  {
    auto& found = meshes_[{scheme, extents}];
    if (found == nullptr) found = std::make_shared<M>(make());
    return *static_cast<M*>(found.get());
  }

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  /// Bytes of A, B and C in the largest of the calls, on all ranks together.
  [[nodiscard]] std::size_t operand_bytes() const
  {
    std::size_t largest = 0;
    for (const auto& entry : entries_) largest = std::max(largest, entry.operand_bytes);
    return largest;
  }
  /// Whether the last call was not the first one of its plan.
  [[nodiscard]] bool repeats() const { return !entries_.empty() && entries_.front().repeats; }
  /// Keeps at most `limit` bytes of workspace on this rank, first that of the last call. Returns
  /// how much it keeps.
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
  std::list<Entry> entries_;  // the last one that was used first
};

}  // namespace cubist::CUBIST_ABI::detail
