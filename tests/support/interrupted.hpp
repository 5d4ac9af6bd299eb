// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Interrupts a save at each of its system calls, or at the first of a kind. It needs the shim of
// tests/durable, under which hidden cases with the tag [.interrupted] run.

#include <cerrno>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cubist/core/error.hpp"

namespace cubist::test
{

enum class Interruption
{
  death,  ///< the process ends before a call that changes the name of a file
  error   ///< any call that changes a file fails
};

namespace interruption
{

template <class F>
[[nodiscard]] F* shim(const char* name)
{
  void* const found = ::dlsym(RTLD_DEFAULT, name);
  if (found == nullptr)
    throw std::runtime_error{
        "got no shim, so no call can be interrupted; run this case under that of tests/durable"};
  return reinterpret_cast<F*>(found);
}

}  // namespace interruption

/// Makes the next call of this name fail, in any thread of the process: "pwrite", "fsync".
/// @param error  the value of errno, such as EDQUOT
inline void refuse_call(const char* name, int error)
{
  interruption::shim<void(const char*, int)>("cubist_durable_refuse")(name, error);
}

/// Calls `save` in child processes, each of which is interrupted at another system call, and calls
/// `check(was_interrupted)` after each, with false if the save ended without an error. The last
/// process is not interrupted. Returns the number of system calls.
/// @param prepare  called before each save
/// @param error  with Interruption::error, the value of errno; the save's error must name its cause
template <class Prepare, class Save, class Check>
int interrupt_each_call(Interruption how, Prepare prepare, Save save, Check check, int error = EIO)
{
  auto* const interrupt = interruption::shim<void(long, bool, int)>("cubist_durable_interrupt");
  auto* const interrupted_call = interruption::shim<const char*()>("cubist_durable_interrupted");
  interrupt(-1, false, error);  // from now on the shim does not wait for the disk
  constexpr int complete = 10, reported = 11, silent = 12, stayed = 13, died = 98;
  for (int call = 0;; ++call)
  {
    prepare();
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0)
    {
      int code = 1;
      try
      {
        const bool dies = how == Interruption::death;
        interrupt(call, dies, dies ? 0 : error);
        save();
        const char* const failed = interrupted_call();
        // An older file that cannot be removed may stay.
        code = failed == nullptr ? complete : std::string{failed} == "remove" ? stayed : silent;
      }
      catch (const DataError& e)
      {
        const std::string what{e.what()};
        const bool has_cause = what.find(std::generic_category().message(error)) != what.npos;
        if (!has_cause) std::fprintf(stderr, "no cause: %s\n", e.what());
        code = has_cause ? reported : 1;
      }
      catch (const std::exception& e)
      {
        std::fprintf(stderr, "%s\n", e.what());
      }
      ::_exit(code);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code != complete && code != stayed &&
        code != (how == Interruption::death ? died : reported))
      throw std::runtime_error{"the save ended with " + std::to_string(code) + " in call " +
                               std::to_string(call)};
    check(code != complete && code != stayed);
    if (code == complete) return call;
  }
}

}  // namespace cubist::test
