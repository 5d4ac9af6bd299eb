// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The dictionary in the header of a .npy file, a Python literal padded with spaces and a newline:
//
//   {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }
//
// Source: NumPy, numpy.lib.format.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/io/element_type.hpp"
#include "cubist/io/quote.hpp"

namespace cubist
{

struct NpyHeader
{
  ElementType type = ElementType::f64;
  bool fortran_order = false;  ///< column-major
  std::vector<std::uint64_t> shape;
  std::uint64_t data_offset = 0;  ///< of the first element in the file
};

namespace detail
{

/// NumPy's names without the byte order, in the order of ElementType; "" for types it lacks.
inline constexpr std::array<std::string_view, 17> npy_names{"b1", "u1", "i1", "",   "",   "u2",
                                                            "i2", "f2", "",   "u4", "i4", "f4",
                                                            "u8", "i8", "f8", "c8", "c16"};

/// Parses the dictionary, and evaluates no Python expressions.
class NpyDictionary
{
 public:
  NpyDictionary(std::string_view text, const std::string& file) : rest_{text}, file_{file} {}

  [[nodiscard]] NpyHeader parse()
  {
    NpyHeader header;
    bool has_type = false;
    bool has_order = false;
    bool has_shape = false;
    expect('{');
    while (!take('}'))
    {
      const std::string_view key = text();
      expect(':');
      if (key == "descr" && !std::exchange(has_type, true))
        header.type = type();
      else if (key == "fortran_order" && !std::exchange(has_order, true))
        header.fortran_order = boolean();
      else if (key == "shape" && !std::exchange(has_shape, true))
        header.shape = shape();
      else
        fail(quote(key), "each of descr, fortran_order and shape once");
      if (take(',')) continue;
      expect('}');
      break;
    }
    if (!has_type || !has_order || !has_shape) fail("too little", "descr, fortran_order and shape");
    skip(" \n");
    if (!rest_.empty()) fail(quote(rest_, 20), "nothing");
    return header;
  }

 private:
  void skip(std::string_view blanks)
  {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(blanks), rest_.size()));
  }

  bool take(char c)
  {
    skip(" ");
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char c)
  {
    if (!take(c)) fail(quote(rest_, 20), std::string{'\'', c, '\''});
  }

  std::string_view text()
  {
    skip(" ");
    const auto end = rest_.empty() ? rest_.npos : rest_.find(rest_[0], 1);
    if (end == rest_.npos || (rest_[0] != '\'' && rest_[0] != '"'))
      fail(quote(rest_, 20), "a text in quotes");
    const auto text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }

  bool boolean()
  {
    skip(" ");
    for (const bool value : {false, true})
    {
      const std::string_view word = value ? "True" : "False";
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    fail(quote(rest_, 20), "True or False");
  }

  ElementType type()
  {
    skip(" ");
    require<DataError>(!rest_.starts_with('['), "got ", file_,
                       " with records of several fields, which are no numbers, so there is no "
                       "matrix in it; save one field, as np.save(path, x['field'])");
    const std::string_view name = text();
    require<DataError>(!name.starts_with('>'), "got ", file_, " with elements ", quote(name),
                       ", whose bytes are in the wrong order for this machine; save "
                       "np.asarray(x, '<f8')");
    require<DataError>(name.find('O') == name.npos, "got ", file_,
                       " with Python objects, which only Python can read, by running what the file "
                       "says; save numbers, as np.asarray(x, '<f8')");
    const auto known =
        std::find(npy_names.begin(), npy_names.end(), name.substr(name.empty() ? 0 : 1));
    const auto type = static_cast<ElementType>(known - npy_names.begin());
    if (name.size() > 1 && known != npy_names.end() &&
        (name[0] == '<' || (name[0] == '|' && bytes_of(type) == 1)))
      return type;
    throw DataError{"got " + file_ + " with elements " + quote(name) +
                    ", which are no numbers that cubist knows; save np.asarray(x, '<f8')"};
  }

  std::vector<std::uint64_t> shape()
  {
    std::vector<std::uint64_t> sizes;
    expect('(');
    while (!take(')'))
    {
      skip(" ");
      std::uint64_t size = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc{}) fail(quote(rest_, 20), "a size of 64 bits");
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      sizes.push_back(size);
      if (take(',')) continue;
      expect(')');
      if (sizes.size() == 1) fail("a size in brackets", "a tuple, as (3,),");
      break;
    }
    return sizes;
  }

  [[noreturn]] void fail(const std::string& got, const std::string& wanted) const
  {
    throw DataError{
        "got " + file_ + " whose header has " + got + " where " + wanted +
        " belongs, so it is damaged or no .npy file; save the matrix anew with np.save"};
  }

  std::string_view rest_;
  const std::string& file_;
};

}  // namespace detail

}  // namespace cubist
