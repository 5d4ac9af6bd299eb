// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/threads.hpp"
#include "cubist/io/checkpoints.hpp"
#include "cubist/nn/dense/linear.hpp"
#include "cubist/nn/dense/lora.hpp"
#include "cubist/nn/optimizers/muon.hpp"
#include "cubist/plan/meshes.hpp"
#include "cubist/training/sharded_optimizer.hpp"

#include "checked_step.hpp"
#include "folder.hpp"
#include "reference.hpp"

namespace cubist::test::muon_test
{

using Given = AxisMesh<Summa2D::Axes, Threads>;

TEST_CASE("a step of Muon moves a weight by the orthogonal factor of its momentum")
{
  // A number's orthogonal factor is its sign. One step with a = 1.5 and b = -0.5 leaves 1 as it is.
  const auto w = on_root<Threads>(one_rank, [](const auto& mesh) {
    auto value = scatter<Summa2D::Weight>(mesh, Global<double>{{2}});
    auto slope = scatter<Summa2D::Weight>(mesh, Global<double>{{-3}});
    const Parameters<double, Given> parameters{{"weight", value.view(), slope.view()}};
    Muon optimizer{parameters,
                   MuonOptions{.learning_rate = 0.25,
                               .weight_decay = 0.5,
                               .newton_schulz = {.steps = 1, .coefficients = {1.5, -0.5, 0}}}};
    optimizer.step(parameters);
    return gather(value);
  });
  CHECK(w(0, 0) == Approx(2 * (1 - 0.25 * 0.5) + 0.25));
}

/// A matrix of tests/data/muon. Its name is its shape in PyTorch's orientation.
struct Shaped
{
  const char* name;
  std::size_t out;
  std::size_t in;
};
constexpr std::array<Shaped, 5> shapes{
    {{"24x40", 24, 40}, {"40x24", 40, 24}, {"33x33", 33, 33}, {"1x17", 1, 17}, {"7x50", 7, 50}}};
constexpr std::size_t steps = 20;

static const Reference& reference()
{
  static const Reference file{CUBIST_TRANSFORMER_DATA "/../muon/muon.safetensors"};
  return file;
}

/// The options of the reference's case i.
static MuonOptions options_of(std::size_t i)
{
  MuonOptions options{.learning_rate = 0.02};
  if (i == 1) options.learning_rate = 0.003, options.scale = MuonScale::match_rms_adamw;
  if (i == 2) options.momentum = 0.9, options.nesterov = false, options.weight_decay = 0;
  if (i == 3) options.newton_schulz = {.steps = 2, .coefficients = {1.5, -0.5, 0}};
  return options;
}

/// What the reference has for one shape. A test reads it once.
struct Wanted
{
  Global<double> weight, gradients;
  std::array<Global<double>, 4> weights, momenta;
};
static const Wanted& wanted(std::size_t shape)
{
  static const auto all = [] {
    std::array<Wanted, shapes.size()> read;
    for (std::size_t s = 0; s < shapes.size(); ++s)
    {
      const std::string name = shapes[s].name;
      read[s].weight = reference().matrix(name + ".weight");
      read[s].gradients = reference().matrix(name + ".gradients");
      for (std::size_t i = 0; i < 4; ++i)
      {
        const std::string of_case = name + "." + std::to_string(i);
        read[s].weights[i] = reference().matrix(of_case + ".weight");
        read[s].momenta[i] = reference().matrix(of_case + ".momentum");
      }
    }
    return read;
  }();
  return all[shape];
}

/// Sets element (i, j) of this rank's block to f(i, j). Our matrices are (in, out), and the
/// reference's are (out, in), so a test passes the transpose.
template <class T, class M, class F>
void set(const DistView<T, M>& x, F f)
{
  const Block b = x.block(x.mesh.rank());
  for (std::size_t i = 0; i < b.rows.valid; ++i)
    for (std::size_t j = 0; j < b.cols.valid; ++j)
      x.padded(i, j) = static_cast<T>(f(b.rows.offset + i, b.cols.offset + j));
}
/// The largest |x(i, j) - f(i, j)| in this rank's block.
template <class T, class M, class F>
double difference_from(const DistView<T, M>& x, F f)
{
  const Block b = x.block(x.mesh.rank());
  double worst = 0;
  for (std::size_t i = 0; i < b.rows.valid; ++i)
    for (std::size_t j = 0; j < b.cols.valid; ++j)
    {
      const double d = std::abs(double{x.padded(i, j)} - f(b.rows.offset + i, b.cols.offset + j));
      worst = d <= worst ? worst : d;
    }
  return worst;
}

/// Matrices with gradients, cut like the weights of some layers of a scheme.
template <class T, class M>
class Matrices
{
 public:
  template <class S>
  void append(const M& mesh, const std::string& name, Shape shape)
  {
    add(name, std::make_shared<DistMatrix<T, typename S::Weight, M>>(mesh, shape),
        std::make_shared<DistMatrix<T, typename S::Weight, M>>(mesh, shape));
  }
  /// Adds the five shapes, as layers of S and of S::Next in turn.
  template <class S>
  void append_all(const M& mesh)
  {
    for (std::size_t s = 0; s < shapes.size(); ++s)
    {
      const std::string name = std::string{shapes[s].name} + ".weight";
      const Shape shape{shapes[s].in, shapes[s].out};
      s % 2 == 0 ? append<S>(mesh, name, shape) : append<typename S::Next>(mesh, name, shape);
    }
  }
  [[nodiscard]] const Parameters<T, M>& parameters() const { return list_; }

  void set_weights() const
  {
    for (std::size_t s = 0; s < list_.size(); ++s)
      set(list_[s].value, [&](std::size_t i, std::size_t j) { return wanted(s).weight(j, i); });
  }
  void set_gradients(std::size_t step, double factor = 1) const
  {
    for (std::size_t s = 0; s < list_.size(); ++s)
      set(list_[s].gradient, [&](std::size_t i, std::size_t j) {
        return factor * wanted(s).gradients(step * shapes[s].out + j, i);
      });
  }
  void check(std::size_t of_case, double tolerance, Findings& found) const
  {
    for (std::size_t s = 0; s < list_.size(); ++s)
    {
      const double d = difference_from(list_[s].value, [&](std::size_t i, std::size_t j) {
        return wanted(s).weights[of_case](j, i);
      });
      found.check(d <= tolerance, list_[s].name, " of case ", of_case, " is off by ", d);
    }
  }

 private:
  template <class Matrix>
  void add(const std::string& name, std::shared_ptr<Matrix> w, std::shared_ptr<Matrix> dw)
  {
    list_.push_back({name, w->view(), dw->view()});
    kept_.push_back(w), kept_.push_back(dw);
  }

  Parameters<T, M> list_;
  std::vector<std::shared_ptr<void>> kept_;
};

constexpr std::array ways{MuonWay::home, MuonWay::replicated, MuonWay::distributed,
                          MuonWay::automatic};

/// Follows a case of the reference to its end.
template <class M>
void follow(const Matrices<double, M>& matrices, std::size_t of_case, MuonWay way, Findings& found)
{
  matrices.set_weights();
  MuonOptions options = options_of(of_case);
  options.way = way;
  Muon optimizer{matrices.parameters(), options};
  for (std::size_t step = 0; step < steps; ++step)
  {
    // As if from a loss scale.
    const bool is_scaled = step % 8 == 1;
    matrices.set_gradients(step, is_scaled ? 4 : 1);
    if (is_scaled)
      checked_step(optimizer, matrices.parameters(), 0.25);
    else
      checked_step(step, steps, optimizer, matrices.parameters());
  }
  matrices.check(of_case, 1e-12, found);
  State<double, M> state;
  optimizer.append_state(state);
  for (std::size_t s = 0; s < shapes.size(); ++s)
  {
    const auto& m = state.matrices.at(s);
    found.check(m.name == "muon.momentum." + std::string{shapes[s].name} + ".weight", m.name);
    const double d = difference_from(
        m.matrix, [&](std::size_t i, std::size_t j) { return wanted(s).momenta[of_case](j, i); });
    found.check(d <= 1e-13, m.name, " of case ", of_case, " is off by ", d);
  }
}

TEST_CASE("on one rank, all cases agree with the reference")
{
  require_clear(on_mesh<Threads>(one_rank, [](const auto& mesh) {
    Findings found;
    Matrices<double, Given> matrices;
    matrices.append_all<Summa2D>(mesh);
    for (std::size_t i = 0; i < 4; ++i) follow(matrices, i, MuonWay::automatic, found);
    return found;
  }));
}

TEST_CASE("on every scheme and mesh of 1 to 8 ranks, each way agrees with the reference")
{
  std::size_t next = 0;  // so that each mesh has other cases, and in quick tests another way
  for_each_scheme([&]<class S>() {
    if constexpr (few_schemes_suffice && !is_typical<S>) return;
    for_each_mesh<S>(8, [&](const typename S::Axes::Array& extents) {
      const int ranks = S::Axes::ranks(extents);
      const std::size_t first = next++;
      if (!fits(ranks) || (quick && first % 3 != 0)) return;
      INFO(S::name << " on " << S::Axes::to_string(extents));
      require_clear(on_ranks<TestBackend>(ranks, [&](TestBackend::Communicator& world) {
        Findings found;
        const AxisMesh<typename S::Axes, TestBackend> mesh{world, extents, S::quantum(extents)};
        Matrices<double, AxisMesh<typename S::Axes, TestBackend>> matrices;
        matrices.template append_all<S>(mesh);
        for (std::size_t w = quick ? first / 3 % ways.size() : 0; w < ways.size();
             w += quick ? ways.size() : 1)
          follow(matrices, (first + w) % 4, ways[w], found);
        return found;
      }));
    });
  });
}

/// What all ranks send in total in a step of Muon for one matrix of a scheme, as counted and by the
/// formula.
template <class S>
std::pair<std::uint64_t, std::uint64_t>
elements_of_step(int ranks, const typename S::Axes::Array& extents, Shape shape, MuonWay way)
{
  using B = Counting<Threads>;
  using M = AxisMesh<typename S::Axes, B>;
  std::uint64_t counted = 0, computed = 0;
  for (const auto& [sent, formula] : on_ranks<B>(ranks, [&](typename B::Communicator& world) {
         const M mesh{world, extents, S::quantum(extents)};
         Matrices<float, M> matrices;
         matrices.template append<S>(mesh, "weight", shape);
         Muon optimizer{matrices.parameters(), MuonOptions{.way = way}};
         world.traffic().reset();
         optimizer.step(matrices.parameters());
         return std::pair{world.traffic().total().elements, optimizer.elements_of_step()};
       }))
    counted += sent, computed = formula;
  return {counted, computed};
}

TEST_CASE("ranks send the elements of the formula")
{
  for_each_scheme<Schemes<Summa25D, Grid3D>>([]<class S>() {
    for_each_mesh<S>(8, [](const typename S::Axes::Array& extents) {
      const int ranks = S::Axes::ranks(extents);
      for (const Shape shape : {Shape{48, 96}, Shape{37, 5}, Shape{1, 7}})
        for (const MuonWay way : {MuonWay::home, MuonWay::replicated, MuonWay::distributed})
        {
          if (few_suffice<TestBackend> && ranks < 8) continue;
          if (quick && ranks < 6 && way != MuonWay::distributed) continue;
          CAPTURE(S::name, S::Axes::to_string(extents), shape, name_of(way));
          const auto [counted, computed] = elements_of_step<S>(ranks, extents, shape, way);
          CHECK(counted == computed);
        }
    });
  });
}

/// Runs body(w, dw, parameters) on 2 x 2 ranks, for a weight of ones and a gradient, and returns
/// its findings.
template <class T, class F>
void on_parameter(Shape shape, double gradient, F body)
{
  require_clear(on_mesh<Threads>(single_layer, [&](const auto& mesh) {
    using M = AxisMesh<Summa25D::Axes, Threads>;
    Findings found;
    Matrices<T, M> matrices;
    matrices.template append<Summa25D>(mesh, "layers.0.weight", shape);
    const auto& parameters = matrices.parameters();
    set(parameters[0].value, [](std::size_t, std::size_t) { return 1.0F; });
    set(parameters[0].gradient, [&](std::size_t i, std::size_t j) {
      return static_cast<Accumulator<T>>(gradient * (1 + static_cast<double>((3 * i + 5 * j) % 7)));
    });
    body(found, parameters);
    return found;
  }));
}

TEST_CASE("a zero gradient of a matrix changes it by the decay alone")
{
  for (const MuonWay way : ways)
    on_parameter<double>({5, 9}, 0, [&](Findings& found, const auto& parameters) {
      Muon optimizer{parameters,
                     MuonOptions{.learning_rate = 0.5, .weight_decay = 0.5, .way = way}};
      optimizer.step(parameters);
      const double d = difference_from(parameters[0].value, [](auto, auto) { return 0.75; });
      found.check(d == 0, name_of(way), " is off by ", d);
    });
}

TEST_CASE("a NaN in a gradient is in the whole matrix after the step")
{
  for (const MuonWay way : ways)
    on_parameter<double>({5, 9}, std::numeric_limits<double>::quiet_NaN(),
                         [&](Findings& found, const auto& parameters) {
                           Muon optimizer{parameters, MuonOptions{.way = way}};
                           optimizer.step(parameters);
                           const auto w = parameters[0].value.valid();
                           for (std::size_t i = 0; i < w.rows(); ++i)
                             for (std::size_t j = 0; j < w.cols(); ++j)
                               found.check(is_nan(w(i, j)), name_of(way), " left ", w(i, j));
                           found.check(padding(parameters[0].value).largest == 0, "padding");
                         });
}

TEST_CASE("the size of a gradient does not matter, up to squares beyond the range of double")
{
  for (const double size : {1.0, 0x1p40, 0x1p1000})
    on_parameter<double>({5, 9}, size, [&](Findings& found, const auto& parameters) {
      Muon optimizer{parameters, MuonOptions{.learning_rate = 0.5, .weight_decay = 0}};
      optimizer.step(parameters);
      Muon same{parameters, MuonOptions{.learning_rate = 0.5, .weight_decay = 0}};
      const auto before = parameters[0].value;
      std::vector<double> values;
      for (const double v : before.padded.elements()) values.push_back(v);
      set(parameters[0].value, [](auto, auto) { return 1.0; });
      set(parameters[0].gradient, [](std::size_t i, std::size_t j) {
        return 1 + static_cast<double>((3 * i + 5 * j) % 7);
      });
      same.step(parameters);
      for (std::size_t i = 0; i < values.size(); ++i)
        found.check(std::abs(values[i] - before.padded.elements()[i]) < 1e-6, size, " gives ",
                    values[i]);
    });
}

TEST_CASE("weights of 16 bits have masters and momentum in float")
{
  on_parameter<bfloat16>({4, 6}, 1, [](Findings& found, const auto& parameters) {
    Muon optimizer{parameters, MuonOptions{.learning_rate = 0x1p-12, .weight_decay = 0}};
    for (int step = 0; step < 64; ++step) optimizer.step(parameters);
    State<bfloat16, AxisMesh<Summa25D::Axes, Threads>> state;
    optimizer.append_state(state);
    found.check(state.matrices.empty() && state.accumulators.size() == 2 &&
                    state.accumulators[0].name == "muon.momentum.layers.0.weight" &&
                    state.accumulators[1].name == "muon.master.layers.0.weight",
                "the state has ", state.accumulators.size(), " matrices in float");
    const double moved = difference_from(parameters[0].value, [](auto, auto) { return 1.0; });
    found.check(moved > 0x1p-9, "64 small steps moved a weight by ", moved);
  });
}

/// A matrix, and parameters that AdamW updates by default, on one rank.
struct Network
{
  Mesh<Summa2D, Threads> mesh;
  Matrices<double, Given> matrices;

  explicit Network(Threads::Communicator& world)
      : mesh{world}
  {
    for (const auto& [name, shape] :
         std::vector<std::pair<std::string, Shape>>{{"embedding.weight", {6, 4}},
                                                    {"positions.weight", {5, 4}},
                                                    {"layers.0.attention_norm.weight", {1, 4}},
                                                    {"layers.0.attention.query.weight", {4, 4}},
                                                    {"layers.0.attention.query.bias", {1, 4}},
                                                    {"layers.0.attention.key.weight", {4, 2}},
                                                    {"layers.0.attention.value.weight", {4, 2}},
                                                    {"layers.0.feed_forward.up.lora_a", {4, 2}},
                                                    {"layers.0.feed_forward.up.lora_b", {2, 3}},
                                                    {"layers.0.feed_forward.down.weight", {3, 4}},
                                                    {"logits.weight", {6, 4}}})
      matrices.append<Summa2D>(mesh, name, shape);
    double next = 0;
    for (const auto& p : matrices.parameters())
    {
      set(p.value, [&](auto, auto) { return next = std::fmod(next + 0.7, 1.9); });
      set(p.gradient, [&](auto, auto) { return (next = std::fmod(next + 0.7, 1.9)) - 1; });
    }
  }
  /// The names of the optimizer's momenta, without their common part.
  [[nodiscard]] std::vector<std::string> momenta(const MuonOptions& options)
  {
    Muon optimizer{matrices.parameters(), options};
    State<double, Given> state;
    optimizer.append_state(state);
    std::vector<std::string> names;
    const std::string prefix = "muon.momentum.";
    for (const auto& m : state.matrices)
      if (m.name.starts_with(prefix)) names.push_back(m.name.substr(prefix.size()));
    return names;
  }
};

template <class F>
auto on_network(F body)
{
  return on_ranks<Threads>(1, [&](Threads::Communicator& world) {
    Network network{world};
    return body(network);
  })[0];
}

TEST_CASE("Muon takes the matrices of layers, and others by groups")
{
  const auto momenta = [](const MuonOptions& options) {
    return on_network([&](Network& network) { return network.momenta(options); });
  };
  const std::vector<std::string> layers{
      "layers.0.attention.query.weight", "layers.0.attention.key.weight",
      "layers.0.attention.value.weight", "layers.0.feed_forward.up.lora_a",
      "layers.0.feed_forward.up.lora_b", "layers.0.feed_forward.down.weight"};
  CHECK(momenta({}) == layers);
  CHECK(momenta({.groups = {{.names = {"*.down.weight"}, .muon = false}}}) ==
        std::vector(layers.begin(), layers.end() - 1));
  CHECK(momenta({.groups = {{.names = {"logits.weight"}, .muon = true},
                            {.names = {"layers.*"}, .muon = false}}}) ==
        std::vector<std::string>{"logits.weight"});
  for (const char* name : {"*.bias", "*norm.weight"})
  {
    const auto message =
        message_of<ArgumentError>([&] { momenta({.groups = {{.names = {name}, .muon = true}}}); });
    CHECK(mentions(message, "in one of Muon's groups", "which is a vector", ".muon = false"));
  }
}

/// LoRA's A or B before and after a step, and its gradient, where the rows are the longer side.
struct Thin
{
  Global<double> before, after, gradient;
};

/// Takes one step of Muon for LoRA's matrices beside a layer.
template <class S>
std::pair<Thin, Thin> lora_stepped_on(const Place<S>& place, MuonWay way)
{
  return on_root<Threads>(place, [&](const auto& mesh) {
    constexpr std::size_t rows = 13, in = 9, out = 11, rank = 2;
    Linear<S, Threads, double> layer{mesh, in, out, {.bias = false, .seed = 7}};
    add_lora(layer, 0, {.rank = rank});
    using M = typename decltype(layer)::Mesh;
    Parameters<double, M> all;
    layer.append_parameters(all, "");
    all[0].freeze();
    scatter(integers<double>(rank, out, 3), all[2].value);
    Parameters<double, M> list;
    layer.append_parameters(list, "");
    const auto x = scatter<typename S::Input>(mesh, integers<double>(rows, in, 5));
    const auto dy = scatter<typename S::Output>(mesh, integers<double>(rows, out, 6));
    (void)layer.forward(x);
    layer.backward(x, dy);
    Muon optimizer{list, MuonOptions{.learning_rate = 0.25,
                                     .weight_decay = 0.5,
                                     .newton_schulz = {.steps = 40, .coefficients = {1.5, -0.5, 0}},
                                     .way = way}};
    Thin a{gather(list[1].value), {}, gather(list[1].gradient)};
    Thin b{transposed(gather(list[2].value)), {}, transposed(gather(list[2].gradient))};
    optimizer.step(list);
    check_replicas_of_values(list);
    a.after = gather(list[1].value);
    b.after = transposed(gather(list[2].value));
    return std::pair{a, b};
  });
}

TEST_CASE("Muon moves LoRA's A and B by the orthogonal factors of their momenta")
{
  // G's orthogonal factor is the Q with Q^T Q = I for which Q^T G is symmetric and positive
  // definite.
  const auto check = [](const Thin& thin, double scale) {
    const Global<double> q = (0.875 * thin.before - thin.after) / (0.25 * scale);
    const auto square = product(transposed(q), q);
    const auto h = product(transposed(q), thin.gradient);
    CHECK(difference(square, Global<double>{{1, 0}, {0, 1}}) < 1e-12);
    CHECK(h(0, 1) == Approx(h(1, 0)).epsilon(1e-10));
    CHECK(h(0, 0) > 0);
    CHECK(h(0, 0) * h(1, 1) > h(0, 1) * h(1, 0));
  };
  const auto on = [&](const auto& place) {
    for (const MuonWay way :
         {MuonWay::automatic, MuonWay::home, MuonWay::replicated, MuonWay::distributed})
    {
      CAPTURE(place.name(), static_cast<int>(way));
      const auto [a, b] = lora_stepped_on(place, way);
      check(a, 1);
      check(b, std::sqrt(11.0 / 2));  // sqrt(out / in)
    }
  };
  on(one_rank);
  on(Place<Megatron1D>{3, {.p = 3}});
  on(two_two_two);
}

TEST_CASE("merged matrices are orthogonalized one by one, or as one matrix")
{
  // The columns of an orthogonal factor of (4, 8) cannot all be orthogonal.
  const auto stepped = [](bool merged) {
    return on_network([&](Network& network) {
      Muon optimizer{network.matrices.parameters(),
                     MuonOptions{.learning_rate = 1, .weight_decay = 0, .merged = merged}};
      std::vector<std::string> names;
      for (const auto& way : optimizer.ways()) names.push_back(way.first);
      const auto& query = network.matrices.parameters()[3].value;
      const auto before = gather(query);
      optimizer.step(network.matrices.parameters());
      return std::pair{names, Global<double>{before - gather(query)}};
    });
  };
  const auto [one_by_one, of_query] = stepped(false);
  const auto [together, of_all] = stepped(true);
  CHECK(one_by_one.size() == 6);
  CHECK(together == std::vector<std::string>{
                        "layers.0.attention.", "layers.0.feed_forward.up.lora_a",
                        "layers.0.feed_forward.up.lora_b", "layers.0.feed_forward.down.weight"});
  // Newton-Schulz leaves singular values between 0.7 and 1.2, so the squares of four sum to about
  // 4, and half of the eight columns have about half of that, times 2, the square of the scale.
  const auto squares = [](const Global<double>& m) {
    double sum = 0;
    for (const double v : m) sum += v * v;
    return sum;
  };
  CHECK(squares(of_query) == Approx(4).margin(1.5));
  CHECK(difference(of_query, of_all) > 0.01);
}

TEST_CASE("Muon refuses options out of range")
{
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto refused = [](const MuonOptions& options) {
    return message_of<ArgumentError>(
        [&] { on_network([&](Network& network) { return network.momenta(options); }); });
  };
  CHECK(mentions(refused({.learning_rate = nan}), "got a learning rate of nan"));
  CHECK(mentions(refused({.momentum = 1}), "got a momentum of 1"));
  CHECK(mentions(refused({.newton_schulz = {.steps = 0}}), "got 0 steps of Newton-Schulz"));
  CHECK(mentions(refused({.newton_schulz = {.coefficients = {nan, 0, 0}}}), "got nan among the"));
  CHECK(mentions(refused({.adamw = {.groups = {{.names = {"*"}}}}}),
                 "got 1 groups of parameters in the options of Muon's AdamW"));
  const auto of_adamw = message_of<ArgumentError>([] {
    on_network([](Network& network) {
      AdamW{network.matrices.parameters(), AdamOptions{.groups = {{.names = {"*"}, .muon = true}}}};
      return 0;
    });
  });
  CHECK(mentions(of_adamw, "got a group with .muon", "that is not Muon"));
  CHECK(message_of<ShapeError>([] {
          on_network([](Network& network) {
            auto parameters = network.matrices.parameters();
            Muon optimizer{parameters};
            parameters.pop_back();
            optimizer.step(parameters);
            return 0;
          });
        }).find("parameters that are not those of the optimizer") != std::string::npos);
}

TEST_CASE("a schedule multiplies the rates of Muon and of AdamW")
{
  const auto moved = [](double rate) {
    return on_network([&](Network& network) {
      const auto& parameters = network.matrices.parameters();
      Muon optimizer{parameters, MuonOptions{.learning_rate = 1,
                                             .weight_decay = 0,
                                             .adamw = {.learning_rate = 0.5, .weight_decay = 0}}};
      optimizer.set_learning_rate(rate, 1);
      std::array<double, 2> before{}, after{};
      const auto norms = [&](auto& sums) {
        sums = {parameters[3].value.padded(0, 0), parameters[0].value.padded(0, 0)};
      };
      norms(before);
      optimizer.step(parameters);
      norms(after);
      return std::array{after[0] - before[0], after[1] - before[1]};
    });
  };
  const auto whole = moved(1), half = moved(0.5);
  for (const std::size_t i : {0U, 1U})
  {
    CHECK(std::abs(whole[i]) > 0.01);
    CHECK(half[i] == Approx(whole[i] / 2));
  }
}

TEST_CASE("Muon's state goes from any scheme to any other")
{
  // Runs half of a case of the reference on one scheme, and the rest on another.
  const Folder folder;
  const auto half = [&]<class S>(const Place<S>& place, std::size_t first) {
    require_clear(on_mesh(place, [&](const auto& mesh) {
      using M = AxisMesh<typename S::Axes, TestBackend>;
      Findings found;
      Matrices<double, M> matrices;
      matrices.template append_all<S>(mesh);
      Muon optimizer{matrices.parameters(), options_of(0)};
      State<double, M> state;
      for (const auto& p : matrices.parameters()) state.matrices.push_back({p.name, p.value});
      optimizer.append_state(state);
      Checkpoints<typename S::Axes, TestBackend> checkpoints{mesh, folder.path()};
      matrices.set_weights();
      if (first > 0) found.check(checkpoints.load(state) == first, "no checkpoint");
      for (std::size_t step = first; step < first + steps / 2; ++step)
      {
        matrices.set_gradients(step);
        checked_step(optimizer, matrices.parameters());
      }
      checkpoints.save(first + steps / 2, state);
      if (first > 0) matrices.check(0, 1e-12, found);
      found.check(first == 0 || found.checks() > 0, "nothing was compared");
      return found;
    }));
  };
  if (!fits(8)) return;
  half(two_two_two, 0);
  half(cube, steps / 2);
}

}  // namespace cubist::test::muon_test
