// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/mpi/transport/signature.hpp"

#include "catch.hpp"

namespace cubist::test::comm_mpi_transport_signature_test
{

using detail::CallSignature;
using detail::MpiContext;

static MpiContext context_of(int ranks, int rank)
{
  MpiContext context;
  context.size = ranks;
  context.rank = rank;
  return context;
}

TEST_CASE("the text of a call names its arguments and its ranks")
{
  const auto on_two = [](const auto& call) {
    return detail::text(context_of(2, 1), CallSignature::of(call));
  };
  CHECK(on_two(Call<double>{CallKind::all_reduce, {}, {}, 4}) ==
        "all_reduce of 4 double by sum on ranks {0, 1}");
  CHECK(on_two(Call<int>{CallKind::broadcast, {}, {}, 4, 1}) ==
        "broadcast of 4 int32 with root 1 on ranks {0, 1}");
  CHECK(on_two(Call<int>{CallKind::barrier}) == "barrier on ranks {0, 1}");
  CHECK(on_two(Call<std::uint64_t>{CallKind::expose, {}, {}, 2}) == "expose on ranks {0, 1}");
  CHECK(on_two(Call<float>{CallKind::send, {}, {}, 3, 0}) == "send of 3 float on ranks {1, 0}");
}

TEST_CASE("the error of a mismatched peer names both calls")
{
  const auto context = context_of(4, 2);
  const auto text = [&](const auto& mine, const auto& other) {
    return std::string{
        detail::mismatch_error(context, CallSignature::of(mine), 3, context.tags.tag(1, other))
            .what()};
  };
  const Call<double> sum{CallKind::all_reduce, {}, {}, 4};
  CHECK(text(sum, Call<double>{CallKind::barrier}) ==
        "rank 2 called all_reduce of 4 double by sum on ranks {0, 1, 2, 3}, but rank 3 called "
        "barrier, so neither can complete; let all ranks of a communicator make the same calls in "
        "the same order, with the same element type, size, root and operation");
  CHECK(text(sum, sum).find("rank 3 called it with a different size, type, root or operation") !=
        std::string::npos);
  const Call<double> barrier{CallKind::barrier};
  CHECK(text(barrier, barrier).find("rank 3 called split, or the other way round") !=
        std::string::npos);
}

}  // namespace cubist::test::comm_mpi_transport_signature_test
