// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/io/checkpoints.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/transformer/transformer.hpp"
#include "cubist/training/clip_gradients.hpp"
#include "cubist/training/sharded_optimizer.hpp"

#include "checked_step.hpp"
#include "folder.hpp"
#include "nn.hpp"

namespace cubist::test::sharded_optimizer_test
{

constexpr std::size_t rows = 24;
const std::vector<std::size_t> uneven{7, 11, 5};
const std::vector<std::size_t> even{8, 12, 4};
/// Fewer rows and columns than blocks, so that some blocks and parts have only padding.
const std::vector<std::size_t> tiny{3, 1, 2};

const Place<DataParallel<Summa2D>> two_meshes{8, {.data = 2, .scheme = {.q = 2}}};
const Place<DataParallel<Summa2D>> four_ranks{4, {.data = 4, .scheme = {.q = 1}}};
const Place<DataParallel<Summa2D>> two_ranks{2, {.data = 2, .scheme = {.q = 1}}};
const Place<DataParallel<Summa2D>> three_ranks{3, {.data = 3, .scheme = {.q = 1}}};
const Place<DataParallel<Megatron1D>> two_pairs{4, {.data = 2, .scheme = {}}};
const Place<DataParallel<Megatron1D>> two_fours{8, {.data = 2, .scheme = {}}};

TEST_CASE("micro-batches of a sharded optimizer are one batch")
{
  const auto values = [&](const auto& place, std::size_t n) {
    return on_root(place, [&](const auto& mesh) {
      using S = typename std::decay_t<decltype(mesh)>::Scheme;
      MLP<S, TestBackend, double> mlp{mesh, uneven, {.seed = 3}};
      using M = typename decltype(mlp)::Mesh;
      Sharded<Sgd<double, M>> optimizer{mlp.parameters(), {.learning_rate = 0.5}, n};
      const auto all = uniform<double>(rows, uneven.front(), 1);
      for (std::size_t i = 0; i < n; ++i)
      {
        const Global<double> x =
            xt::view(all, xt::range(i * rows / n, (i + 1) * rows / n), xt::all());
        auto dy = mlp.forward(scatter<typename S::Input>(mesh, x));
        mlp.backward(dy);
      }
      checked_sharded_step(optimizer, mlp.parameters());
      std::vector<double> found;
      for (const auto& p : mlp.parameters())
        for (const double v : gather(p.value)) found.push_back(v * static_cast<double>(1));
      return found;
    });
  };
  // The sum of squares is not divided by the rows, so four micro-batches give the mean of four.
  const auto four = values(one_rank, 4);
  if (fits(two_meshes)) CHECK(deviation(values(two_meshes, 4), four) < 1e-12);
  if (fits(cube)) CHECK(deviation(values(cube, 4), four) < 1e-12);
}

/// The losses of a run of some steps, then all values.
struct Run
{
  std::vector<std::size_t> sizes = uneven;
  Method method = Method::automatic;
  std::string folder = {};  // of checkpoints: begins with the newest, saves one at the end
  std::uint64_t first = 0;
  std::uint64_t last = 5;
};

template <class T, class S, class B, class Optimizer, class Step>
std::vector<double> train(const Mesh<S, B>& mesh, MLP<S, B, T>& mlp, const Run& run,
                          Optimizer& optimizer, Step step)
{
  const auto state = state_of(mlp, optimizer);
  std::optional<Checkpoints<typename S::Axes, B>> checkpoints;
  if (!run.folder.empty()) checkpoints.emplace(mesh, run.folder);
  if (run.first > 0) (void)checkpoints->load(state);
  std::vector<double> found;
  for (std::uint64_t i = run.first; i < run.last; ++i)
  {
    const auto x = scatter<typename S::Input>(mesh, uniform<T>(rows, run.sizes.front(), i));
    const auto& y = mlp.forward(x);
    auto dy = zeros_like(y);
    found.push_back(softmax_cross_entropy(y, classes(rows, run.sizes.back()), dy));
    mlp.backward(dy);
    step();
  }
  if (checkpoints) checkpoints->save(run.last, state);
  for (const auto& p : mlp.parameters())
    for (const T v : gather(p.value)) found.push_back(double{v});
  return found;
}

template <class T, template <class, class> class O, class S>
std::vector<double> whole(const Place<S>& place, const Run& run)
{
  return on_root(place, [&](const auto& mesh) {
    MLP<S, TestBackend, T> mlp{mesh, run.sizes, {.dropout = 0.1, .seed = 3, .method = run.method}};
    const auto parameters = mlp.parameters();
    O<T, typename MLP<S, TestBackend, T>::Mesh> optimizer{parameters};
    return train(mesh, mlp, run, optimizer, [&] { checked_step(optimizer, parameters); });
  });
}

template <class T, template <class, class> class O, class S>
std::vector<double> sharded(const Place<S>& place, const Run& run)
{
  return on_root(place, [&](const auto& mesh) {
    MLP<S, TestBackend, T> mlp{mesh, run.sizes, {.dropout = 0.1, .seed = 3, .method = run.method}};
    Sharded<O<T, typename MLP<S, TestBackend, T>::Mesh>> optimizer{mlp.parameters()};
    return train(mesh, mlp, run, optimizer,
                 [&] { checked_sharded_step(optimizer, mlp.parameters()); });
  });
}

template <class T, template <class, class> class O, class S>
void check_bits(const Place<S>& place, const std::vector<std::size_t>& sizes)
{
  if (!fits(place)) return;
  for (const Method method : {Method::automatic, Method::collectives})
  {
    INFO(place.name());
    const Run run{.sizes = sizes, .method = method};
    CHECK(sharded<T, O>(place, run) == whole<T, O>(place, run));
  }
}

TEST_CASE("a sharded optimizer has the same bits as one that is not")
{
  check_bits<double, Sgd>(one_rank, uneven);
  check_bits<double, AdamW>(two_meshes, uneven);
  check_bits<double, AdamW>(two_two_two, uneven);
  check_bits<double, Adam>(cube, uneven);
  check_bits<double, Adam>(two_pairs, even);
  check_bits<double, AdamW>(four_ranks, even);
  check_bits<half, AdamW>(two_meshes, uneven);
  // The number of replicas does not divide the blocks.
  check_bits<double, AdamW>(three_ranks, uneven);
  check_bits<double, Sgd>(four_ranks, uneven);
  check_bits<half, AdamW>(three_ranks, uneven);
  // Some parts begin after the valid range of their block.
  check_bits<double, AdamW>(two_meshes, tiny);
  check_bits<double, AdamW>(two_two_two, tiny);
  check_bits<double, AdamW>(three_ranks, tiny);
}

TEST_CASE("checkpoints go from any sharding to any other")
{
  const Folder folder;
  const auto expected = whole<double, AdamW>(one_rank, {.last = 8});
  const auto part = [&](std::uint64_t first, std::uint64_t last) {
    return Run{.folder = folder.path().string(), .first = first, .last = last};
  };
  std::vector<double> found = sharded<double, AdamW>(two_ranks, part(0, 1));
  found.resize(1);
  const auto then = [&](std::vector<double> run, std::size_t losses) {
    found.insert(found.end(), run.begin(),
                 run.begin() + static_cast<std::ptrdiff_t>(losses == 0 ? run.size() : losses));
  };
  then(sharded<double, AdamW>(four_ranks, part(1, 2)), 1);
  if (fits(two_two_two))
    then(sharded<double, AdamW>(two_two_two, part(2, 4)), 2);
  else
    then(whole<double, AdamW>(one_rank, part(2, 4)), 2);
  then(whole<double, AdamW>(one_rank, part(4, 6)), 2);
  then(sharded<double, AdamW>(two_pairs, part(6, 8)), 0);
  CHECK(deviation(found, expected) < 1e-9);
}

TEST_CASE("on one mesh, a run continues with the same bits in any sharding")
{
  const auto check = []<class T>(const auto& place, T, const std::vector<std::size_t>& sizes) {
    if (!fits(place)) return;
    const Folder folder;
    auto expected = whole<T, AdamW>(place, {.sizes = sizes, .last = 6});
    expected.erase(expected.begin(), expected.begin() + 4);
    const auto part = [&](std::uint64_t first, std::uint64_t last) {
      return Run{.sizes = sizes, .folder = folder.path().string(), .first = first, .last = last};
    };
    (void)sharded<T, AdamW>(place, part(0, 2));
    (void)whole<T, AdamW>(place, part(2, 4));
    CHECK(sharded<T, AdamW>(place, part(4, 6)) == expected);
  };
  check(three_ranks, double{}, uneven);
  check(four_ranks, half{}, uneven);
  check(two_meshes, double{}, tiny);
}

/// The number of elements of each matrix of an optimizer's state on this rank, with padding or
/// without.
template <class M, class O>
std::vector<std::size_t> state_sizes(O& optimizer, bool padded)
{
  using T = typename O::Value;
  State<T, M> state;
  optimizer.append_state(state);
  std::vector<std::size_t> sizes;
  const auto add = [&](const auto& list) {
    for (const auto& m : list)
      sizes.push_back(padded ? m.matrix.padded.size() : m.matrix.valid().size());
  };
  add(state.matrices);
  if constexpr (!std::is_same_v<T, Accumulator<T>>) add(state.accumulators);
  return sizes;
}

/// Checks that each of P replicas that divide a parameter's block has 1/P of its state, and that
/// each element of the state is on just one rank.
template <class T, template <class, class> class O, class S>
void check_state_on(const Place<S>& place, std::size_t matrices_of_parameter)
{
  if (!fits(place)) return;
  for (const std::vector<std::size_t>& sizes : {std::vector<std::size_t>{48, 96, 48}, uneven, tiny})
  {
    INFO(place.name() << ", " << sizes.front());
    const auto found = on_mesh(place, [&](const auto& mesh) {
      MLP<S, TestBackend, T> mlp{mesh, sizes};
      using M = typename decltype(mlp)::Mesh;
      const auto parameters = mlp.parameters();
      Sharded<O<T, M>> sharded{parameters};
      O<T, M> whole{parameters};
      auto mine = state_sizes<M>(sharded, true);
      for (std::size_t i = 0; i < mine.size(); ++i)
      {
        const auto& value = parameters[i % parameters.size()].value;
        mine[i] *= static_cast<std::size_t>(value.replica_ranks()->size());
      }
      const auto valid = state_sizes<M>(sharded, false);
      return std::tuple{mine, state_sizes<M>(whole, true),
                        std::accumulate(valid.begin(), valid.end(), std::size_t{0})};
    });
    std::size_t elements = 0;
    for (const auto& [mine, all, valid] : found)
    {
      elements += valid;
      CHECK(all.size() == matrices_of_parameter * 2 * (sizes.size() - 1));
      if (sizes.front() == 48) CHECK(mine == all);
    }
    std::size_t of_network = 0;
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i) of_network += (sizes[i] + 1) * sizes[i + 1];
    CHECK(elements == matrices_of_parameter * of_network);
  }
}

/// Checks the state of an optimizer on several meshes.
/// @param moments the optimizer's moments; 16-bit weights have masters as well
template <template <class, class> class O>
void check_state(std::size_t moments)
{
  check_state_on<double, O>(three_ranks, moments);
  check_state_on<double, O>(two_two_two, moments);  // along Depth
  check_state_on<half, O>(two_meshes, moments + 1);
}

TEST_CASE("a replica has its part of the optimizer's state")
{
  check_state<Sgd>(1);
  check_state<Adam>(2);
  check_state<AdamW>(2);
}

#if !CUBIST_SANITIZED  // counts of elements do not change under a sanitizer
TEST_CASE("a step of a sharded optimizer sends what its formula says")
{
  for (const auto& sizes : {even, uneven})
  {
    using B = Counting<TestBackend>;
    const auto sent = on_mesh<B>(four_ranks, [&](const auto& mesh) {
      MLP<DataParallel<Summa2D>, B, double> mlp{mesh, sizes};
      using M = typename decltype(mlp)::Mesh;
      Sharded<AdamW<double, M>> optimizer{mlp.parameters()};
      const auto x =
          scatter<DataParallel<Summa2D>::Input>(mesh, uniform<double>(rows, sizes[0], 1));
      const auto& y = mlp.forward(x);
      mesh.world().traffic().reset();
      mlp.backward(y);
      optimizer.step();
      return mesh.world().traffic().total().elements;
    });
    std::uint64_t all = 0;
    for (const auto words : sent) all += words;
    std::uint64_t pieces = 0;
    for (std::size_t i = 0; i < 2; ++i)
      pieces += ceil_div(sizes[i], 4) * sizes[i + 1] + ceil_div(sizes[i + 1], 4);
    CHECK(all == 4 * 2 * 3 * pieces);
  }
}
#endif

TEST_CASE("a sharded optimizer refuses the parameters of another network, and takes a factor")
{
  for (const auto& message : on_mesh<TestBackend>(two_ranks, [](const auto& mesh) -> std::string {
         using Network = MLP<DataParallel<Summa2D>, TestBackend, double>;
         Network mlp{mesh, uneven}, other{mesh, uneven};
         Sharded<Sgd<double, typename Network::Mesh>> optimizer{mlp.parameters()};
         const auto before = gather(other.parameters().front().value);
         optimizer.step(mlp.parameters(), 0);
         if (gather(mlp.parameters().front().value) != before)
           return "a factor of 0 changes values";
         return message_of<ShapeError>([&] { optimizer.step(other.parameters()); });
       }))
    CHECK(mentions(message, "4 parameters that are not those of the optimizer"));
}

TEST_CASE("a sharded optimizer takes the groups that one that is not takes, frozen ones too")
{
  const auto values = [](auto sharded) {
    return on_root(two_ranks, [&](const auto& mesh) {
      using S = DataParallel<Summa2D>;
      using Network = MLP<S, TestBackend, double>;
      using Whole = Sgd<double, typename Network::Mesh>;
      Network mlp{mesh, uneven, {.seed = 3, .frozen = {"layers.0.*"}}};
      const auto parameters = mlp.parameters();
      std::conditional_t<sharded, Sharded<Whole>, Whole> optimizer{
          parameters,
          {.groups = {{.names = {"layers.0.*"}, .learning_rate = 1},
                      {.names = {"*bias"}, .learning_rate = 0.2}}}};
      const auto x = scatter<S::Input>(mesh, uniform<double>(rows, uneven.front(), 1));
      mlp.backward(mlp.forward(x));
      const double norm = gradient_norm(parameters);
      optimizer.step(parameters);
      std::vector<double> found;
      for (const auto& p : parameters)
        for (const double v : gather(p.value)) found.push_back(v);
      if constexpr (sharded)
        found.push_back(gradient_norm(optimizer.parameters()));
      else
        found.push_back(norm);
      return found;
    });
  };
  if (!fits(two_ranks)) return;
  const auto found = values(std::true_type{}), wanted = values(std::false_type{});
  CHECK(found.back() == Approx(wanted.back()).epsilon(1e-13));
  CHECK(std::equal(found.begin(), found.end() - 1, wanted.begin(), wanted.end() - 1));
}

TEST_CASE("a transformer trains with a sharded optimizer, on sequences of different lengths")
{
  const auto losses = [&](const auto& place, std::size_t micro_batches, auto make_step) {
    return on_root(place, [&](const auto& mesh) {
      using S = typename std::decay_t<decltype(mesh)>::Scheme;
      Transformer<S, TestBackend, double> model{
          mesh, {.vocabulary = 13, .positions = 8, .width = 12, .layers = 1, .heads = 3}};
      auto step = make_step(model, micro_batches);
      std::vector<double> curve;
      std::size_t i = 0;
      for (const std::size_t length : {5U, 8U, 3U, 4U, 7U, 5U})
      {
        std::vector<int> ids;
        for (std::size_t k = 0; k < 4 * length; ++k)
          ids.push_back(static_cast<int>((k * k + i * k) % 13));
        curve.push_back(model.compute_gradients(ids, length));
        if (++i % micro_batches == 0) step();
      }
      return curve;
    });
  };
  const auto with_whole = [](auto& model, std::size_t micro_batches) {
    using M = typename std::decay_t<decltype(model)>::Mesh;
    auto optimizer = std::make_shared<AdamW<double, M>>(model.parameters());
    using Sums = GradientAccumulation<double, M>;
    return [&model, optimizer, sums = std::make_shared<Sums>(model.parameters(), micro_batches)] {
      checked_step(*optimizer, model.parameters());
    };
  };
  const auto with_sharded = [](auto& model, std::size_t micro_batches) {
    using M = typename std::decay_t<decltype(model)>::Mesh;
    auto optimizer = std::make_shared<Sharded<AdamW<double, M>>>(model.parameters(), AdamOptions{},
                                                                 micro_batches);
    return [&model, optimizer] { checked_sharded_step(*optimizer, model.parameters()); };
  };
  for (const std::size_t n : {1U, 2U, 3U})
  {
    CAPTURE(n);
    if (fits(two_meshes))
      CHECK(losses(two_meshes, n, with_sharded) == losses(two_meshes, n, with_whole));
    // Some ids occur twice in a rank's rows.
    if (fits(two_fours))
      CHECK(losses(two_fours, n, with_sharded) == losses(two_fours, n, with_whole));
    if (fits(two_pairs))
      CHECK(deviation(losses(two_pairs, n, with_sharded), losses(one_rank, n, with_whole)) < 1e-9);
  }
}

}  // namespace cubist::test::sharded_optimizer_test
