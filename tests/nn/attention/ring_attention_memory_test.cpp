// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/simulated.hpp"
#include "cubist/nn/attention/attention.hpp"

#include "counted_memory.hpp"
#include "nn.hpp"
#include "passes.hpp"

namespace cubist::test::ring_attention_memory_test
{

#if !CUBIST_SANITIZED  // tests of attention itself run there
/// Multi-head attention, where every head has its own keys.
constexpr std::size_t width = 64, heads = 8;

/// Returns the peak memory of any rank, in bytes, during a step of attention to one sequence,
/// including X and dY.
template <class B, class S>
double memory_of_step(const Place<S>& place, std::size_t length, std::size_t head_size)
{
  const auto peaks = on_mesh<B>(place, [&](const auto& mesh) {
    const std::size_t before = counted_bytes.peak = counted_bytes.now;
    using Layer = Attention<S, B, float>;
    Layer layer{mesh, width, {.heads = heads, .head_size = head_size}};
    Pass pass{.training_step = {}, .sequence = length};
    pass.cut = choose_cut(
        1, length, row_parts<typename S::Output, typename S::Axes>(mesh.extents(), mesh.quantum()),
        0);
    const std::size_t rows = pass.cut.is_cut() ? pass.cut.rows() : length;
    const Quanta quanta{(pass.cut.is_cut() ? 1 : length) * mesh.quantum(), mesh.quantum()};
    const typename Layer::Input x{mesh, {rows, width}, quanta};
    const auto dy = x;
    Passes passes{layer};
    passes.forward(x, pass);
    passes.backward(x, dy, pass, true);
    return counted_bytes.peak - before;
  });
  if constexpr (std::is_same_v<B, Simulated>)
    return static_cast<double>(Simulated::report().peak_memory());
  return static_cast<double>(*std::max_element(peaks.begin(), peaks.end()));
}

TEST_CASE("memory of attention falls with the ranks that share a sequence")
{
  const Place<Summa25D> one{1, {.q = 1, .d = 1}}, eight{8, {.q = 1, .d = 8}};
  const auto ratio = [&]<class B>(std::type_identity<B>, std::size_t length,
                                  std::size_t head_size) -> double {
    return memory_of_step<B>(eight, 8 * length, head_size) /
           memory_of_step<B>(one, length, head_size);
  };
  CHECK(ratio(std::type_identity<Simulated>{}, 4096, 64) < 1.2);
  CHECK(ratio(std::type_identity<Simulated>{}, 4096, 128) < 1.2);
  if constexpr (!quick) CHECK(ratio(std::type_identity<CountedThreads>{}, 256, 512) < 1.2);
}
#endif

}  // namespace cubist::test::ring_attention_memory_test
