// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/nccl/call.hpp"

#include "ranks.hpp"

namespace cubist::test::comm_nccl_call_test
{

using cubist::detail::nccl_call;
using cubist::detail::nccl_type;

TEST_CASE("nccl_type: the type by which NCCL reduces elements")
{
  STATIC_REQUIRE(nccl_type<float>() == ncclFloat32);
  STATIC_REQUIRE(nccl_type<double>() == ncclFloat64);
  STATIC_REQUIRE(nccl_type<std::complex<float>>() == ncclFloat32);
  STATIC_REQUIRE(nccl_type<std::complex<double>>() == ncclFloat64);
  STATIC_REQUIRE(nccl_type<bfloat16>() == ncclBfloat16);
  STATIC_REQUIRE(nccl_type<cubist::half>() == ncclFloat16);
  STATIC_REQUIRE(nccl_type<std::int8_t>() == ncclInt8);
  STATIC_REQUIRE(nccl_type<std::uint8_t>() == ncclUint8);
  STATIC_REQUIRE(nccl_type<std::int32_t>() == ncclInt32);
  STATIC_REQUIRE(nccl_type<std::uint32_t>() == ncclUint32);
  STATIC_REQUIRE(nccl_type<long long>() == ncclInt64);
  STATIC_REQUIRE(nccl_type<unsigned long>() == ncclUint64);
}

TEST_CASE("NcclCall: a complex number counts as two reals in a reduction")
{
  const std::vector<std::complex<double>> z(3);
  const auto call = nccl_call(
      Call<std::complex<double>>{CallKind::all_reduce, z, {}, z.size(), 0, ReduceOp::sum});
  CHECK(call.reals == 6);
  CHECK(call.bytes() == 48);
  CHECK_FALSE(call.is_message());
  CHECK_FALSE(call.is_empty());
  CHECK(call.text() == "all_reduce of 3 complex<double> by sum");
}

TEST_CASE("NcclCall: the text of a call")
{
  CHECK(nccl_call(Call<int>{CallKind::barrier}).text() == "barrier");
  CHECK_FALSE(nccl_call(Call<int>{CallKind::barrier}).is_empty());
  const auto send = nccl_call(Call<float>{CallKind::send, {}, {}, 4, 2});
  CHECK(send.is_message());
  CHECK(send.text() == "send of 4 float with rank 2");
  CHECK(nccl_call(Call<float>{CallKind::broadcast, {}, {}, 0, 2}).is_empty());
}

TEST_CASE("nccl_call: 16-bit integers can be gathered, but not reduced")
{
  using Short = std::int16_t;
  CHECK(nccl_call(Call<Short>{CallKind::all_gather, {}, {}, 5}).bytes() == 10);
  for (const auto c : {CallKind::reduce, CallKind::all_reduce, CallKind::reduce_scatter})
    CHECK(mentions(message_of<ArgumentError>([&] {
                     (void)nccl_call(Call<Short>{c, {}, {}, 5});
                   }),
                   to_string(c), "int16", "use 8, 32 or 64 bits"));
}

TEST_CASE("nccl_check: an error names the function that failed, the call, and the reason")
{
  const auto describe = [] { return "all_reduce of 4 double by sum on rank 1 of 2"; };
  const auto check = [&](ncclResult_t code) {
    cubist::detail::nccl_check(code, "ncclAllReduce", nullptr, describe);
  };
  CHECK_NOTHROW(check(ncclSuccess));
  CHECK_NOTHROW(check(ncclInProgress));
  CHECK(mentions(message_of<CommunicationError>([&] { check(ncclInvalidUsage); }),
                 "ncclAllReduce failed (invalid usage)", describe(), "NCCL_DEBUG=WARN"));
  CHECK(mentions(message_of<PeerFailed>([&] { check(ncclRemoteError); }), "remote process exited",
                 describe(), "fix the error of the rank that ended"));
}

}  // namespace cubist::test::comm_nccl_call_test
