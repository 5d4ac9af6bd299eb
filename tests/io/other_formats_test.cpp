// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/io/csv.hpp"
#include "cubist/io/npy_header.hpp"
#include "cubist/io/other_formats.hpp"
#include "cubist/io/safetensors_folder.hpp"

#include "ranks.hpp"

namespace cubist::test::io_other_formats_test
{

using Catch::Matchers::ContainsSubstring;

TEST_CASE("a zip archive is refused by each reader, which says what to save instead")
{
  // The first bytes of files by np.savez, torch.save, and a spreadsheet.
  for (const auto& zip :
       {std::string("PK\x03\x04\x2d\0\0\0\0\0\0\0\x21\0", 14),
        std::string("PK\x03\x04\0\0\x08\x08\0\0\0\0\0\0", 14),
        std::string("PK\x03\x04\x14\0\x08\x08\x08\0\xa5\x8d\x2c\x53", 14) + std::string(90, '\n')})
  {
    const auto message = [&](auto read) { return message_of<DataError>([&] { (void)read(); }); };
    CHECK(mentions(message([&] { return parse_npy_header(zip, zip.size(), "x.npz"); }),
                   "got x.npz, which is a zip archive", "np.save"));
    CHECK(mentions(message([&] {
                     return safetensors_header_bytes(std::as_bytes(std::span{zip}).first<8>(),
                                                     zip.size(), "x.pt");
                   }),
                   "got x.pt, which is a zip archive", "safetensors.torch.save_file"));
    CHECK(mentions(message([&] { return parse_csv(zip, "x.xlsx"); }),
                   "got x.xlsx, which is a zip archive", "text"));
  }
  CHECK_NOTHROW(require_no_zip("PK\x03", "x", "a matrix"));
  CHECK_NOTHROW(require_no_zip("", "x", "a matrix"));
}

TEST_CASE("a Git LFS pointer is refused by its first bytes")
{
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n";
  CHECK_THROWS_WITH(require_no_lfs_pointer(pointer, "file"),
                    ContainsSubstring("got file, which is a Git LFS pointer") &&
                        ContainsSubstring("git lfs pull"));
  CHECK_THROWS_AS(require_no_lfs_pointer(pointer.substr(0, 8), "file"), DataError);
  for (const char* text : {"", "v", "version", "version 2 of a text", "1,2\n3,4\n"})
    CHECK_NOTHROW(require_no_lfs_pointer(text, "file"));
}

TEST_CASE("every reader says that a file is a Git LFS pointer")
{
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n";
  const auto says = ContainsSubstring("Git LFS pointer");
  CHECK_THROWS_WITH(parse_csv(pointer, "x.csv"), says);
  CHECK_THROWS_WITH(parse_npy_header(pointer, pointer.size(), "x.npy"), says);
  CHECK_THROWS_WITH(parse_safetensors_index(pointer, "index.json"), says);
  const auto first = std::as_bytes(std::span{pointer}).first<8>();
  CHECK_THROWS_WITH(safetensors_header_bytes(first, pointer.size(), "x.safetensors"), says);
}

}  // namespace cubist::test::io_other_formats_test
