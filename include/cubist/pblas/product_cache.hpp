// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Keeps the plans of the products of a communicator for later calls with the same sizes and
// layouts: those that were used last, up to a limit. All ranks make and drop the same plans.

#include <chrono>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cubist/pblas/product_arguments.hpp"

namespace cubist::CUBIST_ABI
{

/// How one call of a product was computed, on this rank.
struct PgemmReport
{
  std::string chosen;     ///< the algorithm and its workspace, as a text
  double conversion = 0;  ///< seconds in which this rank converted or copied A, B and C
  double product = 0;     ///< seconds in which it multiplied, and with a scheme also communicated
};

namespace detail
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
  /// The algorithm that was chosen, for a report to the user.
  [[nodiscard]] virtual std::string text() const = 0;
  /// Bytes of workspace that it keeps on this rank.
  [[nodiscard]] virtual std::size_t bytes() const { return 0; }
};

class ProductCache
{
 public:
  static constexpr std::size_t most = 32;  ///< plans
  /// Bytes of workspace on a rank, beside that of the last plan.
  static constexpr std::size_t most_bytes = std::size_t{1} << 30;

  /// The plan of a call; `make` makes one that the cache does not have.
  /// @tparam P a PlannedProduct; the one type of plans for its scalar
  template <class P, class Make>
  [[nodiscard]] P& find(const ProductArguments& call, Make make)
  {
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry)
      if (entry->call == call)
        if (auto* const product = dynamic_cast<P*>(entry->product.get()))
        {
          entries_.splice(entries_.begin(), entries_, entry);
          return *product;
        }
    std::unique_ptr<P> made = make();
    P& product = *made;
    entries_.push_front({call, std::move(made)});
    shrink();
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
  void clear() { entries_.clear(), meshes_.clear(); }

 private:
  struct Entry
  {
    ProductArguments call;
    std::unique_ptr<PlannedProduct> product;
  };

  /// Blocks are equal on all ranks, so all ranks drop the same plans.
  void shrink()
  {
    std::size_t kept = 0;
    std::size_t bytes = 0;
    auto entry = entries_.begin();
    for (; entry != entries_.end() && kept < most; ++entry, ++kept)
      if (bytes += kept == 0 ? 0 : entry->product->bytes(); bytes > most_bytes) break;
    entries_.erase(entry, entries_.end());
  }

  std::map<std::pair<std::string, std::vector<int>>, std::shared_ptr<void>> meshes_;
  std::list<Entry> entries_;  // the last one that was used first
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
