// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <span>
#include <string>

#include "cubist/io/csv.hpp"
#include "cubist/io/npy_header.hpp"
#include "cubist/io/safetensors_header.hpp"
#include "cubist/io/zip.hpp"

#include "catch.hpp"
#include "ranks.hpp"

namespace io_zip_test
{

using namespace cubist;
using namespace cubist::test;

TEST_CASE("a zip archive is refused by each reader, which says what to save instead")
{
  // The first bytes of files of np.savez, of torch.save, and of a spreadsheet.
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

}  // namespace io_zip_test
