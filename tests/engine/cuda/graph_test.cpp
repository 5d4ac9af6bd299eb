// SPDX-License-Identifier: BSD-3-Clause
// Tests captured work on the mock of CUDA.

#include "cubist/engine/cuda/buffer.hpp"
#include "cubist/engine/cuda/graph.hpp"

#include "catch.hpp"
#include "fake.hpp"

namespace cubist::test::engine_cuda_graph_test
{

/// The host's copy of a buffer.
static std::vector<int> read(const CudaBuffer<int>& buffer)
{
  std::vector<int> host(buffer.size());
  cudaMemcpyAsync(host.data(), buffer.data(), host.size() * sizeof(int), cudaMemcpyDeviceToHost,
                  ComputeStream::get());
  ComputeStream::synchronize();
  return host;
}
static void write(CudaBuffer<int>& buffer, int value)
{
  cudaMemcpyAsync(buffer.data(), &value, sizeof(int), cudaMemcpyHostToDevice, ComputeStream::get());
}
static void copy(const CudaBuffer<int>& from, CudaBuffer<int>& to)
{
  cudaMemcpyAsync(to.data(), from.data(), sizeof(int), cudaMemcpyDeviceToDevice,
                  ComputeStream::get());
}

TEST_CASE("captured work is executed by its replays alone, after what prepares them")
{
  CudaBuffer<int> from(1), to(1);
  write(from, 1);
  int prepared = 0;
  auto graph = CudaGraph::capture([&] {
    copy(from, to);
    cubist::detail::CudaCapture::get().current->before_replay.push_back(
        [&] { write(from, 10 + ++prepared); });
  });
  CHECK(read(to) == std::vector{0});
  graph.replay();
  CHECK(read(to) == std::vector{11});
  graph.replay();
  CHECK(read(to) == std::vector{12});
}

TEST_CASE("captured work may fork to another stream, which it joins")
{
  CudaBuffer<int> from(1), between(1), to(1);
  write(from, 3);
  const cubist::detail::CudaStream other;
  const cubist::detail::CudaEvent fork, join;
  const auto work = [&](bool joins) {
    cudaEventRecord(fork.get(), ComputeStream::get());
    cudaStreamWaitEvent(other.get(), fork.get(), 0);
    cudaMemcpyAsync(between.data(), from.data(), sizeof(int), cudaMemcpyDeviceToDevice,
                    other.get());
    cudaEventRecord(join.get(), other.get());
    if (joins) cudaStreamWaitEvent(ComputeStream::get(), join.get(), 0);
    copy(between, to);
  };
  auto graph = CudaGraph::capture([&] { work(true); });
  for (int i = 4; i < 20; ++i)
  {
    write(from, i);
    graph.replay();
    CHECK(read(to) == std::vector{i});
  }
  CHECK_THROWS_AS(CudaGraph::capture([&] { work(false); }), CaptureError);
  // A stream that was captured can be used again.
  work(true);
  CHECK(read(to) == std::vector{19});
}

TEST_CASE("memory that captured work allocates or frees exists while it is replayed")
{
  const auto before = fake::live();
  {
    std::optional<CudaBuffer<int>> kept, freed{1};
    CudaBuffer<int> to(1);
    write(*freed, 5);
    auto graph = CudaGraph::capture([&] {
      kept.emplace(1U);
      copy(*freed, *kept);
      CudaBuffer<int> temporary(1);
      copy(*kept, temporary);
      copy(temporary, to);
      freed.reset();
    });
    graph.replay();
    CHECK(read(to) == std::vector{5});
    write(*kept, 7);
    CHECK(read(*kept) == std::vector{7});
    graph.replay();
    CHECK(read(*kept) == std::vector{5});
  }
  CHECK(fake::live() == before);
}

TEST_CASE("a graph is valid until memory that is older is freed")
{
  std::optional<CudaBuffer<int>> a{1}, b{1}, c{1};
  auto graph = CudaGraph::capture([&] { copy(*a, *b); });
  graph.ignore(c->data());
  CudaBuffer<int>{3};
  c.reset();
  c.emplace(1U);
  c.reset();
  CHECK(graph.is_valid());
  auto moved = std::move(graph);
  a.reset();
  CHECK(!moved.is_valid());
}

TEST_CASE("the host cannot wait in captured work, and after an error nothing is captured")
{
  CudaBuffer<int> from(1), to(1);
  write(from, 1);
  const auto capture = [&](const std::function<void()>& f) {
    return [&] { static_cast<void>(CudaGraph::capture(f)); };
  };
  using Catch::Matchers::ContainsSubstring;
  const auto message = [&](const std::function<void()>& f) {
    try
    {
      static_cast<void>(CudaGraph::capture(f));
    }
    catch (const CaptureError& e)
    {
      return std::string{e.what()};
    }
    return std::string{};
  };
  CHECK_THAT(message([] { ComputeStream::synchronize(); }),
             ContainsSubstring("got a wait for the device"));
  CHECK_THAT(message([&] { capture([] {})(); }), ContainsSubstring("got another step in a step"));
  CHECK_THAT(message([] { cudaStreamQuery(ComputeStream::get()); }),
             ContainsSubstring("cudaStreamEndCapture failed (cudaErrorStreamCaptureInvalidated"));
  CHECK_THROWS_AS(capture([] { throw 1; })(), int);
  fake::fail("cudaGraphInstantiate", cudaErrorMemoryAllocation);
  CHECK_THAT(message([&] { copy(from, to); }), ContainsSubstring("cudaErrorMemoryAllocation"));
  copy(from, to);
  CHECK(read(to) == std::vector{1});
  CHECK(!cubist::detail::CudaCapture::is_capturing());
}

}  // namespace cubist::test::engine_cuda_graph_test
