// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/dense/dense.hpp"
#include "cubist/nn/parameter_names.hpp"

#include "nn.hpp"

namespace cubist::test::gradients_parameter_names_test
{

TEST_CASE("an asterisk stands for any characters of a name")
{
  const std::string name = "layers.10.attention.query.weight";
  for (const char* pattern :
       {"layers.10.attention.query.weight", "*", "**", "layers.*", "*.weight", "*.query.*",
        "layers.*.query.weight", "l*y*t", "*layers.10.attention.query.weight*", "*1*0*"})
    CHECK(matches_name(pattern, name));
  for (const char* pattern : {"", "layers.1.*", "layers", "*.bias", "weight", "query.*", "*.query",
                              "layers.*.key.*", "layers.10.attention.query.weights", "*t*s"})
    CHECK_FALSE(matches_name(pattern, name));
  CHECK(matches_name("", ""));
  CHECK(matches_name("*", ""));
  CHECK(matches_name("*ab", "aab"));
  CHECK(matches_name("a*a*b", "aaaab"));
}

/// A layer with two parameters, one of which cannot be frozen.
struct Half
{
  using Value = double;
  using Mesh = AxisMesh<Summa2D::Axes, Threads>;
  using Matrix = DistMatrix<double, Summa2D::Weight, Mesh>;

  explicit Half(const Mesh& mesh)
      : w{mesh, {2, 3}},
        dw{w},
        v{w},
        dv{w}
  {
  }
  void append_parameters(Parameters<double, Mesh>& list, const std::string& prefix)
  {
    list.push_back(freezable_parameter(prefix + "w", w, dw, is_frozen));
    list.push_back({prefix + "v", v.view(), dv.view()});
  }

  Matrix w, dw, v, dv;
  bool is_frozen = false;
};

TEST_CASE("parameters are frozen by their names, and then have no gradient")
{
  require_clear(on_mesh<Threads>(two_by_two, [](const auto& mesh) {
    Findings found;
    Half layer{mesh};
    const auto list = [&] {
      Parameters<double, Half::Mesh> all;
      layer.append_parameters(all, "half.");
      return all;
    };
    found.check(!list()[0].frozen && list()[0].gradient.shape.size() == 6, "before");
    detail::Freezing freezing{{"half.w", "other.*"}};
    found.check(!freezing.freeze(layer, "half."), "all are frozen");
    found.check(list()[0].frozen && list()[0].gradient.shape.size() == 0, "frozen");
    found.check(list()[0].gradient.valid().size() == 0 && layer.dw.padded().size() == 0, "memory");
    found.check(list()[0].value.shape.size() == 6 && !list()[1].frozen, "the others");
    const auto unused = message_of<ArgumentError>([&] { freezing.require_all_used(); });
    found.check(mentions(unused, "\"other.*\"", "no parameter", "names of parameters()"), unused);
    detail::Freezing all{{"*"}};
    const auto refused = message_of<ArgumentError>([&] { (void)all.freeze(layer, "half."); });
    found.check(mentions(refused, "got half.v", "freezable_parameter"), refused);

    Dense<Summa2D, Threads, double> dense{mesh, 4, 6};
    detail::Freezing both{{"a.*"}};
    found.check(both.freeze(dense, "a."), "all of a layer");
    return found;
  }));
}

}  // namespace cubist::test::gradients_parameter_names_test
