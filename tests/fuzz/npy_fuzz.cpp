// SPDX-License-Identifier: BSD-3-Clause

// The input is parsed as a file, and as a header's dictionary.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cubist/io/npy_header.hpp"

#include "fuzz.hpp"

using namespace cubist;
using cubist::fuzz::accepts;
using cubist::fuzz::demand;

namespace
{

bool same(const NpyHeader& a, const NpyHeader& b)
{
  return a.type == b.type && a.fortran_order == b.fortran_order && a.shape == b.shape;
}

void check(const NpyHeader& header, std::string_view dictionary)
{
  const auto bytes = bytes_of(header.type, header.shape);
  auto product = static_cast<long double>(bytes_of(header.type));
  for (const auto size : header.shape)
    product *= static_cast<long double>(std::max<std::uint64_t>(size, 1));
  demand(bytes.has_value() == (product < 0x1p63L), "a size is known unless it overflows");
  std::string file = "\x93NUMPY\x03";
  file += {'\0', static_cast<char>(dictionary.size()), static_cast<char>(dictionary.size() >> 8),
           '\0', '\0'};
  file += dictionary;
  const bool accepted = accepts([&] {
    const auto again = parse_npy_header(file, file.size() + bytes.value_or(0), "again");
    demand(same(again, header), "a file has the header of its dictionary");
    demand(again.data_offset == file.size(), "elements begin after the header");
  });
  demand(accepted == bytes.has_value(), "a shape is accepted unless it overflows");

  if (header.shape.size() != 2 || header.fortran_order || !bytes) return;
  const auto written = format_npy_header(header.type, {header.shape[0], header.shape[1]});
  const bool accepted_again = accepts([&] {
    demand(same(parse_npy_header(written, written.size() + *bytes, "written"), header),
           "a written header is parsed as the same");
  });
  demand(accepted_again, "a written header is accepted");
}

}  // namespace

CUBIST_FUZZ_TARGET(npy)
{
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  accepts([&] {
    const auto header = parse_npy_header(text.substr(0, npy_header_limit), size, "file");
    demand(header.data_offset <= size, "the header is in the file");
    const auto bytes = std::as_bytes(std::span{data, size}).subspan(header.data_offset);
    demand(bytes.size() == bytes_of(header.type, header.shape), "elements fill the file");
    std::vector<double> out(bytes.size() / bytes_of(header.type));
    demand(accepts([&] { decode<double>(header.type, bytes, out); }) ==
               readable_as<double>(header.type),
           "readable elements are decoded");
  });
  accepts([&] {
    const auto dictionary = text.substr(0, 1 << 15);
    check(cubist::detail::NpyDictionary{dictionary, "dictionary"}.parse(), dictionary);
  });
  return 0;
}
