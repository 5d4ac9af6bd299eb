// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Activities that share resources, in simulated time: transfers on links, products on cores.
//
// An activity that is alone takes `seconds`, during which it uses a part of each of its resources.
// Where activities want more than all of a resource, all that use it slow down equally, so that
// together they use all of it: an activity proceeds at 1 / max(1, what is wanted of its most wanted
// resource). Each start and each end changes the speed of others, at once.
//
// All times follow from the order of the calls, so they are the same on every run.
//
// Source: fluid models, as in Casanova et al., "Versatile, scalable, and accurate simulation of
// distributed applications and platforms", 2014 (SimGrid).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

namespace cubist::detail
{

/// A part of a resource, in [0, 1].
struct ResourceUse
{
  int resource;
  double part;
};

/// Told when an activity ends.
class ActivityOwner
{
 public:
  virtual void complete(double time) = 0;

 protected:
  ~ActivityOwner() = default;
};

class Activities
{
 public:
  static constexpr double never = std::numeric_limits<double>::infinity();

  explicit Activities(std::size_t resources = 0) : resources_(resources) {}

  /// Starts an activity at a time that is not in the past.
  void start(double time, double seconds, std::vector<ResourceUse> uses,
             std::shared_ptr<ActivityOwner> owner)
  {
    Activity& a = take_unused();
    a.remaining = seconds;
    a.uses = std::move(uses);
    a.owner = std::move(owner);
    a.running = false;
    push(time, a);
  }

  /// When something happens next.
  [[nodiscard]] double next()
  {
    while (!events_.empty() && events_.top().version != events_.top().activity->version)
      events_.pop();
    const double time = events_.empty() ? never : events_.top().time;
    // Speeds change once for all activities that start and end at the same time.
    if (time <= now_ || changed_.empty()) return time;
    update_speeds();
    return next();
  }

  /// Lets it happen.
  /// @pre next() < never
  void step()
  {
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    Activity& a = *event.activity;
    if (!a.running) return begin(a);
    for (const auto& use : a.uses)
    {
      Resource& r = resources_[static_cast<std::size_t>(use.resource)];
      std::erase_if(r.users, [&](const auto& user) { return user.first == &a; });
      mark(r);
    }
    const auto owner = std::exchange(a.owner, nullptr);
    ++a.version;
    unused_.push_back(&a);
    owner->complete(now_);
  }

 private:
  struct Activity
  {
    double remaining = 0;  // seconds, if it were alone
    double speed = 1;
    double since = 0;  // when it had that speed, and so much remained
    bool running = false;
    bool checked = false;
    std::uint64_t version = 0;
    std::vector<ResourceUse> uses;
    std::shared_ptr<ActivityOwner> owner;
  };
  struct Resource
  {
    double slowdown = 1;
    bool changed = false;
    std::vector<std::pair<Activity*, double>> users;  // and the part that each wants
  };
  struct Event
  {
    double time;
    std::uint64_t number;
    Activity* activity;
    std::uint64_t version;

    friend bool operator>(const Event& a, const Event& b)
    {
      return std::pair{a.time, a.number} > std::pair{b.time, b.number};
    }
  };

  Activity& take_unused()
  {
    if (unused_.empty()) return activities_.emplace_back();
    Activity& a = *unused_.back();
    unused_.pop_back();
    return a;
  }

  void push(double time, Activity& a) { events_.push({time, ++events_pushed_, &a, ++a.version}); }

  void begin(Activity& a)
  {
    a.running = true;
    a.since = now_;
    a.speed = 1;
    for (const auto& use : a.uses)
    {
      Resource& r = resources_[static_cast<std::size_t>(use.resource)];
      r.users.emplace_back(&a, use.part);
      a.speed = std::min(a.speed, 1 / r.slowdown);
      mark(r);
    }
    push(now_ + a.remaining / a.speed, a);
  }

  void mark(Resource& r)
  {
    if (!std::exchange(r.changed, true)) changed_.push_back(&r);
  }

  void update_speeds()
  {
    for (Resource* r : changed_)
    {
      r->changed = false;
      double wanted = 0;
      for (const auto& [_, part] : r->users) wanted += part;
      // Rounding errors of a resource that is just enough are no slowdown.
      const double slowdown = wanted > 1 + 1e-9 ? wanted : 1;
      if (slowdown == std::exchange(r->slowdown, slowdown)) continue;
      for (const auto& [a, _] : r->users)
        if (!std::exchange(a->checked, true)) affected_.push_back(a);
    }
    changed_.clear();
    for (Activity* a : affected_)
    {
      a->checked = false;
      double slowdown = 1;
      for (const auto& use : a->uses)
        slowdown = std::max(slowdown, resources_[static_cast<std::size_t>(use.resource)].slowdown);
      if (1 / slowdown == a->speed) continue;
      a->remaining = std::max(0.0, a->remaining - (now_ - a->since) * a->speed);
      a->since = now_;
      a->speed = 1 / slowdown;
      push(now_ + a->remaining / a->speed, *a);
    }
    affected_.clear();
  }

  double now_ = 0;
  std::uint64_t events_pushed_ = 0;
  std::vector<Resource> resources_;
  std::vector<Resource*> changed_;
  std::vector<Activity*> affected_;
  std::deque<Activity> activities_;
  std::vector<Activity*> unused_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace cubist::detail
