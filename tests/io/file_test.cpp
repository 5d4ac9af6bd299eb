// SPDX-License-Identifier: BSD-3-Clause
#include <csignal>

#include <sys/resource.h>

#include "cubist/io/file.hpp"

#include "folder.hpp"
#include "ranks.hpp"

namespace cubist::test::io_file_test
{

using Mode = File::Mode;

static std::span<const std::byte> bytes(const std::string& text)
{
  return std::as_bytes(std::span{text});
}

static std::string read(const File& file, std::uint64_t from, std::size_t count)
{
  std::string text(count, '?');
  file.read(from, std::as_writable_bytes(std::span{text}));
  return text;
}

TEST_CASE("a file is read and written at any position")
{
  const Folder folder;
  const auto path = (folder / "a").string();
  {
    File file{path, Mode::create};
    CHECK(file.bytes() == 0);
    file.resize(10);
    file.write(3, bytes("abc"));
    file.write(8, bytes("wxyz"));  // beyond its end
    file.sync();
    CHECK(file.bytes() == 12);
  }
  CHECK(contents(path) == std::string("\0\0\0abc\0\0wxyz", 12));

  File again{path, Mode::write};
  again.write(0, bytes("..."));
  CHECK(read(again, 1, 4) == "..ab");
  CHECK(read(again, 12, 0).empty());
  CHECK(File{path, Mode::create}.bytes() == 0);
}

TEST_CASE("a read beyond the end of a file is an error")
{
  const Folder folder;
  write_contents(folder / "short", "12345");
  const File file{(folder / "short").string(), Mode::read};
  CHECK(mentions(message_of<DataError>([&] { (void)read(file, 3, 4); }), "short ends at byte 5",
                 "2 more bytes are expected", "truncated"));
}

TEST_CASE("errors of opening and writing name the file and the reason")
{
  const Folder folder;
  const auto open = [&](const std::string& name, Mode mode) {
    return message_of<DataError>([&] { File{(folder / name).string(), mode}; });
  };
  CHECK(mentions(open("none", Mode::read), "cannot open", "none", "No such file",
                 "check the path, and that every node sees it"));
  CHECK(mentions(open("none", Mode::write), "cannot write to", "none", "No such file",
                 "check that every node sees it"));
  CHECK(mentions(open("no/folder", Mode::create), "cannot write to", "No such file",
                 "that its folder exists"));
  CHECK(mentions(open("", Mode::read), "not a regular file"));
  CHECK(mentions(message_of<DataError>([] {
                   File{"/dev/zero", Mode::read};
                 }),
                 "/dev/zero", "not a regular file"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(mentions(open("pipe", Mode::read), "pipe", "not a regular file"));
  File full{(folder / "full").string(), Mode::create};
  CHECK(mentions(message_of<DataError>([&] { full.resize(~std::uint64_t{0}); }), "cannot extend"));
  write_contents(folder / "read only", "12345");
  File file{(folder / "read only").string(), Mode::read};
  CHECK(mentions(message_of<DataError>([&] { file.write(0, bytes("6")); }), "cannot write to"));
}

TEST_CASE("a folder that cannot be written is an error that says so")
{
  const Folder folder;
  // The superuser may write anywhere except in the kernel's own folders.
  const bool superuser = ::geteuid() == 0;
  const std::filesystem::path locked = superuser ? "/sys" : folder / "locked";
  if (!superuser)
  {
    std::filesystem::create_directory(locked);
    std::filesystem::permissions(locked, std::filesystem::perms::owner_read);
  }
  const auto message = message_of<DataError>([&] {
    File{(locked / "cubist.part").string(), Mode::create};
  });
  CHECK(mentions(message, "cannot write to", "cubist.part (",
                 "check the permissions of its folder, or save to another one"));
  CHECK((mentions(message, "Permission denied") || mentions(message, "Read-only file system") ||
         mentions(message, "Operation not permitted")));
  CHECK_FALSE(mentions(message, "every node sees it"));
}

TEST_CASE("a full disk is an error")
{
  const Folder folder;
  File file{(folder / "full").string(), Mode::create};
  // A limit on the size of files stands in for a full disk.
  struct rlimit before = {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {.rlim_cur = 1000, .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto message = message_of<DataError>([&] { file.write(0, bytes(std::string(2000, 'x'))); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(mentions(message, "cannot write to", "full", "free space on the disk"));
}

TEST_CASE("a renamed file replaces the file of its new name")
{
  const Folder folder;
  write_contents(folder / "old", "old");
  write_contents(folder / "new", "new");
  rename_durably(folder / "new", folder / "old");
  CHECK(contents(folder / "old") == "new");
  CHECK_FALSE(std::filesystem::exists(folder / "new"));
  CHECK(mentions(message_of<DataError>([&] { rename_durably(folder / "new", folder / "old"); }),
                 "cannot rename", "No such file"));
  CHECK(contents(folder / "old") == "new");
}

}  // namespace cubist::test::io_file_test
