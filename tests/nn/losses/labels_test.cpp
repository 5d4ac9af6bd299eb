// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/losses/labels.hpp"

#include "nn.hpp"

namespace cubist::test::labels_test
{

using cubist::detail::label_checksum;

TEST_CASE("labels have another checksum if one of them differs, or two are exchanged")
{
  const std::vector<int> labels = classes(101, 10);
  const std::uint64_t checksum = label_checksum(labels);
  CHECK(checksum == label_checksum(classes(101, 10)));
  for (std::size_t i = 0; i < labels.size(); ++i)
  {
    auto other = labels;
    ++other[i];
    CHECK(label_checksum(other) != checksum);
    CHECK(label_checksum(other) < std::uint64_t{1} << 18);
    if (i + 1 == labels.size() || labels[i] == labels[i + 1]) continue;
    std::swap(--other[i], other[i + 1]);
    CHECK(label_checksum(other) != checksum);
  }
}

/// The mean that one rank gets for its own labels, where each block's sum is 1.
struct Mean
{
  double value = 0;
  std::string error;
};

template <class L, class S, class F>
std::vector<Mean> means(const Place<S>& place, F labels_of)
{
  return on_mesh(place, [&](const auto& mesh) {
    const std::vector<int> labels = labels_of(mesh.rank());
    Mean mean;
    mean.error = message_of<ArgumentError>([&] {
      cubist::detail::LossSums<HostEngine, 3> one{mesh.engine()};
      one.set(0, 1);
      mean.value = cubist::detail::mean_over_labels<L>(mesh, one, labels, labels.size());
    });
    return mean;
  });
}

TEST_CASE("a number of each block is summed once, whatever the layout replicates")
{
  const auto check = []<class L>(std::type_identity<L>, const auto& place, double blocks) {
    if (!fits(place)) return;
    CAPTURE(place.name(), L::to_string());
    for (const auto& mean : means<L>(place, [](int) { return classes(4, 3); }))
    {
      CHECK(mean.error == "");
      CHECK(mean.value == blocks / 4);
    }
  };
  check(std::type_identity<Summa25D::Output>{}, two_two_two, 8);
  check(std::type_identity<Layout<Rows<Row>, Cols<>>>{}, two_two_two, 2);
  check(std::type_identity<Layout<Rows<>, Cols<>>>{}, single_layer, 1);
  check(std::type_identity<Cube3D::Input>{}, cube, 8);
}

TEST_CASE("labels that differ between ranks are refused by all ranks, with the same message")
{
  if (!fits(two_two_two)) return;
  for (int rank = 0; rank < 8; ++rank)
  {
    const auto found = means<Summa25D::Output>(two_two_two, [&](int mine) {
      auto labels = classes(1000, 10);
      if (mine == rank) labels[500] = (labels[500] + 1) % 10;
      return labels;
    });
    CAPTURE(rank);
    for (const auto& mean : found)
    {
      CHECK(mentions(mean.error, "got labels that differ between ranks",
                     "pass the labels of all rows on every rank"));
      CHECK(mean.error == found[0].error);
    }
  }
  // All ranks have different labels, as if shuffled with different seeds.
  for (const auto& mean :
       means<Summa25D::Output>(two_two_two, [](int mine) { return std::vector<int>(9, mine); }))
    CHECK(mean.error != "");
}

}  // namespace cubist::test::labels_test
