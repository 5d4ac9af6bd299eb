// SPDX-License-Identifier: BSD-3-Clause
#include <vector>

#include <nlohmann/json.hpp>

#include "cubist/training/run_log.hpp"

#include "catch.hpp"
#include "folder.hpp"

namespace cubist::test::run_log_test
{

TEST_CASE("a log has a line of JSON for each step")
{
  const Folder folder;
  const auto file = folder / "deep" / "run.jsonl";
  {
    RunLog log{file};
    const std::vector<NamedValue> values{{"loss", 0.1}, {"say \"\\\n", 3e-300}};
    log.append(1, values);
  }
  RunLog log{file};
  const std::vector<NamedValue> values{{"loss", std::numeric_limits<double>::quiet_NaN()}};
  log.append(2, values);
  const std::string text = contents(file);
  CHECK(text == "{\"step\":1,\"loss\":0.1,\"say \\\"\\\\\\n\":3e-300}\n"
                "{\"step\":2,\"loss\":null}\n");
  const auto first = nlohmann::json::parse(text.substr(0, text.find('\n')));
  CHECK(first["loss"].get<double>() == 0.1);
}

TEST_CASE("a log ends the line that a killed run has left incomplete")
{
  const Folder folder;
  write_contents(folder / "run.jsonl", "{\"step\": 1}\n{\"ste");
  RunLog log{folder / "run.jsonl"};
  log.append(2, {});
  CHECK(contents(folder / "run.jsonl") == "{\"step\": 1}\n{\"ste\n{\"step\":2}\n");
  write_contents(folder / "run.jsonl", "{");
  RunLog{folder / "run.jsonl"}.append(1, {});
  CHECK(contents(folder / "run.jsonl") == "{\n{\"step\":1}\n");
}

TEST_CASE("a log that cannot be written is an error, and one without a file writes nothing")
{
  const Folder folder;
  CHECK_THROWS_WITH(RunLog{folder.path()},
                    Catch::Matchers::ContainsSubstring("cannot write") &&
                        Catch::Matchers::ContainsSubstring("so the log of the run"));
  RunLog{}.append(1, {});
}

}  // namespace cubist::test::run_log_test
