// SPDX-License-Identifier: BSD-3-Clause
#include <nlohmann/json.hpp>

#include "cubist/nn/networks/mlp.hpp"
#include "cubist/training/sharded_optimizer.hpp"
#include "cubist/training/trainer.hpp"

#include "checked_step.hpp"
#include "folder.hpp"
#include "nn.hpp"

namespace cubist::test::trainer_test
{

constexpr std::size_t rows = 12;
constexpr double infinity = std::numeric_limits<double>::infinity();
const Place<DataParallel<Summa2D>> two_meshes{8, {2, {.q = 2}}};
const Place<DataParallel<Summa2D>> two_ranks{2, {2, {.q = 1}}};

/// A network, and its loss on data that the micro-batch's number determines.
template <class S, class M>
struct Task
{
  MLP<S, TestBackend, double> mlp;
  M mesh;

  explicit Task(const M& m)
      : mlp{m, {6, 8, 5}, {.dropout = 0.2, .seed = 7}},
        mesh{m}
  {
  }

  /// @param slope  a factor for the gradient
  double operator()(const MicroBatch& batch, double slope = 1)
  {
    const auto x = scatter<typename S::Input>(mesh, uniform<double>(rows, 6, batch.index));
    return mlp.compute_gradients(x, classes(rows, 5), batch.gradient_scale * slope);
  }
};

/// What a rank finds: the losses, and the final values of all parameters.
struct Found
{
  TrainingRun run;
  std::vector<double> values;

  friend bool operator==(const Found& a, const Found& b)
  {
    return a.run.losses == b.run.losses && a.values == b.values;
  }
};

template <class Mlp>
std::vector<double> values_of(Mlp& mlp)
{
  std::vector<double> all;
  for (const auto& p : mlp.parameters())
    for (const double w : gather(p.value)) all.push_back(w);
  return all;
}

/// Returns the options with a comparison of replicas in every step.
static TrainerOptions checked(TrainerOptions options)
{
  options.monitor.replicas_every = 1;
  return options;
}

/// The slope of every step.
constexpr auto even = [](std::uint64_t) { return 1.0; };

/// Trains on a mesh.
/// @param slope the slope of a step, by its number, which counts from 0
template <class S, class Slope = decltype(even)>
Found train(const Place<S>& place, const TrainerOptions& options, Slope slope = even)
{
  return on_root(place, [&](const auto& mesh) {
    Task<S, std::decay_t<decltype(mesh)>> task{mesh};
    AdamW optimizer{task.mlp.parameters()};
    Trainer trainer{task.mlp, optimizer, checked(options)};
    Found found;
    found.run = trainer.run(
        [&](const MicroBatch& b) { return task(b, slope(b.index / options.micro_batches)); });
    found.values = values_of(task.mlp);
    return found;
  });
}
const LearningRateOptions schedule{.rate = 0.02, .warm_up = 2, .steps = 8, .decay = Decay::cosine};

TEST_CASE("a trainer's run is that of a loop by hand, to the bit")
{
  if (!fits(two_by_two)) return;
  const auto by_hand = on_root(two_by_two, [&](const auto& mesh) {
    Task<Summa2D, std::decay_t<decltype(mesh)>> task{mesh};
    const auto parameters = task.mlp.parameters();
    AdamW optimizer{parameters};
    const GradientAccumulation sums{parameters, 2};
    LearningRate rate{schedule};
    Found found;
    for (std::uint64_t step = 0; step < 6; ++step)
    {
      double loss = task(MicroBatch{2 * step});
      loss += task(MicroBatch{2 * step + 1});
      found.run.losses.push_back(loss / 2);
      optimizer.options().learning_rate = rate.next();
      checked_step(optimizer, parameters, clip_factor(gradient_norm(parameters), 0.1));
    }
    found.values = values_of(task.mlp);
    return found;
  });
  const Found found =
      train(two_by_two, {.steps = 6, .micro_batches = 2, .learning_rate = schedule, .clip = 0.1});
  CHECK(found == by_hand);
  CHECK(found.run.first == 0);
  CHECK(found.run.steps == 6);
  CHECK(found.run.exit_code() == 0);
}

template <class S, class M>
using Rule = AdamW<double, typename MLP<S, TestBackend, double>::Mesh>;

/// A run with an optimizer whose state is sharded among the replicas of the two meshes.
template <class Slope>
Found train_sharded(const TrainerOptions& options, Slope slope)
{
  return on_root(two_meshes, [&](const auto& mesh) {
    using S = DataParallel<Summa2D>;
    Task<S, std::decay_t<decltype(mesh)>> task{mesh};
    Sharded<Rule<S, void>> optimizer{task.mlp.parameters(), {}, options.micro_batches};
    Trainer trainer{task.mlp, optimizer, checked(options)};
    Found found;
    found.run = trainer.run(
        [&](const MicroBatch& b) { return task(b, slope(b.index / options.micro_batches)); });
    found.values = values_of(task.mlp);
    return found;
  });
}

TEST_CASE("a trainer with a sharded optimizer trains as with one that is not")
{
  if (!fits(two_meshes)) return;
  const TrainerOptions options{.steps = 4, .micro_batches = 2, .clip = 0.1};
  const Found sharded = train_sharded(options, even);
  CHECK(deviation(sharded.run.losses, train(two_meshes, options).run.losses) < 1e-13);
}

TEST_CASE("a schedule multiplies a group's learning rate by its factor, as PyTorch's LambdaLR does")
{
  if (!fits(two_ranks)) return;
  // The optimizer has the default rate, which is not the schedule's.
  const auto train = [](auto sharded, auto run) {
    return on_root(two_ranks, [&](const auto& mesh) {
      using S = DataParallel<Summa2D>;
      Task<S, std::decay_t<decltype(mesh)>> task{mesh};
      using Whole = Rule<S, void>;
      std::conditional_t<sharded, Sharded<Whole>, Whole> optimizer{
          task.mlp.parameters(), {.groups = {{.names = {"layers.1.*"}, .learning_rate = 5e-3}}}};
      run(task, optimizer);
      return values_of(task.mlp);
    });
  };
  const auto with_trainer = [](auto& task, auto& optimizer) {
    Trainer trainer{task.mlp, optimizer, {.steps = 6, .learning_rate = schedule}};
    (void)trainer.run([&](const MicroBatch& b) { return task(b); });
  };
  const auto by_hand = train(std::false_type{}, [](auto& task, auto& optimizer) {
    for (std::uint64_t step = 0; step < 6; ++step)
    {
      (void)task(MicroBatch{step});
      const double factor = LearningRate{schedule}.at(step) / schedule.rate;
      optimizer.set_learning_rate(schedule.rate * factor, schedule.rate * factor);
      optimizer.options().groups[0].learning_rate = 5e-3 * factor;
      optimizer.step(task.mlp.parameters());
    }
  });
  CHECK(deviation(train(std::false_type{}, with_trainer), by_hand) < 1e-12);
  CHECK(deviation(train(std::true_type{}, with_trainer), by_hand) < 1e-12);
  const auto with_set_next = train(std::false_type{}, [](auto& task, auto& optimizer) {
    LearningRate rate{schedule};
    for (std::uint64_t step = 0; step < 6; ++step)
    {
      (void)task(MicroBatch{step});
      rate.set_next(optimizer);
      optimizer.step(task.mlp.parameters());
    }
  });
  CHECK(with_set_next == train(std::false_type{}, with_trainer));
}

TEST_CASE("a trainer's monitor sees one wrong bit in a replica, sharded or not")
{
  if (!fits(two_meshes)) return;
  const auto message = [](auto sharded) {
    const auto all = on_mesh(two_meshes, [&](const auto& mesh) {
      using S = DataParallel<Summa2D>;
      Task<S, std::decay_t<decltype(mesh)>> task{mesh};
      using Whole = Rule<S, void>;
      std::conditional_t<sharded, Sharded<Whole>, Whole> optimizer{task.mlp.parameters()};
      Trainer trainer{task.mlp, optimizer, checked({.steps = 3})};
      return message_of<ReplicaError>([&] {
        (void)trainer.run([&](const MicroBatch& b) {
          const double loss = task(b);
          double& x = task.mlp.parameters()[0].value.valid()(0, 0);
          if (b.index == 1 && mesh.rank() == 5) x = std::nextafter(x, infinity);
          return loss;
        });
      });
    });
    for (const auto& text : all) CHECK(text == all.front());
    return all.front();
  };
  const std::string text = "layers.0.weight differs along data between rank 1 and rank 5";
  CHECK(mentions(message(std::false_type{}), text));
  CHECK(mentions(message(std::true_type{}), text));
}

TEST_CASE("a trainer's monitor names the step of a loss that is not finite, sharded or not")
{
  if (!fits(two_meshes)) return;
  const auto message = [](auto sharded) {
    return on_root(two_meshes, [&](const auto& mesh) {
      using S = DataParallel<Summa2D>;
      Task<S, std::decay_t<decltype(mesh)>> task{mesh};
      using Whole = Rule<S, void>;
      std::conditional_t<sharded, Sharded<Whole>, Whole> optimizer{task.mlp.parameters()};
      Trainer trainer{task.mlp, optimizer, {.steps = 5, .monitor = {.finite_every = 2}}};
      return message_of<NumericError>([&] {
        (void)trainer.run([&](const MicroBatch& b) {
          const double loss = task(b);
          return b.index == 0 || b.index == 3 ? std::nan("") : loss;
        });
      });
    });
  };
  CHECK(mentions(message(std::false_type{}), "a NaN in the loss in step 4"));
  CHECK(mentions(message(std::true_type{}), "a NaN in the loss in step 4"));
}

TEST_CASE("a report has the mean loss of the steps since the last one")
{
  if (!fits(two_by_two)) return;
  std::fflush(stdout);
  std::FILE* const printed = std::tmpfile();
  REQUIRE(printed != nullptr);
  const int before = dup(STDOUT_FILENO);
  dup2(fileno(printed), STDOUT_FILENO);
  (void)on_root(two_by_two, [](const auto& mesh) {
    Task<Summa2D, std::decay_t<decltype(mesh)>> task{mesh};
    AdamW optimizer{task.mlp.parameters()};
    Trainer trainer{
        task.mlp, optimizer, {.steps = 5, .micro_batches = 2, .report_every = 2, .samples = 3}};
    (void)trainer.run([&](const MicroBatch& b) {
      (void)task(b);
      return static_cast<double>(b.index);
    });
    return 0;
  });
  std::fflush(stdout);
  dup2(before, STDOUT_FILENO);
  close(before);
  std::rewind(printed);
  std::string text(10'000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), printed));
  std::fclose(printed);
  if (!first_process()) return;  // rank 0 prints
  CHECK(mentions(text, "step 2/5  loss 1.5000  ", "step 4/5  loss 5.5000  ",
                 "step 5/5  loss 8.5000  ", " tokens/s  waiting ", " left\n"));
  for (const char* other : {"step 1/5", "step 3/5"}) CHECK(!mentions(text, other));
}

TEST_CASE("a report's rate counts all samples of its steps, and its waits are a part of its time")
{
  for (const auto& report : on_mesh(two_by_two, [](const auto& mesh) {
         ProgressWindow window;
         for (const double loss : {1.0, 2.0, 6.0}) window.add(loss);
         if (mesh.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds{20});
         mesh.world().barrier();  // three ranks wait
         const auto r = window.report(mesh, 5);
         return std::vector{r.loss, r.rate * r.seconds_a_step, r.waiting};
       }))
  {
    CHECK(report[0] == 3);
    CHECK(report[1] == Approx(5).epsilon(1e-14));
    CHECK((report[2] >= 0 && report[2] <= 1));
  }
}

TEST_CASE("a run continues from its checkpoint, on another mesh too")
{
  if (!fits(two_meshes)) return;
  const Folder folder;
  const TrainerOptions whole{.steps = 8, .learning_rate = schedule, .clip = 0.1};
  TrainerOptions half = whole;
  half.checkpoints = folder / "same";
  half.steps = 5;
  half.save_every = 2;
  half.keep = 0;
  (void)train(two_by_two, half);
  const Found wanted = train(two_by_two, whole);
  once([&] {
    for (const int step : {2, 4, 5})
      CHECK(std::filesystem::exists(folder / "same" /
                                    ("step-00000000000" + std::to_string(step) + ".safetensors")));
    std::filesystem::copy(folder / "same", folder / "other");
  });
  half.steps = 8;
  const Found same = train(two_by_two, half);
  CHECK(same.run.first == 5);
  CHECK(same.run.losses ==
        std::vector<double>(wanted.run.losses.begin() + 5, wanted.run.losses.end()));
  CHECK(same.values == wanted.values);
  half.checkpoints = folder / "other";
  const Found other = train(two_meshes, half);
  CHECK(other.run.first == 5);
  CHECK(deviation(other.values, wanted.values) < 1e-9);
}

TEST_CASE("checkpoints that a run saves in the background are those that it saves otherwise")
{
  if (!fits(two_by_two)) return;
  const Folder folder;
  TrainerOptions options{
      .steps = 9, .checkpoints = folder / "save", .save_every = 2, .keep = 0, .copies = 0};
  (void)train(two_by_two, options);
  options.save_in_background = true;
  const auto file = [](int step) {
    return "step-00000000000" + std::to_string(step) + ".safetensors";
  };
  for (const std::size_t copies : {0U, 1U})
    for (const auto in_flight : {SaveInFlight::wait, SaveInFlight::skip})
    {
      CAPTURE(copies, in_flight == SaveInFlight::skip);
      options.copies = copies;
      options.in_flight = in_flight;
      options.checkpoints =
          folder / (std::to_string(copies) + (in_flight == SaveInFlight::skip ? "s" : "w"));
      const Found found = train(two_by_two, options);
      std::uint64_t missing = 0;
      for (const int step : {2, 4, 6, 8, 9})
        if (std::filesystem::exists(options.checkpoints / file(step)))
          CHECK(contents(options.checkpoints / file(step)) ==
                contents(folder / "save" / file(step)));
        else
          ++missing;
      CHECK(std::filesystem::exists(options.checkpoints / file(9)));
      if (first_process()) CHECK(missing == found.run.skipped_saves);
      if (in_flight == SaveInFlight::wait) CHECK(missing == 0);
    }
}

/// The lines of a run's log.
static std::vector<nlohmann::json> lines_of(const std::filesystem::path& log)
{
  std::istringstream text{contents(log)};
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}
/// One number of each line, by its name; NaN if it is null or missing.
static std::vector<double> column(const std::filesystem::path& log, const char* name)
{
  std::vector<double> values;
  for (const auto& line : lines_of(log))
    values.push_back(line.contains(name) && line[name].is_number()
                         ? line[name].get<double>()
                         : std::numeric_limits<double>::quiet_NaN());
  return values;
}

TEST_CASE("a step whose gradients overflow is skipped, and halves the loss scale")
{
  if (!fits(two_by_two)) return;
  const Folder folder;
  const auto overflow = [](std::uint64_t step) { return step == 1 ? infinity : 1.0; };
  const TrainerOptions options{.steps = 2,
                               .learning_rate = schedule,
                               .loss_scale = LossScaleOptions{.initial = 4},
                               .monitor = {.finite_every = 1},
                               .log = folder / "run.jsonl"};
  const Found skipped = train(two_by_two, options, overflow);
  TrainerOptions one = options;
  one.log.clear();
  one.steps = 1;
  CHECK(skipped.values == train(two_by_two, one).values);
  one.loss_scale.reset();
  CHECK(deviation(skipped.values, train(two_by_two, one).values) < 1e-12);
  const auto lines = lines_of(folder / "run.jsonl");
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["step"] == 1);
  CHECK(lines[0]["loss"].get<double>() == skipped.run.losses[0]);
  CHECK(lines[0]["skipped"] == 0);
  CHECK(lines[1]["skipped"] == 1);
  CHECK(lines[1]["loss_scale"] == 4);
  CHECK(lines[1]["gradient_norm"].is_null());
  // The schedule counts a skipped step, too.
  CHECK(column(options.log, "learning_rate") == std::vector<double>{0.01, 0.02});
}

TEST_CASE("the metrics that a report prints are in the last line of their step in the log")
{
  if (!fits(two_by_two)) return;
  const Folder folder;
  const TrainerOptions options{.steps = 5, .report_every = 2, .log = folder / "run.jsonl"};
  const auto losses = on_root(two_by_two, [&](const auto& mesh) {
    Task<Summa2D, std::decay_t<decltype(mesh)>> task{mesh};
    AdamW optimizer{task.mlp.parameters()};
    Trainer trainer{task.mlp, optimizer, options};
    return trainer
        .run([&](const MicroBatch& b) { return task(b); },
             [](std::uint64_t step) {
               const auto n = static_cast<double>(step);
               return std::vector<NamedValue>{
                   {"held-out loss", n / 4}, {"accuracy", n / 8}, {"loss", -n}, {"step", 9}};
             })
        .losses;
  });
  std::istringstream log{contents(folder / "run.jsonl")};
  std::map<int, nlohmann::json> last;
  int lines = 0;
  for (std::string line; std::getline(log, line); ++lines)
  {
    const auto row = nlohmann::json::parse(line);
    last[row["step"].get<int>()] = row;
  }
  CHECK(lines == 8);  // 5 steps, of which 2, 4 and 5 were evaluated
  REQUIRE(last.size() == 5);
  for (int step = 1; step <= 5; ++step)
  {
    CAPTURE(step);
    CHECK(last[step]["loss"] == losses[static_cast<std::size_t>(step - 1)]);
    CHECK(last[step]["seconds"].is_number());
    const bool evaluated = step % 2 == 0 || step == 5;
    CHECK(last[step].contains("held-out loss") == evaluated);
    if (!evaluated) continue;
    CHECK(last[step]["held-out loss"] == step / 4.0);
    CHECK(last[step]["accuracy"] == step / 8.0);
    CHECK(last[step]["evaluated loss"] == -step);
    CHECK(last[step]["evaluated step"] == 9);
  }
}

TEST_CASE("a loss scale changes neither the values of a clipped run nor its logged norms")
{
  if (!fits(two_by_two)) return;
  const Folder folder;
  TrainerOptions plain{.steps = 6, .micro_batches = 2, .learning_rate = schedule, .clip = 0.1};
  TrainerOptions scaled = plain;
  // The scale grows within the run, so that a step's scale differs from the next one's.
  scaled.loss_scale = LossScaleOptions{.initial = 4, .growth_interval = 2};
  plain.log = folder / "plain.jsonl";
  scaled.log = folder / "scaled.jsonl";
  // A power of two changes no bits.
  const Found wanted = train(two_by_two, plain);
  const Found found = train(two_by_two, scaled);
  CHECK(found == wanted);
  const auto norms = column(plain.log, "gradient_norm");
  REQUIRE(norms.size() == 6);
  for (const double norm : norms) CHECK(norm > plain.clip);
  CHECK(column(scaled.log, "gradient_norm") == norms);
  CHECK(column(scaled.log, "loss_scale") == std::vector<double>{4, 4, 8, 8, 16, 16});
  CHECK(column(scaled.log, "learning_rate") == column(plain.log, "learning_rate"));
  CHECK(column(scaled.log, "loss") == column(plain.log, "loss"));

  // There is no clipping, and a scale that rounds.
  TrainerOptions loose = scaled;
  loose.clip = plain.clip = 0;
  loose.loss_scale->initial = 3;
  plain.log.clear(), loose.log = folder / "loose.jsonl";
  CHECK(deviation(train(two_by_two, loose).values, train(two_by_two, plain).values) < 1e-12);
  CHECK(column(loose.log, "gradient_norm")[0] == Approx(norms[0]).epsilon(1e-14));
}

TEST_CASE("a loss scale continues from a checkpoint as it was, with the steps to its growth")
{
  if (!fits(two_by_two)) return;
  const Folder folder;
  TrainerOptions whole{
      .steps = 7, .clip = 0.1, .loss_scale = LossScaleOptions{.initial = 4, .growth_interval = 3}};
  TrainerOptions first = whole;
  whole.log = folder / "whole.jsonl";
  const Found wanted = train(two_by_two, whole);
  first.checkpoints = folder / "run";
  first.log = folder / "first.jsonl";
  first.steps = 4;
  (void)train(two_by_two, first);
  first.steps = 7;
  const Found rest = train(two_by_two, first);
  CHECK(rest.run.first == 4);
  CHECK(rest.values == wanted.values);
  for (const char* name : {"loss_scale", "gradient_norm", "skipped"})
    CHECK(column(first.log, name) == column(whole.log, name));
  CHECK(column(whole.log, "loss_scale") == std::vector<double>{4, 4, 4, 8, 8, 8, 16});
}

TEST_CASE("a sharded optimizer is clipped, scaled and skipped as one that is not")
{
  if (!fits(two_meshes)) return;
  const Folder folder;
  const auto overflow = [](std::uint64_t step) { return step == 2 ? infinity : 1.0; };
  TrainerOptions options{.steps = 5,
                         .micro_batches = 2,
                         .clip = 0.1,
                         .loss_scale = LossScaleOptions{.initial = 4, .growth_interval = 2}};
  options.log = folder / "whole.jsonl";
  const Found wanted = train(two_meshes, options, overflow);
  const auto norms = column(options.log, "gradient_norm");
  options.log = folder / "sharded.jsonl";
  const Found found = train_sharded(options, overflow);
  CHECK(deviation(found.values, wanted.values) < 1e-12);
  CHECK(column(options.log, "loss_scale") == std::vector<double>{4, 4, 8, 4, 4});
  CHECK(column(options.log, "skipped") == std::vector<double>{0, 0, 1, 0, 0});
  const auto parts = column(options.log, "gradient_norm");
  REQUIRE(parts.size() == norms.size());
  for (std::size_t i = 0; i < norms.size(); ++i)
  {
    CHECK(std::isfinite(norms[i]) == (i != 2));
    if (i != 2) CHECK(parts[i] == Approx(norms[i]).epsilon(1e-13));
  }
}

TEST_CASE("a run continues after one that an exception ended between the micro-batches of a step")
{
  if (!fits(two_ranks)) return;
  const auto check = [](auto sharded) {
    const Folder folder;
    const auto values = [&](const char* name, bool fails) {
      return on_root(two_ranks, [&](const auto& mesh) {
        using S = DataParallel<Summa2D>;
        Task<S, std::decay_t<decltype(mesh)>> task{mesh};
        using Whole = Rule<S, void>;
        using Optimizer = std::conditional_t<sharded, Sharded<Whole>, Whole>;
        const auto make = [&] {
          if constexpr (sharded)
            return Optimizer{task.mlp.parameters(), {}, 3};
          else
            return Optimizer{task.mlp.parameters()};
        };
        Optimizer optimizer = make();
        Trainer trainer{
            task.mlp,
            optimizer,
            {.steps = 4, .micro_batches = 3, .checkpoints = folder / name, .save_every = 1}};
        std::string caught;
        if (fails)
          caught = message_of<DataError>([&] {
            (void)trainer.run([&](const MicroBatch& b) {
              if (b.index == 7) throw DataError{"got no data, so there is no step; give some"};
              return task(b);
            });
          });
        const auto run = trainer.run([&](const MicroBatch& b) { return task(b); });
        auto all = values_of(task.mlp);
        all.push_back(fails ? (caught.empty() || run.first != 2 ? 1 : 0) : 0);
        return all;
      });
    };
    CHECK(values("failed", true) == values("whole", false));
  };
  check(std::false_type{});
  check(std::true_type{});
}

TEST_CASE("a signal ends a run after its step, with a checkpoint and a code")
{
  if (!fits(two_by_two)) return;
  const Folder folder;
  const TrainerOptions options{.steps = 6, .checkpoints = folder.path()};
  const Found stopped = train(two_by_two, options, [](std::uint64_t step) {
    if (step == 3 && first_process()) (void)std::raise(SIGUSR1);
    return 1.0;
  });
  StopSignal::reset();
  CHECK(stopped.run.stopped);
  CHECK(stopped.run.steps == 4);
  CHECK(stopped.run.exit_code() == requeue_exit_code);
  const Found rest = train(two_by_two, options);
  CHECK(rest.run.first == 4);
  CHECK(rest.values == train(two_by_two, {.steps = 6}).values);
  // After the last step nothing is left to go on with.
  const Found complete = train(two_by_two, {.steps = 2}, [](std::uint64_t step) {
    if (step == 1 && first_process()) (void)std::raise(SIGUSR1);
    return 1.0;
  });
  CHECK(StopSignal::received() == first_process());
  StopSignal::reset();
  CHECK(complete.run.exit_code() == 0);
}

TEST_CASE("a trainer refuses options that would train differently from what they say")
{
  const auto message = [&](const TrainerOptions& options, std::size_t sharded) {
    return on_root(one_rank, [&](const auto& mesh) -> std::string {
      Task<Summa2D, std::decay_t<decltype(mesh)>> task{mesh};
      try
      {
        Sharded<Rule<Summa2D, void>> optimizer{task.mlp.parameters(), {}, sharded};
        Trainer{task.mlp, optimizer, options};
        return "";
      }
      catch (const ArgumentError& e)
      {
        return e.what();
      }
    });
  };
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(message({.micro_batches = 2}, 1),
             ContainsSubstring("2 micro-batches and an optimizer for 1"));
  CHECK_THAT(message({.micro_batches = 0}, 1), ContainsSubstring("0 micro-batches"));
  CHECK_THAT(message({.clip = -1}, 1), ContainsSubstring("norm of -1"));
}

}  // namespace cubist::test::trainer_test
