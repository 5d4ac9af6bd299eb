// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cstddef>
#include <vector>

#include "cubist/comm/mpi/blocks.hpp"

#include "catch.hpp"

using namespace cubist;
using detail::MpiBlocks;
using detail::Part;
using detail::Room;

TEST_CASE("pieces lie one behind the other, and shares of a block are all of it")
{
  std::vector<double> send(12);
  std::vector<double> receive(12);
  const auto* const out = reinterpret_cast<const std::byte*>(send.data());
  auto* const in = reinterpret_cast<std::byte*>(receive.data());
  const MpiBlocks blocks{Call<double>{Collective::all_to_all, send, receive, 4}, 3};
  constexpr std::size_t size = 4 * sizeof(double);
  CHECK(blocks.bytes() == size);
  CHECK(blocks.element_size() == sizeof(double));
  CHECK(blocks.sent().data == out);
  CHECK(blocks.sent().size == size);
  CHECK(blocks.received().data == in);
  CHECK(blocks.received().size == size);
  std::size_t begin = 0;
  for (int rank = 0; rank < 3; ++rank)
  {
    const auto r = static_cast<std::size_t>(rank);
    CHECK(blocks.piece_sent(rank).data == out + r * size);
    CHECK(blocks.piece_received(rank).data == in + r * size);
    CHECK(blocks.piece_sent(rank).size == size);
    CHECK(blocks.piece_received(rank).size == size);

    CHECK(blocks.share_sent(rank).data == out + begin);
    CHECK(blocks.share_received(rank).data == in + begin);
    CHECK(blocks.share_sent(rank).size == blocks.share_received(rank).size);
    CHECK(blocks.share_sent(rank).size % sizeof(double) == 0);
    begin += blocks.share_sent(rank).size;
  }
  CHECK(begin == size);
}

TEST_CASE("bytes are copied, unless they are there")
{
  const std::array in{std::byte{1}, std::byte{2}, std::byte{3}};
  std::array out{std::byte{7}, std::byte{7}, std::byte{7}};
  detail::copy_bytes(Part{in.data(), 3}, Room{out.data(), 2});
  CHECK(out == std::array{std::byte{1}, std::byte{2}, std::byte{7}});
  detail::copy_bytes(Part{out.data(), 3}, Room{out.data(), 3});
  detail::copy_bytes(Part{}, Room{});
  CHECK(out == std::array{std::byte{1}, std::byte{2}, std::byte{7}});
}
