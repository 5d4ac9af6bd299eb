// SPDX-License-Identifier: BSD-3-Clause

// Checks that a checkpoint that is saved in the background has the state at the call, although the
// program changes the state at once. It uses all GPUs of this machine, or under mpiexec the
// processes, which may share GPUs.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <string>
#include <system_error>

#include <unistd.h>

#include "cubist/core/host_device.hpp"
#include "cubist/io/checkpoints.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/scheme/summa25d.hpp"

#include "checks.hpp"
#include "gpus.hpp"

using namespace cubist;
using namespace cubist::test;

namespace
{

/// Elements that differ from step to step.
struct StepNumbers
{
  std::uint64_t step;
  CUBIST_HOST_DEVICE float operator()(std::size_t i, std::size_t j) const
  {
    return static_cast<float>(step) + static_cast<float>((7 * i + j) % 1009) / 1009;
  }
};

/// The bytes of a checkpoint.
std::string bytes_of_file(const std::filesystem::path& path)
{
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

}  // namespace

void cubist::test::check_saves(Comparison& found)
{
  using examples::Gpus;
  using M = AxisMesh<Summa25D::Axes, Gpus>;
  // The folder has a name that all processes know, and is on the one machine of this test.
  const auto number = Gpus::are_processes() ? ::getppid() : ::getpid();
  const auto folder =
      std::filesystem::temp_directory_path() / ("cubist-saves-" + std::to_string(number));
  launch<Gpus>({}, [&](auto& world) {
    const Mesh<Summa25D, Gpus> mesh{world};
    constexpr Shape shape{3001, 2003};  // so that a copy takes some time, and shards have padding
    DistMatrix<float, Summa25D::Input, M> x{mesh, shape};
    const State<float, M> state{.matrices = {{"x", x.view()}}, .numbers = {}, .accumulators = {}};
    Checkpoints at_once{mesh, folder / "save"};
    Checkpoints beside{mesh, folder / "background"};
    // The first save also pins the memory. The later ones finish those before them.
    for (std::uint64_t step = 1; step <= 4; ++step)
    {
      x.generate(StepNumbers{step});
      at_once.save(step, state);
      beside.save_in_background(step, state);
      x.generate(StepNumbers{0});
      if (step == 1) beside.wait();
    }
    beside.wait();
    if (mesh.rank() != 0) return;
    for (std::uint64_t step = 1; step <= 4; ++step)
    {
      const auto expected = bytes_of_file(at_once.file(step));
      found.check(expected.size() > shape.size() * sizeof(float), "a file is incomplete");
      found.check(bytes_of_file(beside.file(step)) == expected,
                  "the state in the checkpoint of step " + std::to_string(step));
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  });
}
