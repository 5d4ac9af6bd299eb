// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Runs collectives beside products: the communicator's stream and the compute stream read and write
// the same memory, in both orders. A missing wait between them gives other values:
//
//   product writes `sent`, all_gather reads it      all_gather writes `all`, a copy reads it
//   all_gather reads `sent`, a copy overwrites it   a copy reads `all`, an all_gather overwrites it

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist::test
{

template <class B>
class Overlap
{
 public:
  /// @param n  a power of two, so that the products are exact
  Overlap(typename B::Communicator& world, std::size_t n)
      : world_{world},
        shape_{n, n},
        all_shape_{n * static_cast<std::size_t>(world.size()), n}
  {
    const std::vector<float> ones(shape_.size(), 1);
    engine_.upload(MatrixView<const float>{ones.data(), shape_}, view(ones_));
    const std::vector<float> wrong(shape_.size(), -1);
    engine_.upload(MatrixView<const float>{wrong.data(), shape_}, view(wrong_));
  }

  /// @returns the number of wrong elements
  [[nodiscard]] std::size_t run(int rounds)
  {
    std::size_t wrong = 0;
    for (int round = 0; round < rounds; ++round)
    {
      set(sent_[0], value(world_.rank(), 2 * round));
      set(sent_[1], value(world_.rank(), 2 * round + 1));
      for (std::size_t half : {0U, 1U})
      {
        auto gathered = world_.async_all_gather(elements(sent_[half]), elements(all_));
        set(other_, 1);
        gathered.wait();
        copy(view(wrong_), view(sent_[half]));
        set(other_, 2);  // the copy from `all_` comes late
        copy(all(all_), all(kept_[half]));
      }
      for (int half : {0, 1}) wrong += count_wrong(2 * round + half);
    }
    return wrong;
  }

 private:
  using Engine = typename B::Engine;
  using Buffer = typename Engine::template Buffer<float>;

  [[nodiscard]] static float value(int rank, int call)
  {
    return static_cast<float>(100 * rank + call % 50 + 1);
  }
  [[nodiscard]] static std::span<float> elements(Buffer& b) { return {b.data(), b.size()}; }
  [[nodiscard]] MatrixView<float> view(Buffer& b) const { return {b.data(), shape_}; }
  [[nodiscard]] MatrixView<float> all(Buffer& b) const { return {b.data(), all_shape_}; }

  /// Sets all elements to x by a product, which takes long.
  void set(Buffer& b, float x)
  {
    const MatrixView<const float> ones{ones_.data(), shape_};
    engine_.gemm(Op::none, Op::none, x / static_cast<float>(shape_.rows), ones, ones, 0.0F,
                 view(b));
  }
  void copy(MatrixView<const float> from, MatrixView<float> to) { engine_.copy(from, to); }

  [[nodiscard]] std::size_t count_wrong(int call)
  {
    std::vector<float> got(all_shape_.size());
    engine_.download(MatrixView<const float>{all(kept_[static_cast<std::size_t>(call % 2)])},
                     MatrixView<float>{got.data(), all_shape_});
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      wrong += got[i] != value(static_cast<int>(i / shape_.size()), call) ? 1U : 0U;
    return wrong;
  }

  typename B::Communicator& world_;
  Engine engine_;
  Shape shape_;
  Shape all_shape_;
  Buffer ones_{shape_.size()};
  Buffer wrong_{shape_.size()};
  Buffer other_{shape_.size()};
  std::array<Buffer, 2> sent_{Buffer{shape_.size()}, Buffer{shape_.size()}};
  Buffer all_{all_shape_.size()};
  std::array<Buffer, 2> kept_{Buffer{all_shape_.size()}, Buffer{all_shape_.size()}};
};

}  // namespace cubist::test
