// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Interrupts a save at each of its system calls. It needs the shim of tests/durable, under which
// hidden cases with the tag [.interrupted] run.

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

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

/// Calls `save` in child processes, each of which is interrupted at another system call, and calls
/// `check(was_interrupted)` after each, with false if the save ended without an error. The last
/// process is not interrupted. Returns the number of system calls.
/// @param prepare  called before each save
template <class Prepare, class Save, class Check>
int interrupt_each_call(Interruption how, Prepare prepare, Save save, Check check)
{
  auto* const interrupt = interruption::shim<void(long, bool, bool)>("cubist_durable_interrupt");
  auto* const interrupted_call = interruption::shim<const char*()>("cubist_durable_interrupted");
  interrupt(-1, false, false);  // from now on the shim does not wait for the disk
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
        interrupt(call, dies, dies);
        save();
        const char* const failed = interrupted_call();
        // An older file that cannot be removed may stay.
        code = failed == nullptr ? complete : std::string{failed} == "remove" ? stayed : silent;
      }
      catch (const DataError&)
      {
        code = reported;
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
