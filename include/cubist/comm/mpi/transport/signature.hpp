// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Formats a call for errors: "all_reduce of 4 double by sum on ranks {0, 1}".

#include <numeric>
#include <string>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/call_text.hpp"
#include "cubist/comm/mpi/transport/context.hpp"
#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Returns "all_reduce of 4 double by sum on ranks {0, 1}", with at most 16 ranks.
[[nodiscard]] inline std::string text(const MpiContext& context, const CallSignature& s)
{
  const bool message = is_message(s.kind);
  std::vector<int> ranks(message ? 0 : static_cast<std::size_t>(context.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  if (message) ranks = {context.rank, s.peer};
  // The call of an expose carries an address; its count is not the size of the block.
  const auto call = s.kind == CallKind::expose ? to_string(s.kind) : text(s);
  return call + " on ranks " + rank_list(job_ranks(context, ranks));
}

/// Returns the error of a rank whose peer called something else. The peer's messages have `tag`.
[[nodiscard]] inline CollectiveMismatch mismatch_error(const MpiContext& context,
                                                       const CallSignature& s, int peer, int tag)
{
  const auto ranks = job_ranks(context, {context.rank, peer});
  const auto other = context.tags.kind(tag);
  return CollectiveMismatch{
      "rank " + std::to_string(ranks[0]) + " called " + text(context, s) + ", but rank " +
      std::to_string(ranks[1]) + " called " +
      (other != s.kind               ? to_string(other)
       : s.kind == CallKind::barrier ? "split, or the other way round"
                                     : "it with a different size, type, root or operation") +
      ", so neither can complete; let all ranks of a communicator make the same calls in the same "
      "order, with the same element type, size, root and operation"};
}

}  // namespace cubist::CUBIST_ABI::detail
