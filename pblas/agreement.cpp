// SPDX-License-Identifier: BSD-3-Clause

#include <array>
#include <chrono>
#include <climits>
#include <cstdio>
#include <memory>
#include <string>

#include <mpi.h>

#include <cubist/comm/backoff.hpp>

#include "agreement.hpp"

namespace cubist_pblas
{

namespace
{

/// The agreement of the processes of one communicator. It is an attribute of the communicator,
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

  /// Whether the settings of all processes are known here.
  [[nodiscard]] bool is_complete()
  {
    int complete = 0;
    MPI_Test(&request_, &complete, MPI_STATUS_IGNORE);  // a request that is null is complete
    return complete != 0;
  }

  /// The first process where the setting is off, or where it is not; INT_MAX if there is none.
  /// @pre is_complete()
  [[nodiscard]] int first_off() const { return first_[0]; }
  [[nodiscard]] int first_on() const { return first_[1]; }

 private:
  explicit Agreement(MPI_Comm comm)
  {
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    mine_ = {is_off() ? rank : INT_MAX, is_off() ? INT_MAX : rank};
    MPI_Iallreduce(mine_.data(), first_.data(), 2, MPI_INT, MPI_MIN, comm, &request_);
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

  /// A process that is off has not waited. If the library is missing in others, which is noticed
  /// once, MPI may still write to the agreement, so it stays.
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

  std::array<int, 2> mine_{};
  std::array<int, 2> first_{};
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
      "there, so the job cannot go on; start it by mpiexec -x LD_PRELOAD, as LD_PRELOAD does not "
      "reach other nodes by itself, or link the library";
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
      "cubist: got CUBIST_PBLAS=off on process (%d, %d) and not on process (%d, %d), which "
      "would wait for each other for ever, so all processes run ScaLAPACK's routines; set "
      "the variable for all or for none (mpiexec -x CUBIST_PBLAS)\n",
      off / grid.cols, off % grid.cols, on / grid.cols, on % grid.cols);
}

}  // namespace

bool all_compute(int context, const char* routine)
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

}  // namespace cubist_pblas
