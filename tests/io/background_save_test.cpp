// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <latch>

#include "cubist/io/background_save.hpp"

#include "folder.hpp"
#include "message.hpp"
#include "watchdog.hpp"

namespace cubist::test::io_background_save_test
{

using detail::BackgroundFile;
using detail::BackgroundSave;

/// A file with two tensors, "zero" and "ones", with the fingerprints 10 and 11. Each of two ranks
/// writes one.
struct TwoParts
{
  Folder folder;
  std::filesystem::path path = folder / "all";
  std::filesystem::path part = folder / "all.part";
  SafetensorsHeader header{
      .metadata = {},
      .tensors = {{"a", ElementType::f32, {1, 1}, 0, 4}, {"b", ElementType::f32, {1, 1}, 4, 8}}};

  [[nodiscard]] std::string expected() const
  {
    return detail::format_with_fingerprints(header, std::vector<std::uint64_t>{10, 11}) +
           "zeroones";
  }
  /// @param number  the number of the save
  [[nodiscard]] BackgroundFile file(int rank, std::uint64_t number = 7) const
  {
    const std::uint64_t begin = expected().size() - 8;
    const std::size_t mine = rank == 0 ? 0 : 1;
    BackgroundFile file{.path = path,
                        .header = header,
                        .bytes = begin + 8,
                        .number = number,
                        .rank = rank,
                        .ranks = 2,
                        .writes = {{}, {}},
                        .published = [] {}};
    for (const char* name : {"a", "b"})
      file.header.metadata[detail::fingerprint_key(name)] = detail::hexadecimal(0);
    file.writes[mine] = [=](File& out, const BackgroundFile::Rest&) {
      const std::string text = mine == 0 ? "zero" : "ones";
      out.write(begin + 4 * mine, std::as_bytes(std::span{text}));
      return 10 + mine;
    };
    return file;
  }
};

TEST_CASE("a file has its name once every rank's thread has written, and is complete then")
{
  const Watchdog watchdog;
  const TwoParts parts;
  write_contents(parts.path, "before");
  BackgroundSave root, other;
  CHECK(!root.is_in_flight());
  root.create(parts.file(0));
  root.start(parts.file(0), false);
  CHECK(root.is_in_flight());
  CHECK(root.wait_for_part().empty());
  CHECK(root.phase() == BackgroundSave::Phase::writes);
  CHECK(contents(parts.path) == "before");
  other.start(parts.file(1), false);
  CHECK(other.finish(false).empty());
  CHECK(root.finish(false).empty());
  CHECK(root.phase() == BackgroundSave::Phase::done);
  CHECK(contents(parts.path) == parts.expected());
  CHECK(!std::filesystem::exists(parts.part));
}

TEST_CASE("a part can be written before the thread starts, which syncs it and publishes the file")
{
  const Watchdog watchdog;
  const TwoParts parts;
  BackgroundSave root, other;
  root.create(parts.file(0));
  other.start(parts.file(1), true);
  root.start(parts.file(0), true);
  CHECK(root.finish(false).empty());
  CHECK(other.finish(false).empty());
  CHECK(contents(parts.path) == parts.expected());
}

TEST_CASE("a part of another save is not taken for one of this save")
{
  const Watchdog watchdog;
  const TwoParts parts;
  write_contents(parts.path, "before");
  BackgroundSave root, other;
  root.create(parts.file(0));
  other.start(parts.file(1, 8), false);
  CHECK(other.finish(false).empty());
  root.start(parts.file(0, 7), false);
  CHECK(root.wait_for_part().empty());
  CHECK(root.finish(true).empty());
  CHECK(contents(parts.path) == "before");
  CHECK(!std::filesystem::exists(parts.part));
}

TEST_CASE("a rank that cannot write has the error, and the file before it stays")
{
  const Watchdog watchdog;
  const TwoParts parts;
  write_contents(parts.path, "before");
  for (const bool writes_first : {false, true})
  {
    BackgroundSave root, other;
    root.create(parts.file(0));
    root.start(parts.file(0), writes_first);
    auto fails = parts.file(1);
    fails.writes[1] = [](File& file, const auto&) -> std::uint64_t {
      throw DataError{"cannot write to " + file.path()};
    };
    other.start(fails, writes_first);
    CHECK(other.wait_for_part() == "cannot write to " + parts.part.string());
    CHECK(other.finish(true) == "cannot write to " + parts.part.string());
    CHECK(other.phase() == BackgroundSave::Phase::failed);
    CHECK(root.finish(true).empty());
    CHECK(contents(parts.path) == "before");
    CHECK(!std::filesystem::exists(parts.part));
  }
}

TEST_CASE("a file that is removed or replaced while it is written is an error")
{
  const Watchdog watchdog;
  const TwoParts parts;
  write_contents(parts.path, "before");
  for (const bool replaced : {false, true})
  {
    BackgroundSave root;
    root.create(parts.file(0));
    std::filesystem::remove(parts.part);
    if (replaced) write_contents(parts.part, "another run's");
    root.start(parts.file(0), false);
    CHECK(mentions(root.finish(false), parts.part.string(), "was removed or replaced"));
    CHECK(contents(parts.path) == "before");
    CHECK(std::filesystem::exists(parts.part) == replaced);
  }
}

TEST_CASE("the end of a save's owner finishes it, but does not wait for a rank that never wrote")
{
  const Watchdog watchdog;
  const TwoParts parts;
  std::latch may_write{1};
  {
    BackgroundSave root, other;
    root.create(parts.file(0));
    root.start(parts.file(0), false);
    auto late = parts.file(1);
    late.writes[1] = [&, write = late.writes[1]](File& file, const auto& rest) {
      may_write.wait();
      return write(file, rest);
    };
    other.start(late, false);
    CHECK(root.phase() == BackgroundSave::Phase::writes);
    may_write.count_down();
  }
  CHECK(contents(parts.path) == parts.expected());

  write_contents(parts.path, "before");
  {
    BackgroundSave root{std::chrono::milliseconds{1}};
    root.create(parts.file(0));
    root.start(parts.file(0), false);
  }
  CHECK(contents(parts.path) == "before");
  CHECK(!std::filesystem::exists(parts.part));
}

TEST_CASE("a thread rests after it has written a chunk, until a caller waits for the save")
{
  using Clock = std::chrono::steady_clock;
  const Watchdog watchdog;
  const TwoParts parts;
  std::latch begins_to_rest{1};
  std::atomic<bool> has_rested = false;
  BackgroundSave root{std::chrono::seconds{2}, 1'000'000}, other;
  root.create(parts.file(0));
  auto slow = parts.file(0);
  slow.writes[0] = [&, write = slow.writes[0]](File& file, const auto& rest) {
    for (const auto end = Clock::now() + std::chrono::milliseconds{5}; Clock::now() < end;)
    {
    }
    begins_to_rest.count_down();
    rest();
    has_rested = true;
    return write(file, rest);
  };
  root.start(slow, false);
  other.start(parts.file(1), false);
  begins_to_rest.wait();
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  CHECK(!has_rested);
  CHECK(root.wait_for_part().empty());
  CHECK(has_rested);
  CHECK(other.finish(false).empty());
  CHECK(root.finish(false).empty());
  CHECK(contents(parts.path) == parts.expected());
}

TEST_CASE("the memory of copies is kept, and grows")
{
  detail::KeptCopy copy;
  std::byte* const first = copy.get(100);
  CHECK(copy.get(50) == first);
  CHECK(copy.bytes() == 100);
  CHECK(copy.get(std::size_t{1} << 20) != nullptr);
  CHECK(copy.bytes() == std::size_t{1} << 20);
}

/// What an engine prepares, which notes when it begins and ends, and reads its memory then.
struct Prepared
{
  static inline std::vector<std::string> log;
  std::span<std::byte> memory;

  explicit Prepared(std::span<std::byte> m)
      : memory{m}
  {
    memory.front() = std::byte{3};
    log.push_back("begin " + std::to_string(m.size()));
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared() { log.push_back(memory.front() == std::byte{3} ? "end" : "end too late"); }
};

TEST_CASE("what an engine has prepared for the memory of copies ends before the memory")
{
  {
    detail::KeptCopy copy;
    (void)copy.get(100);
    auto& first = copy.prepared<Prepared>();
    (void)copy.get(50);
    CHECK(&copy.prepared<Prepared>() == &first);
    (void)copy.get(200);
    (void)copy.prepared<Prepared>();
  }
  CHECK(Prepared::log == std::vector<std::string>{"begin 100", "end", "begin 200", "end"});
}

TEST_CASE("a thread waits for the copy before it writes, and an error of the copy names the file")
{
  const Watchdog watchdog;
  const TwoParts parts;
  write_contents(parts.path, "before");
  std::atomic<bool> is_copied = false;
  for (const bool fails : {true, false})
  {
    BackgroundSave root, other;
    root.create(parts.file(0));
    root.start(parts.file(0), false);
    auto copied = parts.file(1);
    copied.wait_for_copy = [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
      if (fails) throw DeviceError{"cudaMemcpyAsync failed"};
      is_copied = true;
    };
    copied.writes[1] = [&, write = copied.writes[1]](File& file, const auto& rest) {
      require<DataError>(is_copied, "it is not copied");
      return write(file, rest);
    };
    other.start(copied, false);
    CHECK(other.wait_for_part() ==
          (fails ? "cudaMemcpyAsync failed (in a save of " + parts.path.string() + ")" : ""));
    (void)other.finish(fails);
    CHECK(root.finish(fails).empty());
    CHECK(contents(parts.path) == (fails ? "before" : parts.expected()));
  }
}

}  // namespace cubist::test::io_background_save_test
