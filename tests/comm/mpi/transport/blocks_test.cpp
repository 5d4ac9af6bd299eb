// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/mpi/transport/blocks.hpp"

#include "catch.hpp"

namespace cubist::test::comm_mpi_transport_blocks_test
{

using detail::Bytes;
using detail::ConstBytes;
using detail::MpiBlocks;

TEST_CASE("the pieces of a buffer are consecutive, and so are the shares of a block")
{
  std::vector<double> send(12);
  std::vector<double> receive(12);
  const auto* const out = reinterpret_cast<const std::byte*>(send.data());
  auto* const in = reinterpret_cast<std::byte*>(receive.data());
  const MpiBlocks blocks{Call<double>{CallKind::all_to_all, send, receive, 4}, 3};
  constexpr std::size_t size = 4 * sizeof(double);
  CHECK(blocks.bytes() == size);
  CHECK(blocks.send_block().data() == out);
  CHECK(blocks.send_block().size() == size);
  CHECK(blocks.receive_block().data() == in);
  CHECK(blocks.receive_block().size() == size);
  std::size_t begin = 0;
  for (int rank = 0; rank < 3; ++rank)
  {
    const auto r = static_cast<std::size_t>(rank);
    CHECK(blocks.send_piece(rank).data() == out + r * size);
    CHECK(blocks.receive_piece(rank).data() == in + r * size);
    CHECK(blocks.send_piece(rank).size() == size);
    CHECK(blocks.receive_piece(rank).size() == size);

    CHECK(blocks.send_share(rank).data() == out + begin);
    CHECK(blocks.receive_share(rank).data() == in + begin);
    CHECK(blocks.send_share(rank).size() == blocks.receive_share(rank).size());
    CHECK(blocks.send_share(rank).size() % sizeof(double) == 0);
    begin += blocks.send_share(rank).size();
  }
  CHECK(begin == size);
}

TEST_CASE("bytes are copied, unless source and destination are the same")
{
  const std::array in{std::byte{1}, std::byte{2}, std::byte{3}};
  std::array out{std::byte{7}, std::byte{7}, std::byte{7}};
  detail::copy_bytes(in, Bytes{out}.first(2));
  CHECK(out == std::array{std::byte{1}, std::byte{2}, std::byte{7}});
  detail::copy_bytes(out, out);
  detail::copy_bytes(ConstBytes{}, Bytes{});
  CHECK(out == std::array{std::byte{1}, std::byte{2}, std::byte{7}});
}

}  // namespace cubist::test::comm_mpi_transport_blocks_test
