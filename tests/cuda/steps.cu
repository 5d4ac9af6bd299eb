// SPDX-License-Identifier: BSD-3-Clause

// Checks that training steps that are captured and replayed on a GPU have the same bits as steps
// that are not captured. It uses 1, 2, 4, … GPUs of this machine, or under mpiexec the processes,
// which may share GPUs.

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "cubist/scheme/summa25d.hpp"

#include "checks.hpp"
#include "gpus.hpp"
#include "replayed_steps.hpp"

using namespace cubist;
using namespace cubist::test;

namespace
{

using examples::Gpus;

template <class Update>
struct MakeUpdate
{
  Update update;
  Update operator()() const { return update; }
};
struct NameGroup
{
  template <class Index>  // an engine with one launch for all groups does not call it
  SpanName operator()(Index i) const
  {
    return {"group", i};
  }
};

void compare(Comparison& found, const LaunchOptions& options)
{
  std::mutex mutex;  // guards `found` if ranks are threads
  launch<Gpus>(options, [&](auto& world) {
    const Mesh<Summa25D, Gpus> mesh{world};
    const auto run = train_in_steps<Summa25D, Gpus>(mesh, false);
    const auto replayed = train_in_steps<Summa25D, Gpus>(mesh, true);
    const std::lock_guard lock{mutex};
    found.check(run.captures == 0 && replayed.captures == 2, "the number of captures");
    found.check(replayed.losses == run.losses, "losses");
    found.check(replayed.parameters == run.parameters, "parameters");
  });
}

/// Checks that updates of rows with gaps, of aligned rows and of unaligned rows have the same bits
/// in one launch as in one launch for each.
template <class T>
void compare_groups(Comparison& found)
{
  using A = Accumulator<T>;
  using Update = cubist::detail::UpdateMaster<bfloat16, cubist::detail::AdamUpdate<float>>;
  const CudaEngine engine;
  const Update update{{0.9F, 0.99F, 0.1F, 0.01F, 0.05F, 1.5F, 0.999F, 1e-8F, 0.5F}};
  const auto updated = [&](Shape shape, std::size_t ld, std::size_t offset, bool at_once) {
    const std::size_t size = offset + (shape.rows - 1) * ld + shape.cols;
    CudaBuffer<T> w{size}, g{size};
    CudaBuffer<A> master{size}, m{size}, v{size};
    const auto view = [&](auto& buffer) {
      return MatrixView{buffer.data() + offset, shape.rows, shape.cols, ld};
    };
    const MatrixView<const T> gradient = view(g);
    engine.map_indexed(view(w), ReplayedNumbers{1});
    engine.map_indexed(view(g), ReplayedNumbers{2});
    engine.map_indexed(view(v), ReplayedNumbers{3});
    if (at_once)
      cubist::detail::MatrixGroups<CudaEngine>{}.for_each(
          engine, {cubist::detail::make_group(view(w), view(master), gradient, view(m), view(v))},
          MatrixTypes<T, A, const T, A, A>{}, MakeUpdate<Update>{update}, SpanName{"all groups"},
          NameGroup{});
    else
      engine.for_each(update, view(w), view(master), gradient, view(m), view(v));
    std::vector<T> weights(shape.size());
    std::vector<A> means(shape.size());
    engine.download(MatrixView<const T>{view(w)}, MatrixView<T>{weights.data(), shape});
    engine.download(MatrixView<const A>{view(m)}, MatrixView<A>{means.data(), shape});
    std::vector<double> all(weights.begin(), weights.end());
    all.insert(all.end(), means.begin(), means.end());
    return all;
  };
  for (const Shape shape : {Shape{1, 20001}, Shape{5, 7}, Shape{300, 33}, Shape{1, 3}})
    for (const std::size_t gap : {0U, 2U})
      for (const std::size_t offset : {0U, 1U})
      {
        const auto one = updated(shape, shape.cols + gap, offset, true);
        found.check(one == updated(shape, shape.cols + gap, offset, false),
                    "groups of " + std::to_string(shape.rows) + " x " + std::to_string(shape.cols));
        found.check(one.back() != 0, "an element was not updated");
      }
}

}  // namespace

void cubist::test::check_steps(Comparison& found)
{
  compare_groups<bfloat16>(found);
  compare_groups<float>(found);
  if (Gpus::are_processes())
    compare(found, {});
  else
    for (int ranks = 1; ranks <= std::min(Gpus::usual_ranks(), 8); ranks *= 2)
      compare(found, {.ranks = ranks});
}
