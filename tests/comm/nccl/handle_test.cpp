// SPDX-License-Identifier: BSD-3-Clause
#include <stdexcept>

#include "cubist/comm/nccl/handle.hpp"

#include "catch.hpp"
#include "fake.hpp"
#include "ranks.hpp"

using namespace cubist;
using namespace cubist::test;
using cubist::detail::NcclHandle;

namespace
{

const auto doing = [] { return "a test"; };

void open(NcclHandle& handle)
{
  ncclUniqueId id{};
  ncclGetUniqueId(&id);
  auto config = NcclHandle::config();
  ncclCommInitRankConfig(handle.room(), 1, id, 0, &config);
}

}  // namespace

TEST_CASE("a handle that is dropped is aborted, one that is left in peace is not")
{
  const auto before = fake::live();
  const int aborts = fake::aborts();
  {
    NcclHandle none;
    CHECK(none.get() == nullptr);
    CHECK_FALSE(none.is_settled(doing));
    NcclHandle dropped;
    open(dropped);
    CHECK(dropped.is_settled(doing));
  }
  CHECK(fake::aborts() == aborts + 1);
  {
    NcclHandle handle;
    open(handle);
    CHECK(handle.finalize());
    while (!handle.is_settled(doing))
    {
    }
    handle.destroy();
    CHECK(handle.get() == nullptr);
  }
  CHECK(fake::aborts() == aborts + 1);
  CHECK(fake::live() == before);
}

TEST_CASE("what NCCL meets later is thrown when it is asked")
{
  NcclHandle handle;
  open(handle);
  fake::fail("ncclCommGetAsyncError", ncclInternalError);
  CHECK(mentions(message_of<CommunicationError>([&] { (void)handle.is_settled(doing); }),
                 "ncclCommGetAsyncError failed (internal error) for a test"));
  fake::fail("ncclCommFinalize", ncclInternalError);
  CHECK_FALSE(handle.finalize());
}

TEST_CASE("an exception ends a group of calls")
{
  try
  {
    const cubist::detail::NcclGrouped grouped{doing};
    throw std::runtime_error{"between calls"};
  }
  catch (const std::runtime_error&)
  {
  }
  cubist::detail::NcclGrouped next{doing};
  fake::fail("ncclGroupEnd", ncclInternalError);
  CHECK_THROWS_AS(next.end(), CommunicationError);
}
