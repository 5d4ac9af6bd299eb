// SPDX-License-Identifier: BSD-3-Clause
// Replaces scalapack.cpp where ScaLAPACK was not found.

#include "scalapack/scalapack.hpp"

namespace bench
{

bool has_scalapack() { return false; }

BlacsGrid::BlacsGrid(int ranks)
    : shape_{ranks}
{
}
BlacsGrid::~BlacsGrid() = default;

template <class T>
void scalapack_multiply(const BlacsGrid&, cubist::ProductSize, std::size_t, const std::vector<T>&,
                        const std::vector<T>&, std::vector<T>&, bool, void*)
{
}

template <class T>
void scalapack_triangle(const BlacsGrid&, const std::string&, cubist::ProductSize, std::size_t,
                        const std::vector<T>&, const std::vector<T>&, std::vector<T>&)
{
}

template void scalapack_triangle(const BlacsGrid&, const std::string&, cubist::ProductSize,
                                 std::size_t, const std::vector<float>&, const std::vector<float>&,
                                 std::vector<float>&);
template void scalapack_triangle(const BlacsGrid&, const std::string&, cubist::ProductSize,
                                 std::size_t, const std::vector<double>&,
                                 const std::vector<double>&, std::vector<double>&);
template void scalapack_multiply(const BlacsGrid&, cubist::ProductSize, std::size_t,
                                 const std::vector<float>&, const std::vector<float>&,
                                 std::vector<float>&, bool, void*);
template void scalapack_multiply(const BlacsGrid&, cubist::ProductSize, std::size_t,
                                 const std::vector<double>&, const std::vector<double>&,
                                 std::vector<double>&, bool, void*);

}  // namespace bench
