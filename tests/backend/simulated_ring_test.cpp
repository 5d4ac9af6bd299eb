// SPDX-License-Identifier: BSD-3-Clause
#include "sanitized.hpp"

// One rank runs at a time, so sanitizers find no more here than in simulated_test.cpp.
#if !CUBIST_SANITIZED

#include <filesystem>

#include "cubist/machine/machine_json.hpp"
#include "cubist/nn/attention/ring_attention.hpp"

#include "machine_scope.hpp"
#include "nn.hpp"

// Runs the ring of keys and values on a simulated cluster: what it costs beside its products, and
// whether causal work is balanced.

namespace cubist::test::backend_simulated_ring_test
{

TEST_CASE(
    "on 64 simulated ranks a ring takes as long as its products or its wire, and causal work is "
    "balanced")
{
  const MachineScope scope{read_machine(
      (std::filesystem::path{__FILE__}.parent_path() / "../../machines/dgx_h100.json").string())};
  // First products take longer, even with a key-value head for two heads; then the wire does.
  struct Case
  {
    std::size_t length, heads, key_value_heads;
  };
  for (const Case& c : {Case{131072, 2, 2}, Case{131072, 2, 1}, Case{16384, 16, 16}})
  {
    // Forward and backward of attention to one sequence
    launch<Simulated>({.ranks = 64, .rethrow = true}, [&](auto& world) {
      const auto [length, heads, key_value_heads] = c;
      using S = Grid3D;
      const Mesh<S, Simulated> mesh{world, {.x = 8, .y = 1, .z = 8}};
      using M = AxisMesh<S::Axes, Simulated>;
      using Engine = M::Engine;
      const auto cut = cut_sequences(1, length, 64,
                                     row_parts<S::Output, S::Axes>(mesh.extents(), mesh.quantum()));
      const std::size_t m = cut.rows_of_part(), size = 128;
      const Shape of_o{m, heads * size}, of_qkv{m, (heads + 2 * key_value_heads) * size};
      const AttentionShape shape{.sequences = 1,
                                 .queries = m,
                                 .keys = m,
                                 .key_rows = m,
                                 .heads = heads,
                                 .group = heads / key_value_heads,
                                 .head_size = size,
                                 .causal = true,
                                 .scale = 1 / std::sqrt(static_cast<double>(size)),
                                 .k = {.first = of_o.cols},
                                 .v = {.first = of_o.cols + key_value_heads * size}};
      typename Engine::template Buffer<float> qkv(of_qkv.size()), dqkv(of_qkv.size()),
          o(of_o.size()), d_o(of_o.size()), l(m * heads), sums(m * heads);
      const MatrixView<float> q{qkv.data(), of_qkv}, dq{dqkv.data(), of_qkv}, out{o.data(), of_o},
          dout{d_o.data(), of_o}, logs{l.data(), {1, m * heads}}, all{sums.data(), {1, m * heads}};
      using In = MatrixView<const float>;
      LocalAttention<float, Engine> local{mesh.engine(), {.queries = 1024, .keys = 1024}};
      RingAttention<float, S::Output, M> ring{mesh, cut, shape, {}, local};
      ring.forward(In{q}, In{q}, out, logs, all);
      ring.backward(In{q}, In{q}, In{out}, In{logs}, In{dout}, dq);
    });
    double least = INFINITY, most = 0;
    for (const auto& r : Simulated::report().ranks)
    {
      const double busy = r.products + r.passes + r.copies;
      least = std::min(least, busy);
      most = std::max(most, busy);
    }
    const auto& sent = Simulated::report().ranks[0].traffic[CallKind::send];
    const double wire =
        4 * static_cast<double>(sent.elements) / 4.5e10 + 5e-6 * static_cast<double>(sent.messages);
    CAPTURE(c.length, c.key_value_heads, least, most, wire);
    CHECK(most < 1.05 * least);
    CHECK(Simulated::report().seconds() < 1.1 * std::max(most, wire));
  }
}

}  // namespace cubist::test::backend_simulated_ring_test

#endif
