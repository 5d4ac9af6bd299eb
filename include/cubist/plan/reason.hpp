// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Explains from a plan's numbers why it stands where it does in the list.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <ostream>
#include <sstream>
#include <string>

#include "cubist/machine/machine.hpp"
#include "cubist/plan/plan.hpp"
#include "cubist/plan/transformer_parts.hpp"

namespace cubist::CUBIST_ABI
{

/// If the times of two plans differ by less than this fraction, the model cannot tell which is
/// faster.
inline constexpr double model_error = 0.05;

/// Returns the extents of a plan: "2,4,4".
[[nodiscard]] inline std::string mesh_text(const Plan& plan)
{
  std::string s;
  for (const int e : plan.extents) (s += s.empty() ? "" : ",") += std::to_string(e);
  return s;
}

/// The plans with which a plan is compared.
struct Rivals
{
  std::size_t of_same = 0;  // the number of meshes with the plan's number of ranks
  double least_words = 0;   // the fewest elements sent on these meshes
  double unit = 1;          // elements in M·h: the tokens times the width of the first layer
  bool first = false;       // whether the plan is the fastest
  /// The fastest plan or, for the fastest itself, the next; null if there is none.
  const Plan* other = nullptr;
};

namespace detail
{

[[nodiscard]] inline std::string format(const char* how, double value)
{
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), how, value);
  return text.data();
}
[[nodiscard]] inline std::string three_digits(double value) { return format("%.3g", value); }
[[nodiscard]] inline std::string percent(double part) { return format("%.0f %%", 100 * part); }
[[nodiscard]] inline std::string gibibytes(double bytes)
{
  return three_digits(bytes / (1 << 30)) + " GiB";
}

inline void add_words(std::ostream& out, const Plan& plan, const Rivals& rivals)
{
  if (plan.ranks > 1 && plan.method == Method::direct)
  {
    out << "ranks read each other's blocks in place";
    return;
  }
  if (plan.words == 0)
  {
    out << "moves nothing";
    return;
  }
  out << "moves " << three_digits(plan.words / rivals.unit) << " M·h a rank";
  const double factor = rivals.least_words > 0 ? plan.words / rivals.least_words : 0;
  const bool least = plan.words <= rivals.least_words;
  if (rivals.of_same < 2 || (!least && factor < 1.005)) return;
  out << ", ";
  if (!least) out << three_digits(factor) << " times ";
  out << "the least of " << rivals.of_same << " meshes of " << plan.ranks << " ranks";
}

/// Writes, for example, "3 % faster than Summa2D 4,8: products -0.1 ms, between nodes -0.2 ms".
inline void add_comparison(std::ostream& out, const Plan& plan, const Rivals& rivals)
{
  if (rivals.other == nullptr || !plan.fits_memory || !rivals.other->fits_memory) return;
  const Plan& other = *rivals.other;
  const double difference = plan.seconds() - other.seconds();
  const double part = std::abs(difference) / std::max(plan.seconds(), other.seconds());
  const double times = plan.seconds() / other.seconds();
  const bool is_far = times > 2;
  if (part < 5e-4)
    out << "as fast as ";
  else if (is_far)
    out << format("%.2g times as slow as ", times);
  else
    out << format("%.2g %% ", 100 * std::abs(times - 1))
        << (difference < 0 ? "faster than " : "slower than ");
  out << other.scheme << ' ' << mesh_text(other);
  if (is_far) return void(out << "; ");
  if (part >= 5e-4 && part < model_error)
    out << ", less than the model's error of " << percent(model_error);
  const char* before = ": ";
  const auto add = [&](const char* what, double mine, double its) {
    if (std::abs(mine - its) < 5e-3 * other.seconds()) return;
    out << before << what << format(" %+.3g ms", 1e3 * (mine - its));
    before = ", ";
  };
  add("products", plan.time.products, other.time.products);
  add("inside nodes", plan.time.inside, other.time.inside);
  add("between nodes", plan.time.across, other.time.across);
  add("passes", plan.time.passes, other.time.passes);
  out << "; ";
}

inline void add_matrices(std::ostream& out, const Plan& plan)
{
  const bool sends = plan.ranks > 1 && plan.method == Method::collectives;
  if (sends && !plan.moves_weights) out << "; W never moves";
  if (sends && !plan.moves_activations) out << "; X and Y never move";
  if (plan.weight_copies > 1) out << "; " << plan.weight_copies << " replicas of W";
}

/// Writes, for example, "32 micro-batches, 2 pieces a stage; stages wait 12 % of the time".
inline void add_pipeline(std::ostream& out, const Plan& plan)
{
  if (plan.stages == 1) return;
  out << "; " << plan.micro_batches
      << (plan.micro_batches == 1 ? " micro-batch" : " micro-batches");
  if (plan.pieces > 1) out << ", " << plan.pieces << " pieces a stage";
  out << "; stages wait " << percent(plan.bubble / plan.seconds()) << " of the time";
}

/// Returns, for example, "attention idle on 10 ranks: key-value heads 3 in 4 parts, sequences 2 in
/// 4 parts". The text is empty if every rank has heads and sequences.
template <SchemeType S>
[[nodiscard]] std::string attention_note(const TransformerParts<S>& parts)
{
  const AttentionShare share = parts.attention();
  const std::size_t all = share.row_parts * share.col_parts;
  const std::size_t replicas = static_cast<std::size_t>(parts.ranks()) / all;
  const std::size_t idle = (all - share.rows_in_use * share.cols_in_use) * replicas;
  std::string why;
  const auto add = [&](const char* what, std::size_t n, std::size_t cut, std::size_t in_use) {
    if (in_use == cut) return;
    why += (why.empty() ? ": " : ", ") + std::string{what} + std::to_string(n) + " in " +
           std::to_string(cut) + " parts";
  };
  add("key-value heads ", parts.model().key_value_heads, share.col_parts, share.cols_in_use);
  add("sequences ", parts.batch().sequences, share.row_parts, share.rows_in_use);
  if (why.empty()) return {};
  return "attention idle on " + std::to_string(idle) + (idle == 1 ? " rank" : " ranks") + why;
}

}  // namespace detail

/// Returns the reason for a plan. Example: "the fastest of 28 meshes of 64 ranks; 3 % faster than
/// Summa2D 8,8, less than the model's error of 5 %: products -0.1 ms; moves 0.42 M·h a rank; …".
[[nodiscard]] inline std::string reason_for(const Plan& plan, const Rivals& rivals,
                                            const Machine& machine)
{
  std::ostringstream out;
  out.imbue(std::locale::classic());
  if (!plan.fits_memory)
    out << "does not fit: needs " << detail::gibibytes(plan.memory) << " a rank, but a rank has "
        << detail::gibibytes(machine.memory_per_rank(plan.ranks)) << "; ";
  else if (rivals.first)
    out << "the fastest of " << rivals.of_same << " meshes of " << plan.ranks << " ranks; ";
  detail::add_comparison(out, plan, rivals);
  detail::add_words(out, plan, rivals);
  detail::add_matrices(out, plan);
  out << "; products take " << detail::percent(plan.time.products / plan.seconds())
      << " of the time";
  if (plan.padding > 0.005) out << ", " << detail::percent(plan.padding) << " more for padding";
  detail::add_pipeline(out, plan);
  if (plan.idle > 0) out << "; " << plan.idle << (plan.idle == 1 ? " rank idle" : " ranks idle");
  if (!plan.note.empty()) out << "; " << plan.note;
  return out.str();
}

}  // namespace cubist::CUBIST_ABI
