// SPDX-License-Identifier: BSD-3-Clause
#include <map>
#include <set>

#include "cubist/model/pipeline_schedule.hpp"

#include "ranks.hpp"

namespace cubist::test::pipeline_schedule_test
{

using detail::pipeline_schedule;
using detail::PipelineStep;

TEST_CASE("every micro-batch has one forward and one backward pass in each piece")
{
  for (const std::size_t stages : {1U, 2U, 3U, 4U, 8U})
    for (const std::size_t pieces : {1U, 2U, 3U})
      for (const std::size_t micro_batches : {stages, 2 * stages, 5 * stages})
        for (std::size_t s = 0; s < stages; ++s)
        {
          const auto steps = pipeline_schedule(s, stages, micro_batches, pieces);
          CHECK(steps.size() == 2 * micro_batches * pieces);
          std::set<std::tuple<bool, std::size_t, std::size_t>> found;
          for (const auto& step : steps)
            found.insert({step.is_forward, step.micro_batch, step.piece});
          CHECK(found.size() == steps.size());
        }
}

/// A message between stages that exchange groups: sender, receiver, and what it carries.
using Message = std::tuple<std::size_t, std::size_t, bool, std::size_t, std::size_t>;

/// What a stage sends and receives in each group of messages.
struct Group
{
  std::vector<Message> sent, received;
};

/// The groups of messages of one stage.
/// @param first_trained  the first piece with a backward pass
static std::vector<Group> groups_of(std::size_t stage, std::size_t stages, std::size_t pieces,
                                    const std::vector<PipelineStep>& steps,
                                    std::size_t first_trained)
{
  const std::size_t last = stages * pieces - 1;
  const std::size_t after = (stage + 1) % stages;
  const std::size_t before = (stage + stages - 1) % stages;
  std::vector<Group> groups(1);
  const auto receive = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i)
    {
      const auto& [is_forward, m, piece] = steps[i];
      const std::size_t k = piece * stages + stage;
      if (is_forward && k > 0) groups.back().received.push_back({before, stage, true, m, k - 1});
      if (!is_forward && k < last && k + 1 > first_trained)
        groups.back().received.push_back({after, stage, false, m, k + 1});
    }
  };
  const auto end_from = [&](std::size_t i) {
    return detail::end_of_group(steps, i, stages, pieces);
  };
  receive(0, end_from(0));
  for (std::size_t i = 0; i < steps.size();)
  {
    const std::size_t end = end_from(i);
    groups.emplace_back();
    for (; i < end; ++i)
    {
      const auto& [is_forward, m, piece] = steps[i];
      const std::size_t k = piece * stages + stage;
      if (is_forward && k < last) groups.back().sent.push_back({stage, after, true, m, k});
      if (!is_forward && k > first_trained)
        groups.back().sent.push_back({stage, before, false, m, k});
    }
    receive(end, end_from(end));
  }
  return groups;
}

/// Whether all stages reach their ends. A message arrives once both its ends have begun their
/// groups, and a group ends when all its messages have arrived.
static bool all_groups_end(const std::vector<std::vector<Group>>& stages)
{
  std::set<Message> arrived;
  std::vector<std::size_t> at(stages.size(), 0);
  const auto all_arrived = [&](const std::vector<Message>& messages) {
    return std::all_of(messages.begin(), messages.end(),
                       [&](const Message& m) { return arrived.count(m) > 0; });
  };
  for (bool moves = true; moves;)
  {
    moves = false;
    std::set<Message> offered;
    for (std::size_t s = 0; s < stages.size(); ++s)
      if (at[s] < stages[s].size())
        offered.insert(stages[s][at[s]].sent.begin(), stages[s][at[s]].sent.end());
    for (std::size_t s = 0; s < stages.size(); ++s)
      if (at[s] < stages[s].size())
        for (const Message& m : stages[s][at[s]].received)
          if (offered.count(m) > 0) moves = arrived.insert(m).second || moves;
    for (std::size_t s = 0; s < stages.size(); ++s)
      if (at[s] < stages[s].size() && all_arrived(stages[s][at[s]].sent) &&
          all_arrived(stages[s][at[s]].received))
        ++at[s], moves = true;
  }
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (at[s] < stages[s].size()) return false;
  return true;
}

TEST_CASE("groups of messages do not wait for one another in a circle, and have one order")
{
  const auto check = [](std::size_t stages, std::size_t pieces, std::size_t m, auto schedule,
                        std::size_t first_trained) {
    CAPTURE(stages, pieces, m, first_trained);
    std::vector<std::vector<Group>> all;
    for (std::size_t s = 0; s < stages; ++s)
      all.push_back(groups_of(s, stages, pieces, schedule(s), first_trained));
    CHECK(all_groups_end(all));
    // A pair of stages sends its messages in the order in which it receives them.
    std::map<std::pair<std::size_t, std::size_t>, std::vector<Message>> sent, received;
    for (const auto& groups : all)
      for (const Group& group : groups)
      {
        for (const Message& message : group.sent)
          sent[{std::get<0>(message), std::get<1>(message)}].push_back(message);
        for (const Message& message : group.received)
          received[{std::get<0>(message), std::get<1>(message)}].push_back(message);
      }
    CHECK(sent == received);
  };
  for (const std::size_t stages : {1U, 2U, 3U, 4U, 6U})
    for (const std::size_t pieces : {1U, 2U, 3U})
    {
      if (stages == 1 && pieces > 1) continue;
      for (const std::size_t rounds : {1U, 2U, 4U})
      {
        const std::size_t m = rounds * stages;
        for (std::size_t first = 0; first < stages * pieces; ++first)
          check(
              stages, pieces, m,
              [&](std::size_t s) { return pipeline_schedule(s, stages, m, pieces); }, first);
        check(
            stages, pieces, m + 1,
            [&](std::size_t) { return detail::forward_schedule(stages, m + 1, pieces); }, 0);
      }
      if (pieces == 1)
        check(
            stages, 1, 5, [&](std::size_t s) { return pipeline_schedule(s, stages, 5, 1); }, 0);
    }
}

/// The steps as text, "F0 F1 B0 …", with the piece after a colon if it is not the first.
static std::string text(const std::vector<PipelineStep>& steps)
{
  std::string all;
  for (const PipelineStep& s : steps)
  {
    all += (all.empty() ? "" : " ") + std::string{s.is_forward ? "F" : "B"} +
           std::to_string(s.micro_batch);
    if (s.piece > 0) all += ":" + std::to_string(s.piece);
  }
  return all;
}

TEST_CASE("a stage computes one forward and one backward pass in turn")
{
  CHECK(text(pipeline_schedule(0, 1, 3, 1)) == "F0 B0 F1 B1 F2 B2");
  CHECK(text(pipeline_schedule(0, 3, 5, 1)) == "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4");
  CHECK(text(pipeline_schedule(1, 3, 5, 1)) == "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4");
  CHECK(text(pipeline_schedule(2, 3, 5, 1)) == "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4");
  CHECK(text(pipeline_schedule(0, 4, 2, 1)) == "F0 F1 B0 B1");
}

TEST_CASE("a stage of two pieces goes through both for each turn of micro-batches")
{
  CHECK(text(pipeline_schedule(0, 2, 4, 2)) ==
        "F0 F1 F0:1 F1:1 F2 B0:1 F3 B1:1 F2:1 B0 F3:1 B1 B2:1 B3:1 B2 B3");
  CHECK(text(pipeline_schedule(1, 2, 4, 2)) ==
        "F0 F1 F0:1 B0:1 F1:1 B1:1 F2 B0 F3 B1 F2:1 B2:1 F3:1 B3:1 B2 B3");
}

TEST_CASE("a stage has activations of at most as many micro-batches as there are stages after it")
{
  for (const std::size_t stages : {1U, 2U, 5U})
    for (const std::size_t micro_batches : {1U, 2U, 4U, 5U, 17U})
      for (std::size_t s = 0; s < stages; ++s)
        CHECK(detail::most_in_flight(pipeline_schedule(s, stages, micro_batches, 1), 0) ==
              std::min(micro_batches, stages - s));
}

/// The time of a step in which a forward pass takes 1, a backward pass takes `backward`, and
/// messages take nothing; infinite for a schedule that gets stuck.
static double time_of(std::size_t stages, std::size_t micro_batches, std::size_t pieces,
                      double backward)
{
  std::vector<std::vector<PipelineStep>> all;
  for (std::size_t s = 0; s < stages; ++s)
    all.push_back(pipeline_schedule(s, stages, micro_batches, pieces));
  const std::size_t last = stages * pieces - 1;
  std::map<std::tuple<bool, std::size_t, std::size_t>, double> ends;  // is_forward, micro, number
  std::vector<std::size_t> at(stages, 0);
  std::vector<double> now(stages, 0);
  for (bool moves = true; moves;)
  {
    moves = false;
    for (std::size_t s = 0; s < stages; ++s)
      while (at[s] < all[s].size())
      {
        const PipelineStep& step = all[s][at[s]];
        const std::size_t k = step.piece * stages + s;
        double ready = 0;
        const auto needs = [&](bool is_forward, std::size_t number) {
          const auto found = ends.find({is_forward, step.micro_batch, number});
          if (found == ends.end()) return false;
          ready = std::max(ready, found->second);
          return true;
        };
        if (step.is_forward ? k > 0 && !needs(true, k - 1)
                            : !needs(true, k) || (k < last && !needs(false, k + 1)))
          break;
        now[s] = std::max(now[s], ready) + (step.is_forward ? 1 : backward);
        ends[{step.is_forward, step.micro_batch, k}] = now[s];
        ++at[s];
        moves = true;
      }
  }
  for (std::size_t s = 0; s < stages; ++s)
    if (at[s] < all[s].size()) return 1e300;
  return *std::max_element(now.begin(), now.end());
}

TEST_CASE("the bubble of equal stages is that of the formula")
{
  for (const std::size_t stages : {1U, 2U, 4U, 8U})
    for (const std::size_t rounds : {1U, 2U, 5U})
      for (const std::size_t pieces : {1U, 2U, 4U})
      {
        const std::size_t m = rounds * stages;
        CAPTURE(stages, m, pieces);
        const double busy = 3.0 * static_cast<double>(m * pieces);
        const double bubble = 3.0 * static_cast<double>(stages - 1);
        CHECK(time_of(stages, m, pieces, 2) == busy + bubble);
      }
  CHECK(time_of(4, 7, 1, 2) == 3.0 * (7 + 3));
  CHECK(time_of(4, 3, 1, 2) == 3.0 * (3 + 3));
}

}  // namespace cubist::test::pipeline_schedule_test
