// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/gradients/gradient_buckets.hpp"
#include "cubist/scheme/data_parallel.hpp"

#include "nn.hpp"

namespace cubist::test::gradients_gradient_buckets_test
{

using S = DataParallel<Summa2D>;
using B = Counting<TestBackend>;
using Buckets = GradientBuckets<float, AxisMesh<S::Axes, B>>;
using Blocks = std::vector<std::vector<float>>;

const Place<S> three_ranks{3, {.data = 3, .scheme = {.q = 1}}};

static MatrixView<float> row(std::vector<float>& x) { return {x.data(), {1, x.size()}}; }

TEST_CASE("buckets take gradients of their size, and of a new size after it is set")
{
  if (!fits(three_ranks)) return;
  const auto right = on_mesh<B>(three_ranks, [](const auto& mesh) {
    Buckets buckets{mesh};
    bool same = buckets.takes(65'536 / sizeof(float)) && !buckets.takes(65'536 / sizeof(float) + 1);
    for (const std::size_t bytes : {0U, 3U, 4U, 40U})
    {
      buckets.set({.bytes = bytes});
      same = same && buckets.takes(bytes / 4) && !buckets.takes(bytes / 4 + 1);
      std::vector<float> x(10, 1);
      buckets.begin();
      buckets.sum(mesh, Axes<Data>{}, row(x));
      buckets.finish();
      same = same && x == std::vector<float>(10, 3);
    }
    return same;
  });
  CHECK(right == std::vector(3, true));
}

/// Numbers whose sum depends on their order.
static Blocks gradients(int rank, const std::vector<std::size_t>& sizes)
{
  Blocks blocks;
  for (std::size_t k = 0; k < sizes.size(); ++k)
  {
    blocks.emplace_back(sizes[k]);
    for (std::size_t i = 0; i < sizes[k]; ++i)
      blocks[k][i] = static_cast<float>(1 << ((7 * i + 5 * k + 11 * std::size_t(rank)) % 23)) / 3;
  }
  return blocks;
}

/// What a rank found: the sums of two backward passes, and the messages and elements that it sent
/// in the second one.
struct Found
{
  Blocks first;  // in buckets that still grow
  Blocks sums;
  std::uint64_t messages = 0;
  std::uint64_t elements = 0;
};

/// Sums gradients of these sizes along Data, twice, in buckets of this many bytes.
static std::vector<Found> sums(const std::vector<std::size_t>& sizes, std::size_t bytes)
{
  return on_mesh<B>(three_ranks, [&](const auto& mesh) {
    Buckets buckets{mesh, {.bytes = bytes}};
    Found found;
    for (int backward = 0; backward < 2; ++backward)
    {
      found.sums = gradients(mesh.rank(), sizes);
      mesh.world().traffic().reset();
      buckets.begin();
      for (auto& x : found.sums) buckets.sum(mesh, Axes<Data>{}, row(x));
      buckets.finish();
      if (backward == 0) found.first = found.sums;
      const auto sent = mesh.world().traffic().total();
      found.messages = sent.messages, found.elements = sent.elements;
    }
    return found;
  });
}

TEST_CASE("sums in buckets have the same bits as sums one by one, in fewer messages")
{
  if (!fits(three_ranks)) return;
  const std::vector<std::size_t> sizes{5, 1, 40, 7, 200, 3, 90};
  const auto alone = sums(sizes, 0);
  for (const std::size_t bytes : {16U, 200U, 65'536U})
  {
    INFO(bytes);
    const auto packed = sums(sizes, bytes);
    std::uint64_t elements = 0;
    for (std::size_t r = 0; r < 3; ++r)
    {
      CHECK(packed[r].sums == alone[r].sums);
      CHECK(packed[r].first == alone[r].sums);
      elements += packed[r].elements;
    }
    CHECK(elements == 2 * 2 * std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}));
  }
  const auto collectives = [&](std::size_t bytes) { return sums(sizes, bytes)[0].messages / 4; };
  CHECK(collectives(0) == 7);
  CHECK(collectives(16) == 6);      // 5 alone, 1; 40, 7, 200 alone; 3; 90
  CHECK(collectives(200) == 4);     // 5, 1, 40; 7, 3; 200 and 90 alone
  CHECK(collectives(65'536) == 1);  // all
}

TEST_CASE("a bucket is sent when the next gradient no longer fits, neither earlier nor later")
{
  if (!fits(three_ranks)) return;
  struct Row
  {
    std::vector<std::size_t> sizes;
    std::uint64_t collectives;
  };
  // Each row: sizes of gradients, and the number of buckets of 10 floats that they need.
  const std::vector<Row> table{
      {{6, 4}, 1},             // full
      {{6, 5}, 2},             // one too many
      {{6, 5, 5}, 2},          // 6; 5, 5
      {{6, 5, 6}, 3},          // 6; 5; 6
      {{9, 2, 9, 2}, 4},       // each alone, since 11 do not fit
      {{10, 10}, 2},           // each full
      {{1, 10, 1}, 3},         // 1; 10; 1
      {{11, 10, 11}, 3},       // each large one alone
      {{4, 11, 6}, 2},         // a large one does not send the others
      {{3, 3, 3, 1, 1}, 2},    // 3, 3, 3, 1; 1
      {{5, 0, 5, 0}, 1},       // an empty one has room in a full bucket
      {{7, 2, 2, 7, 1, 1}, 3}  // 7, 2; 2, 7, 1; 1
  };
  for (const auto& [sizes, collectives] : table)
  {
    CAPTURE(sizes);
    const auto alone = sums(sizes, 0);
    const auto packed = sums(sizes, 10 * sizeof(float));
    CHECK(packed[0].messages / 4 == collectives);
    for (std::size_t r = 0; r < 3; ++r)
    {
      CHECK(packed[r].sums == alone[r].sums);
      CHECK(packed[r].first == alone[r].sums);
    }
  }
}

TEST_CASE("a scattered sum in a bucket is this rank's piece of the sum")
{
  if (!fits(three_ranks)) return;
  const std::vector<std::size_t> sizes{5, 12, 1};
  const auto whole = sums(sizes, 0);
  const auto pieces = on_mesh<B>(three_ranks, [&](const auto& mesh) {
    Buckets buckets{mesh};
    auto& replicas = mesh.template along<Data>();
    std::vector<Blocks> both;  // in the second backward pass, buffers are already large enough
    for (int backward = 0; backward < 2; ++backward)
    {
      auto blocks = gradients(mesh.rank(), sizes);
      auto& mine = both.emplace_back(
          Blocks{std::vector<float>(2), std::vector<float>(4), std::vector<float>(1)});
      buckets.begin();
      for (std::size_t k = 0; k < sizes.size(); ++k)
        buckets.scatter_sum(row(blocks[k]), std::span{mine[k]}, replicas);
      blocks.clear();  // they have been copied
      buckets.finish();
    }
    return both;
  });
  for (std::size_t r = 0; r < 3; ++r)
    for (const Blocks& mine : pieces[r])
      for (std::size_t k = 0; k < sizes.size(); ++k)
        for (std::size_t i = 0; i < mine[k].size(); ++i)
        {
          const std::size_t at = r * mine[k].size() + i;
          CHECK(mine[k][i] == (at < sizes[k] ? whole[0].sums[k][at] : 0.0F));
        }
}

TEST_CASE("buckets that held gradients of other sizes before give the bits of new ones")
{
  if (!fits(three_ranks)) return;
  const std::vector<std::vector<std::size_t>> backwards{
      {5, 1, 40, 7}, {3, 2}, {90, 12, 7, 200, 1}, {5, 1, 40, 7}};
  const auto run = [&](std::size_t first, std::size_t last) {
    return on_mesh<B>(three_ranks, [&](const auto& mesh) {
      Buckets buckets{mesh, {.bytes = 400}};
      auto& replicas = mesh.template along<Data>();
      Blocks found;
      for (std::size_t k = first; k < last; ++k)
      {
        auto whole = gradients(mesh.rank(), backwards[k]);
        const auto blocks = whole;
        found.clear();
        buckets.begin();
        for (std::size_t i = 0; i < whole.size(); ++i)
        {
          buckets.sum(mesh, Axes<Data>{}, row(whole[i]));
          auto& mine = found.emplace_back((blocks[i].size() + 2) / 3);
          const MatrixView<const float> gradient{blocks[i].data(), {1, blocks[i].size()}};
          if (buckets.takes(3 * mine.size()))
            buckets.scatter_sum(gradient, std::span{mine}, replicas);
        }
        buckets.finish();
        found.insert(found.end(), whole.begin(), whole.end());
      }
      return found;
    });
  };
  for (std::size_t k = 0; k < backwards.size(); ++k)
  {
    CAPTURE(k);
    const auto kept = run(0, k + 1), fresh = run(k, k + 1);
    for (std::size_t r = 0; r < 3; ++r) CHECK(kept[r] == fresh[r]);
  }
}

TEST_CASE("sums over other replicas, and scattered ones, have their own buckets")
{
  if (!fits(three_ranks)) return;
  const std::vector<std::size_t> sizes{5, 4, 6, 3, 2, 7};
  const auto whole = sums(sizes, 0);
  const auto found = on_mesh<B>(three_ranks, [&](const auto& mesh) {
    Buckets buckets{mesh};
    auto& replicas = mesh.template along<Data>();
    Found mine;
    mine.sums = gradients(mesh.rank(), sizes);
    mine.first = {{}, std::vector<float>(2), {}, {}, std::vector<float>(1), {}};  // the pieces
    mesh.world().traffic().reset();
    buckets.begin();
    for (std::size_t k = 0; k < sizes.size(); ++k)
    {
      const auto x = row(mine.sums[k]);
      if (k % 3 == 0)
        buckets.reduce(x, &replicas);
      else if (k % 3 == 1)
        buckets.scatter_sum(x, std::span{mine.first[k]}, replicas);
      else
        buckets.reduce(x, &mesh.world());
    }
    buckets.finish();
    mine.messages = mesh.world().traffic().total().messages;
    return mine;
  });
  CHECK(found[0].messages == 4 + 2 + 4);  // three buckets, one of which is scattered
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t k = 0; k < sizes.size(); ++k)
    {
      const auto& wanted = whole[0].sums[k];
      if (k % 3 != 1)
        CHECK(found[r].sums[k] == wanted);
      else
        for (std::size_t i = 0; i < found[r].first[k].size(); ++i)
        {
          const std::size_t at = r * found[r].first[k].size() + i;
          CHECK(found[r].first[k][i] == (at < sizes[k] ? wanted[at] : 0.0F));
        }
    }
}

TEST_CASE("a backward pass that did not finish does not disturb the next one")
{
  if (!fits(three_ranks)) return;
  const auto right = on_mesh<B>(three_ranks, [&](const auto& mesh) {
    Buckets buckets{mesh, {.bytes = 36}};
    {
      std::vector<float> lost(9, 1), sent(9, 2);
      buckets.begin();
      buckets.sum(mesh, Axes<Data>{}, row(lost));
      buckets.sum(mesh, Axes<Data>{}, row(sent));  // closes the first one's bucket
    }
    std::vector<float> kept(4, 2);
    buckets.begin();
    buckets.sum(mesh, Axes<Data>{}, row(kept));
    buckets.finish();
    return kept == std::vector<float>(4, 6);
  });
  CHECK(right == std::vector(3, true));
}

}  // namespace cubist::test::gradients_gradient_buckets_test
