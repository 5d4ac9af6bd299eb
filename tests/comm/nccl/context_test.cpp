// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/nccl/context.hpp"

#include "fake.hpp"
#include "nccl_on_threads.hpp"
#include "ranks.hpp"
#include "watchdog.hpp"

namespace cubist::test::comm_nccl_context_test
{

using namespace std::chrono_literals;
using cubist::detail::NcclContext;

/// The arguments of a rank's body.
struct Rank
{
  NcclCommunicator& world;
  cudaStream_t compute;
  ThreadsCommunicator& host;
  std::span<float> data;
  std::span<float> other;
};

static void on_nccl(int ranks, const NcclOptions& options, const std::function<void(Rank)>& body)
{
  with_nccl(ranks, options, [&](auto& world, cudaStream_t compute, auto& host) {
    const DeviceMemory memory{16 * sizeof(float)};
    const std::span<float> all{memory.as<float>(), 16};
    try
    {
      body({world, compute, host, all.first(8), all.last(8)});
    }
    catch (...)
    {
      cudaStreamSynchronize(compute);  // aborted calls no longer access the memory
      throw;
    }
    world.synchronize();
  });
}

/// The first error of two ranks, "rank 1: message"; checks that all resources are freed.
template <class E>
std::string first_error(const NcclOptions& options, const std::function<void(Rank)>& body)
{
  const auto before = fake::live();
  const auto text = message_of<E>([&] { on_nccl(2, options, body); });
  CHECK(fake::live() == before);
  return text;
}

TEST_CASE("the compute stream waits for calls, the host only after max_in_flight of them")
{
  const Watchdog watchdog;
  on_nccl(2, {.time_limit = 10s}, [](Rank r) {
    const auto start_all = [&] {
      for (std::size_t i = 0; i < NcclContext::max_in_flight; ++i) r.world.all_reduce(r.data);
    };
    if (r.host.rank() == 0) start_all();
    r.host.barrier();
    if (r.host.rank() == 1) start_all();
  });
  const auto text = first_error<TimeLimitError>({.time_limit = 300ms}, [](Rank r) {
    if (r.host.rank() == 0)
      for (std::size_t i = 0; i < NcclContext::max_in_flight + 1; ++i) r.world.all_reduce(r.data);
    r.host.barrier();
  });
  CHECK(mentions(text, "rank 0: waited 300 ms", "all_reduce of 8 float by sum on rank 0 of 2"));
}

TEST_CASE("a rank computes while its calls are in flight")
{
  const Watchdog watchdog;
  on_nccl(2, {.time_limit = 10s}, [](Rank r) {
    auto request = r.world.async_broadcast(r.data, 0);
    cudaStreamSynchronize(r.compute);  // it waits for the call only after request.wait()
    request.wait();
  });
  on_nccl(2, {.time_limit = 10s}, [](Rank r) {
    if (r.host.rank() == 0)
    {
      auto request = r.world.async_all_reduce(r.data);
      require<Error>(!request.test(), "complete without the other rank");
      cudaStreamSynchronize(r.compute);
      r.host.barrier();
      request.wait();
    }
    else
    {
      r.host.barrier();
      r.world.all_reduce(r.data);
    }
  });
}

TEST_CASE("the time limit does not count the computation of the rank itself")
{
  const Watchdog watchdog;
  on_nccl(2, {.time_limit = 300ms}, [](Rank r) {
    fake::Gate gate{r.compute};
    auto request = r.world.async_all_reduce(r.data);
    const auto end = std::chrono::steady_clock::now() + 700ms;
    while (std::chrono::steady_clock::now() < end) (void)request.test();
    r.host.barrier();
    gate.open();
    request.wait();
  });
}

TEST_CASE("an error by the time limit names the call")
{
  const Watchdog watchdog;
  const auto waits = [](const std::function<void(Rank)>& call) {
    return first_error<TimeLimitError>({.time_limit = 300ms}, [&](Rank r) {
      if (r.host.rank() == 0)
      {
        call(r);
        r.world.synchronize();
      }
      r.host.barrier();
    });
  };
  CHECK(mentions(waits([](Rank r) { r.world.barrier(); }), "rank 0: ", "barrier on rank 0 of 2"));
  CHECK(mentions(waits([](Rank r) { r.world.receive(r.data, 1); }),
                 "receive of 8 float with rank 1 on rank 0 of 2"));
  CHECK(mentions(waits([](Rank r) { r.world.reduce(r.data, r.other, 1); }),
                 "reduce of 8 float by sum with root 1 on rank 0 of 2"));
  CHECK(mentions(waits([](Rank r) { (void)r.world.split(0, 0); }), "a split on rank 0 of 2"));
  CHECK(mentions(waits([](Rank r) {
                   auto request = r.world.async_broadcast(r.data, 0);
                   while (!request.test())
                   {
                   }
                 }),
                 "broadcast of 8 float with root 0 on rank 0 of 2"));

  // Both ranks make a call, but not the same one.
  const auto text = first_error<TimeLimitError>({.time_limit = 300ms}, [](Rank r) {
    if (r.host.rank() == 0)
      r.world.all_reduce(r.data);
    else
      r.world.broadcast(r.data, 0);
    r.world.synchronize();
  });
  CHECK(mentions(text, "one of them has ended or makes another call"));
}

TEST_CASE("a rank that throws ends the others")
{
  const Watchdog watchdog;
  const auto rank_1_throws = [](Rank r) {
    if (r.host.rank() == 1) throw ArgumentError{"no such colour"};
    r.world.all_reduce(r.data);
    r.world.synchronize();
  };
  SECTION("by the time limit")
  {
    CHECK(first_error<ArgumentError>({.time_limit = 300ms}, rank_1_throws) ==
          "rank 1: no such colour");
  }
  SECTION("immediately, where NCCL reports it")
  {
    fake::report_aborts(true);
    CHECK(first_error<ArgumentError>({.time_limit = std::nullopt}, rank_1_throws) ==
          "rank 1: no such colour");
    fake::report_aborts(false);
  }
  SECTION("immediately, where poll_failure throws")
  {
    std::atomic<bool> failed = false;
    NcclOptions options{.time_limit = std::nullopt};
    options.poll_failure = [&] {
      if (failed) throw PeerFailed{"rank 1 has failed"};
    };
    CHECK(first_error<ArgumentError>(options, [&](Rank r) {
            if (r.host.rank() == 1)
            {
              failed = true;
              throw ArgumentError{"no such colour"};
            }
            (void)r.world.split(0, 0);
          }) == "rank 1: no such colour");
  }
}

TEST_CASE(
    "an error of any function names it, the rank and the collective, and all resources are freed")
{
  fake::report_aborts(true);  // so that the other rank ends immediately
  const auto at = [](const std::string& function, int code) {
    return first_error<CommunicationError>({.time_limit = 10s}, [&](Rank r) {
      if (r.host.rank() == 1) fake::fail(function, code);
      r.world.all_reduce(r.data);
      r.world.synchronize();
    });
  };
  for (const char* f : {"ncclAllReduce", "ncclGroupStart", "ncclGroupEnd", "ncclCommGetAsyncError"})
    CHECK(mentions(at(f, ncclInternalError), std::string{"rank 1: "} + f + " failed (internal err",
                   "all_reduce of 8 float by sum on rank 1 of 2", "NCCL_DEBUG"));
  for (const char* f : {"cudaEventRecord", "cudaStreamWaitEvent", "cudaEventQuery"})
    CHECK(mentions(at(f, cudaErrorIllegalAddress),
                   std::string{"rank 1: "} + f + " failed (cudaErrorIllegalAddress",
                   "all_reduce of 8 float by sum on rank 1 of 2", "nvidia-smi"));
  CHECK(mentions(at("cudaStreamQuery", cudaErrorIllegalAddress), "cudaStreamQuery failed",
                 "the compute stream"));

  const auto later = [](ncclResult_t code) {
    return first_error<CommunicationError>({.time_limit = 10s}, [&](Rank r) {
      if (r.host.rank() == 1) fake::fail_later(code);
      r.world.all_reduce(r.data);
      r.world.synchronize();
    });
  };
  CHECK(mentions(later(ncclSystemError), "rank 1: NCCL failed (internal error",
                 "all_reduce of 8 float by sum on rank 1 of 2"));
  CHECK(mentions(later(ncclRemoteError), "NCCL failed (remote process exited",
                 "fix the error of the rank that ended"));

  CHECK(mentions(first_error<CommunicationError>({.time_limit = 10s},
                                                 [](Rank r) {
                                                   if (r.host.rank() == 1)
                                                     fake::fail("ncclCommSplit", ncclInternalError);
                                                   (void)r.world.split(0, 0);
                                                 }),
                 "rank 1: ncclCommSplit failed", "a split on rank 1 of 2"));
  fake::report_aborts(false);
}

TEST_CASE("after an error each call throws")
{
  const Watchdog watchdog;
  const auto body = [](Rank r) {
    auto copy = r.world.split(0, 0);
    auto in_flight = copy.async_all_reduce(r.other);
    fake::fail("ncclAllReduce", ncclInternalError);
    std::vector<std::string> messages;
    const auto record = [&](auto f) { messages.push_back(message_of<CommunicationError>(f)); };
    record([&] { r.world.all_reduce(r.data); });
    record([&] { r.world.barrier(); });
    record([&] { copy.broadcast(r.data, 0); });
    record([&] { in_flight.wait(); });
    record([&] { (void)in_flight.test(); });
    record([&] { (void)copy.split(0, 0); });
    record([&] { r.world.synchronize(); });
    for (std::size_t i = 1; i < messages.size(); ++i)
      require<Error>(mentions(messages[i], "were aborted (ncclAllReduce failed"), i, ": ",
                     messages[i]);
    throw Error{"all of them threw"};
  };
  CHECK(message_of<Error>([&] { on_nccl(1, {.time_limit = 10s}, body); }) ==
        "rank 0: all of them threw");
}

TEST_CASE("to destroy a request before its call is complete aborts the communicators")
{
  const Watchdog watchdog;
  fake::report_aborts(true);
  const auto text = first_error<CommunicationError>({.time_limit = 10s}, [](Rank r) {
    if (r.host.rank() == 1) (void)r.world.async_all_reduce(r.data);
    r.world.broadcast(r.data, 0);
    r.world.synchronize();
  });
  fake::report_aborts(false);
  CHECK(mentions(text, "rank 1: ", "this rank dropped the request of its all_reduce of 8 float"));

  on_nccl(1, {.time_limit = 10s}, [](Rank r) {
    {
      auto request = r.world.async_all_reduce(r.data);
      r.world.barrier();  // this completes the call, too
    }
    r.world.all_reduce(r.data);
  });
}

TEST_CASE("a split waits for pending messages")
{
  const Watchdog watchdog;
  on_nccl(2, {.time_limit = 10s}, [](Rank r) {
    auto received = r.world.async_receive(r.data, 1 - r.world.rank());
    auto sent = r.world.async_send(r.other, 1 - r.world.rank());
    (void)r.world.split(0, 0);
    require<Error>(received.test() && sent.test(), "the messages are not complete");
  });
}

TEST_CASE("communicators are destroyed in any order, without waiting")
{
  const Watchdog watchdog;
  const int aborts = fake::aborts();
  const auto before = fake::live();
  on_nccl(3, {.time_limit = 10s}, [](Rank r) {
    std::optional<NcclCommunicator> a{r.world.split(0, 0)};
    std::optional<NcclCommunicator> b{a->split(0, 0)};
    b->all_reduce(r.data);
    if (r.host.rank() == 0) a.reset();
    if (r.host.rank() == 1) b.reset(), a.reset();
    r.host.barrier();
    if (r.host.rank() != 1) b.reset();
    r.host.barrier();
    r.world.all_reduce(r.data);
  });
  CHECK(fake::aborts() == aborts);
  CHECK(fake::live() == before);
}

}  // namespace cubist::test::comm_nccl_context_test
