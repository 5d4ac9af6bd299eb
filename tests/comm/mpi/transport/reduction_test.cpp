// SPDX-License-Identifier: BSD-3-Clause
#include <cstring>

#include "cubist/comm/mpi/transport/reduction.hpp"

#include "catch.hpp"

namespace cubist::test::comm_mpi_transport_reduction_test
{

using detail::Bytes;
using detail::ConstBytes;
using detail::MpiReduction;

TEST_CASE("blocks of the workspace are combined in order, as elements of the type of the call")
{
  MpiReduction reduction;
  reduction.begin(Call<double>{.op = ReduceOp::sum});
  constexpr double tiny = 0x1p-53;
  const std::array first{tiny, 1.0}, second{tiny, 2.0}, last{1.0, 3.0};
  auto* const workspace = reduction.workspace(2 * sizeof first);
  std::memcpy(workspace, first.data(), sizeof first);
  std::memcpy(workspace + sizeof first, second.data(), sizeof second);
  std::array<double, 2> out{};
  reduction.combine_workspace(2, 2, std::as_bytes(std::span{last}),
                              std::as_writable_bytes(std::span{out}));
  CHECK(out == std::array{1.0 + 2 * tiny, 6.0});
  // 1 + tiny + tiny is 1.
  reduction.combine_workspace(2, 0, std::as_bytes(std::span{last}),
                              std::as_writable_bytes(std::span{out}));
  CHECK(out == std::array{1.0, 6.0});

  reduction.begin(Call<int>{.op = ReduceOp::max});
  const std::array a{1, 5}, b{2, 3};
  std::array<int, 2> largest{};
  reduction.combine(reinterpret_cast<const std::byte*>(a.data()),
                    reinterpret_cast<const std::byte*>(b.data()),
                    std::as_writable_bytes(std::span{largest}));
  CHECK(largest == std::array{2, 5});
}

TEST_CASE("a workspace grows, and is reused")
{
  MpiReduction reduction;
  const auto* const initial = reduction.workspace(100);
  CHECK(reduction.workspace(4096) == initial);
  auto* const larger = reduction.workspace(100'000);
  larger[99'999] = std::byte{1};
  CHECK(reduction.workspace(10) == larger);
}

}  // namespace cubist::test::comm_mpi_transport_reduction_test
