// SPDX-License-Identifier: BSD-3-Clause
// npy read FILE...: prints a line for each file, with its header and elements, or the error.
// npy header TYPE ROWS COLS: prints the header of a matrix.
#include <complex>
#include <cstddef>
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cubist/io/npy_header.hpp"

namespace
{

using namespace cubist;

void print(double x) { std::cout << ' ' << x; }
void print(std::complex<double> x) { std::cout << ' ' << x.real() << ' ' << x.imag(); }

template <class T>
void print_elements(ElementType type, std::span<const std::byte> bytes)
{
  std::vector<T> elements(bytes.size() / bytes_of(type));
  decode<T>(type, bytes, elements);
  for (const T& element : elements) print(element);
}

void read(const std::string& path)
try
{
  std::ifstream stream{path, std::ios::binary};
  const std::string file{std::istreambuf_iterator{stream}, {}};
  const auto header =
      parse_npy_header(std::string_view{file}.substr(0, npy_header_limit), file.size(), path);
  std::cout << to_string(header.type) << ' ' << header.fortran_order << ' ' << header.data_offset
            << " (";
  for (const auto size : header.shape) std::cout << size << ',';
  std::cout << ')';
  const auto bytes = std::as_bytes(std::span{file}).subspan(header.data_offset);
  if (readable_as<double>(header.type)) print_elements<double>(header.type, bytes);
  if (readable_as<std::complex<double>>(header.type))
    print_elements<std::complex<double>>(header.type, bytes);
  std::cout << '\n';
}
catch (const DataError& error)
{
  std::cout << "refused: " << error.what() << '\n';
}

}  // namespace

int main(int argc, char** argv)
{
  const std::vector<std::string> words(argv + 1, argv + argc);
  std::cout.precision(17);
  if (words.size() == 4 && words[0] == "header")
    if (const auto type = element_type_named(words[1]))
    {
      std::cout << format_npy_header(*type, {std::stoul(words[2]), std::stoul(words[3])});
      return 0;
    }
  if (words.empty() || words[0] != "read") return 1;
  for (std::size_t i = 1; i < words.size(); ++i) read(words[i]);
}
