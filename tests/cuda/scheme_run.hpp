// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Runs products, training and its checkpoints on any scheme and backend.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <unistd.h>

#include "cubist/backend/backend.hpp"
#include "cubist/io/checkpoints.hpp"
#include "cubist/matmul/dist_matmul.hpp"

#include "network.hpp"

namespace cubist::test
{

/// A folder that is removed at the end of its scope.
struct TemporaryFolder
{
  std::filesystem::path path;
  explicit TemporaryFolder(pid_t id)
      : path{std::filesystem::temp_directory_path() / ("cubist_cuda_nccl_" + std::to_string(id))}
  {
  }
  ~TemporaryFolder()
  {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

template <class S, class B>
class SchemeRun
{
 public:
  SchemeRun(typename B::Communicator& world, const typename S::Extents& requested)
      : mesh_{world, requested}
  {
    for (std::size_t i = 0; i < labels_.size(); ++i) labels_[i] = static_cast<int>(i * i % 10);
  }

  /// @returns the results on rank 0
  [[nodiscard]] NamedGlobals products()
  {
    using Product = DistMatMul<S, B, float>;
    NamedGlobals results;
    Product product{mesh_, {17, 21, 13}};
    typename Product::Input x{mesh_, {17, 13}};
    typename Product::Weight w{mesh_, {13, 21}};
    x.generate(Uniform{13, 3});
    w.generate(Uniform{21, 4});
    const auto y = product.forward(x, w);
    auto dx = x;
    auto dw = w;
    product.backward(x, w, y, dx, dw);
    results.push_back({"Y", gather(y)});
    results.push_back({"dX", gather(dx)});
    results.push_back({"dW", gather(dw)});
    return results;
  }

  /// Trains for four steps, and repeats the last two from a checkpoint.
  void train(NamedGlobals& results, NamedGlobals& again, const std::filesystem::path& folder)
  {
    MLP<S, B, float> mlp{mesh_, {12, 33, 10}, {.activation = gelu, .dropout = 0.1, .seed = 42}};
    AdamW<float, M> optimizer{mlp.parameters()};
    DistMatrix<float, typename S::Input, M> x{mesh_, {17, 12}};
    x.generate(Uniform{12, 9});
    Checkpoints checkpoints{mesh_, folder};
    const auto state = state_of(mlp, optimizer);
    const auto train_from = [&](std::uint64_t step, NamedGlobals& into) {
      double loss = 0;
      for (; step < 4; ++step)
      {
        if (step == 2) checkpoints.save(step, state);
        const auto& y = mlp.forward(x);
        auto dy = zeros_like(y);
        loss = softmax_cross_entropy(y, labels_, dy);
        mlp.backward(dy);
        check_finite(loss, mlp.parameters(), step);
        check_replicas(mlp.parameters());
        optimizer.step(mlp.parameters());
      }
      for (const auto& p : mlp.parameters()) into.push_back({p.name, gather(p.value)});
      into.push_back({"loss", {{static_cast<float>(loss)}}});
    };
    train_from(0, results);
    train_from(checkpoints.load(state).value_or(0), again);
  }

 private:
  using M = AxisMesh<typename S::Axes, B>;
  Mesh<S, B> mesh_;
  std::vector<int> labels_ = std::vector<int>(17);
};

struct SchemeResults
{
  NamedGlobals products;
  NamedGlobals training;
  NamedGlobals again;
};

/// @param id the id of the checkpoints' folder; the same on all ranks
template <class S, class B>
[[nodiscard]] SchemeResults results_of(const LaunchOptions& options,
                                       const typename S::Extents& requested = {},
                                       pid_t id = getpid())
{
  const TemporaryFolder folder{id};
  SchemeResults results;
  launch<B>(options, [&](typename B::Communicator& world) {
    SchemeRun<S, B> mine{world, requested};
    SchemeResults found;
    found.products = mine.products();
    mine.train(found.training, found.again, folder.path);
    if (world.rank() == 0) results = found;
  });
  return results;
}

}  // namespace cubist::test
