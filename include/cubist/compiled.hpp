// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What the compiled library has: the instances of the functions below for every scheme of the
// catalogue, float and double, and the backends Threads, Simulated and Mpi.
//
// In a program that is linked to cubist::compiled the macro CUBIST_COMPILED is defined, and
// cubist.hpp includes this header, which declares the instances `extern`, so that the program does
// not compile them again. CUBIST_COMPILED_MPI, of cubist::compiled_mpi, declares those for Mpi.
// Other schemes, scalars and backends are compiled from the headers, in the same program, too.
//
// Most of these functions make an object of which the caller knows only a base: behind them is most
// of the library. None is inline, because a compiler reads the body of an inline function, whether
// it is extern or not.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "cubist/dist/global.hpp"
#include "cubist/mesh/mesh.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/scheme/catalogue.hpp"
#include "cubist/version.hpp"
#ifdef CUBIST_COMPILED
#include "cubist/compiled_schemes.hpp"  // CUBIST_COMPILED_SCHEMES, written by CMake beside the library
#endif

#if defined(CUBIST_COMPILED) && CUBIST_COMPILED != CUBIST_VERSION
#error                                                                                             \
    "the library cubist_compiled has another version than cubist's headers, so its functions may \
differ from theirs; take both from one release"
#endif

namespace cubist::CUBIST_ABI
{

struct Threads;
struct Simulated;
struct Mpi;
class MpiCommunicator;
struct TransformerConfig;
struct TransformerOptions;
template <class Group>
class GroupCommunicator;

namespace detail
{

class ThreadGroup;
class SimulatedGroup;

template <SchemeType S, class B, RealScalar T>
std::unique_ptr<AnyLayer<DistMatrix<T, typename S::Input, AxisMesh<typename S::Axes, B>>, T>>
make_block(const AxisMesh<typename S::Axes, B>& mesh, const TransformerConfig& config,
           const TransformerOptions& options, std::size_t i);

/// The communicators of backends that this header does not include.
template <class B>
struct CommunicatorNamed;
template <>
struct CommunicatorNamed<Threads>
{
  using type = GroupCommunicator<ThreadGroup>;
};
template <>
struct CommunicatorNamed<Simulated>
{
  using type = GroupCommunicator<SimulatedGroup>;
};
template <>
struct CommunicatorNamed<Mpi>
{
  using type = MpiCommunicator;
};

}  // namespace detail

// clang-format off
/// The instances for the mesh of a scheme on a backend.
#define CUBIST_MESH_INSTANCES(prefix, S, B)                                                        \
  prefix std::shared_ptr<detail::MeshState<S::Axes, B>> detail::make_mesh_state<S::Axes, B>(       \
      const detail::CommunicatorNamed<B>::type&, const S::Axes::Array&, std::size_t, IdleRanks);   \
  prefix detail::CommunicatorNamed<B>::type& detail::group_of_axes<S::Axes, B>(                    \
      detail::MeshState<S::Axes, B>&, unsigned);                                                   \
  prefix Shape detail::broadcast_extents<AxisMesh<S::Axes, B>>(                                    \
      const AxisMesh<S::Axes, B>&, detail::Extents);

/// The instances for a scheme, a backend and a scalar.
#define CUBIST_SCALAR_INSTANCES(prefix, S, B, T)                                                   \
  prefix void detail::scatter_blocks<T, AxisMesh<S::Axes, B>>(                                     \
      MatrixView<const T>, const DistView<T, AxisMesh<S::Axes, B>>&);                              \
  prefix xt::xtensor<T, 2> gather<T, AxisMesh<S::Axes, B>>(                                        \
      const DistView<T, AxisMesh<S::Axes, B>>&);                                                   \
  prefix std::shared_ptr<Gradients<T, AxisMesh<S::Axes, B>>>                                       \
      detail::make_gradients<T, AxisMesh<S::Axes, B>>(const AxisMesh<S::Axes, B>&);                \
  prefix detail::MadePlan<T> detail::make_product_plan<S, B, T, Op::none, Op::none>(               \
      const AxisMesh<S::Axes, B>&, ProductSize, ProductQuanta, Gathered, bool);                    \
  prefix detail::MadePlan<T> detail::make_product_plan<S, B, T, Op::none, Op::transpose>(          \
      const AxisMesh<S::Axes, B>&, ProductSize, ProductQuanta, Gathered, bool);                    \
  prefix std::unique_ptr<detail::AnyLayer<NetworkMatrix<S, B, T>, T>>                              \
      detail::make_mlp_layer<S, B, T>(                                                             \
          const AxisMesh<S::Axes, B>&, const std::vector<std::size_t>&, const MlpOptions&,         \
          std::size_t);                                                                            \
  prefix LossValue mean_squared_error<S, B, T, NetworkMatrix<S, B, T>>(                            \
      const NetworkMatrix<S, B, T>&, const NetworkMatrix<S, B, T>&, NetworkMatrix<S, B, T>&);      \
  prefix LossValue softmax_cross_entropy<S, B, T>(                                                 \
      const NetworkMatrix<S, B, T>&, std::span<const int>, NetworkMatrix<S, B, T>&);               \
  prefix std::unique_ptr<                                                                          \
      detail::AnyLayer<DistMatrix<T, S::Input, AxisMesh<S::Axes, B>>, T>>                          \
      detail::make_block<S, B, T>(                                                                 \
          const AxisMesh<S::Axes, B>&, const TransformerConfig&, const TransformerOptions&,        \
          std::size_t);

/// All instances for a scheme and a backend.
#define CUBIST_INSTANCES(prefix, S, B)                                                             \
  CUBIST_MESH_INSTANCES(prefix, S, B)                                                              \
  CUBIST_SCALAR_INSTANCES(prefix, S, B, float)                                                     \
  CUBIST_SCALAR_INSTANCES(prefix, S, B, double)
// clang-format on

#ifdef CUBIST_COMPILED
#define CUBIST_EXTERN(S)                                                                           \
  CUBIST_INSTANCES(extern template, S, Threads)                                                    \
  CUBIST_INSTANCES(extern template, S, Simulated)
CUBIST_COMPILED_SCHEMES(CUBIST_EXTERN)
#undef CUBIST_EXTERN

#ifdef CUBIST_COMPILED_MPI
#define CUBIST_EXTERN(S) CUBIST_INSTANCES(extern template, S, Mpi)
CUBIST_COMPILED_SCHEMES(CUBIST_EXTERN)
#undef CUBIST_EXTERN
#endif
#endif

}  // namespace cubist::CUBIST_ABI
