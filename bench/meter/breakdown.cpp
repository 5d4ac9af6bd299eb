// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <cubist/core/error.hpp>

#include "meter/alone.hpp"
#include "meter/breakdown.hpp"

namespace bench
{

namespace
{

/// An event in a rank's row of computation.
struct Event
{
  std::string name = {}, category = {}, operands = {}, function = {};
  std::size_t bytes = 0;
  double begin = 0, end = 0;  // seconds
  double processor = 0;
};

/// Returns the group that a part of the program belongs to, or an empty string.
std::string group_of(const std::string& part)
{
  for (const char* group : {"attention", "norm", "loss", "embedding", "weights"})
    if (part.rfind(group, 0) == 0) return group;
  if (part.rfind("update of", 0) == 0) return "optimizer";
  return "";
}

/// Returns a type's name without namespaces. All lambdas are called "lambda".
std::string without_namespaces(std::string_view type)
{
  std::string text;
  for (std::size_t i = 0; i < type.size(); ++i)
  {
    text += type[i];
    if (type.substr(i, 2) != "::") continue;
    text.pop_back();
    while (!text.empty() &&
           (std::isalnum(static_cast<unsigned char>(text.back())) != 0 || text.back() == '_'))
      text.pop_back();
    ++i;
  }
  if (text.find("lambda") != std::string::npos) return "lambda";
  return text;
}

StepCall call_of(const Event& e, const std::string& group)
{
  StepCall call{.group = group,
                .category = e.category,
                .name = e.name,
                .operands = e.operands,
                .bytes = e.bytes};
  if (e.category == "wait")
  {
    // All peers and sizes share one line.
    call.group = "communication";
    const auto digit = call.name.find_first_of("0123456789");
    if (digit != std::string::npos) call.name.erase(call.name.find_last_not_of(' ', digit - 1) + 1);
  }
  if (group.empty() && e.category == "product") call.group = "layers";
  if (group.empty() && e.category == "pass") call.group = "other passes";
  if (!e.function.empty())
  {
    const auto space = call.name.find(' ');
    call.name.insert(space == std::string::npos ? call.name.size() : space,
                     " " + without_namespaces(e.function));
  }
  return call;
}

/// Adds the events of one rank to a profile.
class RankReader
{
 public:
  RankReader(StepProfile& profile, std::size_t rank, std::vector<Event> events)
      : profile_{profile},
        rank_{rank},
        events_{std::move(events)}
  {
    std::sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
      return a.begin < b.begin || (a.begin == b.begin && a.end > b.end);
    });
    read_costs();
    bool found = false;
    for (const Event& e : events_)
      if (e.name == step_part)
      {
        read_step(e.begin, e.end, e.processor);
        found = true;
      }
    if (found || events_.empty()) return;
    double end = 0, processor = 0;
    for (const Event& e : events_)
    {
      if (e.begin >= end) processor += e.processor;
      end = std::max(end, e.end);
    }
    read_step(events_.front().begin, end, processor);
  }

  [[nodiscard]] double seconds() const { return seconds_; }
  [[nodiscard]] int steps() const { return steps_; }

 private:
  // Times in a file are rounded.
  static constexpr double rounding = 2e-9;

  /// Reads how much an empty event adds to its own time, and to that of the part around it.
  void read_costs()
  {
    for (const Event& all : events_)
    {
      if (all.name != cost_part) continue;
      double count = 0, inside = 0;
      for (const Event& e : events_)
        if (&e != &all && e.begin >= all.begin - rounding && e.end <= all.end + rounding)
          ++count, inside += e.processor;
      if (count == 0) return;
      cost_inside_ = inside / count;
      cost_outside_ = std::max(0.0, all.processor - inside) / count;
    }
  }

  void read_step(double begin, double end, double processor)
  {
    seconds_ += end - begin;
    ++steps_;
    double rest = processor;
    std::vector<const Event*> open;
    for (const Event& e : events_)
    {
      if (e.begin < begin - rounding || e.end > end + rounding || e.name == step_part) continue;
      while (!open.empty() && open.back()->end <= e.begin + rounding) open.pop_back();
      const bool is_nested = !open.empty() && open.back()->category != "part";
      profile_.measuring += cost_inside_ + cost_outside_;
      rest -= cost_outside_;
      if (e.category == "part")
        rest -= cost_inside_;
      else if (!is_nested)  // a nested event is in the time of the call around it
      {
        auto& times = profile_.calls[call_of(e, group(open))];
        times.seconds.resize(std::max(times.seconds.size(), rank_ + 1));
        times.seconds[rank_] += std::max(0.0, e.processor - cost_inside_);
        times.count += 1;
        rest -= e.processor;
      }
      open.push_back(&e);
    }
    profile_.bookkeeping[rank_] += std::max(0.0, rest);
  }

  /// Returns the group of the innermost part that has one.
  static std::string group(const std::vector<const Event*>& open)
  {
    for (auto e = open.rbegin(); e != open.rend(); ++e)
      if ((*e)->category == "part")
        if (const auto name = group_of((*e)->name); !name.empty()) return name;
    return "";
  }

  StepProfile& profile_;
  std::size_t rank_;
  std::vector<Event> events_;
  double cost_inside_ = 0;
  double cost_outside_ = 0;
  double seconds_ = 0;
  int steps_ = 0;
};

/// Returns the sizes in a call's name: {64, 256, 64} in "gemm 64x256x64".
std::vector<std::size_t> sizes_of(const std::string& name)
{
  std::vector<std::size_t> sizes;
  const auto space = name.rfind(' ');
  if (space == std::string::npos) return sizes;
  std::size_t number = 0;
  for (const char c : name.substr(space + 1) + "x")
    if (c == 'x')
      sizes.push_back(std::exchange(number, 0));
    else if (c >= '0' && c <= '9')
      number = 10 * number + static_cast<std::size_t>(c - '0');
    else
      return {};
  return sizes;
}

/// Returns the product that a call names, such as "gemm 64x256x64" or "syrk 64x64x256", with its
/// operands.
BlasCall blas_call(const StepCall& call)
{
  const auto sizes = sizes_of(call.name);
  const bool is_syrk = call.name.rfind("syrk ", 0) == 0;
  if ((!is_syrk && call.name.rfind("gemm ", 0) != 0) || sizes.size() != 3) return {};
  const cubist::ProductSize size{.m = sizes[0], .n = sizes[1], .k = sizes[2]};
  const std::size_t elements = size.m * size.k + (is_syrk ? 0 : size.k * size.n) + size.m * size.n;
  return {.size = size,
          .transposes_a = call.operands[0] == 't',
          .transposes_b = call.operands[1] == 't',
          .scalar_bytes = elements == 0 ? 0 : call.bytes / elements,
          .is_syrk = is_syrk};
}

/// Parts of a step, and their seconds on all cores.
using Parts = std::vector<std::pair<std::string, double>>;

/// Prints the tables of a breakdown, and makes its JSON.
class Report
{
 public:
  Report(const StepProfile& profile, const StepContext& context, bool prints)
      : profile_{profile},
        context_{context},
        prints_{prints},
        slots_{std::min(profile.ranks, context.cores)},
        alone_{slots_, std::max(1, context.cores / std::max(1, profile.ranks))}
  {
  }

  nlohmann::json all()
  {
    if (prints_)
      std::printf("\nA step of %.1f ms on %d core%s, %d ranks, %s\n", 1e3 * profile_.seconds,
                  context_.cores, context_.cores == 1 ? "" : "s", profile_.ranks,
                  profile_.has_processor_times
                      ? "by the time for which each rank had a processor."
                      : "by the time of each event, because the trace has no processor times.");
    json_["seconds"] = profile_.seconds;
    json_["cores"] = context_.cores;
    json_["steps"] = profile_.steps;
    json_["blas_seconds"] = context_.blas_seconds;
    products();
    passes();
    ranks();
    shares();
    return json_;
  }

 private:
  /// Milliseconds for each core.
  [[nodiscard]] double ms(double seconds) const { return 1e3 * seconds / slots_; }

  /// Calls f for the calls of one category, those that take the most time first.
  template <class F>
  void rows(const char* category, F f)
  {
    std::vector<const std::pair<const StepCall, CallTimes>*> all;
    for (const auto& call : profile_.calls)
      if (call.first.category == category) all.push_back(&call);
    std::sort(all.begin(), all.end(),
              [](auto* a, auto* b) { return a->second.sum() > b->second.sum(); });
    for (const auto* call : all) f(call->first, call->second);
  }

  void products()
  {
    if (prints_)
      std::printf("\n%-28s %-9s %8s %9s %9s %8s %7s\n", "product M x N x K, operands", "in",
                  "calls", "ms/core", "GFLOP/s", "alone", "ratio");
    rows("product", [&](const StepCall& call, const CallTimes& times) {
      const auto blas = blas_call(call);
      const double operations = 1e-9 * blas.operations();
      const double alone = operations > 0 ? alone_.product(blas) : 0;
      const double rate = operations * times.count / times.sum();
      const double ratio = times.count * alone / times.sum();
      products_alone_ += operations > 0 ? times.count * alone : times.sum();
      (call.group == "attention" ? attention_products_ : products_) += times.sum();
      const auto name = call.name + " " + call.operands;
      if (prints_)
        std::printf("%-28s %-9s %8.0f %9.2f %9.1f %8.1f %7.2f\n", name.c_str(), call.group.c_str(),
                    times.count, ms(times.sum()), rate, alone > 0 ? operations / alone : 0, ratio);
      add("products", call, times,
          {{"gflops", rate}, {"alone_gflops", alone > 0 ? operations / alone : 0}});
    });
  }

  void passes()
  {
    if (prints_)
      std::printf("\n%-44s %-12s %8s %9s %7s %8s %7s\n", "pass, rows x columns", "in", "calls",
                  "ms/core", "GB/s", "copy", "ratio");
    constexpr int most = 40;
    int row = 0;
    double rest = 0;
    rows("pass", [&](const StepCall& call, const CallTimes& times) {
      const double bytes = 1e-9 * static_cast<double>(call.bytes);
      const double copy = call.bytes > 0 ? alone_.copy(call.bytes) : 0;
      const double rate = bytes * times.count / times.sum();
      passes_[call.group] += times.sum();
      add("passes", call, times,
          {{"gigabytes_per_second", rate},
           {"copy_gigabytes_per_second", copy > 0 ? bytes / copy : 0}});
      if (row++ >= most) return void(rest += times.sum());
      if (prints_)
        std::printf("%-44s %-12s %8.0f %9.2f %7.1f %8.1f %7.2f\n", call.name.c_str(),
                    call.group.c_str(), times.count, ms(times.sum()), rate,
                    copy > 0 ? bytes / copy : 0, times.count * copy / times.sum());
    });
    if (prints_ && row > most)
      std::printf("%-44s %-12s %8d %9.2f\n", "others, together", "", row - most, ms(rest));
  }

  /// Reports each rank's milliseconds in each group.
  void ranks()
  {
    std::map<std::string, std::vector<double>> groups;
    for (const auto& [call, times] : profile_.calls)
    {
      auto& group = groups[call.group + (call.category == "product" ? ": products" : "")];
      group.resize(static_cast<std::size_t>(profile_.ranks));
      for (std::size_t r = 0; r < times.seconds.size(); ++r) group[r] += times.seconds[r];
    }
    groups["bookkeeping"] = profile_.bookkeeping;
    json_["ranks"] = groups;
    if (!prints_) return;
    const auto shown = std::min<std::size_t>(8, groups["bookkeeping"].size());
    std::printf("\nms of a processor   %9s", "per core");
    for (std::size_t r = 0; r < shown; ++r) std::printf(" %7s%zu", "rank ", r);
    std::printf("\n");
    for (const auto& [name, seconds] : groups)
    {
      std::printf("%-19s %9.2f", name.c_str(),
                  ms(std::accumulate(seconds.begin(), seconds.end(), 0.0)));
      for (std::size_t r = 0; r < shown; ++r) std::printf(" %8.2f", 1e3 * seconds[r]);
      std::printf("\n");
    }
  }

  /// Reports each part of the step as a share of the time of all cores.
  void shares()
  {
    const double all = slots_ * profile_.seconds;
    const double blas = context_.blas_seconds * slots_;
    const double of_products = products_ + attention_products_;
    Parts shares;
    if (blas > 0)
    {
      shares.emplace_back("products by BLAS on all cores", blas);
      shares.emplace_back("products as the ranks cut them, alone", products_alone_ - blas);
    }
    else
      shares.emplace_back("products, alone", products_alone_);
    shares.emplace_back("products, beyond that", of_products - products_alone_);
    for (const auto& [group, seconds] : passes_) shares.emplace_back("passes: " + group, seconds);
    double communication = 0;
    for (const auto& [call, times] : profile_.calls)
      if (call.category == "wait") communication += times.sum();
    const double bookkeeping =
        std::accumulate(profile_.bookkeeping.begin(), profile_.bookkeeping.end(), 0.0);
    shares.emplace_back("communication, with a processor", communication);
    shares.emplace_back("bookkeeping", bookkeeping);
    shares.emplace_back("recording the trace", profile_.measuring);
    double ranks = profile_.measuring;
    for (const auto& [call, times] : profile_.calls) ranks += times.sum();
    ranks += bookkeeping;
    const bool known = context_.machine.idle + context_.machine.busy > 0 &&
                       profile_.ranks >= context_.cores && profile_.has_processor_times;
    if (known)
    {
      shares.emplace_back("threads of the job that are not ranks", context_.machine.job - ranks);
      shares.emplace_back("idle cores: ranks wait", context_.machine.idle);
      shares.emplace_back("other programs", context_.machine.busy - context_.machine.job);
    }
    else
      shares.emplace_back("waiting, and other programs", all - ranks);
    double sum = 0;
    for (const auto& share : shares) sum += share.second;
    if (prints_) std::printf("\nshare of a step's time on all cores\n");
    const auto line = [&](const char* name, double share) {
      if (prints_) std::printf("  %-40s %7.3f\n", name, share);
      json_["shares"].push_back({{"part", name}, {"share", share}});
    };
    for (const auto& [name, seconds] : shares) line(name.c_str(), seconds / all);
    line("remainder", 1 - sum / all);
  }

  void add(const char* table, const StepCall& call, const CallTimes& times, nlohmann::json rates)
  {
    rates.update({{"name", call.name},
                  {"operands", call.operands},
                  {"in", call.group},
                  {"calls", times.count},
                  {"bytes", call.bytes},
                  {"seconds_of_ranks", times.seconds}});
    json_[table].push_back(std::move(rates));
  }

  const StepProfile& profile_;
  StepContext context_;
  bool prints_;
  int slots_;
  Alone alone_;
  double products_ = 0;
  double attention_products_ = 0;
  double products_alone_ = 0;
  std::map<std::string, double> passes_;
  nlohmann::json json_ = nlohmann::json::object();
};

}  // namespace

StepProfile read_profile(const std::string& file)
try
{
  std::ifstream in{file};
  const auto trace = nlohmann::json::parse(in);
  std::map<int, std::vector<Event>> ranks;
  StepProfile profile;
  for (const auto& e : trace.at("traceEvents"))
  {
    if (e.at("ph") != "X" || e.value("tid", 0) != 0) continue;
    constexpr double microsecond = 1e-6;
    Event event{.name = e.at("name"), .category = e.at("cat")};
    event.begin = e.at("ts").get<double>() * microsecond;
    event.end = event.begin + e.at("dur").get<double>() * microsecond;
    const bool is_wait = event.category == "wait";
    profile.has_processor_times = profile.has_processor_times || e.contains("tdur");
    event.processor = e.contains("tdur") ? e["tdur"].get<double>() * microsecond
                      : is_wait          ? 0
                                         : event.end - event.begin;
    if (e.contains("args"))
    {
      const auto& arguments = e["args"];
      event.bytes = arguments.value("bytes", std::size_t{0});
      event.operands = arguments.value("operands", "");
      event.function = arguments.value("function", "");
    }
    ranks[e.at("pid").get<int>()].push_back(std::move(event));
  }
  cubist::require<cubist::DataError>(!ranks.empty(), "got the trace ", file,
                                     ", which has no events, so there is no step; record one with "
                                     "Traced<B>, outside any TracePause");
  profile.ranks = static_cast<int>(ranks.size());
  profile.bookkeeping.resize(ranks.size());
  std::size_t number = 0;
  for (auto& [_, events] : ranks)
  {
    const RankReader rank{profile, number++, std::move(events)};
    profile.steps = std::max(profile.steps, rank.steps());
    profile.seconds = std::max(profile.seconds, rank.seconds());
  }
  const double scale = 1.0 / std::max(1, profile.steps);
  profile.seconds *= scale;
  profile.measuring *= scale;
  for (double& s : profile.bookkeeping) s *= scale;
  for (auto& [_, times] : profile.calls)
  {
    times.count *= scale;
    times.seconds.resize(ranks.size());
    for (double& s : times.seconds) s *= scale;
  }
  return profile;
}
catch (const nlohmann::json::exception& e)
{
  throw cubist::DataError{"cannot read the trace " + file + " (" + e.what() +
                          "), so there is no step; give it a file that --trace or Traced<B> wrote"};
}

nlohmann::json break_down(const StepProfile& profile, const StepContext& context, bool prints)
{
  return Report{profile, context, prints}.all();
}

}  // namespace bench
