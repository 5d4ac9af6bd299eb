// SPDX-License-Identifier: BSD-3-Clause
#include <span>
#include <string>

#include "cubist/io/csv.hpp"
#include "cubist/io/git_lfs.hpp"
#include "cubist/io/npy_header.hpp"
#include "cubist/io/safetensors_folder.hpp"

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

TEST_CASE("every reader says that a file is a pointer of Git LFS")
{
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n";
  using Catch::Matchers::ContainsSubstring;
  const auto says = ContainsSubstring("pointer of Git LFS");
  CHECK_THROWS_WITH(parse_csv(pointer, "x.csv"), says);
  CHECK_THROWS_WITH(parse_npy_header(pointer, pointer.size(), "x.npy"), says);
  CHECK_THROWS_WITH(parse_safetensors_index(pointer, "index.json"), says);
  const auto first = std::as_bytes(std::span{pointer}).first<8>();
  CHECK_THROWS_WITH(safetensors_header_bytes(first, pointer.size(), "x.safetensors"), says);
}

}  // namespace io_git_lfs_test
