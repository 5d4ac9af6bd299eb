// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/dataset/mapped_file.hpp"

#include "folder.hpp"
#include "ranks.hpp"

namespace cubist::test::dataset_mapped_file_test
{

static std::string text(const MappedFile& file)
{
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST_CASE("a mapped file has the bytes of the file")
{
  const Folder folder;
  const std::string large(100'000, 'x');
  for (const std::string& bytes : {std::string{"a\0b", 3}, std::string{}, large})
  {
    write_contents(folder / "a", bytes);
    const MappedFile file{folder / "a"};
    CHECK(file.path() == (folder / "a").string());
    CHECK(text(file) == bytes);
  }
}

TEST_CASE("copies share the mapping, which outlives the original and the name of the file")
{
  const Folder folder;
  write_contents(folder / "a", "tokens");
  std::optional<MappedFile> original{folder / "a"};
  const MappedFile copy = *original;
  CHECK(copy.bytes().data() == original->bytes().data());
  original.reset();
  std::filesystem::remove(folder / "a");
  CHECK(text(copy) == "tokens");
}

TEST_CASE("a file that cannot be mapped is an error")
{
  const Folder folder;
  const auto message = [](const std::filesystem::path& path) {
    return message_of<DataError>([&] { MappedFile{path}; });
  };
  CHECK(mentions(message(folder / "none"), "cannot open", "none", "check the path"));
  CHECK(mentions(message(folder.path()), "not a regular file"));
}

}  // namespace cubist::test::dataset_mapped_file_test
