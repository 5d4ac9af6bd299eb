// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cstdio>
#include <string>

#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>

#include <cubist/backend/mpi.hpp>
#include <cubist/foreign/pgemm.hpp>

// Here the library has no BLACS. The program can catch its errors, and it reads the program's
// Mpi::options.
int main(int argc, char** argv)
{
  using cubist::Op;
  const boost::mpi::environment environment{argc, argv};
  cubist::Mpi::options.share_memory = false;
  const boost::mpi::communicator comm;
  const std::array<double, 4> a{1, 2, 3, 4};  // columns
  std::array<double, 4> c{};
  const cubist::BlockCyclic layout{.shape = {2, 2}, .block = {1, 1}};
  cubist::PgemmReport report;
  cubist::pgemm(comm, Op::none, Op::transpose, {2, 2, 2}, 1.0, {{layout}, a.data(), 2},
                {{layout}, a.data(), 2}, 0.0, {{layout}, c.data(), 2}, {.report = &report});
  cubist::padd(comm, Op::none, {2, 2}, 1.0, {{layout}, a.data(), 2}, 10.0, {{layout}, c.data(), 2});
  const bool is_right = c == std::array<double, 4>{101, 142, 143, 204};
  const bool is_scheme = report.chosen.find("in shared memory") == std::string::npos;
  bool throws = false;
  try
  {
    cubist::padd(comm, Op::none, {3, 2}, 1.0, {{layout}, a.data(), 2}, 0.0,
                 {{layout}, c.data(), 2});
  }
  catch (const cubist::ShapeError& e)
  {
    throws = true;
  }
  if (is_right && is_scheme && throws) return 0;
  std::printf("C is %g %g %g %g, %s, %s error\n", c[0], c[1], c[2], c[3], report.chosen.c_str(),
              throws ? "an" : "no");
  return 1;
}
