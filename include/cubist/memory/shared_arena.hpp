// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Memory of a process that other processes of the machine map and read. It is a sparse anonymous
// file, as large as the machine's memory, which a peer maps once.
//
// A block is a run of pages, allocated first fit. Freed pages are kept for the next block, because
// a call often takes as much as the one before, and new pages cost more than copying data into
// them. They return to the system once they are more than an eighth of the memory in use, and more
// than 32 MiB. This needs Linux: memfd_create, and /proc/PID/fd to open the file in another
// process.

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI
{

/// Identifies the arena of a process to its peers.
struct ArenaName
{
  int process = 0;  ///< the process that made the arena
  int file = -1;    ///< the descriptor of its file in that process
  std::uint64_t size = 0;

  /// Orders all names.
  friend auto operator<=>(const ArenaName&, const ArenaName&) = default;
};

class SharedArena
{
 public:
  /// The arena of this process.
  static SharedArena& mine()
  {
    static auto& arena = *new SharedArena;  // outlives what was allocated from it
    return arena;
  }

  /// Whether the system provided an arena; otherwise memory comes from the heap.
  [[nodiscard]] bool exists() const { return begin_ != nullptr; }
  [[nodiscard]] ArenaName name() const { return {getpid(), file_, size_}; }

  /// Whether an address lies in the arena.
  [[nodiscard]] bool contains(const void* p) const
  {
    const auto* address = static_cast<const std::byte*>(p);
    return exists() && address >= begin_ && address < begin_ + size_;
  }
  /// The distance of an address from the beginning, in bytes.
  /// @pre contains(p)
  [[nodiscard]] std::uint64_t offset(const void* p) const
  {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - begin_);
  }

  /// Returns memory with arbitrary contents, or null if no run of free pages is long enough.
  [[nodiscard]] void* allocate(std::size_t bytes)
  {
    const std::lock_guard lock{mutex_};
    const std::size_t run = pages(bytes);
    const auto fits =
        std::find_if(free_.begin(), free_.end(), [run](const auto& f) { return f.second >= run; });
    if (fits == free_.end()) return nullptr;
    const auto [offset, size] = *fits;
    free_.erase(fits);
    if (size > run) free_.emplace(offset + run, size - run);
    used_ += run;
    kept_ -= std::min(kept_, run);
    return begin_ + offset;
  }

  /// @pre p is from allocate(bytes)
  void deallocate(void* p, std::size_t bytes)
  {
    const std::lock_guard lock{mutex_};
    used_ -= pages(bytes);
    kept_ += pages(bytes);
    insert_free(offset(p), pages(bytes));
    if (kept_ > std::max(kept_at_least, used_ / 8)) return_pages();
  }

  /// Returns all free pages to the system.
  void trim()
  {
    const std::lock_guard lock{mutex_};
    return_pages();
  }

  /// Returns the whole pages in [p, p + bytes) to the system; their bytes become zero.
  /// @pre the memory is in an arena that is mapped here, and no rank uses it during the call
  static void discard(std::byte* p, std::size_t bytes)
  {
    const std::size_t page = mine().page_;
    const auto gap = (page - reinterpret_cast<std::uintptr_t>(p) % page) % page;
    if (bytes >= gap + page) madvise(p + gap, (bytes - gap) / page * page, MADV_REMOVE);
  }

  /// Maps the arena of a process of this machine; returns null if that fails.
  [[nodiscard]] static std::byte* of(const ArenaName& name)
  {
    if (name.process == getpid()) return mine().begin_;
    static std::mutex mutex;
    static auto& mapped = *new std::map<ArenaName, std::byte*>;
    const std::lock_guard lock{mutex};
    const auto found = mapped.find(name);
    if (found != mapped.end()) return found->second;
    const auto path = "/proc/" + std::to_string(name.process) + "/fd/" + std::to_string(name.file);
    const int file = name.file < 0 ? -1 : open(path.c_str(), O_RDWR | O_CLOEXEC);
    void* begin = MAP_FAILED;
    if (file >= 0)
    {
      constexpr int access = PROT_READ | PROT_WRITE;
      begin = mmap(nullptr, name.size, access, MAP_SHARED | MAP_NORESERVE, file, 0);
      close(file);
    }
    auto* arena = begin == MAP_FAILED ? nullptr : static_cast<std::byte*>(begin);
    mapped.emplace(name, arena);
    return arena;
  }

 private:
  SharedArena()
  {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t size = page * static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES));
    page_ = page;
    file_ = memfd_create("cubist", MFD_CLOEXEC);
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(size)) != 0) return;
    void* begin = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
    if (begin == MAP_FAILED) return;
    madvise(begin, size, MADV_HUGEPAGE);  // if the system refuses, pages stay small
    begin_ = static_cast<std::byte*>(begin);
    size_ = size;
    free_.emplace(0, size);
  }

  [[nodiscard]] std::size_t pages(std::size_t bytes) const
  {
    return std::max<std::size_t>(1, (bytes + page_ - 1) / page_) * page_;
  }

  /// Adds a run of free pages, and merges it with those next to it.
  void insert_free(std::size_t begin, std::size_t run)
  {
    auto next = free_.lower_bound(begin);
    if (next != free_.end() && begin + run == next->first)
    {
      run += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin())
      if (const auto before = std::prev(next); before->first + before->second == begin)
      {
        before->second += run;
        return;
      }
    free_.emplace(begin, run);
  }

  void return_pages()
  {
    for (const auto& [begin, run] : free_)
      fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                static_cast<off_t>(run));
    kept_ = 0;
  }

  static constexpr std::size_t kept_at_least = std::size_t{32} << 20;

  std::byte* begin_ = nullptr;
  std::size_t size_ = 0;
  std::size_t page_ = 1;
  int file_ = -1;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  // sizes of free runs by offset
  std::size_t used_ = 0;                     // bytes of blocks
  std::size_t kept_ = 0;  // bytes of free pages that the system may not have got back
};

/// Allocates from the arena of this process. Blocks of less than a page, and blocks that do not
/// fit, come from the heap.
template <class T>
class ArenaAllocator
{
 public:
  using value_type = T;

  ArenaAllocator() = default;
  template <class U>
  ArenaAllocator(const ArenaAllocator<U>&)
  {
  }

  [[nodiscard]] T* allocate(std::size_t n)
  {
    if (n * sizeof(T) >= page)
      if (void* p = SharedArena::mine().allocate(n * sizeof(T))) return static_cast<T*>(p);
    return static_cast<T*>(::operator new(n * sizeof(T)));
  }
  void deallocate(T* p, std::size_t n)
  {
    if (SharedArena::mine().contains(p)) return SharedArena::mine().deallocate(p, n * sizeof(T));
    ::operator delete(p);
  }

  friend bool operator==(const ArenaAllocator&, const ArenaAllocator&) { return true; }

 private:
  static constexpr std::size_t page = 4096;
};

}  // namespace cubist::CUBIST_ABI
