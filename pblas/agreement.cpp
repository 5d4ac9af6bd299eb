// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <mpi.h>

#include <cubist/comm/backoff.hpp>

#include "agreement.hpp"

namespace cubist_pblas
{

namespace
{

/// The agreement among the processes of one communicator. It is an attribute of the communicator,
/// because BLACS reuses the numbers of contexts.
class Agreement
{
 public:
  [[nodiscard]] static Agreement& of(MPI_Comm comm)
  {
    void* found = nullptr;
    int exists = 0;
    MPI_Comm_get_attr(comm, key(), &found, &exists);
    if (exists != 0) return *static_cast<Agreement*>(found);
    auto* const made = new Agreement{comm};
    MPI_Comm_set_attr(comm, key(), made);
    return *made;
  }

  /// Whether this process knows the settings of all processes.
  [[nodiscard]] bool is_complete()
  {
    int complete = 0;
    MPI_Test(&request_, &complete, MPI_STATUS_IGNORE);  // a null request is complete
    return complete != 0;
  }

  /// Whether all processes are on one node.
  /// @pre is_complete()
  [[nodiscard]] bool is_one_node() const { return first_[2] == -first_[3]; }
  /// Whether any process requires this library to compute all calls.
  /// @pre is_complete()
  [[nodiscard]] bool computes_all() const { return first_[4] == 0; }
  /// Whether a call differs from each of the last different calls.
  [[nodiscard]] bool is_new(std::size_t key)
  {
    constexpr std::size_t most = 32;  // as in ProductCache
    const auto found = std::find(last_.begin(), last_.end(), key);
    if (found != last_.end())
    {
      last_.splice(last_.begin(), last_, found);
      return false;
    }
    last_.push_front(key);
    if (last_.size() > most) last_.pop_back();
    return true;
  }

  /// The first process whose setting is off, or INT_MAX if there is none. `first_on` is the first
  /// process whose setting is not off.
  /// @pre is_complete()
  [[nodiscard]] int first_off() const { return first_[0]; }
  [[nodiscard]] int first_on() const { return first_[1]; }

 private:
  explicit Agreement(MPI_Comm comm)
  {
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    const int node = number_of_node();
    mine_ = {is_off() ? rank : INT_MAX, is_off() ? INT_MAX : rank, node, -node,
             cubist_pblas::computes_all() || find_next_routine("pdgemm") == nullptr ? 0 : 1};
    MPI_Iallreduce(mine_.data(), first_.data(), 5, MPI_INT, MPI_MIN, comm, &request_);
  }

  /// Returns a hash of the node's name. If two nodes have the same hash, they count as one, and
  /// calls are slower.
  static int number_of_node()
  {
    static const int number = [] {
      char name[MPI_MAX_PROCESSOR_NAME];
      int size = 0;
      MPI_Get_processor_name(name, &size);
      const std::string_view text{name, static_cast<std::size_t>(size)};
      return static_cast<int>(std::hash<std::string_view>{}(text) % INT_MAX);
    }();
    return number;
  }

  static int key()
  {
    static const int number = [] {
      int of_comm = MPI_KEYVAL_INVALID;
      MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &end, &of_comm, nullptr);
      return of_comm;
    }();
    return number;
  }

  /// Ends the agreement with its communicator. A process whose setting is off has not waited for
  /// the others yet. If the library is missing there, MPI may still write to the agreement, so it
  /// is leaked after 1 s, and later ones are leaked immediately.
  static int end(MPI_Comm, int, void* agreement, void*)
  {
    using namespace std::chrono_literals;
    static auto longest = 1s;
    auto* const mine = static_cast<Agreement*>(agreement);
    for (cubist::detail::Backoff backoff; !mine->is_complete(); backoff.pause())
      if (backoff.waited() > longest)
      {
        longest = 0s;
        return MPI_SUCCESS;
      }
    delete mine;
    return MPI_SUCCESS;
  }

  std::array<int, 5> mine_{};
  std::array<int, 5> first_{};
  std::list<std::size_t> last_;  // the keys of the last different calls
  MPI_Request request_ = MPI_REQUEST_NULL;
};

std::string seconds_of(std::chrono::steady_clock::duration time)
{
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

/// Waits until all processes of the grid have made their first call on it.
void wait(Agreement& agreement, const cubist::detail::ContextGrid& grid, const char* routine)
{
  constexpr const char* advice =
      "; if they are not late, they run ScaLAPACK's routine, because the library is not loaded "
      "there, so the job cannot go on; start it with mpiexec -x LD_PRELOAD, because LD_PRELOAD "
      "does not reach other nodes by itself, or link the library";
  std::chrono::steady_clock::duration told = std::chrono::seconds{10};
  for (cubist::detail::Backoff backoff; !agreement.is_complete(); backoff.pause())
  {
    const auto waited = backoff.waited();
    const auto text = [&](const char* begin) {
      return begin + seconds_of(waited) +
             " for other processes of the grid, which have not called it" + advice;
    };
    if (const auto limit = time_limit(); limit && waited > *limit)
      fail(grid.context, routine, text("reached the time limit: it waited ").c_str());
    if (waited < told) continue;
    told = 6 * waited;  // after 10 s, a minute, 6 minutes, ...
    std::fprintf(stderr, "cubist: %s on process (%d, %d): %s\n", routine, grid.row, grid.col,
                 text("got no answer within ").c_str());
  }
}

void say_mixed(const cubist::detail::ContextGrid& grid, const Agreement& agreement)
{
  static bool is_said = false;
  if (is_said || grid.row != 0 || grid.col != 0) return;
  is_said = true;
  const int off = agreement.first_off();
  const int on = agreement.first_on();
  std::fprintf(
      stderr,
      "cubist: got CUBIST_PBLAS=off on process (%d, %d) but not on process (%d, %d), which "
      "would wait for each other for ever, so all processes run ScaLAPACK's routines; set "
      "the variable for all or for none (mpiexec -x CUBIST_PBLAS)\n",
      off / grid.cols, off % grid.cols, on / grid.cols, on % grid.cols);
}

}  // namespace

bool all_compute(FortranInt context, const char* routine)
{
  const auto grid = grid_of(context);
  if (grid.row < 0 || grid.col < 0) return !is_off();  // an error, which either routine reports
  auto& agreement = Agreement::of(communicator_of(context));
  if (!is_off()) wait(agreement, grid, routine);
  if (!agreement.is_complete()) return false;
  if (agreement.first_off() != INT_MAX && agreement.first_on() != INT_MAX)
    say_mixed(grid, agreement);
  return agreement.first_off() == INT_MAX;
}

ProductCall product_call(std::initializer_list<const char*> letters,
                         std::initializer_list<FortranInt> sizes,
                         std::initializer_list<FortranInt> indices,
                         std::initializer_list<const FortranInt*> descriptors)
{
  std::size_t key = 0;
  const auto add = [&](FortranInt number) {
    key = (key ^ static_cast<std::size_t>(number)) * 0x9E3779B97F4A7C15U;
    key ^= key >> 29U;
  };
  for (const char* const letter : letters) add(std::toupper(static_cast<unsigned char>(*letter)));
  for (const FortranInt size : sizes) add(size);
  for (const FortranInt index : indices) add(index);
  for (const FortranInt* const d : descriptors)
    for (int i = 2; i < (d[0] == 2 ? 10 : 8); ++i) add(d[i]);  // all but the context
  return {std::min(sizes), key};
}

namespace
{

/// Returns the agreement of a context if ScaLAPACK computes its small and new products, else null.
Agreement* of_several_nodes(FortranInt context)
{
  const auto grid = grid_of(context);
  if (grid.row < 0 || grid.col < 0) return nullptr;
  auto& agreement = Agreement::of(communicator_of(context));
  const bool computes_all =
      !agreement.is_complete() || agreement.is_one_node() || agreement.computes_all();
  return computes_all ? nullptr : &agreement;
}

}  // namespace

bool is_left_to_scalapack(FortranInt context, const ProductCall& call, FortranInt small)
{
  auto* const agreement = of_several_nodes(context);
  return agreement != nullptr && (call.least_size < small || agreement->is_new(call.key));
}

std::optional<double> kept_fraction(FortranInt context)
{
  constexpr double of_repeated = 3;
  if (const auto given = kept_fraction()) return given;
  return of_several_nodes(context) != nullptr ? std::optional{of_repeated} : std::nullopt;
}

}  // namespace cubist_pblas
