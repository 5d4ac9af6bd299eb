// SPDX-License-Identifier: BSD-3-Clause
#include <latch>

#include "cubist/io/checkpoints.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"

#include "checked_step.hpp"
#include "folder.hpp"
#include "nn.hpp"
#include "watchdog.hpp"
#ifndef CUBIST_TEST_MPI
#include "interrupted.hpp"
#endif

namespace cubist::test::io_checkpoints_test
{

constexpr std::size_t rows = 12;
const std::vector<std::size_t> sizes{7, 11, 5};

struct Trained
{
  std::uint64_t began = 0;
  std::vector<double> losses;
};

/// Trains from the newest checkpoint up to step `last`, and saves every third step.
/// @param copies CheckpointOptions::copies for saves in the background; without it, saves are at
/// once
template <class T = double, class Optimizer, class S>
Trained train(const Place<S>& place, const std::filesystem::path& folder, std::uint64_t last,
              std::uint64_t seed = 3, std::size_t keep = 0, std::optional<std::size_t> copies = {})
{
  return on_root(place, [&](const auto& mesh) {
    MLP<S, TestBackend, T> mlp{mesh, sizes, {.dropout = 0.25, .seed = seed}};
    typename Optimizer::template On<T, typename decltype(mlp)::Mesh> optimizer{mlp.parameters()};
    Checkpoints checkpoints{mesh, folder, {.keep = keep, .copies = copies.value_or(1)}};
    const auto state = state_of(mlp, optimizer);
    Trained run{checkpoints.load(state).value_or(0), {}};
    const typename decltype(mlp)::Activations x{
        scatter<typename S::Input>(mesh, uniform<T>(rows, sizes.front(), 1, 2))};
    for (auto step = run.began; step < last;)
    {
      const auto& y = mlp.forward(x);
      auto dy = zeros_like(y);
      run.losses.push_back(softmax_cross_entropy(y, classes(rows, sizes.back()), dy));
      mlp.backward(dy);
      checked_step(optimizer, mlp.parameters());
      if (++step % 3 != 0) continue;
      if (copies)
        checkpoints.save_in_background(step, state);
      else
        checkpoints.save(step, state);
    }
    return run;
  });
}

struct ByAdam
{
  template <class T, class M>
  using On = Adam<T, M>;
};

/// An SGD optimizer with momentum, because it has no state without.
struct BySgd
{
  template <class T, class M>
  struct On : Sgd<T, M>
  {
    explicit On(const Parameters<T, M>& p)
        : Sgd<T, M>{p, {.learning_rate = 0.05, .momentum = 0.9}}
    {
    }
  };
};

static std::vector<double> from(const std::vector<double>& all, std::size_t begin)
{
  return {all.begin() + static_cast<std::ptrdiff_t>(begin), all.end()};
}

TEMPLATE_TEST_CASE(
    "a run continues from a checkpoint with the same bits, and on other meshes with the "
    "same numbers",
    "", ByAdam, BySgd)
{
  if (!fits(8)) return;
  const Folder folder;
  const auto whole = train<double, TestType>(two_two_two, folder / "whole", 9);
  (void)train<double, TestType>(two_two_two, folder / "half", 3);
  const auto continue_on = [&](const auto& place, const char* name) {
    once([&] { std::filesystem::copy(folder / "half", folder / name); });
    const auto run = train<double, TestType>(place, folder / name, 9);
    CHECK(run.began == 3);
    return run.losses;
  };
  const auto expected = from(whole.losses, 3);
  CHECK(continue_on(two_two_two, "same") == expected);
  CHECK(deviation(continue_on(two_by_two, "square"), expected) < 1e-12);
  CHECK(deviation(continue_on(one_rank, "one"), expected) < 1e-12);
  // The files are the same, too.
  CHECK(contents(folder / "same" / "step-000000000009.safetensors") ==
        contents(folder / "whole" / "step-000000000009.safetensors"));
}

TEST_CASE("a run continues from a checkpoint that version 0.3.0 wrote, on any mesh")
{
  // The losses of the next steps on 0.3.0, on the mesh on which tests/data/checkpoints was written.
  const std::vector<double> expected{1.5416082977329488, 1.4730500460732294, 1.443824329801747};
  const auto continue_on = [&](const auto& place) {
    const Folder folder;
    once([&] { std::filesystem::copy(CUBIST_TRANSFORMER_DATA "/../checkpoints", folder / "run"); });
    const auto run = train<double, ByAdam>(place, folder / "run", 6);
    CHECK(run.began == 3);
    CHECK(deviation(run.losses, expected) < 1e-12);
  };
  continue_on(one_rank);
  if (fits(4)) continue_on(two_by_two);
  if (fits(8)) continue_on(two_two_two);
}

TEST_CASE("a run in bfloat16, with master weights, continues from a checkpoint with the same bits")
{
  if (!fits(4)) return;
  const Folder folder;
  const auto whole = train<bfloat16, ByAdam>(two_by_two, folder / "whole", 6);
  (void)train<bfloat16, ByAdam>(two_by_two, folder / "part", 3);
  const auto rest = train<bfloat16, ByAdam>(two_by_two, folder / "part", 6);
  CHECK(rest.began == 3);
  CHECK(rest.losses == from(whole.losses, 3));
  const auto name = "step-000000000006.safetensors";
  CHECK(contents(folder / "part" / name) == contents(folder / "whole" / name));
  CHECK(mentions(contents(folder / "part" / name), "adam.master.layers.0.weight", "BF16", "F32"));
}

static std::set<std::string> names(const std::filesystem::path& folder)
{
  std::set<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator{folder})
    all.insert(entry.path().filename().string());
  return all;
}

TEST_CASE("the newest checkpoints are kept, as many as requested")
{
  const Folder folder;
  (void)train<double, ByAdam>(one_rank, folder / "a", 12, 3, 2);
  CHECK(names(folder / "a") ==
        std::set<std::string>{"step-000000000009.safetensors", "step-000000000012.safetensors"});

  // Other files in the folder are not checkpoints, and stay.
  once([&] {
    for (const char* name : {"step-000000000013.safetensors.part", "step-13.safetensors",
                             "step-99999999999999999999.safetensors", "step-.safetensors", "notes"})
      write_contents(folder / "a" / name, "?");
  });
  const auto run = train<double, ByAdam>(one_rank, folder / "a", 15, 3, 1);
  CHECK(run.began == 12);
  CHECK(names(folder / "a").size() == 6);

  // A run that went back to an older step does not remove the newer ones.
  (void)on_mesh(one_rank, [&](const auto& mesh) {
    MLP<Summa2D, TestBackend, double> mlp{mesh, sizes};
    Checkpoints{mesh, folder / "a", {.keep = 1}}.save(6, state_of(mlp));
    Checkpoints{mesh, folder / "a", {.keep = 1}}.save(9, state_of(mlp));
    return 0;
  });
  CHECK(names(folder / "a").size() == 7);
  CHECK(names(folder / "a").contains("step-000000000009.safetensors"));
}

TEST_CASE("a state is not set from a checkpoint of another network or configuration")
{
  const Folder folder;
  const auto path = folder / "a" / "step-000000000003.safetensors";
  (void)train<double, ByAdam>(one_rank, folder / "a", 3);
  const auto message = [](auto f) { return message_of<DataError>(f); };

  CHECK(mentions(message([&] { (void)train<double, ByAdam>(one_rank, folder / "a", 6, 4); }),
                 "seed = 3", "this run has 4", "set it to 3"));
  CHECK(mentions(message([&] { (void)train<bfloat16, ByAdam>(one_rank, folder / "a", 6); }), "F64",
                 "BF16"));
  CHECK(mentions(message([&] { (void)train<double, BySgd>(one_rank, folder / "a", 6); }),
                 "adam.mean", "does not have"));

  auto text = contents(path);
  text[text.size() - 3] ^= 1;
  once([&] { write_contents(path, text); });
  CHECK(mentions(message([&] { (void)train<double, ByAdam>(one_rank, folder / "a", 6); }),
                 path.filename().string(), "damaged"));
  CHECK(mentions(message([&] {
                   (void)on_mesh(one_rank, [&](const auto& mesh) {
                     MLP<Summa2D, TestBackend, double> mlp{mesh, sizes};
                     Checkpoints{mesh, folder / "a"}.load(7, state_of(mlp));
                     return 0;
                   });
                 }),
                 "cannot open", "step-000000000007"));
}

template <class T>
std::vector<Global<T>> gather_all(const auto& state)
{
  std::vector<Global<T>> all;
  for (const auto& [name, matrix] : state.matrices) all.push_back(gather(matrix));
  return all;
}

/// A state to load: a matrix, an accumulator, a number and a setting.
struct SmallState
{
  using M = AxisMesh<Summa2D::Axes, TestBackend>;

  DistMatrix<double, Summa2D::Input, M> matrix, accumulator;
  std::uint64_t steps, seed = 3;

  SmallState(const M& mesh, double value, std::uint64_t n, Shape shape = {2, 3})
      : matrix{mesh, {2, 3}},
        accumulator{mesh, shape},
        steps{n}
  {
    const auto fill = [value](std::size_t i, std::size_t j) {
      return value + static_cast<double>(10 * i + j);
    };
    matrix.generate(fill);
    accumulator.generate(fill);
  }

  [[nodiscard]] State<double, M> state(const std::string& accumulator_name = "a")
  {
    return {.matrices = {{"x", matrix.view()}},
            .numbers = {{"steps", &steps}, {"seed", &seed, true}},
            .accumulators = {{accumulator_name, accumulator.view()}}};
  }
};

TEST_CASE("files that are saved in the background are those of save, byte for byte")
{
  const Watchdog watchdog;
  if (!fits(8)) return;
  const Folder folder;
  const auto compare = [&](const char* scalar, auto run) {
    (void)run(folder / scalar / "save", std::nullopt);
    for (const std::size_t copies : {0U, 1U})
    {
      CAPTURE(scalar, copies);
      const auto name = "background" + std::to_string(copies);
      (void)run(folder / scalar / name, copies);
      CHECK(names(folder / scalar / name) == names(folder / scalar / "save"));
      for (const auto& file : names(folder / scalar / "save"))
        CHECK(contents(folder / scalar / name / file) == contents(folder / scalar / "save" / file));
    }
  };
  compare("double", [](const auto& path, auto copies) {
    return train<double, ByAdam>(two_two_two, path, 12, 3, 3, copies);
  });
  compare("bfloat16", [](const auto& path, auto copies) {
    return train<bfloat16, ByAdam>(two_by_two, path, 6, 3, 0, copies);
  });
}

/// A file whose parts are written only when this rank says so.
struct Blocked
{
  std::latch may_write{1};
  detail::BackgroundFile file;

  Blocked(const std::filesystem::path& path, const SmallState::M& mesh,
          const State<double, SmallState::M>& state)
      : file{.path = path,
             .header = detail::make_header({}, state.matrices),
             .bytes = 1000,
             .rank = mesh.rank(),
             .ranks = mesh.size(),
             .writes = {[this](File&, const auto&) {
               may_write.wait();
               return std::uint64_t{0};
             }},
             .published = [] {}}
  {
  }
  void start(const SmallState::M& mesh, detail::BackgroundSave& background) const
  {
    if (mesh.rank() == 0) background.create(file);
    mesh.world().barrier();
    background.start(file, false);
  }
};

TEST_CASE("a save in the background waits for the one before it, or is skipped and says so")
{
  const Watchdog watchdog;
  if (!fits(4)) return;
  const Folder folder;
  require_clear(on_mesh(two_by_two, [&](const SmallState::M& mesh) {
    Findings found;
    SmallState saved{mesh, 0.5, 7};
    const auto path = folder.path().string();
    detail::BackgroundSave background;
    Blocked blocked{folder / "blocked", mesh, saved.state()};
    blocked.start(mesh, background);
    const auto start = [&](std::uint64_t step, SaveInFlight in_flight) {
      return detail::start_checkpoint(mesh, background, path, {.in_flight = in_flight}, step,
                                      saved.state());
    };
    found.check(!start(1, SaveInFlight::skip), "a save is not skipped");
    // Some ranks have written, but the save is still in flight.
    if (mesh.rank() != 0) blocked.may_write.count_down();
    found.check(!start(2, SaveInFlight::skip), "a save of few ranks is not skipped");
    if (mesh.rank() == 0) blocked.may_write.count_down();
    found.check(start(3, SaveInFlight::wait), "a save is skipped");
    detail::finish_save(mesh, background);
    found.check(start(4, SaveInFlight::skip), "a save is skipped when none is in flight");
    return found;
  }));
  CHECK(names(folder.path()) == std::set<std::string>{"blocked", "step-000000000003.safetensors",
                                                      "step-000000000004.safetensors"});
}

TEST_CASE("an error of a save in the background is thrown by the next call, on every rank")
{
  const Watchdog watchdog;
  if (!fits(4)) return;
  const Folder folder;
  once([&] { write_contents(folder / "file", "?"); });
  require_clear(on_mesh(two_by_two, [&](const SmallState::M& mesh) {
    Findings found;
    SmallState saved{mesh, 0.5, 7};
    const auto refuses = [&](const char* what, auto f, const auto&... parts) {
      const auto message = message_of<DataError>(f);
      found.check(mentions(message, parts...), what, ": ", message);
    };
    {
      Checkpoints checkpoints{mesh, folder / "file" / "run"};
      refuses(
          "a folder that cannot be made", [&] { checkpoints.save_in_background(1, saved.state()); },
          "cannot create the folder", "file", "on rank 0");
      Checkpoints two{mesh, folder / "run", {.copies = 2}};
      const auto message =
          message_of<ArgumentError>([&] { two.save_in_background(1, saved.state()); });
      found.check(mentions(message, "2 copies"), message);
    }
    const auto path = folder.path().string();
    detail::BackgroundSave background;
    const auto start = [&](std::uint64_t step, SaveInFlight in_flight) {
      (void)detail::start_checkpoint(mesh, background, path, {.in_flight = in_flight}, step,
                                     saved.state());
    };
    start(1, SaveInFlight::wait);
    detail::finish_save(mesh, background);
    for (const auto in_flight : {SaveInFlight::wait, SaveInFlight::skip})
    {
      Blocked blocked{folder / "blocked", mesh, saved.state()};
      if (mesh.rank() == 2)
        blocked.file.writes[0] = [](File& file, const auto&) -> std::uint64_t {
          throw DataError{"cannot write to " + file.path() + " (No space)"};
        };
      else
        blocked.may_write.count_down();
      blocked.start(mesh, background);
      (void)background.wait_for_part();
      refuses(
          "a rank that cannot write", [&] { start(2, in_flight); }, "blocked.part", "No space",
          "on rank 2");
    }
    start(3, SaveInFlight::wait);
    detail::finish_save(mesh, background);
    return found;
  }));
  CHECK(names(folder.path()) == std::set<std::string>{"file", "step-000000000001.safetensors",
                                                      "step-000000000003.safetensors"});
}

TEST_CASE("what is in flight is finished when a run ends, as it should or by an error")
{
  const Watchdog watchdog;
  if (!fits(4)) return;
  const Folder folder;
  const auto run = [&](std::uint64_t step, bool fails) {
    (void)on_mesh(two_by_two, [&](const auto& mesh) {
      SmallState saved{mesh, 0.5, step};
      Checkpoints checkpoints{mesh, folder.path()};
      checkpoints.save_in_background(step, saved.state());
      require<ArgumentError>(!fails || mesh.rank() != 1, "stop");
      mesh.world().barrier();
      return 0;
    });
  };
  run(1, false);
  CHECK(message_of<ArgumentError>([&] { run(2, true); }) == "rank 1: stop");
  CHECK(names(folder.path()) ==
        std::set<std::string>{"step-000000000001.safetensors", "step-000000000002.safetensors"});
}

TEST_CASE("a folder to which another run saves is refused, on every rank")
{
  const Watchdog watchdog;
  if (!fits(4)) return;
  const Folder folder;
  std::optional<File> other;
  once([&] {
    other.emplace(folder / ".lock", File::Mode::create);  // as another process would
    (void)::flock(other->descriptor(), LOCK_EX | LOCK_NB);
  });
  const auto run = [&](auto save) {
    return message_of<DataError>([&] {
      (void)on_mesh(two_by_two, [&](const auto& mesh) {
        SmallState saved{mesh, 0.5, 7};
        Checkpoints checkpoints{mesh, folder.path()};
        save(checkpoints, saved);
        return 0;
      });
    });
  };
  CHECK(mentions(run([](auto& c, auto& saved) { c.save(1, saved.state()); }), "another run"));
  CHECK(mentions(run([](auto& c, auto& saved) { c.save_in_background(1, saved.state()); }),
                 "another run", "on rank 0"));
  once([&] { other.reset(); });
  CHECK(run([](auto& c, auto& saved) { c.save(1, saved.state()); }).empty());
}

TEST_CASE("a load that is refused leaves the state unchanged, or at least its numbers")
{
  if (!fits(4)) return;
  const Folder folder;
  require_clear(on_mesh(two_by_two, [&](const auto& mesh) {
    Findings found;
    SmallState saved{mesh, 0.5, 7};
    Checkpoints checkpoints{mesh, folder.path()};
    checkpoints.save(1, saved.state());
    SmallState other{mesh, -1, 2};
    const auto refuses = [&](const char* what, State<double, SmallState::M> s,
                             bool keeps_matrices = true) {
      const auto before = gather_all<double>(s);
      const auto message = message_of<Error>([&] { checkpoints.load(1, s); });
      found.check(!message.empty(), what, " is loaded");
      found.check(!keeps_matrices || gather_all<double>(s) == before, what, " changed a matrix");
      found.check(other.steps == 2, what, " changed the number of steps");
    };
    auto state = other.state();
    state.numbers.push_back({"more", &other.steps});
    refuses("a missing number", state);
    other.seed = 4;
    refuses("another seed", other.state());
    other.seed = 3;
    refuses("a missing accumulator", other.state("b"));
    state = other.state();
    state.matrices[0].name = "y";
    refuses("a missing matrix", state);
    state = other.state();
    SmallState wide{mesh, -1, 2, {2, 4}};
    state.accumulators[0].matrix = wide.accumulator.view();
    refuses("an accumulator of another shape", state);

    mesh.world().barrier();
    if (mesh.rank() == 0)
    {
      auto text = contents(checkpoints.file(1));
      text.back() ^= 1;
      write_contents(checkpoints.file(1), text);
    }
    mesh.world().barrier();
    refuses("a damaged element", other.state(), false);
    checkpoints.save(1, saved.state());
    checkpoints.load(1, other.state());
    found.check(other.steps == 7, "the number of steps is not loaded");
    found.check(gather_all<double>(other.state()) == gather_all<double>(saved.state()),
                "other matrices are loaded");
    return found;
  }));
}

#ifndef CUBIST_TEST_MPI
TEST_CASE("a save that is interrupted leaves the checkpoint before it, or its own",
          "[.interrupted]")
{
  const Folder folder;
  const auto on = [&](const auto& place, bool in_background) {
    return [&folder, place, in_background](std::uint64_t step) {
      (void)on_mesh(place, [&](const auto& mesh) {
        SmallState saved{mesh, static_cast<double>(step), step};
        Checkpoints checkpoints{mesh, folder / "new" / "run", {.keep = 1}};
        if (!in_background) return checkpoints.save(step, saved.state()), 0;
        checkpoints.save_in_background(step, saved.state());
        checkpoints.wait();
        return 0;
      });
    };
  };
  const auto loaded = [&] {
    return on_root(one_rank, [&](const auto& mesh) {
      SmallState state{mesh, 0, 0};
      const auto step = Checkpoints{mesh, folder / "new" / "run"}.load(state.state());
      const double first = state.matrix.local()(0, 0);
      return step && state.steps == *step && first == static_cast<double>(*step) ? *step : 0;
    });
  };
  using Save = std::function<void(std::uint64_t)>;
  struct Case
  {
    Save save;
    std::uint64_t former;  // the step of the checkpoint before; 0: none
    Interruption how;
    int error = EIO;
  };
  std::vector<Case> cases;
  for (const auto how : {Interruption::death, Interruption::error})
  {
    for (const bool in_background : {false, true})
      for (const std::uint64_t former : {0U, 4U, 5U})
        cases.push_back({on(one_rank, in_background), former, how});
    cases.push_back({on(two_by_two, true), 4, how});
  }
  for (const int error : {ENOSPC, EDQUOT})
    for (const bool in_background : {false, true})
      cases.push_back({on(one_rank, in_background), 4, Interruption::error, error});
  for (const Case& c : cases)
  {
    const std::uint64_t former = c.former;
    const Save& save = c.save;
    CAPTURE(&c - cases.data(), former);
    const int calls = interrupt_each_call(
        c.how,
        [&] {
          std::filesystem::remove_all(folder / "new");
          if (former > 0) save(former);
        },
        [&] { save(5); },
        [&](bool was_interrupted) {
          const auto step = loaded();
          CHECK((step == 5 || (was_interrupted && step == former)));
        },
        c.error);
    CHECK(calls > 0);
  }
}

TEST_CASE("a save in the background that fills the disk or the quota is an error of the next call",
          "[.interrupted]")
{
  const Watchdog watchdog;
  const auto fill = [](const char* call, int error, std::size_t copies, bool waits) {
    const std::string cause = std::generic_category().message(error);
    CAPTURE(call, cause, copies, waits);
    const Folder folder;
    require_clear(on_mesh(two_by_two, [&](const SmallState::M& mesh) {
      Findings found;
      SmallState saved{mesh, 1, 1}, loaded{mesh, 0, 0};
      Checkpoints checkpoints{mesh, folder.path(), {.copies = copies}};
      checkpoints.save(1, saved.state());
      if (mesh.rank() == 0) refuse_call(call, error);
      mesh.world().barrier();
      checkpoints.save_in_background(2, saved.state());
      const auto message = message_of<DataError>([&] {
        if (waits)
          checkpoints.wait();
        else
          checkpoints.save_in_background(3, saved.state());
      });
      found.check(mentions(message, "cannot write to", "step-000000000002.safetensors", cause,
                           error == EDQUOT ? "quota, or use" : "free space", "on rank"),
                  message);
      found.check(checkpoints.load(loaded.state()) == 1, "another checkpoint is the newest");
      found.check(gather_all<double>(loaded.state()) == gather_all<double>(saved.state()),
                  "the checkpoint before is damaged");
      checkpoints.save_in_background(4, saved.state());
      found.check(checkpoints.load(loaded.state()) == 4, "the save after the error fails");
      return found;
    }));
    CHECK(names(folder.path()) ==
          std::set<std::string>{"step-000000000001.safetensors", "step-000000000004.safetensors"});
  };
  for (const char* call : {"pwrite", "fsync"})
    for (const int error : {EDQUOT, ENOSPC})
      for (const std::size_t copies : {0U, 1U})
        for (const bool waits : {false, true}) fill(call, error, copies, waits);
}
#endif

TEST_CASE("without a checkpoint, a load leaves the state unchanged")
{
  const Folder folder;
  once([&] { std::filesystem::create_directory(folder / "empty"); });
  require_clear(on_mesh(one_rank, [&](const auto& mesh) {
    Findings found;
    MLP<Summa2D, TestBackend, double> mlp{mesh, sizes};
    const auto state = state_of(mlp);
    const auto before = gather_all<double>(state);
    for (const char* name : {"none", "empty"})
    {
      Checkpoints checkpoints{mesh, folder / name};
      found.check(!checkpoints.load(state).has_value(), "a checkpoint in ", name);
      found.check(gather_all<double>(state) == before, "another state after ", name);
    }
    return found;
  }));
  once([&] { write_contents(folder / "file", "?"); });
  const auto message =
      message_of<DataError>([&] { (void)train<double, ByAdam>(one_rank, folder / "file", 3); });
  CHECK(mentions(message, "cannot list", "file"));
}

}  // namespace cubist::test::io_checkpoints_test
