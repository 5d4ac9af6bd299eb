// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/optimizers/parameter_groups.hpp"

#include "nn.hpp"

namespace cubist::test::parameter_groups_test
{

TEST_CASE("parameters that are updated in the same way form a set")
{
  require_clear(on_mesh<Threads>(one_rank, [](const auto& mesh) {
    Findings found;
    using M = AxisMesh<Summa2D::Axes, Threads>;
    DistMatrix<double, Summa2D::Weight, M> w{mesh, {2, 3}};
    Parameters<double, M> list;
    for (const char* name : {"a.weight", "a.bias", "b.weight", "b.bias", "c.weight", "c.bias"})
    {
      list.push_back({name, w.view(), w.view()});
      list.back().decays = !list.back().name.ends_with("bias");
    }
    list[4].frozen = true;
    const std::vector<ParameterGroup> groups{{.names = {"b.*"}}, {.names = {"*.weight", "none*"}}};
    const auto message =
        message_of<ArgumentError>([&] { (void)detail::sets_of(list, groups, true); });
    found.check(mentions(message, "\"none*\"", "first one is a.weight"), message);

    const auto refused = [&](const std::vector<ParameterGroup>& all) {
      return message_of<ArgumentError>([&] { (void)detail::sets_of(list, all, true); });
    };
    const auto shadowed = refused({{.names = {"a.*"}}, {.names = {"*.bias"}}, {.names = {"a.b*"}}});
    found.check(mentions(shadowed, "a group of \"a.b*\"", "in groups before it", "put it before"),
                shadowed);
    const auto nameless = refused({{.names = {"a.*"}}, {.learning_rate = 1.0}});
    found.check(mentions(nameless, "a group of parameters without names", "give it names"),
                nameless);
    // All parameters of a group may be frozen.
    found.check(refused({{.names = {"c.w*"}}, {.names = {"c.*"}}}).empty(), "a frozen group");

    const std::vector<ParameterGroup> two{{.names = {"b.*"}}, {.names = {"*.weight"}}};
    const auto sets = detail::sets_of(list, two, true);
    // In no group and decaying: none. a.weight, a.bias and c.bias, b.weight, b.bias.
    found.check(sets.size() == 5, sets.size(), " sets");
    const std::vector<std::size_t> wanted{1, 2, 3, 4, 2};
    for (std::size_t i = 0; i < wanted.size(); ++i)
      found.check(sets.set_of(i) == wanted[i], i, " is in ", sets.set_of(i));
    found.check(sets.group(0, two) == nullptr && sets.group(2, two) == nullptr, "no group");
    found.check(sets.group(1, two) == &two[1] && sets.group(4, two) == &two[0], "groups");
    found.check(sets.decays(1) && !sets.decays(2) && sets.decays(3) && !sets.decays(4), "decays");
    found.check(detail::sets_of(list, {}, false).size() == 1, "all are one set");
    return found;
  }));
}

}  // namespace cubist::test::parameter_groups_test
