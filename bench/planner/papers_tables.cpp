// SPDX-License-Identifier: BSD-3-Clause

#include <utility>

#include "planner/papers_tables.hpp"

namespace bench
{

namespace
{

/// Makes a row from the seconds of a step.
PaperRow of_steps(std::string scheme, std::vector<int> mesh, std::size_t sequences, double forward,
                  double backward, double step, std::string machine, int tile = 1)
{
  const double n = static_cast<double>(sequences);
  return {std::move(scheme),  std::move(mesh),
          sequences,          forward / n,
          backward / n,       step,
          std::move(machine), tile};
}

/// Makes a row of Tesseract's tables, which give the seconds of a sequence.
PaperRow on_meluxina(std::string scheme, std::vector<int> mesh, std::size_t sequences,
                     double forward, double backward)
{
  return {std::move(scheme), std::move(mesh),    sequences,       forward,
          backward,          forward + backward, "meluxina_a100", 1};
}

}  // namespace

std::vector<Paper> all_papers()
{
  const std::string frontera = "frontera_rtx";
  const std::string longhorn = "longhorn_v100";
  const auto megatron = [](const std::string& machine) {
    return of_steps("Megatron1D", {64}, 30, 13.915, 32.890, 1.560, machine);
  };
  // Optimus puts 2 x 2 ranks on a node (--rank-rearrange).
  const auto optimus = [](const std::string& machine) {
    return of_steps("Summa2D", {8, 8}, 384, 99.419, 304.707, 1.052, machine, 2);
  };
  // The table gives 125.037 s for backward, but that does not fit the step's time, which is the
  // paper's result. So backward is what forward leaves of the step.
  const PaperRow cube =
      of_steps("Cube3D", {4, 4, 4}, 384, 79.349, 0.672 * 384 - 79.349, 0.672, longhorn);
  return {{"optimus",
           "Optimus, arXiv 2104.05343, by table 2 of arXiv 2105.14450",
           8192,
           128,
           {megatron(frontera), optimus(frontera)}},
          {"tesseract",
           "Tesseract, arXiv 2105.14500, strong scaling, 64 GPUs",
           3072,
           64,
           {on_meluxina("Megatron1D", {64}, 12, 0.1195, 0.5306),
            on_meluxina("Summa2D", {8, 8}, 12, 0.1329, 0.3986),
            on_meluxina("Summa25D", {4, 4, 4}, 16, 0.0869, 0.2636)}},
          {"tesseract-16",
           "Tesseract, strong scaling, 16 GPUs",
           3072,
           64,
           {on_meluxina("Megatron1D", {16}, 12, 0.1143, 0.4293),
            on_meluxina("Summa2D", {4, 4}, 12, 0.2099, 0.6159),
            on_meluxina("Summa25D", {1, 4, 4}, 12, 0.1444, 0.4343)}},
          {"tesseract-4",
           "Tesseract, strong scaling, 4 GPUs of one node",
           3072,
           64,
           {on_meluxina("Megatron1D", {4}, 12, 0.1225, 0.4749),
            on_meluxina("Summa2D", {2, 2}, 12, 0.1676, 0.5019),
            on_meluxina("Summa25D", {1, 2, 2}, 12, 0.1666, 0.5014)}},
          {"3d",
           "3D, arXiv 2105.14450, table 2, all rows on one machine",
           8192,
           128,
           {megatron(longhorn), optimus(longhorn), cube}},
          {"3d-mixed",
           "3D, arXiv 2105.14450, table 2, 1D and 2D on the machine of Optimus",
           8192,
           128,
           {megatron(frontera), optimus(frontera), cube}}};
}

}  // namespace bench
