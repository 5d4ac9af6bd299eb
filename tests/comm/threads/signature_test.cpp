// SPDX-License-Identifier: BSD-3-Clause
#include <vector>

#include "cubist/comm/threads/call.hpp"
#include "cubist/comm/threads/signature.hpp"

#include "catch.hpp"

namespace comm_threads_signature_test
{

using namespace cubist;
using namespace cubist::detail;

TEST_CASE("the text of a signature has the size, the reduction and the root, if the call has them")
{
  Signature s;
  s.count = 4;
  s.element = &element_name<double>;
  const auto written = [&](Collective c) {
    s.collective = c;
    return text(s);
  };
  CHECK(written(Collective::barrier) == "barrier");
  CHECK(written(Collective::expose) == "expose of 4 double");
  s.op = ReduceOp::max;
  s.root = 3;
  CHECK(written(Collective::all_reduce) == "all_reduce of 4 double by max");
  CHECK(written(Collective::reduce) == "reduce of 4 double by max with root 3");
}

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
