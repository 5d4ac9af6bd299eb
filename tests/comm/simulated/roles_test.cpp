// SPDX-License-Identifier: BSD-3-Clause

#include "cubist/comm/simulated/roles.hpp"
#include "cubist/comm/traffic.hpp"

#include "catch.hpp"

namespace cubist::test::comm_simulated_roles_test
{

using cubist::CallKind;
using cubist::detail::only_receives;
using cubist::detail::only_sends;

TEST_CASE("who only receives sends no elements, and who only sends does")
{
  // Traffic counts what each rank sends, by its own formulas.
  for (const int ranks : {2, 3, 5})
    for (const CallKind c : {CallKind::broadcast, CallKind::reduce, CallKind::scatter,
                             CallKind::gather, CallKind::all_gather, CallKind::all_reduce,
                             CallKind::reduce_scatter, CallKind::all_to_all})
      for (int root = 0; root < ranks; ++root)
        for (int rank = 0; rank < ranks; ++rank)
        {
          CAPTURE(cubist::to_string(c), ranks, root, rank);
          cubist::Call<float> call;
          call.kind = c;
          call.peer = root;
          call.count = 1;
          const auto sent = cubist::sent_by(call, rank, ranks).elements;
          CHECK((sent == 0) == only_receives(c, root, ranks, rank));
          if (only_sends(c, root, ranks, rank)) CHECK(sent > 0);
        }
}

TEST_CASE("one rank of a chain begins it, and another ends it")
{
  for (const CallKind c : {CallKind::broadcast, CallKind::reduce})
    for (const int ranks : {2, 3, 5})
      for (int root = 0; root < ranks; ++root)
      {
        int senders = 0;
        int receivers = 0;
        for (int rank = 0; rank < ranks; ++rank)
        {
          if (only_sends(c, root, ranks, rank)) ++senders;
          if (only_receives(c, root, ranks, rank)) ++receivers;
        }
        CHECK(senders == 1);
        CHECK(receivers == 1);
      }
}

TEST_CASE("a message has a sender and a receiver")
{
  CHECK(only_sends(CallKind::send, 0, 2, 0));
  CHECK_FALSE(only_sends(CallKind::send, 0, 2, 1));
  CHECK_FALSE(only_receives(CallKind::send, 0, 2, 0));
  CHECK(only_receives(CallKind::send, 0, 2, 1));
}

}  // namespace cubist::test::comm_simulated_roles_test
