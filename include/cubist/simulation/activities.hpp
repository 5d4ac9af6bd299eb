// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Activities that share resources, in simulated time: transfers on links, products on cores.
//
// An activity that runs alone takes `seconds`, during which it uses a part of each of its
// resources.
//
//   links   serve activities in the order in which these began, like messages on a connection:
//           each gets what earlier ones leave of its most used link
//   cores   are shared fairly: if more is wanted than there is, no activity gets more than an equal
//           share, and one that wants less gets what it wants (fair_share.hpp)
//
// An activity proceeds at the slower of both speeds. Each start and each end changes the speed of
// others at once. On a link, a change passes like a wave from each user to the next one in the
// queue. It skips users for which nothing is left: an exchange between all ranks has thousands of
// them.
//
// All times follow from the order of the calls, so they are the same in every run.
//
// Source: fluid models, as in Casanova et al., "Versatile, scalable, and accurate simulation of
// distributed applications and platforms", 2014 (SimGrid).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "cubist/simulation/fair_share.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A part of a resource, in [0, 1].
struct ResourceUse
{
  int resource;
  double part;
};

class Activities
{
 public:
  static constexpr double never = std::numeric_limits<double>::max();

  /// @param links the number of links, which come first among the resources; the others are cores
  explicit Activities(std::size_t resources = 0, std::size_t links = 0)
      : resources_(resources)
  {
    for (std::size_t i = 0; i < links; ++i) resources_[i].in_order = true;
  }

  /// Called with the time at which an activity ends.
  using OnEnd = std::function<void(double)>;

  /// Starts an activity at a time that is not in the past. Of several that start at the same time,
  /// the one with the lowest turn comes first.
  void start(double time, double seconds, std::vector<ResourceUse> uses, OnEnd on_end,
             std::uint64_t turn = 0)
  {
    Activity& a = take_unused();
    a.remaining = seconds;
    a.uses = std::move(uses);
    a.on_end = std::move(on_end);
    a.running = false;
    push(time, a, turn);
  }

  /// Returns the time of the next event.
  [[nodiscard]] double next()
  {
    while (!events_.empty() && events_.top().version != events_.top().activity->version)
      events_.pop();
    const double time = events_.empty() ? never : events_.top().time;
    // Speeds change once for all activities that start and end at the same time.
    if (time <= now_ || (changed_.empty() && queue_.empty())) return time;
    update_speeds();
    return next();
  }

  /// Runs the next event, and advances the time to it.
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
      Resource& r = resource(use);
      remove(r.users, a);
      if (!r.in_order)
      {
        mark(r);
        continue;
      }
      if (a.on_links > 0) remove(r.moving, a);
      start_wave(r);
      queue_first_behind(r.users, a);
    }
    const OnEnd on_end = std::exchange(a.on_end, nullptr);
    a.running = false;
    a.queued = false;
    ++a.version;
    unused_.push_back(&a);
    on_end(now_);
  }

 private:
  struct Activity
  {
    double remaining = 0;  // seconds that it would take alone
    double on_links = 0;   // the speed that its links allow
    double speed = 0;
    double since = 0;         // the time at which it had this speed and remainder
    std::uint64_t order = 0;  // its place in the order of starts
    bool running = false;
    bool queued = false;   // whether its links may allow another speed
    bool checked = false;  // whether it may have another speed
    std::uint64_t version = 0;
    std::vector<ResourceUse> uses;
    OnEnd on_end;
  };
  /// Activities in the order of their starts, and the part of a resource that each wants.
  using Users = std::vector<std::pair<Activity*, double>>;
  struct Resource
  {
    bool in_order = false;
    double share = never;  // for cores: the most that an activity gets
    bool changed = false;
    Users users;
    // For links: the users that have a speed on their links, and the least part that a user wanted.
    Users moving;
    double least_part = 1;
    bool has_wave = false;  // whether users after one that has changed are being checked
  };
  struct Event
  {
    double time;
    std::uint64_t turn;
    std::uint64_t number;
    Activity* activity;
    std::uint64_t version;

    friend bool operator>(const Event& a, const Event& b)
    {
      if (a.time != b.time) return a.time > b.time;
      return std::pair{a.turn, a.number} > std::pair{b.turn, b.number};
    }
  };

  Activity& take_unused()
  {
    if (unused_.empty()) return activities_.emplace_back();
    Activity& a = *unused_.back();
    unused_.pop_back();
    return a;
  }

  void push(double time, Activity& a, std::uint64_t turn = 0)
  {
    events_.push({time, turn, ++events_pushed_, &a, ++a.version});
  }

  void begin(Activity& a)
  {
    a.running = true;
    a.since = now_;
    a.on_links = 0;
    a.speed = 0;
    a.order = ++begun_;
    for (const auto& use : a.uses)
    {
      Resource& r = resource(use);
      r.users.emplace_back(&a, use.part);
      r.least_part = std::min(r.least_part, use.part);
      if (!r.in_order) mark(r);
    }
    queue(a);
  }

  [[nodiscard]] Resource& resource(const ResourceUse& use)
  {
    return resources_[static_cast<std::size_t>(use.resource)];
  }
  void queue(Activity& a)
  {
    if (!std::exchange(a.queued, true)) queue_.push({a.order, &a});
  }

  void mark(Resource& r)
  {
    if (!std::exchange(r.changed, true)) changed_.push_back(&r);
  }

  [[nodiscard]] static Users::iterator first_behind(Users& users, const Activity& a)
  {
    return std::ranges::upper_bound(users, a.order, {},
                                    [](const auto& user) { return user.first->order; });
  }
  /// @pre a is among them
  static void remove(Users& users, const Activity& a)
  {
    users.erase(std::prev(first_behind(users, a)));
  }
  void queue_first_behind(Users& users, const Activity& a)
  {
    const auto next = first_behind(users, a);
    if (next != users.end()) queue(*next->first);
  }

  void start_wave(Resource& r)
  {
    if (!std::exchange(r.has_wave, true)) waves_.push_back(&r);
  }
  /// Queues the next user of a link that a change up to `a` may concern. If the users up to `a`
  /// leave nothing, that is the next user with a speed, because those without one stay without one.
  void continue_wave(Resource& r, const Activity& a)
  {
    double left = 1;
    for (const auto& [user, part] : r.moving)
    {
      if (user->order > a.order) break;
      left -= part * user->on_links;
    }
    queue_first_behind(left > 1e-9 * r.least_part ? r.users : r.moving, a);
  }

  void update_speeds()
  {
    // What links allow depends only on earlier activities, so each is checked once.
    while (!queue_.empty())
    {
      const auto [order, activity] = queue_.top();
      queue_.pop();
      Activity& a = *activity;
      if (!a.running || a.order != order) continue;  // it has ended since
      a.queued = false;
      check(a);
      const double on_links = allowed_by_links(a);
      const double former = std::exchange(a.on_links, on_links);
      for (const auto& use : a.uses)
      {
        Resource& r = resource(use);
        if (on_links != former)
        {
          if (!r.in_order)
          {
            mark(r);
            continue;
          }
          start_wave(r);
          if (former == 0) r.moving.insert(first_behind(r.moving, a), {&a, use.part});
          if (on_links == 0) remove(r.moving, a);
        }
        if (r.has_wave) continue_wave(r, a);
      }
    }
    for (Resource* r : waves_) r->has_wave = false;
    waves_.clear();
    for (Resource* r : changed_)
    {
      r->changed = false;
      update_share(*r);
    }
    changed_.clear();
    for (Activity* a : affected_) update_speed(*a);
    affected_.clear();
  }

  void check(Activity& a)
  {
    if (!std::exchange(a.checked, true)) affected_.push_back(&a);
  }

  /// Returns the speed that the links allow. A remainder that differs from enough, or from nothing,
  /// only by rounding errors counts as enough, or as nothing.
  [[nodiscard]] double allowed_by_links(const Activity& a)
  {
    double speed = 1;
    for (const auto& use : a.uses)
    {
      const Resource& r = resource(use);
      if (!r.in_order) continue;
      double left = 1;
      for (const auto& [other, part] : r.moving)
      {
        if (other->order >= a.order) break;
        left -= part * other->on_links;
        if (left <= 1e-9 * use.part) return 0;
      }
      if (left < use.part * (1 - 1e-9)) speed = std::min(speed, left / use.part);
    }
    return speed > 1e-9 ? speed : 0;
  }

  void update_share(Resource& r)
  {
    wanted_.clear();
    for (const auto& [a, part] : r.users) wanted_.push_back(part * a->on_links);
    const double share = fair_share(wanted_);
    if (share == std::exchange(r.share, share)) return;
    for (const auto& [a, _] : r.users) check(*a);
  }

  void update_speed(Activity& a)
  {
    a.checked = false;
    if (!a.running) return;
    double speed = a.on_links;
    for (const auto& use : a.uses) speed = std::min(speed, resource(use).share / use.part);
    if (speed == a.speed) return;
    a.remaining = std::max(0.0, a.remaining - (now_ - a.since) * a.speed);
    a.since = now_;
    a.speed = speed;
    // An activity ends at once, whatever its speed, if what is left of it is rounding error.
    const bool has_ended = a.remaining <= 1e-12 * now_;
    if (speed > 0 || has_ended)
      push(has_ended ? now_ : now_ + a.remaining / speed, a);
    else
      ++a.version;  // its end is unknown
  }

  double now_ = 0;
  std::uint64_t events_pushed_ = 0;
  std::uint64_t begun_ = 0;
  std::vector<Resource> resources_;
  std::vector<Resource*> changed_;
  std::vector<Resource*> waves_;
  // Activities in the order of their starts; some may have ended since.
  using Queued = std::pair<std::uint64_t, Activity*>;
  std::priority_queue<Queued, std::vector<Queued>, std::greater<>> queue_;
  std::vector<Activity*> affected_;
  std::vector<double> wanted_;
  std::deque<Activity> activities_;
  std::vector<Activity*> unused_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace cubist::CUBIST_ABI::detail
