// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Lists the types for which the compiled library has instances: every scheme of the catalogue,
// float and double, and the backends Threads, Simulated and Mpi. For Threads and Mpi it also has
// training, which no program simulates for long, and some schemes with a data axis.
//
// A header that defines such a function template lists its instances in a macro at its end, and
// passes it to one of the macros below:
//
//   #define CUBIST_LORA_INSTANCES(prefix, M, T) CUBIST_INSTANCE(prefix, detail::make_lora<T, M>)
//   CUBIST_FOR_MESH_SCALARS(CUBIST_LORA_INSTANCES)
//
// In a program that is linked to the library this declares them `extern`, so that the program does
// not compile them again; in others it is empty. cmake/CubistInstances.cmake finds these lines, and
// writes the library's sources. The same program compiles other schemes, scalars and backends from
// the headers.
//
// Most of these functions make an object and return it as a base class, which hides most of the
// library from the caller. None is inline, because a compiler reads the body of an inline function
// even if it is extern.

#include "cubist/core/compiled.hpp"

namespace cubist::CUBIST_ABI
{

struct Threads;
struct Simulated;
struct Mpi;
template <class Group>
class GroupCommunicator;
class HostEngine;
class SharedEngine;
class SimulatedEngine;

namespace detail
{

class ThreadGroup;
class SimulatedGroup;
class MpiGroup;

/// The communicators and engines of backends, whose headers a program may not include.
template <class B>
struct Named;
template <>
struct Named<Threads>
{
  using Communicator = GroupCommunicator<ThreadGroup>;
  using Engine = HostEngine;
};
template <>
struct Named<Simulated>
{
  using Communicator = GroupCommunicator<SimulatedGroup>;
  using Engine = SimulatedEngine;
};
template <>
struct Named<Mpi>
{
  using Communicator = GroupCommunicator<MpiGroup>;
  using Engine = SharedEngine;
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI

// clang-format off
/// Declares or defines an instance of a function that is not overloaded.
/// @param prefix `extern template` or `template`
/// @param ... the function, with its template arguments
#define CUBIST_INSTANCE(prefix, ...) prefix decltype(__VA_ARGS__) __VA_ARGS__;
/// Declares instances for both scalars.
#define CUBIST_EXTERN_SCALARS(instances, ...)                                                       \
  instances(extern template, __VA_ARGS__, float) instances(extern template, __VA_ARGS__, double)
/// Declares the instances of one mesh.
#define CUBIST_EXTERN_AXES(mesh, instances, B) instances(extern template, detail::mesh##Axes, B)
/// Declares the instances of one mesh and both scalars.
#define CUBIST_EXTERN_MESH(mesh, instances, B)                                                     \
  CUBIST_EXTERN_SCALARS(instances, detail::mesh##Mesh<B>)
/// Declares the instances of one scheme and both scalars.
#define CUBIST_EXTERN_SCHEME(S, instances, B) CUBIST_EXTERN_SCALARS(instances, S, B)
/// Declares the instances of a list of schemes or meshes, and of those with a data axis.
#define CUBIST_EXTERN_TRAINED(list, each, instances, B)                                            \
  CUBIST_COMPILED_##list(each, instances, B) CUBIST_COMPILED_DATA_##list(each, instances, B)
/// Declares instances on the backends that train.
#define CUBIST_FOR_TRAINED(list, each, instances)                                                  \
  CUBIST_IF_COMPILED(CUBIST_EXTERN_TRAINED(list, each, instances, Threads))                        \
  CUBIST_IF_COMPILED_MPI(CUBIST_EXTERN_TRAINED(list, each, instances, Mpi))
/// Declares instances on all backends.
#define CUBIST_FOR_ALL(list, each, instances)                                                      \
  CUBIST_FOR_TRAINED(list, each, instances)                                                        \
  CUBIST_IF_COMPILED(CUBIST_COMPILED_##list(each, instances, Simulated))

/// instances(prefix, B, T): a backend and a scalar.
#define CUBIST_FOR_BACKENDS(instances)                                                             \
  CUBIST_IF_COMPILED(CUBIST_EXTERN_SCALARS(instances, Threads)                                     \
                     CUBIST_EXTERN_SCALARS(instances, Simulated))                                  \
  CUBIST_IF_COMPILED_MPI(CUBIST_EXTERN_SCALARS(instances, Mpi))
/// instances(prefix, A, B): the axes of a scheme and a backend.
#define CUBIST_FOR_MESHES(instances) CUBIST_FOR_ALL(MESHES, CUBIST_EXTERN_AXES, instances)
/// instances(prefix, M, T): the mesh of a scheme and a scalar.
#define CUBIST_FOR_MESH_SCALARS(instances) CUBIST_FOR_ALL(MESHES, CUBIST_EXTERN_MESH, instances)
/// Like CUBIST_FOR_MESH_SCALARS, but for functions that only training needs.
#define CUBIST_FOR_TRAINED_MESHES(instances)                                                       \
  CUBIST_FOR_TRAINED(MESHES, CUBIST_EXTERN_MESH, instances)
/// instances(prefix, S, B, T): a scheme, a backend and a scalar.
#define CUBIST_FOR_SCHEMES(instances) CUBIST_FOR_ALL(SCHEMES, CUBIST_EXTERN_SCHEME, instances)
/// Like CUBIST_FOR_SCHEMES, but for functions that only training needs.
#define CUBIST_FOR_TRAINED_SCHEMES(instances)                                                      \
  CUBIST_FOR_TRAINED(SCHEMES, CUBIST_EXTERN_SCHEME, instances)
// clang-format on
