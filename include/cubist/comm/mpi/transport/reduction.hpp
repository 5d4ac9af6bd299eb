// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The arithmetic of a reduction on bytes, and the workspace in which received blocks wait.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "cubist/comm/erased_call.hpp"

namespace cubist::CUBIST_ABI::detail
{

class MpiReduction
{
 public:
  /// Begins a reduction with the elements and the operation of a call.
  void begin(const ErasedCall& call) { call_ = call; }

  /// Returns at least `size` bytes, which later calls reuse.
  std::byte* workspace(std::size_t size)
  {
    if (size > size_)
    {
      workspace_.reset(new std::byte[size]);
      size_ = size;
    }
    return workspace_.get();
  }

  /// Combines the first `blocks` blocks of the workspace, each as long as `out`, and `mine`, which
  /// is operand number `rank`.
  /// @pre rank <= blocks
  void combine_workspace(std::size_t blocks, std::size_t rank, ConstBytes mine, Bytes out)
  {
    inputs_.clear();
    for (std::size_t i = 0; i < blocks; ++i) inputs_.push_back(workspace_.get() + i * out.size());
    inputs_.insert(inputs_.begin() + static_cast<std::ptrdiff_t>(rank), mine.data());
    combine(inputs_, 0, out);
  }

  /// Combines the inputs' elements, starting at index `first`, in the order of the inputs.
  void combine(std::span<const std::byte* const> inputs, std::size_t first, Bytes out)
  {
    call_.combine(call_.op, inputs, first, out.size() / call_.element_size, out.data());
  }
  void combine(const std::byte* first, const std::byte* second, Bytes out)
  {
    inputs_.assign({first, second});
    combine(inputs_, 0, out);
  }

 private:
  // Call objects are reused in turn; this keeps small calls from allocating in each of them.
  static constexpr std::size_t initial_size = 4096;

  ErasedCall call_;
  std::vector<const std::byte*> inputs_ = std::vector<const std::byte*>(64);
  std::unique_ptr<std::byte[]> workspace_{new std::byte[initial_size]};
  std::size_t size_ = initial_size;
};

}  // namespace cubist::CUBIST_ABI::detail
