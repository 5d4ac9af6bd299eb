// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The errors of cubist. A message has three parts: what cubist got, why that is a problem, and what
// to do.

#include <initializer_list>
#include <optional>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI
{

/// The base class of all errors that cubist throws.
class Error : public std::runtime_error
{
 public:
  /// Makes an error with a message of three parts: what cubist got, why that is a problem, what to
  /// do.
  using std::runtime_error::runtime_error;

  /// The message, which begins with the rank once `launch` has caught the error.
  [[nodiscard]] const char* what() const noexcept override
  {
    return message_.empty() ? std::runtime_error::what() : message_.c_str();
  }

  /// The rank whose body threw the error; empty outside a `launch`.
  [[nodiscard]] std::optional<int> rank() const noexcept { return rank_; }

  /// Called by `launch` on the rank that caught the error.
  void set_rank(int rank)
  {
    rank_ = rank;
    message_ = std::runtime_error::what() + place_;
    const auto prefix = "rank " + std::to_string(rank);
    if (!message_.starts_with(prefix + " ") && !message_.starts_with(prefix + ":"))
      message_.insert(0, prefix + ": ");
  }

  /// Adds to the end of the message where the error was thrown, such as the stage of a pipeline.
  void add_place(const std::string& place)
  {
    place_ += " (" + place + ")";
    message_ = what() + (" (" + place + ")");
  }

 private:
  std::optional<int> rank_;
  std::string place_;
  std::string message_;
};

// clang-format off
/// The extents do not fit the ranks, or matrices live on different meshes.
struct MeshError : Error { using Error::Error; };
/// Sizes do not fit each other.
struct ShapeError : Error { using Error::Error; };
/// A setting is outside its range.
struct ArgumentError : Error { using Error::Error; };
/// A file is missing, truncated, not what it should be, or cannot be written.
struct DataError : Error { using Error::Error; };
/// Ranks hold different copies of what should be the same.
struct ReplicaError : Error { using Error::Error; };
/// A NaN or an infinity appeared where numbers are needed.
struct NumericError : Error { using Error::Error; };
/// A device failed, or lacks a feature that was requested.
struct DeviceError : Error { using Error::Error; };
/// Work cannot be captured, or cannot be captured now.
struct CaptureError : Error { using Error::Error; };
/// Ranks failed to exchange data.
struct CommunicationError : Error { using Error::Error; };
/// Another rank threw, so an operation that this rank waits for cannot complete.
struct PeerFailed : CommunicationError { using CommunicationError::CommunicationError; };
/// Ranks of one communicator called different collectives, or one with different arguments.
struct CollectiveMismatch : CommunicationError { using CommunicationError::CommunicationError; };
/// Ranks wait for each other, or for a rank that has returned, so the operation cannot complete.
struct DeadlockError : CommunicationError { using CommunicationError::CommunicationError; };
/// A rank waited for others longer than the time limit of its `launch`.
struct TimeLimitError : CommunicationError { using CommunicationError::CommunicationError; };
/// A rank's body threw an exception that is not a cubist::Error; it is nested in this one.
struct RankFailed : Error { using Error::Error; };
// clang-format on

namespace detail
{

/// A part of a message: a text, or a value and the function that prints it.
struct MessagePart
{
  MessagePart(const char* text)
      : value{text},
        print{&print_text}
  {
  }
  template <class T>
  MessagePart(const T& v)
      : value{&v},
        print{&print_value<T>}
  {
  }

  static void print_text(std::ostream& out, const void* v) { out << static_cast<const char*>(v); }
  template <class T>
  static void print_value(std::ostream& out, const void* v)
  {
    out << *static_cast<const T*>(v);
  }

  const void* value;
  void (*print)(std::ostream&, const void*);
};

[[gnu::cold]] inline std::string join(std::initializer_list<MessagePart> parts)
{
  std::ostringstream message;
  message.imbue(std::locale::classic());  // 1024, though the program's locale may write 1,024
  for (const auto& part : parts) part.print(message, part.value);
  return message.str();
}

/// Throws E with the parts as its message.
template <class E>
[[noreturn, gnu::cold, gnu::noinline]] void fail(std::initializer_list<MessagePart> parts)
{
  throw E{join(parts)};
}

}  // namespace detail

/// Checks a condition.
/// @throws E, with the parts as its message, unless `condition` holds
template <class E>
void require(bool condition, detail::MessagePart a)
{
  if (!condition) detail::fail<E>({a});
}
// A template on the types of the parts would be compiled for almost every call, because texts of
// different lengths have different types. These functions are compiled once for each error.
#ifndef DOXYGEN
template <class E>
void require(bool condition, detail::MessagePart a, detail::MessagePart b)
{
  if (!condition) detail::fail<E>({a, b});
}
template <class E>
void require(bool condition, detail::MessagePart a, detail::MessagePart b, detail::MessagePart c)
{
  if (!condition) detail::fail<E>({a, b, c});
}
template <class E>
void require(bool condition, detail::MessagePart a, detail::MessagePart b, detail::MessagePart c,
             detail::MessagePart d)
{
  if (!condition) detail::fail<E>({a, b, c, d});
}
template <class E>
void require(bool condition, detail::MessagePart a, detail::MessagePart b, detail::MessagePart c,
             detail::MessagePart d, detail::MessagePart e)
{
  if (!condition) detail::fail<E>({a, b, c, d, e});
}
template <class E>
void require(bool condition, detail::MessagePart a, detail::MessagePart b, detail::MessagePart c,
             detail::MessagePart d, detail::MessagePart e, detail::MessagePart f)
{
  if (!condition) detail::fail<E>({a, b, c, d, e, f});
}
template <class E>
void require(bool condition, detail::MessagePart a, detail::MessagePart b, detail::MessagePart c,
             detail::MessagePart d, detail::MessagePart e, detail::MessagePart f,
             detail::MessagePart g)
{
  if (!condition) detail::fail<E>({a, b, c, d, e, f, g});
}
template <class E, class... More>
void require(bool condition, detail::MessagePart a, detail::MessagePart b, detail::MessagePart c,
             detail::MessagePart d, detail::MessagePart e, detail::MessagePart f,
             detail::MessagePart g, detail::MessagePart h, const More&... more)
{
  if (!condition) detail::fail<E>({a, b, c, d, e, f, g, h, detail::MessagePart{more}...});
}
#endif

}  // namespace cubist::CUBIST_ABI
