// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/mpi/collectives/reduce_scatter.hpp"

#include "../job_context.hpp"
#include "catch.hpp"

namespace cubist::test::comm_mpi_collectives_reduce_scatter_test
{

using detail::MpiBlocks;
using detail::MpiMessages;
using detail::MpiReduction;

TEST_CASE("reduce_scatter and all_reduce sum up in messages of any length")
{
  const std::size_t bound = GENERATE(16U, 48U, 1U << 20);
  const JobContext job{bound};
  const int size = job.context.size;
  const auto ranks = static_cast<std::size_t>(size);
  MpiMessages messages;
  MpiReduction reduction;
  reduction.begin(Call<double>{.op = ReduceOp::sum});
  int tag = 0;
  for (const std::size_t n :
       {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{130}, std::size_t{4200}})
  {
    const bool is_long = n == 4200;  // its shares are sent, whatever the number of ranks
    if (is_long && bound < 48) continue;
    CAPTURE(bound, n);
    CHECK(detail::sends_blocks(8 * n, ranks) == (ranks == 1 || !is_long));
    // Piece p of every rank is p, so the sums of rank r are r * size.
    std::vector<double> pieces(n * ranks);
    for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i] = static_cast<double>(i / n);
    std::vector<double> mine(n);
    const MpiBlocks scattered{Call<double>{CallKind::reduce_scatter, pieces, mine, n}, size};
    messages.begin(job.context, ++tag, "reduce_scatter");
    detail::start_reduce_scatter(messages, scattered, reduction);
    complete_all(messages);
    if (size > 1) detail::finish_reduce_scatter(job.context, scattered, reduction);
    CHECK(mine == std::vector<double>(n, job.context.rank * size));

    std::vector<double> x(n), expected(n);
    for (std::size_t i = 0; i < n; ++i)
      x[i] = static_cast<double>(i + 1), expected[i] = x[i] * size;
    const MpiBlocks reduced{Call<double>{CallKind::all_reduce, x, x, n}, size};
    messages.begin(job.context, ++tag, "all_reduce");
    detail::start_all_reduce(messages, reduced, reduction);
    complete_all(messages);
    if (size > 1) detail::continue_all_reduce(messages, reduced, reduction);
    complete_all(messages);
    CHECK(x == expected);
  }
}

}  // namespace cubist::test::comm_mpi_collectives_reduce_scatter_test
