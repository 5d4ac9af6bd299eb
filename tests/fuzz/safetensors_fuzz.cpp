// SPDX-License-Identifier: BSD-3-Clause

// The input is parsed as a file, and without the first 8 bytes as JSON, whose offsets are then made
// valid.

#include <complex>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cubist/io/safetensors_header.hpp"

#include "fuzz.hpp"

using namespace cubist;
using cubist::fuzz::accepts;
using cubist::fuzz::demand;

namespace
{

void check(const SafetensorsHeader& header, std::uint64_t data_bytes)
{
  std::uint64_t covered = 0;
  for (const auto& tensor : header.tensors)
  {
    demand(tensor.begin == covered && tensor.begin <= tensor.end, "tensors leave no gaps");
    demand(tensor.end - tensor.begin == bytes_of(tensor.type, tensor.shape), "sizes are right");
    demand(header.find(tensor.name) == &tensor, "a name means one tensor");
    covered = tensor.end;
  }
  demand(covered == data_bytes, "tensors cover the data");

  const std::string text = format_safetensors_header(header);
  const bool accepted = accepts([&] {
    const auto again = parse_safetensors_header(text.substr(8), data_bytes, "again");
    demand(again.metadata == header.metadata && again.tensors == header.tensors,
           "a written header is parsed as the same");
  });
  demand(accepted, "a written header is accepted");
}

bool is_accepted(const SafetensorsHeader& header, std::uint64_t data_bytes)
{
  const std::string text = format_safetensors_header(header);
  return accepts([&] { (void)parse_safetensors_header(text.substr(8), data_bytes, "moved"); });
}

/// Checks the header with consecutive tensors, without those that are too large or have the name of
/// another.
void check_in_order(SafetensorsHeader header)
{
  std::uint64_t end = 0;
  std::set<std::string> names;
  std::erase_if(header.tensors, [&](TensorInfo& tensor) {
    const auto bytes = bytes_of(tensor.type, tensor.shape);
    if (!bytes || *bytes > (std::uint64_t{1} << 62) - end || !names.insert(tensor.name).second)
      return true;
    tensor.begin = end;
    tensor.end = end += *bytes;
    return false;
  });
  check(header, end);

  demand(!is_accepted(header, end + 1), "bytes after the last tensor are refused");
  demand(end == 0 || !is_accepted(header, end - 1), "a truncated file is refused");
  if (header.tensors.empty()) return;
  ++header.tensors.back().begin;
  demand(!is_accepted(header, end), "a wrong size is refused");
  ++header.tensors.back().end;
  demand(!is_accepted(header, end + 1), "a gap is refused");
}

template <class T>
void read(const TensorInfo& tensor, std::span<const std::byte> data)
{
  const auto bytes = data.subspan(tensor.begin, tensor.end - tensor.begin);
  std::vector<T> out(bytes.size() / bytes_of(tensor.type));
  demand(accepts([&] { decode<T>(tensor.type, bytes, out); }) == readable_as<T>(tensor.type),
         "readable elements are decoded");
}

}  // namespace

CUBIST_FUZZ_TARGET(safetensors)
{
  if (size < 8) return 0;
  const auto bytes = std::as_bytes(std::span{data, size});
  const auto first = bytes.first<8>();
  const std::string_view text{reinterpret_cast<const char*>(data) + 8, size - 8};
  accepts([&] {
    const auto length = safetensors_header_bytes(first, size, "file");
    const auto elements = bytes.subspan(8 + length);
    const auto header = parse_safetensors_header(text.substr(0, length), elements.size(), "file");
    check(header, elements.size());
    for (const auto& tensor : header.tensors)
    {
      read<float>(tensor, elements);
      read<double>(tensor, elements);
      read<std::complex<float>>(tensor, elements);
    }
  });
  accepts([&] {
    cubist::detail::SafetensorsJson json{text, "JSON"};
    check_in_order({std::move(json.metadata), std::move(json.tensors)});
  });
  return 0;
}
