// SPDX-License-Identifier: BSD-3-Clause
// files FROM TO: loads FROM/*.npy, FROM/weights.safetensors and, transposed, FROM/torch.safetensors
// on 8 ranks, and saves them in TO.
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "cubist/backend/threads.hpp"
#include "cubist/io/npy.hpp"
#include "cubist/io/safetensors.hpp"
#include "cubist/scheme/summa25d.hpp"

using namespace cubist;

int main(int, char** argv)
try
{
  const std::filesystem::path from = argv[1];
  const std::filesystem::path to = argv[2];
  return launch<Threads>({.ranks = 8}, [&](ThreadsCommunicator& world) {
    const Mesh<Summa25D, Threads> mesh{world};
    for (const auto& file : std::filesystem::directory_iterator{from})
      if (file.path().extension() == ".npy")
        save_npy(to / file.path().filename(),
                 load_npy<Summa25D::Weight, double>(mesh, file.path()));

    using M = AxisMesh<Summa25D::Axes, Threads>;
    for (const auto order : {WeightOrder::in_out, WeightOrder::out_in})
    {
      DistMatrix<float, Summa25D::Weight, M> weight{mesh, {37, 11}};
      DistMatrix<float, RowVector<Summa25D::Output>, M> bias{mesh, {1, 11}};
      const std::vector<NamedMatrix<float, M>> all{{"weight", weight.view()},
                                                   {"bias", bias.view()}};
      const auto name = order == WeightOrder::in_out ? "weights.safetensors" : "torch.safetensors";
      SafetensorsFile{from / name}.load(all, order);
      save_safetensors(to / name, all, {{"step", "7"}});
    }
  });
}
catch (const std::exception& e)
{
  std::cerr << e.what() << '\n';
  return 1;
}
