// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Reads the values of a command line strictly. CLI11 2.1 reads -1 as 2^64 - 1 and 010 as 8, takes
// 2^64 - 1 for any larger number, and drops the empty elements of a list ("8,,8").

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <system_error>

#include <CLI/CLI.hpp>

namespace cubist
{

namespace strict_options
{

/// Says what is wrong with the value of an option, or returns an empty string.
/// @param type  the type by CLI11's name: UINT, INT, FLOAT or TEXT
[[nodiscard]] inline std::string error_in_value(const std::string& type, const std::string& value)
{
  const auto error = [&](const char* why) { return "got \"" + value + "\", " + why; };
  if (value.empty()) return error("so there is nothing to use; give a value, or leave it out");
  if (type == "FLOAT" && !std::isfinite(std::strtod(value.c_str(), nullptr)))
    return error("which is not finite; use a number");
  if (type != "UINT" && type != "INT") return {};
  const bool is_negative = value.front() == '-';
  if (is_negative && type == "UINT")
    return error("which is negative, but the number counts something; use 0 or a positive number");
  const char* const begin = value.data() + (is_negative ? 1 : 0);
  const char* const end = value.data() + value.size();
  std::uint64_t number = 0;
  const auto [at, result] = std::from_chars(begin, end, number);
  if (at != end || begin == end || (*begin == '0' && end - begin > 1))
    return error("which is not a plain whole number; use only digits, without a leading 0");
  if (result == std::errc::result_out_of_range || (type == "INT" && number > INT64_MAX))
    return error("which does not fit in 64 bits; use a smaller number");
  return {};
}

/// Checks a count, which must be at least 1.
/// @param value  the value of an option that is read strictly
[[nodiscard]] inline std::string positive(const std::string& value)
{
  return value == "0" ? "got 0, so there would be none; use a positive number, or leave it out"
                      : "";
}

/// Adds the check of values to all options, and collects the names of those that take lists.
inline void check_values(CLI::App& app, std::set<std::string>& lists)
{
  for (CLI::Option* option : app.get_options())
  {
    std::string type = option->get_type_name();
    type = type.substr(0, type.find(':'));
    if (type == "UINT" || type == "INT" || type == "FLOAT" || type == "TEXT")
      option->check([type](const std::string& value) { return error_in_value(type, value); });
    if (option->get_delimiter() != '\0')
      for (const auto& name : option->get_lnames()) lists.insert("--" + name);
  }
  for (CLI::App* part : app.get_subcommands({})) check_values(*part, lists);
}

/// Checks that each list is given once, and that none of its elements is empty.
/// @throws CLI::ValidationError otherwise
inline void check_lists(const std::set<std::string>& lists, int argc, const char* const* argv)
{
  std::set<std::string> given;
  std::string list;  // the list whose values follow
  for (int i = 1; i < argc; ++i)
  {
    std::string value = argv[i];
    if (value.starts_with("--"))
    {
      const auto equals = value.find('=');
      list = value.substr(0, equals);
      if (equals + 1 == value.size())  // CLI11 would take the next argument
        throw CLI::ValidationError{list, "got nothing after \"=\", so there is nothing to use; "
                                         "give a value, or leave the option out"};
      if (!lists.contains(list)) list.clear();
      if (!list.empty() && !given.insert(list).second)
        throw CLI::ValidationError{
            list, "is given twice, so it is unclear which list counts; give all values at once"};
      if (equals == std::string::npos) continue;
      value = value.substr(equals + 1);
    }
    if (list.empty()) continue;
    if (value.empty() || value.front() == ',' || value.back() == ',' ||
        value.find(",,") != std::string::npos)
      throw CLI::ValidationError{list, "got \"" + value +
                                           "\", in which a value is missing; put one comma "
                                           "between two values"};
  }
}

}  // namespace strict_options

/// Makes the next parse of `app` strict.
/// @param app  a parser to which all options have been added
inline void parse_strictly(CLI::App& app, int argc, const char* const* argv)
{
  std::set<std::string> lists;
  strict_options::check_values(app, lists);
  // The checks run inside the parse, whose exceptions programs catch.
  app.preparse_callback(
      [lists, argc, argv](std::size_t) { strict_options::check_lists(lists, argc, argv); });
}

}  // namespace cubist
