// SPDX-License-Identifier: BSD-3-Clause
#include <cstring>
#include <numeric>
#include <vector>

#include <sys/wait.h>

#include "cubist/memory/shared_arena.hpp"

#include "catch.hpp"

namespace cubist::test::memory_shared_arena_test
{

constexpr std::size_t page = 4096;

TEST_CASE("An arena allocates pages, and reuses freed ones")
{
  auto& arena = SharedArena::mine();
  REQUIRE(arena.exists());
  auto* a = static_cast<char*>(arena.allocate(3 * page));
  auto* b = static_cast<char*>(arena.allocate(1));
  REQUIRE(a != nullptr);
  REQUIRE(b != nullptr);
  CHECK(arena.contains(a));
  CHECK(arena.contains(a + 3 * page - 1));
  CHECK_FALSE(arena.contains(&arena));
  CHECK_FALSE(arena.contains(nullptr));
  CHECK((b < a || b >= a + 3 * page));
  std::memset(a, 1, 3 * page);
  arena.deallocate(a, 3 * page);
  auto* c = static_cast<char*>(arena.allocate(2 * page));
  CHECK(c == a);
  arena.deallocate(c, 2 * page);
  arena.deallocate(b, 1);
  // All free runs are merged.
  void* large = arena.allocate(arena.name().size / 2);
  CHECK(large != nullptr);
  CHECK(arena.allocate(arena.name().size) == nullptr);
  arena.deallocate(large, arena.name().size / 2);
}

TEST_CASE("An arena keeps few freed pages, and returns many to the system")
{
  auto& arena = SharedArena::mine();
  const auto bytes_held = [&] {
    struct stat file = {};
    fstat(arena.name().file, &file);
    return static_cast<std::size_t>(file.st_blocks) * 512;
  };
  const auto use = [&](std::size_t bytes) {
    void* const p = arena.allocate(bytes);
    std::memset(p, 1, bytes);
    arena.deallocate(p, bytes);
  };
  constexpr std::size_t mib = 1 << 20;
  arena.trim();
  const std::size_t before = bytes_held();
  use(16 * mib);
  CHECK(bytes_held() >= before + 16 * mib);
  arena.trim();
  CHECK(bytes_held() == before);
  use(64 * mib);
  CHECK(bytes_held() < before + 4 * mib);
  // Beside a large block, the arena keeps up to an eighth of its size in free pages.
  void* const large = arena.allocate(512 * mib);
  use(48 * mib);
  CHECK(bytes_held() >= before + 48 * mib);
  use(72 * mib);
  CHECK(bytes_held() < before + 4 * mib);
  arena.deallocate(large, 512 * mib);
}

template <class T>
using Shared = std::vector<T, ArenaAllocator<T>>;

TEST_CASE("Large vectors are in the arena, small ones on the heap")
{
  const auto& arena = SharedArena::mine();
  const Shared<double> large(1000, 1.5);
  CHECK(arena.contains(large.data()));
  CHECK(std::accumulate(large.begin(), large.end(), 0.0) == 1500);
  const Shared<double> small(10);
  CHECK_FALSE(arena.contains(small.data()));
  auto copy = large;
  CHECK(copy == large);
  CHECK(arena.offset(copy.data()) != arena.offset(large.data()));
}

TEST_CASE("Another process reads what this one writes, and its mapping outlives a free")
{
  Shared<int> data(100'000, 7);
  const auto name = SharedArena::mine().name();
  const auto offset = SharedArena::mine().offset(data.data());
  CHECK(SharedArena::of(name) + offset == reinterpret_cast<const std::byte*>(data.data()));
  int parent_to_child[2];
  int child_to_parent[2];
  REQUIRE(pipe(parent_to_child) == 0);
  REQUIRE(pipe(child_to_parent) == 0);
  char token = 0;
  const pid_t child = fork();
  if (child == 0)
  {
    const auto* begin = SharedArena::of(name);
    bool good = begin != nullptr;
    const auto* theirs = good ? reinterpret_cast<const int*>(begin + offset) : nullptr;
    good = good && theirs[99'999] == 7;
    good = write(child_to_parent[1], &token, 1) == 1 && good;
    good = read(parent_to_child[0], &token, 1) == 1 && good;
    good = good && theirs[0] == 8;
    good = write(child_to_parent[1], &token, 1) == 1 && good;
    good = read(parent_to_child[0], &token, 1) == 1 && good;
    good = good && (theirs[0] == 0 || theirs[0] == 8);  // freed: readable, whatever it is
    _exit(good ? 0 : 1);
  }
  CHECK(read(child_to_parent[0], &token, 1) == 1);
  data[0] = 8;
  CHECK(write(parent_to_child[1], &token, 1) == 1);
  CHECK(read(child_to_parent[0], &token, 1) == 1);
  data = {};
  data.shrink_to_fit();
  CHECK(write(parent_to_child[1], &token, 1) == 1);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

/// Calls good() in a child process, and returns its result.
template <class F>
bool in_child_process(F good)
{
  const pid_t child = fork();
  if (child == 0) _exit(good() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_CASE("An arena that cannot be mapped is null")
{
  CHECK(in_child_process([] {
    return SharedArena::of({.process = 0, .file = 3, .size = page}) == nullptr &&
           SharedArena::of({.process = getppid(), .file = -1, .size = page}) == nullptr;
  }));
}

}  // namespace cubist::test::memory_shared_arena_test
