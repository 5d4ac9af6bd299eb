// SPDX-License-Identifier: BSD-3-Clause
#include <stdexcept>
#include <vector>

#include <cubist/backend/mpi.hpp>

int main(int argc, char** argv)
{
  return cubist::launch<cubist::Mpi>(argc, argv, {}, [](auto& world) {
    std::vector<int> ones{1};
    world.all_reduce(ones);
    if (ones[0] != world.size()) throw std::runtime_error{"all_reduce did not count the ranks"};
  });
}
