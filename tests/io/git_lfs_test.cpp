// SPDX-License-Identifier: BSD-3-Clause
#include <string>

#include "cubist/io/git_lfs.hpp"

#include "catch.hpp"

namespace io_git_lfs_test
{

using namespace cubist;

TEST_CASE("a pointer of Git LFS is refused by its first bytes")
{
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n";
  using Catch::Matchers::ContainsSubstring;
  CHECK_THROWS_WITH(require_no_lfs_pointer(pointer, "file"),
                    ContainsSubstring("got file, which is a pointer of Git LFS") &&
                        ContainsSubstring("git lfs pull"));
  CHECK_THROWS_AS(require_no_lfs_pointer(pointer.substr(0, 8), "file"), DataError);
  for (const char* text : {"", "v", "version", "version 2 of a text", "1,2\n3,4\n"})
    CHECK_NOTHROW(require_no_lfs_pointer(text, "file"));
}

}  // namespace io_git_lfs_test
