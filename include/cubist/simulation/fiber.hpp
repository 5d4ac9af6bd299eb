// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A fiber: a function with its own stack, which runs on the thread that switches to it until it
// switches to another one. On x86-64, a switch saves the registers that a call preserves, by the
// System V ABI. Elsewhere, under sanitizers and where the processor checks return addresses,
// contexts come from the C library (getcontext, makecontext, swapcontext), whose switch takes two
// system calls. Each switch is announced to sanitizers, and exceptions that are being handled stay
// with their fiber.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <utility>

#include <cxxabi.h>
#include <sys/mman.h>
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

#if defined __x86_64__ && !defined __CET__ && !defined CUBIST_FIBER_ASAN &&                        \
    !defined CUBIST_FIBER_TSAN
#define CUBIST_FIBER_REGISTERS
#else
#include <ucontext.h>
#endif
#ifdef CUBIST_FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef CUBIST_FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace cubist::CUBIST_ABI::detail
{

#ifdef CUBIST_FIBER_REGISTERS
/// Saves registers and control words on this stack and the stack's top in *from, and continues on
/// the stack whose top is `to`.
[[gnu::naked, gnu::noinline]] inline void switch_stacks(void** /*from: rdi*/, void* /*to: rsi*/)
{
  asm("pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
      "subq $8, %rsp\n\tstmxcsr (%rsp)\n\tfnstcw 4(%rsp)\n\t"
      "movq %rsp, (%rdi)\n\tmovq %rsi, %rsp\n\t"
      "ldmxcsr (%rsp)\n\tfldcw 4(%rsp)\n\taddq $8, %rsp\n\t"
      "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\tret");
}
#endif

class Fiber
{
 public:
  static constexpr std::size_t stack_bytes = std::size_t{1} << 20;  // only used pages take memory

  /// Makes the fiber of the calling thread.
  Fiber()
  {
#ifdef CUBIST_FIBER_TSAN
    tsan_ = __tsan_get_current_fiber();
#endif
  }

  /// @param run must end by switching to another fiber with `leave`
  /// @throws CommunicationError if the system has no memory for its stack
  explicit Fiber(std::function<void()> run)
      : run_{std::move(run)}
  {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = stack_bytes + page;
    void* const p = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    require<CommunicationError>(p != MAP_FAILED, "the system refused a stack of ", mapped_,
                                " bytes for a simulated rank (", std::strerror(errno),
                                "), so it cannot run; use fewer ranks, or raise the limit");
    memory_ = static_cast<std::byte*>(p);
    mprotect(memory_, page, PROT_NONE);  // an overflow of the stack ends the program
    stack_ = memory_ + page;
    prepare();
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

  /// Runs `to` on this thread until some fiber switches back to this one.
  /// @pre this fiber runs
  void switch_to(Fiber& to) { switch_to(to, false); }
  /// Switches to another fiber, never to return.
  void leave(Fiber& to) { switch_to(to, true); }

 private:
  /// What the C++ runtime knows about exceptions in flight, in the layout of the Itanium ABI.
  struct Exceptions
  {
    void* caught;
    unsigned int uncaught;
  };
  [[nodiscard]] static Exceptions& exceptions()
  {
    return *reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
  }

#ifdef CUBIST_FIBER_REGISTERS
  /// The fiber to which a switch goes, which may be about to begin.
  [[nodiscard]] static Fiber*& next()
  {
    static thread_local Fiber* fiber = nullptr;
    return fiber;
  }
  static void begin() { next()->start(); }

  /// Makes the stack look as if the fiber had been left just before `begin`.
  void prepare()
  {
    constexpr std::size_t registers = 6;
    void** const top = reinterpret_cast<void**>(stack_ + stack_bytes);
    top[-1] = nullptr;  // begin() returns to nothing
    top[-2] = reinterpret_cast<void*>(&Fiber::begin);
    void** const words = top - 2 - registers - 1;  // the control words of this thread, then zeros
    std::uint32_t sse = 0;
    std::uint16_t x87 = 0;
    asm volatile("stmxcsr %0" : "=m"(sse));
    asm volatile("fnstcw %0" : "=m"(x87));
    const std::uint64_t both = std::uint64_t{x87} << 32U | sse;
    std::memcpy(words, &both, sizeof both);
    top_ = words;
  }
  void change_context(Fiber& to)
  {
    next() = &to;
    switch_stacks(&top_, to.top_);
  }

  void* top_ = nullptr;  // the top of the stack, while another fiber runs
#else
  static void begin(unsigned high, unsigned low)
  {
    reinterpret_cast<Fiber*>(std::uintptr_t{high} << 32U | std::uintptr_t{low})->start();  // NOLINT
  }

  void prepare()
  {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_;
    context_.uc_stack.ss_size = stack_bytes;
    context_.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&context_, reinterpret_cast<void (*)()>(&Fiber::begin), 2,
                static_cast<unsigned>(self >> 32U), static_cast<unsigned>(self));
  }
  void change_context(Fiber& to) { swapcontext(&context_, &to.context_); }

  ucontext_t context_{};
#endif

  void start()
  {
    arrive(nullptr);
    run_();
    std::terminate();  // `run` has ended without `leave`
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
    change_context(to);
    arrive(saved);
  }

  /// Called on this fiber when it continues.
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

  std::function<void()> run_;
  std::byte* memory_ = nullptr;  // an inaccessible page, then the stack
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
