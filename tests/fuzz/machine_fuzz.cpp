// SPDX-License-Identifier: BSD-3-Clause

// The input is the text of a machine's file.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cubist/machine/machine_json.hpp"

#include "fuzz.hpp"

using namespace cubist;
using cubist::fuzz::accepts;
using cubist::fuzz::demand;

namespace
{

/// Shortens the names of a machine and its links, which messages repeat in full.
nlohmann::json with_short_names(nlohmann::json machine)
{
  if (!machine.is_object()) return machine;
  if (machine.contains("machine")) machine["machine"] = with_short_names(machine["machine"]);
  if (machine.contains("name") && machine["name"].is_string()) machine["name"] = "machine";
  if (machine.contains("links") && machine["links"].is_array())
    for (auto& link : machine["links"])
      if (link.is_object() && link.contains("name") && link["name"].is_string())
        link["name"] = "link";
  return machine;
}

}  // namespace

CUBIST_FUZZ_TARGET(machine)
{
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  accepts([&] {
    const auto json = parse_json(text, "file", {"so nothing is known", "name a file", "mend it"});
    accepts<Error>([&] {
      const Machine machine = machine_from_json(with_short_names(json));
      demand(machine.on_the_cores(8) >= 1 && machine.cores_to_multiply({8, 8}) > 0,
             "ranks have cores");
      const auto written = to_json(machine);
      const bool accepted = accepts<Error>([&] {
        demand(to_json(machine_from_json(written)) == written,
               "a written machine is read as the same");
      });
      demand(accepted, "a written machine is accepted");
    });
  });
  return 0;
}
