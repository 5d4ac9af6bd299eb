// SPDX-License-Identifier: BSD-3-Clause
// cubist's benchmarks, one subcommand each. Compare ratios within one run: machines are noisy.

#include <exception>
#include <functional>
#include <iostream>

#include <CLI/CLI.hpp>

#include "matmul.hpp"

int main(int argc, char** argv)
try
{
  CLI::App app{"cubist's benchmarks"};
  app.require_subcommand(1);
  std::function<void()> run;
  bench::add_matmul(app, run);
  CLI11_PARSE(app, argc, argv);
  run();
  return 0;
}
catch (const std::exception& e)
{
  std::cerr << "cubist_bench: " << e.what() << '\n';
  return 1;
}
