// SPDX-License-Identifier: BSD-3-Clause
#include <cstdint>
#include <iostream>

#include <cubist/cubist.hpp>
#include <cubist/dataset/row_batches.hpp>

using Scheme = cubist::Summa25D;
using Backend = cubist::Threads;

int main(int argc, char** argv)
{
  // launch leaves the arguments to you.
  return cubist::launch<Backend>(argc, argv, {.ranks = 8}, [](auto& world) {
    const cubist::CsvFile file{"digits.csv"};
    const cubist::RowBatches rows{file,
                                  {.batch = 64, .seed = 42, .held_out = 0.2, .normalize = true}};
    cubist::Mesh<Scheme, Backend> mesh{world};
    cubist::MLP<Scheme, Backend, float> mlp{
        mesh, {rows.features(), 128, rows.classes()}, {.activation = cubist::relu, .seed = 42}};
    cubist::Adam optimizer{mlp.parameters(), {.learning_rate = 1e-3}};
    const auto [test_x, test_labels] = rows.held_out<float, Scheme::Input>(mesh);

    std::uint64_t step = 0;
    for (int epoch = 1; epoch <= 10; ++epoch)
    {
      double loss = 0;
      // epoch_of counts from 0, and each rank reads its part of a batch.
      for (; rows.epoch_of(step) < static_cast<std::uint64_t>(epoch); ++step)
      {
        const auto [x, labels] = rows.batch<float, Scheme::Input>(mesh, step);
        const auto& y = mlp.forward(x);
        auto dy = zeros_like(y);
        loss = softmax_cross_entropy(y, labels, dy);
        mlp.backward(dy);
        optimizer.step(mlp.parameters());
      }
      const auto score = mlp.evaluate(test_x, test_labels);  // the same on every rank
      if (world.rank() == 0)
        std::cout << "epoch " << epoch << "  loss " << loss << "  accuracy " << score.accuracy
                  << '\n';
    }
  });
}
