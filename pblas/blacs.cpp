// SPDX-License-Identifier: BSD-3-Clause

#include <array>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <mpi.h>

#include "blacs.hpp"

// ScaLAPACK and BLACS have no headers. PB_Cwarn and PB_Cabort are C functions of ScaLAPACK, which a
// program with only BLACS lacks. A C++ program may have neither library.
using cubist::detail::FortranInt;

extern "C" {
[[gnu::weak]] void blacs_get_(const FortranInt* context, const FortranInt* what, FortranInt* value);
[[gnu::weak]] void blacs_gridinfo_(const FortranInt* context, FortranInt* rows, FortranInt* cols,
                                   FortranInt* row, FortranInt* col);
[[gnu::weak]] void PB_Cwarn(FortranInt context, FortranInt line, const char* routine,
                            const char* format, ...);
[[gnu::weak]] void PB_Cabort(FortranInt context, const char* routine, FortranInt info);
}

namespace cubist_pblas
{

namespace
{

[[noreturn]] void end_job()
{
  std::fflush(nullptr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

/// Returns a routine of the program's BLACS, which may have been loaded after this library. A
/// program that only calls cubist::pgemm needs none.
template <class F>
F* blacs_routine(F* linked, const char* name)
{
  if (linked != nullptr) return linked;
  if (void* const found = dlsym(RTLD_DEFAULT, name)) return reinterpret_cast<F*>(found);
  std::fprintf(stderr,
               "cubist: got a call of a PBLAS routine in a program that has no %s, so its process "
               "grid is unknown; link BLACS, which ScaLAPACK contains\n",
               name);
  end_job();
}

/// Returns CUBIST_PBLAS. An unknown value is an error, because it may be a misspelt "off".
std::string_view setting()
{
  static const std::string_view value = []() -> std::string_view {
    const char* const text = std::getenv("CUBIST_PBLAS");
    const std::string_view given = text == nullptr ? "" : text;
    for (const std::string_view known : {"", "on", "off", "all", "verbose"})
      if (given == known) return given;
    std::fprintf(stderr,
                 "cubist: got CUBIST_PBLAS=%s, which is not a setting, so it is unclear which "
                 "library is to compute; use on, off, all or verbose\n",
                 text);
    end_job();
  }();
  return value;
}

/// Returns the number in an environment variable, if it is set.
std::optional<double> number_of(const char* variable)
{
  const char* const text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return {};
  char* end = nullptr;
  const double number = std::strtod(text, &end);
  if (*end == '\0' && number >= 0) return number;
  std::fprintf(stderr,
               "cubist: got %s=%s, but it must be a number that is at least 0; give such a "
               "number, or unset the variable\n",
               variable, text);
  end_job();
}

}  // namespace

bool is_off() { return setting() == "off"; }
bool is_verbose() { return setting() == "verbose"; }
bool computes_all() { return setting() == "all"; }

std::optional<double> kept_fraction()
{
  static const auto fraction = number_of("CUBIST_PBLAS_KEEP");
  return fraction;
}

std::optional<std::chrono::duration<double>> time_limit()
{
  static const auto seconds = number_of("CUBIST_PBLAS_TIME_LIMIT");
  if (!seconds) return {};
  return std::chrono::duration<double>{*seconds};
}

void* find_next_routine(const char* name)
{
  std::string upper{name};
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const std::string lower{name};
  for (const auto& symbol : {lower + '_', lower, lower + "__", upper})
    if (void* const found = dlsym(RTLD_NEXT, symbol.c_str())) return found;
  return nullptr;
}

void* next_routine(const char* name)
{
  if (void* const found = find_next_routine(name)) return found;
  std::fprintf(stderr,
               "cubist: got CUBIST_PBLAS=off, but no library after libcubist_pblas has %s_, so "
               "there is nothing to fall back to; link or load ScaLAPACK after it\n",
               name);
  end_job();
}

cubist::detail::ContextGrid grid_of(FortranInt context)
{
  static auto* const gridinfo = blacs_routine(blacs_gridinfo_, "blacs_gridinfo_");
  FortranInt rows = -1, cols = -1, row = -1, col = -1;
  gridinfo(&context, &rows, &cols, &row, &col);
  return {context, static_cast<int>(rows), static_cast<int>(cols), static_cast<int>(row),
          static_cast<int>(col)};
}

boost::mpi::communicator communicator_of(FortranInt context)
{
  static auto* const get = blacs_routine(blacs_get_, "blacs_get_");
  constexpr FortranInt of_context = 10;  // SGET_BLACSCONTXT
  FortranInt handle = 0;
  get(&context, &of_context, &handle);
  return {MPI_Comm_f2c(static_cast<MPI_Fint>(handle)), boost::mpi::comm_attach};
}

void report(FortranInt context, const char* routine, const cubist::detail::ArgumentCheck& wrong)
{
  constexpr FortranInt no_line = -1;
  if (PB_Cwarn != nullptr)
    for (const auto& text : wrong.texts()) PB_Cwarn(context, no_line, routine, "%s", text.c_str());
  if (PB_Cabort != nullptr) return PB_Cabort(context, routine, wrong.info());
  for (const auto& text : wrong.texts())
    std::fprintf(stderr, "cubist: %s: %s\n", routine, text.c_str());
  constexpr int per_argument = 100;
  const int info = -wrong.info();
  if (info < per_argument)
    std::fprintf(stderr, "cubist: %s: argument %d has a wrong value\n", routine, info);
  else
    std::fprintf(stderr, "cubist: %s: argument %d, a descriptor, has a wrong entry %d\n", routine,
                 info / per_argument, info % per_argument);
  end_job();
}

void fail(FortranInt context, const char* routine, const char* message)
{
  const auto grid = grid_of(context);
  std::fprintf(stderr, "cubist: %s on process (%d, %d): %s\n", routine, grid.row, grid.col,
               message);
  end_job();
}

}  // namespace cubist_pblas
