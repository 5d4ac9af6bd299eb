// SPDX-License-Identifier: BSD-3-Clause
#include <set>
#include <vector>

#include "cubist/comm/mpi/transport/tags.hpp"

#include "catch.hpp"

namespace cubist::test::comm_mpi_transport_tags_test
{

using cubist::detail::MpiTags;

TEST_CASE("tags are in MPI's range, and their numbers are reused cyclically")
{
  for (const int largest : {32'767, (1 << 26) - 1, 1 << 26, 268'435'455, 2'147'483'647})
  {
    const MpiTags tags{largest};
    CAPTURE(largest, tags.numbers());
    CHECK(tags.numbers() >= 1000);
    const Call<double> last{CallKind::expose, {}, {}, 4092};
    CHECK(tags.tag(1, last) > 0);
    CHECK(tags.tag(tags.numbers(), last) > tags.tag(1, last));
    CHECK(tags.tag(tags.numbers(), last) <= largest);
    CHECK(tags.tag(tags.numbers() + 1, last) == tags.tag(1, last));
    CHECK(tags.kind(tags.tag(17, last)) == CallKind::expose);
  }
  CHECK(MpiTags::of_mpi().numbers() >= 1000);
}

TEST_CASE("calls of one number differ in their tags if ranks disagree on an argument")
{
  const MpiTags tags{2'147'483'647};
  CHECK(tags.have_checksum());
  std::set<int> seen;
  const auto is_new = [&](const auto& call) { return seen.insert(tags.tag(5, call)).second; };
  CHECK(is_new(Call<double>{CallKind::reduce, {}, {}, 1000, 1}));
  CHECK(is_new(Call<double>{CallKind::reduce, {}, {}, 1001, 1}));
  CHECK(is_new(Call<double>{CallKind::reduce, {}, {}, 1000, 2}));
  CHECK(is_new(Call<double>{CallKind::reduce, {}, {}, 1000, 1, ReduceOp::max}));
  CHECK(is_new(Call<double>{CallKind::all_reduce, {}, {}, 1000, 1}));
  CHECK(is_new(Call<float>{CallKind::reduce, {}, {}, 1000, 1}));
  CHECK(is_new(Call<std::int64_t>{CallKind::reduce, {}, {}, 1000, 1}));
  CHECK(is_new(Call<std::complex<float>>{CallKind::reduce, {}, {}, 1000, 1}));
  CHECK(is_new(Call<bfloat16>{CallKind::reduce, {}, {}, 1000, 1}));
  CHECK(is_new(Call<half>{CallKind::reduce, {}, {}, 1000, 1}));
  CHECK(is_new(Call<std::int16_t>{CallKind::reduce, {}, {}, 1000, 1}));
  for (const int tag : seen)
    for (const int other : seen) CHECK(tags.mismatch(tag, other) == (tag != other));

  // The tag of a call without a root or an operation does not depend on them.
  const Call<int> plain{CallKind::all_gather, {}, {}, 3};
  CHECK(tags.tag(5, plain) == tags.tag(5, Call<int>{CallKind::all_gather, {}, {}, 3, 1}));
  CHECK_FALSE(tags.mismatch(tags.tag(5, plain), tags.tag(6, Call<int>{CallKind::barrier})));
}

TEST_CASE("short tags hold the collective, but no checksum")
{
  const MpiTags tags;
  CHECK_FALSE(tags.have_checksum());
  const Call<int> three{CallKind::all_gather, {}, {}, 3};
  CHECK(tags.tag(1, three) == tags.tag(1, Call<int>{CallKind::all_gather, {}, {}, 4}));
  CHECK(tags.mismatch(tags.tag(1, three), tags.tag(1, Call<int>{CallKind::barrier})));
}

}  // namespace cubist::test::comm_mpi_transport_tags_test
