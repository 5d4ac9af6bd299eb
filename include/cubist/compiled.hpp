// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What the compiled library has: the instances of the functions below for every scheme of the
// catalogue, float and double, and the backends Threads, Simulated and Mpi. For training, which no
// program simulates for long, it has instances on Threads and Mpi, and some schemes with a data
// axis.
//
// In a program that is linked to cubist::compiled the macro CUBIST_COMPILED is defined, and this
// header, which cubist.hpp includes, declares the instances `extern`, so that the program does not
// compile them again. CUBIST_COMPILED_MPI, of cubist::compiled_mpi, declares those for Mpi.
// Without the macro this header is empty. Other schemes, scalars and backends are compiled from
// the headers, in the same program, too.
//
// Most of these functions make an object of which the caller knows only a base class, which hides
// most of the library from the caller. None is inline, because a compiler reads the body of an
// inline function, whether it is extern or not.
//
// The macro CUBIST_COMPILED_INSTANCES asks for the lists of instances alone, for a program that
// compiles some of them once for several of its sources, as cubist's tests do.

#if defined CUBIST_COMPILED || defined CUBIST_COMPILED_INSTANCES

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cubist/compiled_loops.hpp"
#include "cubist/dist/global.hpp"
#include "cubist/dist/gradient_reducer.hpp"
#include "cubist/mesh/mesh.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/parameter.hpp"
#include "cubist/scheme/catalogue.hpp"
#include "cubist/version.hpp"

#ifdef CUBIST_COMPILED
#include "cubist/compiled_schemes.hpp"  // CUBIST_COMPILED_SCHEMES, written by CMake beside the library
#if CUBIST_COMPILED != CUBIST_VERSION
#error                                                                                             \
    "the library cubist_compiled has another version than cubist's headers, so its functions may \
differ from theirs; take both from one release"
#endif
#endif

namespace cubist::CUBIST_ABI
{

struct Threads;
struct Simulated;
struct Mpi;
class MpiCommunicator;
struct GenerateOptions;
struct ParameterGroup;
struct SaveWeightsOptions;
struct TrainerOptions;
struct TransformerConfig;
struct TransformerOptions;
template <NetworkScheme S, class B, RealScalar T>
class Transformer;
template <class T, class M>
struct State;
template <class Group>
class GroupCommunicator;
class HostEngine;
class SharedEngine;
class SimulatedEngine;
template <RealScalar T, class E>
class LocalAttention;

template <class T, class M>
void check_finite(double loss, const Parameters<T, M>& parameters, std::uint64_t step);
template <class T, class M>
void check_replicas(const Parameters<T, M>& parameters);
template <class T, class M>
void check_replicas_of_values(const Parameters<T, M>& parameters);
template <RealScalar T, class M>
double gradient_norm(const Parameters<T, M>& parameters);
template <RealScalar T, class M>
double clip_gradients(const Parameters<T, M>& parameters, double most);

namespace detail
{

class ThreadGroup;
class SimulatedGroup;

template <SchemeType S, class B, RealScalar T>
std::unique_ptr<AnyLayer<DistMatrix<T, typename S::Input, AxisMesh<typename S::Axes, B>>, T>>
make_block(const AxisMesh<typename S::Axes, B>& mesh, const TransformerConfig& config,
           const TransformerOptions& options, std::size_t i);

template <SchemeType S, class B, RealScalar T>
class AnyTransformer;
template <SchemeType S, class B, RealScalar T>
std::unique_ptr<AnyTransformer<S, B, T>> make_transformer(const AxisMesh<typename S::Axes, B>& mesh,
                                                          const TransformerConfig& config,
                                                          const TransformerOptions& options);

template <class Model>
std::vector<std::vector<int>> continue_prompts(Model& model,
                                               std::span<const std::vector<int>> prompts,
                                               const GenerateOptions& options);

class ParameterSets;
template <class T, class M>
ParameterSets sets_of(const Parameters<T, M>& parameters, const std::vector<ParameterGroup>& groups,
                      bool separate);
template <class T, class M>
struct Moments;
template <class T, class M>
struct Weights;
template <class T, class M>
void append_moments(Moments<T, M>& moments, const Parameters<T, M>& parameters,
                    const std::string& name);
template <class T, class M>
void append_moments_to_state(Moments<T, M>& moments, State<T, M>& state, const std::string& prefix);
template <class T, class M, class Update, class First, class... Rest>
void update_weights(Weights<T, M>& weights, const Parameters<T, M>& parameters,
                    const std::function<Update(std::size_t)>& make_update, First& first,
                    Rest&... rest);

template <RealScalar T, class M>
class AnyGradientAccumulator;
template <RealScalar T, class M>
std::unique_ptr<AnyGradientAccumulator<T, M>> make_accumulator(const M& mesh, std::size_t count,
                                                               GradientReducer<T, M>& next);
template <RealScalar T, class M>
class AnyShardedGradients;
template <RealScalar T, class M>
std::unique_ptr<AnyShardedGradients<T, M>> make_sharded_gradients(const Parameters<T, M>& whole,
                                                                  std::size_t micro_batches);
template <RealScalar T, class M>
class LoopOptimizer;
template <RealScalar T, class M>
class AnyTrainingLoop;
template <RealScalar T, class M>
std::unique_ptr<AnyTrainingLoop<T, M>>
make_training_loop(const Parameters<T, M>& parameters, const State<T, M>& state,
                   std::unique_ptr<LoopOptimizer<T, M>> optimizer, const TrainerOptions& options);

template <Scalar T, class M>
void save_checkpoint(const M& mesh, const std::string& folder, std::size_t keep, std::uint64_t step,
                     const State<T, M>& state);
template <Scalar T, class M>
void load_checkpoint(const std::string& file, const State<T, M>& state);
template <class T, class M>
void write_weights(const std::string& folder, const Parameters<T, M>& parameters,
                   const TransformerConfig& config, const SaveWeightsOptions& options);

template <RealScalar T, class E>
void attend(LocalAttention<T, E>& attention, const AttentionShape& s,
            const std::optional<AttentionDropout>& dropout, MatrixView<const T> q,
            MatrixView<const T> k, MatrixView<const T> v, MatrixView<T> o, MatrixView<T> l);
template <RealScalar T, class E>
void attend_run(LocalAttention<T, E>& attention, const AttentionShape& s, const AttentionRun& run,
                const std::optional<AttentionDropout>& dropout, MatrixView<const T> q,
                MatrixView<const T> k, MatrixView<const T> v, MatrixView<T> o, MatrixView<T> max,
                MatrixView<T> sum);
template <RealScalar T, class E>
void finish_runs(LocalAttention<T, E>& attention, const AttentionShape& s, MatrixView<T> o,
                 MatrixView<T> max, MatrixView<T> sum, MatrixView<T> l);
template <RealScalar T, class E>
void attend_back(LocalAttention<T, E>& attention, const AttentionShape& s, const AttentionRun* run,
                 const std::optional<AttentionDropout>& dropout, MatrixView<const T> q,
                 MatrixView<const T> k, MatrixView<const T> v, MatrixView<const T> o,
                 MatrixView<const T> l, MatrixView<const T> d_o, MatrixView<T> dq, MatrixView<T> dk,
                 MatrixView<T> dv);

/// The communicators and engines of backends that this header does not include.
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
  using Communicator = MpiCommunicator;
  using Engine = SharedEngine;
};

}  // namespace detail

// clang-format off
/// The instances for a backend and a scalar, of any scheme.
#define CUBIST_BACKEND_SCALAR_INSTANCES(prefix, B, T)                                              \
  prefix std::unique_ptr<ProductPlan<T>>                                                           \
      detail::make_direct_product<T, detail::Named<B>::Communicator, detail::Named<B>::Engine>(    \
          detail::Named<B>::Communicator&, const detail::Named<B>::Engine&, Ops,                   \
          const detail::Placement&, const detail::Placement&, const detail::Placement&);           \
  prefix std::unique_ptr<ProductPlan<T>>                                                           \
      detail::make_summa_plan<T, detail::Named<B>::Communicator, detail::Named<B>::Engine>(        \
          detail::Named<B>::Communicator&, detail::Named<B>::Communicator&, bool,                  \
          const detail::Named<B>::Engine&, Stationary, const LocalShapes&, Ops);                   \
  prefix std::unique_ptr<ProductPlan<T>>                                                           \
      detail::make_gather_plan<T, detail::Named<B>::Communicator, detail::Named<B>::Engine>(       \
          const detail::GatherAxes<detail::Named<B>::Communicator>&,                               \
          const detail::Named<B>::Engine&, const LocalShapes&, Ops, Gathered);                     \
  CUBIST_ATTENTION_INSTANCES(prefix, detail::Named<B>::Engine, T)

/// What attention computes on an engine.
#define CUBIST_ATTENTION_INSTANCES(prefix, E, T)                                                   \
  prefix void detail::attend<T, E>(                                                                \
      LocalAttention<T, E>&, const AttentionShape&, const std::optional<AttentionDropout>&,        \
      MatrixView<const T>, MatrixView<const T>, MatrixView<const T>, MatrixView<T>,                \
      MatrixView<T>);                                                                              \
  prefix void detail::attend_run<T, E>(                                                            \
      LocalAttention<T, E>&, const AttentionShape&, const AttentionRun&,                           \
      const std::optional<AttentionDropout>&, MatrixView<const T>, MatrixView<const T>,            \
      MatrixView<const T>, MatrixView<T>, MatrixView<T>, MatrixView<T>);                           \
  prefix void detail::finish_runs<T, E>(                                                           \
      LocalAttention<T, E>&, const AttentionShape&, MatrixView<T>, MatrixView<T>, MatrixView<T>,   \
      MatrixView<T>);                                                                              \
  prefix void detail::attend_back<T, E>(                                                           \
      LocalAttention<T, E>&, const AttentionShape&, const AttentionRun*,                           \
      const std::optional<AttentionDropout>&, MatrixView<const T>, MatrixView<const T>,            \
      MatrixView<const T>, MatrixView<const T>, MatrixView<const T>, MatrixView<const T>,          \
      MatrixView<T>, MatrixView<T>, MatrixView<T>);

/// The instances for the mesh of a scheme on a backend and a scalar.
#define CUBIST_MESH_SCALAR_INSTANCES(prefix, S, B, T)                                              \
  prefix void detail::scatter_blocks<T, AxisMesh<S::Axes, B>>(                                     \
      MatrixView<const T>, const DistView<T, AxisMesh<S::Axes, B>>&);                              \
  prefix xt::xtensor<T, 2> gather<T, AxisMesh<S::Axes, B>>(                                        \
      const DistView<T, AxisMesh<S::Axes, B>>&);                                                   \
  prefix std::shared_ptr<Gradients<T, AxisMesh<S::Axes, B>>>                                       \
      detail::make_gradients<T, AxisMesh<S::Axes, B>>(const AxisMesh<S::Axes, B>&);

/// The instances for the mesh of a scheme on a backend, which depend only on the axes of the
/// scheme.
#define CUBIST_MESH_INSTANCES(prefix, S, B)                                                        \
  prefix std::shared_ptr<detail::MeshState<S::Axes, B>> detail::make_mesh_state<S::Axes, B>(       \
      const detail::Named<B>::Communicator&, const S::Axes::Array&, std::size_t, IdleRanks);       \
  prefix detail::Named<B>::Communicator& detail::group_of_axes<S::Axes, B>(                        \
      detail::MeshState<S::Axes, B>&, unsigned);                                                   \
  prefix Shape detail::broadcast_extents<AxisMesh<S::Axes, B>>(                                    \
      const AxisMesh<S::Axes, B>&, detail::Extents);                                               \
  CUBIST_MESH_SCALAR_INSTANCES(prefix, S, B, float)                                                \
  CUBIST_MESH_SCALAR_INSTANCES(prefix, S, B, double)

/// The instances for training on the mesh of a scheme, on a backend and with a scalar.
#define CUBIST_TRAINING_SCALAR_INSTANCES(prefix, S, B, T)                                          \
  prefix detail::ParameterSets detail::sets_of<T, AxisMesh<S::Axes, B>>(                           \
      const Parameters<T, AxisMesh<S::Axes, B>>&, const std::vector<ParameterGroup>&, bool);       \
  prefix void detail::append_moments<T, AxisMesh<S::Axes, B>>(                                     \
      detail::Moments<T, AxisMesh<S::Axes, B>>&, const Parameters<T, AxisMesh<S::Axes, B>>&,       \
      const std::string&);                                                                         \
  prefix void detail::append_moments_to_state<T, AxisMesh<S::Axes, B>>(                            \
      detail::Moments<T, AxisMesh<S::Axes, B>>&, State<T, AxisMesh<S::Axes, B>>&,                  \
      const std::string&);                                                                         \
  prefix void detail::update_weights<T, AxisMesh<S::Axes, B>, detail::SgdUpdate<T>,                \
                                     detail::Moments<T, AxisMesh<S::Axes, B>>>(                    \
      detail::Weights<T, AxisMesh<S::Axes, B>>&, const Parameters<T, AxisMesh<S::Axes, B>>&,       \
      const std::function<detail::SgdUpdate<T>(std::size_t)>&,                                     \
      detail::Moments<T, AxisMesh<S::Axes, B>>&);                                                  \
  prefix void detail::update_weights<T, AxisMesh<S::Axes, B>, detail::AdamUpdate<T>,               \
                                     detail::Moments<T, AxisMesh<S::Axes, B>>,                     \
                                     detail::Moments<T, AxisMesh<S::Axes, B>>>(                    \
      detail::Weights<T, AxisMesh<S::Axes, B>>&, const Parameters<T, AxisMesh<S::Axes, B>>&,       \
      const std::function<detail::AdamUpdate<T>(std::size_t)>&,                                    \
      detail::Moments<T, AxisMesh<S::Axes, B>>&, detail::Moments<T, AxisMesh<S::Axes, B>>&);       \
  prefix double gradient_norm<T, AxisMesh<S::Axes, B>>(                                            \
      const Parameters<T, AxisMesh<S::Axes, B>>&);                                                 \
  prefix double clip_gradients<T, AxisMesh<S::Axes, B>>(                                           \
      const Parameters<T, AxisMesh<S::Axes, B>>&, double);                                         \
  prefix void check_finite<T, AxisMesh<S::Axes, B>>(                                               \
      double, const Parameters<T, AxisMesh<S::Axes, B>>&, std::uint64_t);                          \
  prefix void check_replicas<T, AxisMesh<S::Axes, B>>(                                             \
      const Parameters<T, AxisMesh<S::Axes, B>>&);                                                 \
  prefix void check_replicas_of_values<T, AxisMesh<S::Axes, B>>(                                   \
      const Parameters<T, AxisMesh<S::Axes, B>>&);                                                 \
  prefix std::unique_ptr<detail::AnyGradientAccumulator<T, AxisMesh<S::Axes, B>>>                  \
      detail::make_accumulator<T, AxisMesh<S::Axes, B>>(                                           \
          const AxisMesh<S::Axes, B>&, std::size_t, GradientReducer<T, AxisMesh<S::Axes, B>>&);    \
  prefix std::unique_ptr<detail::AnyShardedGradients<T, AxisMesh<S::Axes, B>>>                     \
      detail::make_sharded_gradients<T, AxisMesh<S::Axes, B>>(                                     \
          const Parameters<T, AxisMesh<S::Axes, B>>&, std::size_t);                                \
  prefix std::unique_ptr<detail::AnyTrainingLoop<T, AxisMesh<S::Axes, B>>>                         \
      detail::make_training_loop<T, AxisMesh<S::Axes, B>>(                                         \
          const Parameters<T, AxisMesh<S::Axes, B>>&, const State<T, AxisMesh<S::Axes, B>>&,       \
          std::unique_ptr<detail::LoopOptimizer<T, AxisMesh<S::Axes, B>>>,                         \
          const TrainerOptions&);                                                                  \
  prefix void detail::save_checkpoint<T, AxisMesh<S::Axes, B>>(                                    \
      const AxisMesh<S::Axes, B>&, const std::string&, std::size_t, std::uint64_t,       \
      const State<T, AxisMesh<S::Axes, B>>&);                                                      \
  prefix void detail::load_checkpoint<T, AxisMesh<S::Axes, B>>(                                    \
      const std::string&, const State<T, AxisMesh<S::Axes, B>>&);                        \
  prefix void detail::write_weights<T, AxisMesh<S::Axes, B>>(                                      \
      const std::string&, const Parameters<T, AxisMesh<S::Axes, B>>&,                    \
      const TransformerConfig&, const SaveWeightsOptions&);

#define CUBIST_TRAINING_INSTANCES(prefix, S, B)                                                    \
  CUBIST_TRAINING_SCALAR_INSTANCES(prefix, S, B, float)                                            \
  CUBIST_TRAINING_SCALAR_INSTANCES(prefix, S, B, double)

/// The instances for a scheme, a backend and a scalar.
#define CUBIST_SCALAR_INSTANCES(prefix, S, B, T)                                                   \
  prefix detail::MadePlan<T> detail::make_product_plan<S, B, T, Op::none, Op::none>(               \
      const AxisMesh<S::Axes, B>&, ProductSize, ProductQuanta, Gathered, bool);                    \
  prefix detail::MadePlan<T> detail::make_product_plan<S, B, T, Op::none, Op::transpose>(          \
      const AxisMesh<S::Axes, B>&, ProductSize, ProductQuanta, Gathered, bool);                    \
  prefix std::unique_ptr<detail::AnyLayer<NetworkMatrix<S, B, T>, T>>                              \
      detail::make_mlp_layer<S, B, T>(                                                             \
          const AxisMesh<S::Axes, B>&, const std::vector<std::size_t>&, const MlpOptions&,         \
          std::size_t);                                                                            \
  prefix std::unique_ptr<detail::AnyMlp<S, B, T>> detail::make_mlp<S, B, T>(                       \
          const AxisMesh<S::Axes, B>&, const std::vector<std::size_t>&, const MlpOptions&);        \
  prefix LossValue mean_squared_error<S, B, T, NetworkMatrix<S, B, T>>(                            \
      const NetworkMatrix<S, B, T>&, const NetworkMatrix<S, B, T>&, NetworkMatrix<S, B, T>&);      \
  prefix LossValue softmax_cross_entropy<S, B, T>(                                                 \
      const NetworkMatrix<S, B, T>&, std::span<const int>, NetworkMatrix<S, B, T>&);               \
  prefix double accuracy<S, B, T>(const NetworkMatrix<S, B, T>&, std::span<const int>);            \
  prefix std::unique_ptr<                                                                          \
      detail::AnyLayer<DistMatrix<T, S::Input, AxisMesh<S::Axes, B>>, T>>                          \
      detail::make_block<S, B, T>(                                                                 \
          const AxisMesh<S::Axes, B>&, const TransformerConfig&, const TransformerOptions&,        \
          std::size_t);                                                                            \
  prefix std::unique_ptr<detail::AnyTransformer<S, B, T>> detail::make_transformer<S, B, T>(       \
          const AxisMesh<S::Axes, B>&, const TransformerConfig&, const TransformerOptions&);

/// The instance for the tokens of a transformer, in addition to those for training.
#define CUBIST_GENERATE_INSTANCES(prefix, S, B)                                                    \
  prefix std::vector<std::vector<int>> detail::continue_prompts<Transformer<S, B, float>>(         \
      Transformer<S, B, float>&, std::span<const std::vector<int>>, const GenerateOptions&);       \
  prefix std::vector<std::vector<int>> detail::continue_prompts<Transformer<S, B, double>>(        \
      Transformer<S, B, double>&, std::span<const std::vector<int>>, const GenerateOptions&);

/// All instances for a backend, of any scheme.
#define CUBIST_BACKEND_INSTANCES(prefix, B)                                                        \
  CUBIST_BACKEND_SCALAR_INSTANCES(prefix, B, float)                                                \
  CUBIST_BACKEND_SCALAR_INSTANCES(prefix, B, double)

/// The other instances for a scheme and a backend.
#define CUBIST_INSTANCES(prefix, S, B)                                                             \
  CUBIST_SCALAR_INSTANCES(prefix, S, B, float)                                                     \
  CUBIST_SCALAR_INSTANCES(prefix, S, B, double)
// clang-format on

#ifdef CUBIST_COMPILED
CUBIST_BACKEND_INSTANCES(extern template, Threads)
CUBIST_BACKEND_INSTANCES(extern template, Simulated)
#define CUBIST_EXTERN_MESH(S)                                                                      \
  CUBIST_MESH_INSTANCES(extern template, S, Threads)                                               \
  CUBIST_TRAINING_INSTANCES(extern template, S, Threads)
#define CUBIST_EXTERN(S)                                                                           \
  CUBIST_INSTANCES(extern template, S, Threads)                                                    \
  CUBIST_GENERATE_INSTANCES(extern template, S, Threads)
#define CUBIST_EXTERN_MESH_SIMULATED(S) CUBIST_MESH_INSTANCES(extern template, S, Simulated)
#define CUBIST_EXTERN_SIMULATED(S) CUBIST_INSTANCES(extern template, S, Simulated)
CUBIST_COMPILED_MESHES(CUBIST_EXTERN_MESH)
CUBIST_COMPILED_DATA_SCHEMES(CUBIST_EXTERN_MESH)
CUBIST_COMPILED_SCHEMES(CUBIST_EXTERN)
CUBIST_COMPILED_DATA_SCHEMES(CUBIST_EXTERN)
CUBIST_COMPILED_MESHES(CUBIST_EXTERN_MESH_SIMULATED)
CUBIST_COMPILED_SCHEMES(CUBIST_EXTERN_SIMULATED)
#undef CUBIST_EXTERN_MESH
#undef CUBIST_EXTERN
#undef CUBIST_EXTERN_MESH_SIMULATED
#undef CUBIST_EXTERN_SIMULATED

#ifdef CUBIST_COMPILED_MPI
CUBIST_BACKEND_INSTANCES(extern template, Mpi)
#define CUBIST_EXTERN_MESH(S)                                                                      \
  CUBIST_MESH_INSTANCES(extern template, S, Mpi)                                                   \
  CUBIST_TRAINING_INSTANCES(extern template, S, Mpi)
#define CUBIST_EXTERN(S)                                                                           \
  CUBIST_INSTANCES(extern template, S, Mpi)                                                        \
  CUBIST_GENERATE_INSTANCES(extern template, S, Mpi)
CUBIST_COMPILED_MESHES(CUBIST_EXTERN_MESH)
CUBIST_COMPILED_DATA_SCHEMES(CUBIST_EXTERN_MESH)
CUBIST_COMPILED_SCHEMES(CUBIST_EXTERN)
CUBIST_COMPILED_DATA_SCHEMES(CUBIST_EXTERN)
#undef CUBIST_EXTERN_MESH
#undef CUBIST_EXTERN
#endif
#endif

}  // namespace cubist::CUBIST_ABI

#endif
