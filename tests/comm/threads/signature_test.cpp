// SPDX-License-Identifier: BSD-3-Clause
#include <vector>

#include "cubist/comm/threads/call.hpp"
#include "cubist/comm/threads/signature.hpp"

#include "catch.hpp"

namespace comm_threads_signature_test
{

using namespace cubist;
using namespace cubist::detail;

TEST_CASE("both ends of a message have one signature, and calls of different ranks differ")
{
  std::vector<float> x(4);
  const Call<float> send{Collective::send, x, {}, 4, 1};
  const Call<float> receive{Collective::receive, {}, x, 4, 0};
  CHECK(signature_of(send) == signature_of(receive));
  const Call<float> broadcast{.collective = Collective::broadcast, .count = 4, .peer = 1};
  auto other = broadcast;
  other.peer = 0;
  CHECK_FALSE(signature_of(broadcast) == signature_of(other));
  CHECK_FALSE(signature_of(Call<int>{}) == signature_of(Call<float>{}));
}

}  // namespace comm_threads_signature_test
