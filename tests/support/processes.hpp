// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Shares results between processes. If each rank is a process, every process runs the whole test,
// and must have the results of all ranks, or the same error, to take the same path as the others.

#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <mpi.h>

#include "cubist/core/error.hpp"

#include "archive.hpp"

namespace cubist::test
{

[[nodiscard]] inline int process_count()
{
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

/// Gathers the bytes of all processes, in their order.
[[nodiscard]] inline std::vector<Bytes> exchanged(const Bytes& mine)
{
  const auto processes = static_cast<std::size_t>(process_count());
  const int my_size = static_cast<int>(mine.size());
  std::vector<int> sizes(processes);
  MPI_Allgather(&my_size, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD);
  std::vector<int> offsets(processes + 1);
  for (std::size_t p = 0; p < processes; ++p) offsets[p + 1] = offsets[p] + sizes[p];
  Bytes all(static_cast<std::size_t>(offsets.back()));
  MPI_Allgatherv(mine.data(), my_size, MPI_BYTE, all.data(), sizes.data(), offsets.data(), MPI_BYTE,
                 MPI_COMM_WORLD);
  std::vector<Bytes> parts;
  for (std::size_t p = 0; p < processes; ++p)
    parts.emplace_back(all.begin() + offsets[p], all.begin() + offsets[p + 1]);
  return parts;
}

/// An error of this library that can be sent between processes.
struct Failure
{
  std::size_t type = 0;
  std::optional<int> rank;
  std::string message;

  using Types =
      std::tuple<MeshError, ShapeError, ArgumentError, DataError, PeerFailed, CollectiveMismatch,
                 DeadlockError, TimeLimitError, RankFailed, CommunicationError>;
  static constexpr std::size_t types = std::tuple_size_v<Types>;

  [[nodiscard]] static Failure of(const Error& error)
  {
    Failure failure{types, error.rank(), error.what()};
    const auto prefix = "rank " + std::to_string(error.rank().value_or(0)) + ": ";
    if (error.rank() && failure.message.starts_with(prefix))
      failure.message.erase(0, prefix.size());
    for_each_type([&]<class E>(std::size_t t, const E*) {
      if (failure.type == types && dynamic_cast<const E*>(&error) != nullptr) failure.type = t;
    });
    return failure;
  }

  [[nodiscard]] bool is_consequence() const { return type == 4; }
  static_assert(std::is_same_v<std::tuple_element_t<4, Types>, PeerFailed>);

  [[noreturn]] void raise() const
  {
    for_each_type([&]<class E>(std::size_t t, const E*) {
      if (t == type) raise_as<E>();
    });
    raise_as<Error>();
  }

 private:
  template <class F>
  static void for_each_type(F f)
  {
    [&]<std::size_t... I>(std::index_sequence<I...>)
    {
      (f(I, static_cast<const std::tuple_element_t<I, Types>*>(nullptr)), ...);
    }
    (std::make_index_sequence<types>{});
  }

  template <class E>
  [[noreturn]] void raise_as() const
  {
    E error{message};
    if (rank) error.set_rank(*rank);
    throw error;
  }
};

/// Returns the results of the first `ranks` processes, on all processes.
/// @throws the first error of a process, but a root cause before its consequences
template <class R>
[[nodiscard]] std::vector<R> shared_results(int ranks, const std::optional<Failure>& failure,
                                            const std::optional<R>& result)
{
  std::vector<R> results;
  std::optional<Failure> first;
  for (auto& bytes : exchanged(packed(std::tie(failure, result))))
  {
    auto [error, r] = unpacked<std::tuple<std::optional<Failure>, std::optional<R>>>(bytes);
    if (error && (!first || (first->is_consequence() && !error->is_consequence()))) first = error;
    if (r && results.size() < static_cast<std::size_t>(ranks)) results.push_back(std::move(*r));
  }
  if (first) first->raise();
  return results;
}

}  // namespace cubist::test
