// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/io/folder_lock.hpp"

#include "catch.hpp"
#include "folder.hpp"
#include "message.hpp"

namespace cubist::test::io_folder_lock_test
{

TEST_CASE("a folder has one lock in a process, which goes with its last owner")
{
  const Folder folder;
  {
    const auto one = detail::FolderLock::of(folder.path());
    const auto other = detail::FolderLock::of(folder.path() / ".");
    CHECK(one == other);
    CHECK(std::filesystem::exists(folder / ".lock"));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a folder that another run has locked is refused until that run has ended")
{
  const Folder folder;
  {
    // Acts as another process would: flock refuses a second descriptor of the file.
    const File other{folder / ".lock", File::Mode::create};
    REQUIRE(::flock(other.descriptor(), LOCK_EX | LOCK_NB) == 0);
    const auto message =
        message_of<DataError>([&] { (void)detail::FolderLock::of(folder.path()); });
    CHECK(mentions(message, folder.path().string(), "another run saves to it", ".lock"));
  }
  // A run that was killed leaves the file behind, but without a lock.
  CHECK(detail::FolderLock::of(folder.path()) != nullptr);
}

TEST_CASE("a folder that was removed and made again is locked again")
{
  const Folder folder;
  const auto path = folder / "a";
  std::filesystem::create_directory(path);
  const auto former = detail::FolderLock::of(path);
  std::filesystem::remove_all(path);
  std::filesystem::create_directory(path);
  const auto lock = detail::FolderLock::of(path);
  CHECK(lock != former);
  CHECK(std::filesystem::exists(path / ".lock"));
}

}  // namespace cubist::test::io_folder_lock_test
