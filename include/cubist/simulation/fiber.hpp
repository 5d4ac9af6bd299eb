// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A fiber: a function with a stack of its own, which runs on the thread that switches to it, until
// it switches to another one. Contexts come from the C library (getcontext, makecontext,
// swapcontext). Sanitizers are told of each switch, and exceptions that are being handled stay with
// their fiber.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <utility>

#include <cxxabi.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "cubist/core/error.hpp"

#if defined __SANITIZE_ADDRESS__
#define CUBIST_FIBER_ASAN
#elif defined __SANITIZE_THREAD__
#define CUBIST_FIBER_TSAN
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define CUBIST_FIBER_ASAN
#elif __has_feature(thread_sanitizer)
#define CUBIST_FIBER_TSAN
#endif
#endif

#ifdef CUBIST_FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef CUBIST_FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace cubist::CUBIST_ABI::detail
{

class Fiber
{
 public:
  static constexpr std::size_t stack_bytes = std::size_t{1} << 20;  // used pages alone take memory

  /// The fiber of the thread that creates it.
  Fiber() { adopt_thread(); }

  /// @param run must switch to another fiber at its end, by `leave`
  /// @throws CommunicationError if the system has no memory for its stack
  explicit Fiber(std::function<void()> run)
      : run_{std::move(run)}
  {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = stack_bytes + page;
    void* const p = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    require<CommunicationError>(p != MAP_FAILED, "got a stack of ", mapped_,
                                " bytes for a simulated rank, which the system refused (",
                                std::strerror(errno), "); use fewer ranks, or raise the limit");
    memory_ = static_cast<std::byte*>(p);
    mprotect(memory_, page, PROT_NONE);  // what overflows the stack ends the program
    stack_ = memory_ + page;
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_;
    context_.uc_stack.ss_size = stack_bytes;
    context_.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&context_, reinterpret_cast<void (*)()>(&Fiber::start), 2,
                static_cast<unsigned>(self >> 32U), static_cast<unsigned>(self));
#ifdef CUBIST_FIBER_TSAN
    tsan_ = __tsan_create_fiber(0);
#endif
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber()
  {
#ifdef CUBIST_FIBER_TSAN
    if (memory_ != nullptr) __tsan_destroy_fiber(tsan_);
#endif
    if (memory_ != nullptr) munmap(memory_, mapped_);
  }

  /// Runs `to` on this thread, until some fiber switches back to this one.
  /// @pre this fiber runs
  void switch_to(Fiber& to) { switch_to(to, false); }
  /// Switches to another fiber, never to return.
  void leave(Fiber& to) { switch_to(to, true); }

 private:
  /// What the C++ runtime knows of exceptions in flight; its layout is that of the Itanium ABI.
  struct Exceptions
  {
    void* caught;
    unsigned int uncaught;
  };
  [[nodiscard]] static Exceptions& exceptions()
  {
    return *reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
  }

  void adopt_thread()
  {
#ifdef CUBIST_FIBER_TSAN
    tsan_ = __tsan_get_current_fiber();
#endif
  }

  static void start(unsigned high, unsigned low)
  {
    auto* const self =
        reinterpret_cast<Fiber*>(std::uintptr_t{high} << 32U | std::uintptr_t{low});  // NOLINT
    self->arrive(nullptr);
    self->run_();
    std::terminate();  // it has not left
  }

  void switch_to(Fiber& to, [[maybe_unused]] bool leaves)
  {
    exceptions_ = exceptions();
    exceptions() = to.exceptions_;
    void* saved = nullptr;
#ifdef CUBIST_FIBER_ASAN
    to.from_ = this;
    __sanitizer_start_switch_fiber(leaves ? nullptr : &saved, to.stack_,
                                   to.stack_ == nullptr ? 0 : to.size_);
#endif
#ifdef CUBIST_FIBER_TSAN
    __tsan_switch_to_fiber(to.tsan_, 0);
#endif
    swapcontext(&context_, &to.context_);
    arrive(saved);
  }

  /// Called on this fiber when it goes on.
  void arrive([[maybe_unused]] void* saved)
  {
#ifdef CUBIST_FIBER_ASAN
    const void* stack = nullptr;
    std::size_t size = 0;
    __sanitizer_finish_switch_fiber(saved, &stack, &size);
    if (from_->stack_ == nullptr)
    {
      // The stack of the thread, which only the sanitizer knows.
      from_->stack_ = static_cast<std::byte*>(const_cast<void*>(stack));
      from_->size_ = size;
    }
#endif
  }

  ucontext_t context_{};
  std::function<void()> run_;
  std::byte* memory_ = nullptr;  // a page that is not accessible, then the stack
  std::size_t mapped_ = 0;
  std::byte* stack_ = nullptr;
  Exceptions exceptions_{};
#ifdef CUBIST_FIBER_ASAN
  std::size_t size_ = stack_bytes;
  Fiber* from_ = nullptr;
#endif
#ifdef CUBIST_FIBER_TSAN
  void* tsan_ = nullptr;
#endif
};

}  // namespace cubist::CUBIST_ABI::detail
