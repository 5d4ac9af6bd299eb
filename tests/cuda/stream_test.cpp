// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/cuda/stream.hpp"

#include "fake.hpp"
#include "nccl_on_threads.hpp"
#include "ranks.hpp"

namespace cubist::test::cuda_stream_test
{

using cubist::detail::CudaEvent;
using cubist::detail::CudaStream;

const auto doing = [] { return "a test"; };

TEST_CASE("streams and events are destroyed once, and moved")
{
  const auto before = fake::live();
  {
    CudaStream a;
    CudaStream b{std::move(a)};
    CHECK(a.get() == nullptr);
    a = std::move(b);
    CHECK(a.get() != nullptr);
    CudaEvent e;
    CudaEvent f{std::move(e)};
    e = std::move(f);
    CHECK(e.get() != nullptr);
    CHECK(fake::live().streams == before.streams + 1);
    CHECK(fake::live().events == before.events + 1);
  }
  CHECK(fake::live() == before);
}

TEST_CASE("an event is complete when the work before it is")
{
  const CudaStream blocked;
  const CudaStream other;
  const CudaEvent gate;
  const CudaEvent behind;
  CHECK(is_complete(gate, doing));
  fake::Gate open{blocked.get()};
  cudaEventRecord(gate.get(), blocked.get());
  cudaStreamWaitEvent(other.get(), gate.get(), 0);
  cudaEventRecord(behind.get(), other.get());
  CHECK_FALSE(is_complete(behind, doing));
  open.open();
  cudaStreamSynchronize(other.get());
  CHECK(is_complete(behind, doing));
}

TEST_CASE("errors of CUDA name the call, its purpose and the reason")
{
  const auto text = message_of<CommunicationError>(
      [] { cubist::detail::cuda_check(cudaErrorIllegalAddress, "cudaEventRecord", doing); });
  CHECK(mentions(text, "cudaEventRecord failed (cudaErrorIllegalAddress", "for a test",
                 "look for an error in earlier work"));
  fake::fail("cudaEventQuery", cudaErrorIllegalAddress);
  const CudaEvent event;
  CHECK(mentions(message_of<CommunicationError>([&] { (void)is_complete(event, doing); }),
                 "cudaEventQuery"));
  fake::fail("cudaStreamCreateWithFlags", cudaErrorMemoryAllocation);
  CHECK_THROWS_AS(CudaStream{}, CommunicationError);
  fake::fail("cudaEventCreateWithFlags", cudaErrorMemoryAllocation);
  CHECK_THROWS_AS(CudaEvent{}, CommunicationError);
}

}  // namespace cubist::test::cuda_stream_test
