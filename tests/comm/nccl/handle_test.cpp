// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/nccl/handle.hpp"

#include "fake.hpp"
#include "ranks.hpp"
#include "single_rank.hpp"

namespace cubist::test::comm_nccl_handle_test
{

using cubist::detail::NcclHandle;

const auto describe = [] { return "a test"; };

TEST_CASE("NcclHandle: the destructor aborts, unless the communicator was finalized and destroyed")
{
  const auto before = fake::live();
  const int aborts = fake::aborts();
  {
    NcclHandle none;
    CHECK(none.get() == nullptr);
    CHECK_FALSE(none.is_ready(describe));
    NcclHandle dropped;
    create_alone(dropped);
    CHECK(dropped.is_ready(describe));
  }
  CHECK(fake::aborts() == aborts + 1);
  {
    NcclHandle handle;
    create_alone(handle);
    CHECK(handle.finalize());
    while (!handle.is_ready(describe))
    {
    }
    handle.destroy();
    CHECK(handle.get() == nullptr);
  }
  CHECK(fake::aborts() == aborts + 1);
  CHECK(fake::live() == before);
}

TEST_CASE("NcclHandle: is_ready throws an asynchronous error of NCCL")
{
  NcclHandle handle;
  create_alone(handle);
  fake::fail("ncclCommGetAsyncError", ncclInternalError);
  CHECK(mentions(message_of<CommunicationError>([&] { (void)handle.is_ready(describe); }),
                 "ncclCommGetAsyncError failed (internal error) for a test"));
  fake::fail("ncclCommFinalize", ncclInternalError);
  CHECK_FALSE(handle.finalize());
}

TEST_CASE("NcclGroupScope: an exception ends the group")
{
  try
  {
    const cubist::detail::NcclGroupScope group{describe};
    throw std::runtime_error{"between calls"};
  }
  catch (const std::runtime_error&)
  {
  }
  cubist::detail::NcclGroupScope next{describe};
  fake::fail("ncclGroupEnd", ncclInternalError);
  CHECK_THROWS_AS(next.end(), CommunicationError);
}

}  // namespace cubist::test::comm_nccl_handle_test
