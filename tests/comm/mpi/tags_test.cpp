// SPDX-License-Identifier: BSD-3-Clause
#include <complex>
#include <cstdint>
#include <set>
#include <vector>

#include "cubist/comm/mpi/tags.hpp"

#include "catch.hpp"

using namespace cubist;
using cubist::detail::MpiTags;

TEST_CASE("tags are of MPI's range, and their numbers begin anew")
{
  for (const int most : {32'767, (1 << 26) - 1, 1 << 26, 268'435'455, 2'147'483'647})
  {
    const MpiTags tags{most};
    CAPTURE(most, tags.numbers());
    CHECK(tags.numbers() >= 1000);
    const Call<double> last{Collective::expose, {}, {}, 4092};
    CHECK(tags.tag(1, last) > 0);
    CHECK(tags.tag(tags.numbers(), last) > tags.tag(1, last));
    CHECK(tags.tag(tags.numbers(), last) <= most);
    CHECK(tags.tag(tags.numbers() + 1, last) == tags.tag(1, last));
    CHECK(tags.collective(tags.tag(17, last)) == Collective::expose);
  }
  CHECK(MpiTags::of_mpi().numbers() >= 1000);
}

TEST_CASE("calls of one number are told apart by what ranks must agree on")
{
  const MpiTags tags{2'147'483'647};
  CHECK(tags.know_sizes());
  std::set<int> seen;
  const auto is_new = [&](const auto& call) { return seen.insert(tags.tag(5, call)).second; };
  CHECK(is_new(Call<double>{Collective::reduce, {}, {}, 1000, 1}));
  CHECK(is_new(Call<double>{Collective::reduce, {}, {}, 1001, 1}));
  CHECK(is_new(Call<double>{Collective::reduce, {}, {}, 1000, 2}));
  CHECK(is_new(Call<double>{Collective::reduce, {}, {}, 1000, 1, ReduceOp::max}));
  CHECK(is_new(Call<double>{Collective::all_reduce, {}, {}, 1000, 1}));
  CHECK(is_new(Call<float>{Collective::reduce, {}, {}, 1000, 1}));
  CHECK(is_new(Call<std::int64_t>{Collective::reduce, {}, {}, 1000, 1}));
  CHECK(is_new(Call<std::complex<float>>{Collective::reduce, {}, {}, 1000, 1}));
  CHECK(is_new(Call<bfloat16>{Collective::reduce, {}, {}, 1000, 1}));
  CHECK(is_new(Call<half>{Collective::reduce, {}, {}, 1000, 1}));
  CHECK(is_new(Call<std::int16_t>{Collective::reduce, {}, {}, 1000, 1}));
  for (const int tag : seen)
    for (const int other : seen) CHECK(tags.differ(tag, other) == (tag != other));

  // What has no root and no operation does not look at them.
  const Call<int> plain{Collective::all_gather, {}, {}, 3};
  CHECK(tags.tag(5, plain) == tags.tag(5, Call<int>{Collective::all_gather, {}, {}, 3, 1}));
  CHECK_FALSE(tags.differ(tags.tag(5, plain), tags.tag(6, Call<int>{Collective::barrier})));
}

TEST_CASE("where tags are short, they know the collective alone")
{
  const MpiTags tags;
  CHECK_FALSE(tags.know_sizes());
  const Call<int> three{Collective::all_gather, {}, {}, 3};
  CHECK(tags.tag(1, three) == tags.tag(1, Call<int>{Collective::all_gather, {}, {}, 4}));
  CHECK(tags.differ(tags.tag(1, three), tags.tag(1, Call<int>{Collective::barrier})));
}
