// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Explains from a plan's numbers why it stands where it does in the list.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
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

/// Returns a number as printf writes it in the C locale: with chars_format::general like "%.3g",
/// with chars_format::fixed like "%.0f". Much faster than printf, for the reasons of 10^6 plans.
[[nodiscard]] inline std::string format(double value, std::chars_format how, int precision)
{
  std::array<char, 320> text;  // the largest number has 309 digits
  return {text.data(), std::to_chars(text.begin(), text.end(), value, how, precision).ptr};
}
[[nodiscard]] inline std::string digits(double value, int count)
{
  return format(value, std::chars_format::general, count);
}
[[nodiscard]] inline std::string three_digits(double value) { return digits(value, 3); }
[[nodiscard]] inline std::string percent(double part)
{
  return format(100 * part, std::chars_format::fixed, 0) + " %";
}
[[nodiscard]] inline std::string gibibytes(double bytes)
{
  return three_digits(bytes / (1 << 30)) + " GiB";
}

template <class... Part>
void append(std::string& out, const Part&... parts)
{
  ((out += parts), ...);
}

inline void add_words(std::string& out, const Plan& plan, const Rivals& rivals)
{
  if (plan.ranks > 1 && plan.method == Method::direct)
    return append(out, "ranks read each other's blocks in place");
  if (plan.words == 0) return append(out, "moves nothing");
  append(out, "moves ", three_digits(plan.words / rivals.unit), " M·h a rank");
  const double factor = rivals.least_words > 0 ? plan.words / rivals.least_words : 0;
  const bool least = plan.words <= rivals.least_words;
  if (rivals.of_same < 2 || (!least && factor < 1.005)) return;
  out += ", ";
  if (!least) append(out, three_digits(factor), " times ");
  append(out, "the least of ", std::to_string(rivals.of_same), " meshes of ",
         std::to_string(plan.ranks), " ranks");
}

/// Writes, for example, "3 % faster than Summa2D 4,8: products -0.1 ms, between nodes -0.2 ms".
inline void add_comparison(std::string& out, const Plan& plan, const Rivals& rivals)
{
  if (rivals.other == nullptr || !plan.fits_memory || !rivals.other->fits_memory) return;
  const Plan& other = *rivals.other;
  const double difference = plan.seconds() - other.seconds();
  const double part = std::abs(difference) / std::max(plan.seconds(), other.seconds());
  const double times = plan.seconds() / other.seconds();
  const bool is_far = times > 2;
  if (part < 5e-4)
    out += "as fast as ";
  else if (is_far)
    append(out, digits(times, 2), " times as slow as ");
  else
    append(out, digits(100 * std::abs(times - 1), 2),
           difference < 0 ? " % faster than " : " % slower than ");
  append(out, other.scheme, ' ', mesh_text(other));
  if (is_far) return append(out, "; ");
  if (part >= 5e-4 && part < model_error)
    append(out, ", less than the model's error of ", percent(model_error));
  const char* before = ": ";
  const auto add = [&](const char* what, double mine, double its) {
    const double more = mine - its;
    if (std::abs(more) < 5e-3 * other.seconds()) return;
    append(out, before, what, std::signbit(more) ? " " : " +", three_digits(1e3 * more), " ms");
    before = ", ";
  };
  add("products", plan.time.products, other.time.products);
  add("inside nodes", plan.time.inside, other.time.inside);
  add("between nodes", plan.time.across, other.time.across);
  add("passes", plan.time.passes, other.time.passes);
  out += "; ";
}

inline void add_matrices(std::string& out, const Plan& plan)
{
  const bool sends = plan.ranks > 1 && plan.method == Method::collectives;
  if (sends && !plan.moves_weights) out += "; W never moves";
  if (sends && !plan.moves_activations) out += "; X and Y never move";
  if (plan.weight_copies > 1)
    append(out, "; ", std::to_string(plan.weight_copies), " replicas of W");
}

/// Writes, for example, "32 micro-batches, 2 pieces a stage; stages wait 12 % of the time".
inline void add_pipeline(std::string& out, const Plan& plan)
{
  if (plan.stages == 1) return;
  append(out, "; ", std::to_string(plan.micro_batches),
         plan.micro_batches == 1 ? " micro-batch" : " micro-batches");
  if (plan.pieces > 1) append(out, ", ", std::to_string(plan.pieces), " pieces a stage");
  append(out, "; stages wait ", percent(plan.bubble / plan.seconds()), " of the time");
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

/// Appends what reason_for() returns.
inline void add_reason(std::string& out, const Plan& plan, const Rivals& rivals,
                       const Machine& machine)
{
  if (!plan.fits_memory)
    append(out, "does not fit: needs ", gibibytes(plan.memory), " a rank, but a rank has ",
           gibibytes(machine.memory_per_rank(plan.ranks)), "; ");
  else if (rivals.first)
    append(out, "the fastest of ", std::to_string(rivals.of_same), " meshes of ",
           std::to_string(plan.ranks), " ranks; ");
  add_comparison(out, plan, rivals);
  add_words(out, plan, rivals);
  add_matrices(out, plan);
  append(out, "; products take ", percent(plan.time.products / plan.seconds()), " of the time");
  if (plan.padding > 0.005) append(out, ", ", percent(plan.padding), " more for padding");
  add_pipeline(out, plan);
  if (plan.idle > 0)
    append(out, "; ", std::to_string(plan.idle), plan.idle == 1 ? " rank idle" : " ranks idle");
  if (!plan.note.empty()) append(out, "; ", plan.note);
}

}  // namespace detail

/// Returns the reason for a plan. Example: "the fastest of 28 meshes of 64 ranks; 3 % faster than
/// Summa2D 8,8, less than the model's error of 5 %: products -0.1 ms; moves 0.42 M·h a rank; …".
[[nodiscard]] inline std::string reason_for(const Plan& plan, const Rivals& rivals,
                                            const Machine& machine)
{
  std::string out;
  detail::add_reason(out, plan, rivals, machine);
  return out;
}

}  // namespace cubist::CUBIST_ABI
