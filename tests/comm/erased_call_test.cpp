// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/erased_call.hpp"

#include "catch.hpp"

namespace cubist::test::comm_erased_call_test
{

using detail::ErasedCall;

TEST_CASE("an erased call has the signature, the buffers and the element size of the call")
{
  std::vector<double> in{1, 2, 3};
  std::vector<double> out(3);
  const ErasedCall call = Call<double>{CallKind::reduce, in, out, 3, 1, ReduceOp::max};
  CHECK(detail::text(call) == "reduce of 3 double by max with root 1");
  CHECK(call.send == reinterpret_cast<const std::byte*>(in.data()));
  CHECK(call.recv == reinterpret_cast<const std::byte*>(out.data()));
  CHECK(call.bytes() == 24);
}

TEST_CASE("elements are combined as those of the type that was erased, in the order of the inputs")
{
  const std::array<float, 3> a{9, 0x1p-24F, 5};
  const std::array<float, 3> b{9, 0x1p-24F, 6};
  const std::array<float, 3> c{9, 1, 7};
  const auto bytes = [](const auto& x) { return reinterpret_cast<const std::byte*>(x.data()); };
  std::array<float, 2> sum{};
  const ErasedCall call = Call<float>{.op = ReduceOp::sum};
  const auto add = [&](std::array<const std::byte*, 3> inputs) {
    call.combine(call.op, inputs, 1, 2, reinterpret_cast<std::byte*>(sum.data()));
  };
  add({bytes(a), bytes(b), bytes(c)});
  CHECK(sum == std::array{1 + 0x1p-23F, 18.0F});
  add({bytes(c), bytes(a), bytes(b)});  // 1 + 2^-24 is rounded to 1, twice
  CHECK(sum == std::array{1.0F, 18.0F});

  const std::array<std::int8_t, 2> x{-5, 127};
  const std::array<std::int8_t, 2> y{3, -128};
  std::array<std::int8_t, 2> least{};
  const ErasedCall smallest = Call<std::int8_t>{.op = ReduceOp::min};
  smallest.combine(smallest.op, std::array{bytes(x), bytes(y)}, 0, 2,
                   reinterpret_cast<std::byte*>(least.data()));
  CHECK(least == std::array<std::int8_t, 2>{-5, -128});
}

}  // namespace cubist::test::comm_erased_call_test
