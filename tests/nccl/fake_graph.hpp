// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What the fake's streams capture, and how it is launched. Each captured stream becomes a branch,
// whose tasks run in order on their own stream. Branches wait for each other where events did.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "fake_detail.hpp"

namespace cubist::test::fake
{

using Task = std::function<void()>;
/// Makes the task for one launch.
using MakeTask = std::function<Task()>;
/// For each branch, the number of its tasks that come before.
using Clock = std::map<std::size_t, std::size_t>;

struct Capture
{
  struct Node
  {
    std::size_t branch;
    MakeTask make;  // or, if empty,
    std::function<void(Point&)> reach_or_wait = {};
    std::size_t event = 0;
  };

  std::vector<cudaStream_t> streams;  // one for each branch; the first began the capture
  std::vector<Clock> clocks;          // one for each branch
  std::vector<Node> nodes;
  std::vector<Clock> events;  // events that were recorded
  bool broken = false;        // by a call that is not allowed while capturing
  // Calls that NCCL may add from its own thread; nothing else may be added meanwhile.
  int in_progress = 0;

  std::size_t branch_of(cudaStream_t stream)
  {
    const auto found = std::find(streams.begin(), streams.end(), stream);
    if (found != streams.end()) return static_cast<std::size_t>(found - streams.begin());
    streams.push_back(stream);
    clocks.emplace_back();
    return streams.size() - 1;
  }
  void add(cudaStream_t stream, MakeTask make)
  {
    const std::size_t b = branch_of(stream);
    broken = broken || in_progress > 0;
    ++clocks[b][b];
    nodes.push_back({b, std::move(make)});
  }
  std::size_t record(cudaStream_t stream)
  {
    const std::size_t b = branch_of(stream);
    broken = broken || in_progress > 0;
    events.push_back(clocks[b]);
    nodes.push_back({b, {}, [](Point& p) { p.reach(); }, events.size() - 1});
    return events.size() - 1;
  }
  void wait(cudaStream_t stream, std::size_t event)
  {
    const std::size_t b = branch_of(stream);
    for (const auto& [branch, count] : events[event])
      clocks[b][branch] = std::max(clocks[b][branch], count);
    nodes.push_back({b, {}, [](Point& p) { p.wait(); }, event});
  }
  /// Whether the first branch waits for all tasks of the others.
  [[nodiscard]] bool is_joined()
  {
    for (std::size_t b = 0; b < clocks.size(); ++b)
      if (clocks[0][b] != clocks[b][b]) return false;
    return true;
  }
};

}  // namespace cubist::test::fake

struct CUgraph_st
{
  std::shared_ptr<cubist::test::fake::Capture> capture;
};

struct CUgraphExec_st
{
  std::shared_ptr<cubist::test::fake::Capture> capture;
  std::vector<std::unique_ptr<CUstream_st>> streams;  // for all branches but the first

  void launch(cudaStream_t stream)
  {
    using cubist::test::fake::Point;
    std::vector<std::shared_ptr<Point>> events;
    for (std::size_t i = 0; i <= capture->events.size(); ++i)
      events.push_back(std::make_shared<Point>());
    const auto start = events.back();
    stream->enqueue([start] { start->reach(); });
    for (const auto& branch : streams) branch->enqueue([start] { start->wait(); });
    for (const auto& node : capture->nodes)
    {
      auto& on = node.branch == 0 ? *stream : *streams[node.branch - 1];
      if (node.make)
        on.enqueue(node.make());
      else
        on.enqueue([f = node.reach_or_wait, point = events[node.event]] { f(*point); });
    }
  }
};
