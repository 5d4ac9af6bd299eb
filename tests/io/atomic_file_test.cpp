// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/io/atomic_file.hpp"

#include "folder.hpp"
#include "nn.hpp"
#include "watchdog.hpp"

namespace cubist::test::io_atomic_file_test
{

static void write(File& file, std::uint64_t to, const std::string& text)
{
  file.write(to, std::as_bytes(std::span{text}));
}

TEST_CASE("a file that ranks write together appears under its name when it is published")
{
  if (!fits(4)) return;
  const Folder folder;
  const auto path = folder / "all";
  once([&] { write_contents(path, "before"); });
  const auto ranks = on_mesh(two_by_two, [&](const auto& mesh) {
    Findings found;
    AtomicFile file{mesh, path, "head", 8};
    write(file.file(), 4 + static_cast<std::uint64_t>(mesh.rank()), std::to_string(mesh.rank()));
    mesh.world().barrier();
    found.check(contents(path) == "before", contents(path));
    file.write_header("HEAD");
    file.publish();
    found.check(contents(path) == "HEAD0123", contents(path));
    return found;
  });
  require_clear(ranks);
  CHECK_FALSE(std::filesystem::exists(folder / "all.part"));
}

TEST_CASE("an error before publishing leaves the previous file")
{
  const Watchdog watchdog;
  if (!fits(4)) return;
  const Folder folder;
  const auto path = folder / "all";
  once([&] { write_contents(path, "before"); });
  const auto message = message_of<ArgumentError>([&] {
    (void)on_mesh(two_by_two, [&](const auto& mesh) {
      AtomicFile file{mesh, path, "head", 8};
      require<ArgumentError>(mesh.rank() != 2, "stop");
      file.publish();
      return 0;
    });
  });
  CHECK(message == "rank 2: stop");
  CHECK(contents(path) == "before");
}

TEST_CASE("a folder that does not exist is an error on rank 0, and no rank keeps waiting")
{
  const Watchdog watchdog;
  if (!fits(4)) return;
  const Folder folder;
  const auto message = message_of<DataError>([&] {
    (void)on_mesh(two_by_two, [&](const auto& mesh) {
      AtomicFile file{mesh, folder / "none" / "all", "head", 8};
      file.publish();
      return 0;
    });
  });
  CHECK(mentions(message, "rank 0: cannot write to", "all.part", "No such file"));
}

}  // namespace cubist::test::io_atomic_file_test
