// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/epilogue.hpp"
#include "cubist/engine/host/engine.hpp"

#include "catch.hpp"

namespace cubist::test::engine_epilogue_test
{

struct Twice
{
  double operator()(double x) const { return 2 * x; }
};
/// A function chosen at run time.
struct Chosen
{
  Twice f;
};
template <class E, class G>
void with_function(const E&, const Chosen& chosen, G g)
{
  g(chosen.f);
}

/// The operands of X W + b, with X (2, 3) and W (3, 2).
struct Operands
{
  std::vector<double> x{1, 2, 3, 4, 5, 6};
  std::vector<double> w{1, 0, 0, 1, 2, 2};
  std::vector<double> b{100, 200};
  std::vector<double> z = std::vector<double>(4);
  std::vector<double> y = std::vector<double>(4);

  template <class E>
  void only_z(const E& engine)
  {
    detail::multiply(engine, in_x(), in_w(), detail::Epilogue<double>{in_b()},
                     MatrixView<double>{z.data(), {2, 2}});
  }
  template <class E>
  void both(const E& engine)
  {
    const Chosen twice{};
    detail::multiply(
        engine, in_x(), in_w(),
        detail::Epilogue<double, Chosen>{in_b(), twice, MatrixView<double>{y.data(), {2, 2}}},
        MatrixView<double>{z.data(), {2, 2}});
  }
  [[nodiscard]] MatrixView<const double> in_x() const { return {x.data(), {2, 3}}; }
  [[nodiscard]] MatrixView<const double> in_w() const { return {w.data(), {3, 2}}; }
  [[nodiscard]] MatrixView<const double> in_b() const { return {b.data(), {1, 2}}; }
};

const std::vector<double> sums{107, 208, 116, 217};
const std::vector<double> doubled{214, 416, 232, 434};

TEST_CASE("an affine map is a product, a bias and an activation")
{
  Operands o;
  o.only_z(HostEngine{});
  CHECK(o.z == sums);
  o.z = {};
  o.z.resize(4);
  o.both(HostEngine{});
  CHECK(o.z == sums);
  CHECK(o.y == doubled);
}

/// An engine that supports some fused products.
struct Fusing : HostEngine
{
  bool supported = true;
  mutable int calls = 0;

  bool fused_affine(MatrixView<const double>, MatrixView<const double>, MatrixView<const double>,
                    MatrixView<double> z) const
  {
    if (supported) fill(z, static_cast<double>(++calls));
    return supported;
  }
  template <class F>
  bool fused_affine(MatrixView<const double> x, MatrixView<const double> w,
                    MatrixView<const double> b, const F& f, MatrixView<double> z,
                    MatrixView<double> y) const
  {
    if (!fused_affine(x, w, b, z)) return false;
    map(y, f, z);
    return true;
  }
};

TEST_CASE("a fused product is used where the engine supports it")
{
  Operands o;
  Fusing engine;
  o.only_z(engine);
  CHECK(o.z == std::vector<double>(4, 1));
  o.both(engine);
  CHECK(o.z == std::vector<double>(4, 2));
  CHECK(o.y == std::vector<double>(4, 4));

  engine.supported = false;
  o.only_z(engine);
  CHECK(o.z == sums);
  o.both(engine);
  CHECK(o.y == doubled);
  CHECK(engine.calls == 2);
}

}  // namespace cubist::test::engine_epilogue_test
