// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Chooses which error is rethrown if several ranks of a launch throw.

#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Keeps the first root cause among the ranks' errors, or else the first error. It replaces an
/// error that is only a consequence of another rank's.
class FirstError
{
 public:
  void record(int rank, std::exception_ptr error, bool consequence)
  {
    const std::lock_guard lock{mutex_};
    if (error_ && (consequence || !consequence_)) return;
    error_ = std::move(error);
    rank_ = rank;
    consequence_ = consequence;
  }

  /// Runs `body`, and records what it throws. Then failed(what, is_consequence) tells other ranks.
  template <class Body, class Failed>
  void run(int rank, Body body, Failed failed)
  {
    const auto fail = [&](std::string what, bool is_consequence) {
      record(rank, std::current_exception(), is_consequence);
      failed(what, is_consequence);
    };
    try
    {
      body();
    }
    catch (const PeerFailed& e)
    {
      fail(e.what(), true);
    }
    catch (const std::exception& e)
    {
      fail(e.what(), false);
    }
    catch (...)
    {
      fail("an unknown exception", false);
    }
  }

  /// Returns the message that tells other ranks of the failure of `rank`.
  [[nodiscard]] static std::string for_peers(int rank, const std::string& what)
  {
    return "rank " + std::to_string(rank) + " failed (" + what +
           "), so calls of other ranks cannot complete; correct that rank's error";
  }

  [[nodiscard]] explicit operator bool() const { return error_ != nullptr; }

  /// Returns "rank 3: what was wrong", or an empty string if there is no error.
  [[nodiscard]] std::string message() const
  {
    try
    {
      rethrow();
    }
    catch (const std::exception& e)
    {
      return e.what();
    }
    return "";
  }

  void rethrow() const
  {
    if (!error_) return;
    const auto throw_failed = [this](const char* what) {
      RankFailed failed{what};
      failed.set_rank(rank_);
      std::throw_with_nested(failed);
    };
    try
    {
      std::rethrow_exception(error_);
    }
    catch (Error& e)
    {
      e.set_rank(rank_);
      throw;
    }
    catch (const std::exception& e)
    {
      throw_failed(e.what());
    }
    catch (...)
    {
      throw_failed("threw an object that is not a std::exception, so it has no message; throw a "
                   "cubist::Error instead");
    }
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
  int rank_ = 0;
  bool consequence_ = false;
};

}  // namespace cubist::CUBIST_ABI::detail
