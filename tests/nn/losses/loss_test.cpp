// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/losses/loss.hpp"
#include "cubist/scheme/megatron1d.hpp"

#include "host_kernels.hpp"
#include "nn.hpp"

namespace cubist::test::loss_test
{

/// A distributed loss as one rank sees it.
struct RankLoss
{
  double value = 0;
  Global<double> gradient;  // on rank 0
  Padding padding;
};

/// Computes loss(Y, dY) on every rank, with Y distributed in layout L.
template <class L, class T, class S, class F>
std::vector<RankLoss> distributed(const Place<S>& place, const Global<double>& y, F loss)
{
  return on_mesh(place, [&](const auto& mesh) {
    const auto shard = scatter<L>(mesh, converted<T>(y));
    auto dy = scatter<L>(mesh, converted<T>(y));  // overwritten
    const double value = loss(mesh, shard, dy);
    return RankLoss{value, converted<double>(gather(dy)), padding(dy.view())};
  });
}

template <class L, class T, class S>
std::vector<RankLoss> distributed_cross_entropy(const Place<S>& place, const Global<double>& y,
                                                const std::vector<int>& labels)
{
  return distributed<L, T>(place, y, [&](const auto&, const auto& shard, auto& dy) {
    return softmax_cross_entropy(shard, labels, dy);
  });
}

template <class L, class T, class S>
std::vector<RankLoss> distributed_squared_error(const Place<S>& place, const Global<double>& y,
                                                const Global<double>& target)
{
  return distributed<L, T>(place, y, [&](const auto& mesh, const auto& shard, auto& dy) {
    return mean_squared_error(shard, scatter<L>(mesh, converted<T>(target)), dy);
  });
}

TEST_CASE("losses of two rows are as computed by hand")
{
  const Global<double> y{{0, 0}, {0, std::log(3.0)}};
  const auto entropy = distributed_cross_entropy<Summa25D::Output, double>(single_rank, y, {0, 1});
  CHECK(entropy[0].value == Approx((std::log(2.0) + std::log(4.0 / 3)) / 2));
  CHECK(difference(entropy[0].gradient, Global<double>{{-0.25, 0.25}, {0.125, -0.125}}) < 1e-15);
  const Global<double> target{{1, 0}, {0, std::log(3.0)}};
  const auto square = distributed_squared_error<Summa25D::Output, double>(single_rank, y, target);
  CHECK(square[0].value == Approx(0.25));
  CHECK(difference(square[0].gradient, Global<double>{{-0.5, 0}, {0, 0}}) < 1e-15);
}

struct Loss
{
  double value = 0;
  Global<double> gradient;
};

// The serial oracles.

static Loss cross_entropy(const Global<double>& y, const std::vector<int>& labels)
{
  Loss loss{0, y};
  loss.gradient.fill(0);
  double rows = 0;
  for (const int label : labels) rows += label == -100 ? 0 : 1;
  for (std::size_t i = 0; i < y.shape(0); ++i)
  {
    if (labels[i] == -100) continue;
    double max = y(i, 0);
    for (std::size_t j = 0; j < y.shape(1); ++j) max = std::max(max, y(i, j));
    double sum = 0;
    for (std::size_t j = 0; j < y.shape(1); ++j) sum += std::exp(y(i, j) - max);
    const auto label = static_cast<std::size_t>(labels[i]);
    loss.value += (std::log(sum) + max - y(i, label)) / rows;
    for (std::size_t j = 0; j < y.shape(1); ++j)
      loss.gradient(i, j) = (std::exp(y(i, j) - max) / sum - (j == label ? 1 : 0)) / rows;
  }
  return loss;
}

static void agrees(const std::vector<RankLoss>& ranks, const Loss& wanted, double tolerance)
{
  CHECK(difference(ranks[0].gradient, wanted.gradient) <= tolerance);
  for (const auto& t : ranks)
  {
    CHECK(t.value == Approx(wanted.value).epsilon(tolerance).margin(1e-300));
    CHECK(t.value == ranks[0].value);
    CHECK(t.padding.largest == 0);
  }
}

/// Shapes, some of which leave ranks without a column or without a row.
const std::vector<Shape> shapes{{13, 10}, {5, 2}, {3, 3}, {6, 1}, {1, 17}};

TEST_CASE("softmax cross-entropy and its gradient equal the serial oracle")
{
  for_each_place([]<class S>(const Place<S>& place) {
    for (const Shape shape : shapes)
    {
      CAPTURE(place.name(), shape);
      const auto y = uniform<double>(shape.rows, shape.cols, 1, 3);
      const auto labels = classes(shape.rows, shape.cols);
      const auto wanted = cross_entropy(y, labels);
      agrees(distributed_cross_entropy<typename S::Output, double>(place, y, labels), wanted,
             1e-14);
      agrees(distributed_cross_entropy<typename S::Output, float>(place, y, labels), wanted, 2e-6);
    }
  });
}

static double hit_rate(const Global<double>& y, const std::vector<int>& labels)
{
  double hits = 0, rows = 0;
  for (std::size_t i = 0; i < y.shape(0); ++i)
  {
    std::size_t best = 0;
    for (std::size_t j = 1; j < y.shape(1); ++j)
      if (y(i, j) > y(i, best)) best = j;
    hits += static_cast<int>(best) == labels[i] ? 1 : 0;
    rows += labels[i] == -100 ? 0 : 1;
  }
  return hits / rows;
}

template <class S>
std::vector<double> distributed_accuracy(const Place<S>& place, const Global<double>& y,
                                         const std::vector<int>& labels)
{
  return on_mesh(place, [&](const auto& mesh) {
    return accuracy(scatter<typename S::Output>(mesh, y), labels);
  });
}

TEST_CASE("rows of label -100 are ignored, and the mean is one over the others")
{
  for_each_place([]<class S>(const Place<S>& place) {
    for (const Shape shape : {Shape{13, 10}, {5, 2}})
      for (const std::size_t left : {std::size_t{1}, shape.rows - 1, shape.rows / 2})
      {
        CAPTURE(place.name(), shape, left);
        const auto y = uniform<double>(shape.rows, shape.cols, 1, 3);
        auto labels = classes(shape.rows, shape.cols);
        // Ignores the last rows, which are all that some ranks have, or the first ones.
        std::fill(labels.begin() + static_cast<std::ptrdiff_t>(left), labels.end(), -100);
        if (left > 1) std::reverse(labels.begin(), labels.end());
        const auto wanted = cross_entropy(y, labels);
        agrees(distributed_cross_entropy<typename S::Output, double>(place, y, labels), wanted,
               1e-14);
        agrees(distributed_cross_entropy<typename S::Output, float>(place, y, labels), wanted,
               2e-6);
        for (const double got : distributed_accuracy(place, y, labels))
          CHECK(got == Approx(hit_rate(y, labels)));
      }
  });
}

TEST_CASE("the mean over no row is a NaN, as in PyTorch, and its gradient is 0")
{
  if (!fits(single_layer)) return;
  const auto y = uniform<double>(5, 4, 1, 3);
  const std::vector<int> none(5, -100);
  for (const auto& got : distributed_cross_entropy<Summa25D::Output, double>(single_layer, y, none))
  {
    CHECK(std::isnan(got.value));
    for (const double slope : got.gradient) CHECK(slope == 0);
  }
  for (const double got : distributed_accuracy(single_layer, y, none)) CHECK(std::isnan(got));
}

static Loss squared_error(const Global<double>& y, const Global<double>& target)
{
  Loss loss{0, y};
  const double count = static_cast<double>(y.size());
  for (std::size_t i = 0; i < y.size(); ++i)
  {
    const double d = y.data()[i] - target.data()[i];
    loss.value += d * d / count;
    loss.gradient.data()[i] = 2 * d / count;
  }
  return loss;
}

TEST_CASE("mean squared error and its gradient equal the serial oracle")
{
  for_each_place([]<class S>(const Place<S>& place) {
    for (const Shape shape : shapes)
    {
      CAPTURE(place.name(), shape);
      const auto y = uniform<double>(shape.rows, shape.cols, 1, 3);
      const auto target = uniform<double>(shape.rows, shape.cols, 2, 3);
      const auto wanted = squared_error(y, target);
      agrees(distributed_squared_error<typename S::Output, double>(place, y, target), wanted,
             1e-14);
      agrees(distributed_squared_error<typename S::Output, float>(place, y, target), wanted, 2e-6);
    }
  });
}

TEST_CASE("losses accept matrices of the input's layout")
{
  if (!fits(cube)) return;
  const auto y = uniform<double>(13, 10, 1, 3);
  const auto labels = classes(13, 10);
  const auto target = uniform<double>(13, 10, 2, 3);
  agrees(distributed_cross_entropy<Cube3D::Input, double>(cube, y, labels),
         cross_entropy(y, labels), 1e-14);
  agrees(distributed_squared_error<Cube3D::Input, double>(cube, y, target),
         squared_error(y, target), 1e-14);
}

template <class F>
Global<double> central_differences(Global<double> y, F value)
{
  constexpr double h = 0x1p-18;
  return generate<double>(y.shape(0), y.shape(1), [&](std::size_t i, std::size_t j) {
    const double at = y(i, j);
    y(i, j) = at + h;
    const double up = value(y);
    y(i, j) = at - h;
    const double down = value(y);
    y(i, j) = at;
    return (up - down) / (2 * h);
  });
}

TEST_CASE("gradients of losses agree with central differences")
{
  if (!fits(single_layer)) return;
  const auto y = uniform<double>(3, 5, 1, 2);
  const auto labels = classes(3, 5);
  const auto target = uniform<double>(3, 5, 2, 2);
  const auto value_of = [](const auto& ranks) { return ranks[0].value; };
  const auto entropy = [&](const Global<double>& at) {
    return distributed_cross_entropy<Summa25D::Output, double>(single_layer, at, labels);
  };
  const auto error = [&](const Global<double>& at) {
    return distributed_squared_error<Summa25D::Output, double>(single_layer, at, target);
  };
  CHECK(difference(entropy(y)[0].gradient, central_differences(y, [&](const auto& at) {
                     return value_of(entropy(at));
                   })) < 1e-9);
  CHECK(difference(error(y)[0].gradient, central_differences(y, [&](const auto& at) {
                     return value_of(error(at));
                   })) < 1e-9);
}

TEST_CASE("large logits stay finite")
{
  // Classes 0 and 4 lie on different ranks.
  const double large[3][5] = {
      {1000, -1000, 0, 0, -1000}, {1000, 0, 0, 0, 1000}, {-1000, -1000, -1000, -1000, -1000}};
  const auto y = generate<double>(3, 5, [&](std::size_t i, std::size_t j) { return large[i][j]; });
  const std::vector<int> labels{4, 0, 2};
  const double value = (2000 + std::log(2.0) + std::log(5.0)) / 3;
  const double gradient[3][5] = {
      {1, 0, 0, 0, -1}, {-0.5, 0, 0, 0, 0.5}, {0.2, 0.2, -0.8, 0.2, 0.2}};
  const Loss wanted{value, generate<double>(3, 5, [&](std::size_t i, std::size_t j) {
                      return gradient[i][j] / 3;
                    })};
  for_each_place([&]<class S>(const Place<S>& place) {
    CAPTURE(place.name());
    agrees(distributed_cross_entropy<typename S::Output, double>(place, y, labels), wanted, 1e-14);
    agrees(distributed_cross_entropy<typename S::Output, float>(place, y, labels), wanted, 1e-6);
  });
}

TEST_CASE("a NaN in a row of logits reaches the loss and the row's gradient, and is not a hit")
{
  for_each_place([&]<class S>(const Place<S>& place) {
    for (std::size_t column = 0; column < 5; ++column)
    {
      auto y = integers<double>(2, 5, 3);
      y(0, 0) = -100;  // this is not a hit, either
      y(1, column) = std::nan("");
      CAPTURE(place.name(), column);
      const auto got = distributed_cross_entropy<typename S::Output, double>(place, y, {2, 0});
      for (const auto& rank : got) CHECK(std::isnan(rank.value));
      for (std::size_t j = 0; j < 5; ++j)
        CHECK((std::isfinite(got[0].gradient(0, j)) && std::isnan(got[0].gradient(1, j))));
      CHECK(distributed_accuracy(place, y, {0, static_cast<int>(column)})[0] == 0);
    }
  });
}

/// The loss of some rows, and that of all rows; the gradient replaces the logits if `in_place`.
struct EntropyOfRows
{
  double of_some = 0;
  double of_all = 0;
  Global<double> gradient;
};

template <class T, class B, class S>
EntropyOfRows entropy_of_rows(const Place<S>& place, const Global<double>& y,
                              const std::vector<int>& some, const std::vector<int>& all,
                              bool in_place)
{
  return on_root<B>(place, [&](const auto& mesh) {
    const auto logits = scatter<typename S::Output>(mesh, converted<T>(y));
    auto replaced = logits, gradient = logits;
    const double of_some = softmax_cross_entropy(logits, some, gradient);
    auto& result = in_place ? replaced : gradient;
    const double of_all = softmax_cross_entropy(in_place ? replaced : logits, all, result);
    return EntropyOfRows{of_some, of_all, converted<double>(gather(result))};
  });
}

TEMPLATE_TEST_CASE("one pass over rows computes the cross-entropy of several passes", "", float,
                   double)
{
  using T = TestType;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  auto y = uniform<double>(14, 37, 1, 3);
  for (std::size_t j = 0; j < 37; ++j) y(3, j) = j == 20 ? 900 : j == 30 ? 880 : -1000;
  for (std::size_t j = 0; j < 37; ++j) y(4, j) = -infinity;
  y(5, 2) = std::nan("");
  y(6, 0) = std::nan("");
  y(7, 9) = infinity;
  y(8, 0) = -infinity;
  auto labels = classes(14, 37);
  labels[3] = 30, labels[7] = 12, labels[9] = -100, labels[13] = 36;
  auto finite = labels;
  for (std::size_t i = 4; i < 8; ++i) finite[i] = -100;
  const auto check = [&](const auto& place) {
    for (const bool in_place : {false, true})
    {
      CAPTURE(place.name(), in_place);
      const auto wanted = entropy_of_rows<T, Threads>(place, y, finite, labels, in_place);
      const auto got = entropy_of_rows<T, ThreadsWithKernels>(place, y, finite, labels, in_place);
      const double tolerance = std::is_same_v<T, float> ? 1e-6 : 1e-14;
      CHECK(std::isfinite(got.of_some));
      CHECK(got.of_some == Approx(wanted.of_some).epsilon(tolerance));
      CHECK((std::isnan(got.of_all) && std::isnan(wanted.of_all)));
      bool as_wanted = true;
      for (std::size_t i = 0; i < wanted.gradient.size(); ++i)
      {
        const double a = got.gradient.data()[i], b = wanted.gradient.data()[i];
        as_wanted = as_wanted && (std::isnan(b) ? std::isnan(a) : std::abs(a - b) <= tolerance);
      }
      CHECK(as_wanted);
      CHECK(std::isnan(got.gradient(4, 0)));
      CHECK(std::isnan(got.gradient(6, 5)));
      CHECK(std::isnan(got.gradient(7, 5)));
      CHECK(got.gradient(9, 5) == 0);
    }
  };
  check(single_rank);
  if (fits(single_layer)) check(single_layer);  // columns are cut, so it makes several passes
  const Place<Megatron1D> whole_rows{2, {.p = 2}};
  if (fits(whole_rows)) check(whole_rows);
}

TEST_CASE("accuracy is the share of rows whose largest column is their label")
{
  for_each_place([](const auto& place) {
    for (const Shape shape : shapes)
    {
      const auto y = integers<double>(shape.rows, shape.cols, 3);  // with many ties
      std::vector<int> labels = classes(shape.rows, shape.cols);
      for (std::size_t i = 0; i < shape.rows; i += 2)  // every other row hits
      {
        std::size_t best = 0;
        for (std::size_t j = 1; j < shape.cols; ++j)
          if (y(i, j) > y(i, best)) best = j;
        labels[i] = static_cast<int>(best);
      }
      CAPTURE(place.name(), shape);
      const double wanted = hit_rate(y, labels);
      CHECK(wanted > 0);
      for (const double got : distributed_accuracy(place, y, labels)) CHECK(got == wanted);
    }
  });
}

TEST_CASE("among equal columns, accuracy takes the first")
{
  const double tied[4][6] = {
      {1, 1, 1, 1, 1, 1}, {0, 2, 0, 0, 0, 2}, {-3, -3, -1, -1, -2, -1}, {0, 0, 0, 0, 5, 5}};
  const auto y = generate<double>(4, 6, [&](std::size_t i, std::size_t j) { return tied[i][j]; });
  for_each_place([&](const auto& place) {
    CAPTURE(place.name());
    CHECK(distributed_accuracy(place, y, {0, 1, 2, 4})[0] == 1);
    CHECK(distributed_accuracy(place, y, {1, 5, 3, 5})[0] == 0);
    CHECK(distributed_accuracy(place, y, {0, 5, 2, 5})[0] == 0.5);
  });
}

#if !CUBIST_SANITIZED  // counts of elements do not change under a sanitizer
TEST_CASE("nothing is gathered: the elements sent do not depend on the number of columns")
{
  for_each_place([]<class S>(const Place<S>& place) {
    const auto words = [&](std::size_t cols) {
      const std::vector<int> labels = classes(24, cols);
      return on_mesh<Counting<Threads>>(place, [&](const auto& mesh) {
        using M = AxisMesh<typename S::Axes, Counting<Threads>>;
        const DistMatrix<double, typename S::Output, M> y{mesh, {24, cols}};
        DistMatrix<double, typename S::Output, M> dy{mesh, {24, cols}};
        softmax_cross_entropy(y, labels, dy);
        accuracy(y, labels);
        mean_squared_error(y, y, dy);
        return mesh.world().traffic().total().elements;
      });
    };
    CAPTURE(place.name());
    const auto few = words(12);
    CHECK(few == words(480));
    CHECK(few[0] > 0);
  });
}
#endif

TEST_CASE("labels that do not fit are refused")
{
  if (!fits(single_layer)) return;
  const auto y = uniform<double>(4, 3, 1);
  const auto message = [&]<class E>(std::type_identity<E>, const std::vector<int>& labels,
                                    bool loss) {
    return message_of<E>([&] {
      if (loss)
        distributed_cross_entropy<Summa25D::Output, double>(single_layer, y, labels);
      else
        distributed_accuracy(single_layer, y, labels);
    });
  };
  for (const bool loss : {true, false})
  {
    constexpr std::type_identity<ShapeError> shape;
    constexpr std::type_identity<ArgumentError> argument;
    const auto few = message(shape, {0, 1, 2}, loss);
    CAPTURE(loss);
    CHECK(mentions(few, "got 3 labels for an output of (4, 3)", "give one label for each row"));
    CHECK(mentions(message(shape, {0, 1, 2, 0, 1}, loss), "got 5 labels"));
    const auto high = message(argument, {0, 1, 3, 0}, loss);
    CHECK(mentions(high, "got label 3 for row 2", "3 classes", "use 0 to 2",
                   "-100 for a row that the loss ignores"));
    CHECK(mentions(message(argument, {-1, 1, 2, 0}, loss), "got label -1 for row 0", "use 0 to 2"));
    constexpr int least = std::numeric_limits<int>::min();
    CHECK(mentions(message(argument, {0, 1, 2, least}, loss), "got label -2147483648 for row 3"));
    CHECK(mentions(message(argument, {0, 1, 2, -99}, loss), "got label -99 for row 3"));
    CHECK(message(argument, {0, 1, 2, 2}, loss) == "");
  }
}

TEST_CASE("labels that differ between ranks are refused")
{
  if (!fits(cube)) return;
  const auto y = uniform<double>(5, 3, 1);
  for (const bool loss : {true, false})
  {
    const auto found = on_mesh(cube, [&](const auto& mesh) {
      std::vector<int> labels{0, 1, 2, 0, 1};
      if (mesh.rank() == 3) labels[2] = 0;
      const auto shard = scatter<Cube3D::Output>(mesh, y);
      auto dy = shard;
      return message_of<ArgumentError>([&] {
        static_cast<void>(loss ? softmax_cross_entropy(shard, labels, dy)
                               : accuracy(shard, labels));
      });
    });
    for (const auto& message : found)
      CHECK(mentions(message, "got labels that differ between ranks"));
  }
}

TEST_CASE("replicas of an output count once")
{
  if (!fits(two_two_two)) return;
  const auto y = uniform<double>(13, 10, 1, 3);
  const auto labels = classes(13, 10);
  using Replicated = Layout<Rows<Row>, Cols<>>;
  agrees(distributed_cross_entropy<Replicated, double>(two_two_two, y, labels),
         cross_entropy(y, labels), 1e-14);
  const auto hits = on_mesh(two_two_two, [&](const auto& mesh) {
    return accuracy(scatter<Replicated>(mesh, y), labels);
  });
  CHECK(hits == std::vector<double>(8, hit_rate(y, labels)));
}

TEST_CASE("a target or a gradient of another shape or mesh is refused")
{
  if (!fits(single_layer)) return;
  using Matrix = DistMatrix<double, Summa25D::Output, AxisMesh<Summa25D::Axes, Threads>>;
  const std::vector<int> labels{0, 1, 2, 0};
  const auto entropy = [&](Shape gradient) {
    on_mesh(single_layer, [&](const auto& mesh) {
      Matrix dy{mesh, gradient};
      return softmax_cross_entropy(Matrix{mesh, {4, 3}}, labels, dy);
    });
  };
  const auto error = [](Shape target, Shape gradient, bool elsewhere) {
    on_mesh(single_layer, [&](const auto& mesh) {
      const Mesh<Summa25D, Threads> other{mesh.world(), {.q = 2}};
      Matrix dy{mesh, gradient};
      return mean_squared_error(Matrix{mesh, {4, 3}}, Matrix{elsewhere ? other : mesh, target}, dy);
    });
  };
  CHECK_NOTHROW(entropy({4, 3}));
  CHECK(mentions(message_of<ShapeError>([&] {
                   entropy({4, 4});
                 }),
                 "an output of (4, 3)", "a gradient of (4, 4)", "make one like the other"));
  CHECK_NOTHROW(error({4, 3}, {4, 3}, false));
  CHECK(mentions(message_of<ShapeError>([&] {
                   error({3, 4}, {4, 3}, false);
                 }),
                 "a target of (3, 4)"));
  CHECK(mentions(message_of<ShapeError>([&] {
                   error({4, 3}, {5, 3}, false);
                 }),
                 "a gradient of (5, 3)"));
  CHECK(mentions(message_of<ShapeError>([&] {
                   error({4, 3}, {4, 3}, true);
                 }),
                 "shape, padding and mesh"));
}

TEST_CASE("a gradient may overwrite the output")
{
  if (!fits(single_layer)) return;
  using Matrix = DistMatrix<double, Summa25D::Output, AxisMesh<Summa25D::Axes, Threads>>;
  const auto y = uniform<double>(5, 3, 1);
  const auto target = uniform<double>(5, 3, 2);
  const auto labels = classes(5, 3);
  const auto losses = on_root(single_layer, [&](const auto& mesh) {
    Matrix a = scatter<Summa25D::Output>(mesh, y);
    Matrix b = a;
    const Matrix t = scatter<Summa25D::Output>(mesh, target);
    const double entropy = softmax_cross_entropy(a, labels, a);
    const double error = mean_squared_error(b, t, b);
    return std::tuple{entropy, gather(a), error, gather(b)};
  });
  const auto& [entropy, entropy_gradient, error, error_gradient] = losses;
  CHECK(entropy == Approx(cross_entropy(y, labels).value));
  CHECK(difference(entropy_gradient, cross_entropy(y, labels).gradient) < 1e-12);
  CHECK(error == Approx(squared_error(y, target).value));
  CHECK(difference(error_gradient, squared_error(y, target).gradient) < 1e-12);
}

TEST_CASE("rows without classes are refused, and no rows at all have no loss")
{
  using Matrix = DistMatrix<double, Summa25D::Output, AxisMesh<Summa25D::Axes, Threads>>;
  const auto loss = [](Shape shape) {
    return on_root(single_rank, [&](const auto& mesh) {
      const Matrix y{mesh, shape};
      Matrix dy{mesh, shape};
      const std::vector<int> labels(shape.rows, 0);
      return softmax_cross_entropy(y, labels, dy) + mean_squared_error(y, y, dy) +
             accuracy(y, labels);
    });
  };
  CHECK(mentions(message_of<ShapeError>([&] {
                   (void)loss({2, 0});
                 }),
                 "got an output of (2, 0)", "no class", "a column for each class"));
  CHECK(loss({0, 3}) == 0);
  CHECK(loss({0, 0}) == 0);
}

TEST_CASE("losses of bfloat16 equal those of float, and gradients are rounded once")
{
  if (!fits(single_layer)) return;
  constexpr std::size_t rows = 13;
  const auto logits = uniform<bfloat16>(rows, 7, 1, 4);
  const auto targets = uniform<bfloat16>(rows, 7, 2);
  const auto labels = classes(rows, 7);
  const auto run = [&]<class T>(std::type_identity<T>) {
    return on_root(single_layer, [&](const auto& mesh) {
      const auto cut = [&](const Global<bfloat16>& all) {
        DistMatrix<T, Summa25D::Output, AxisMesh<Summa25D::Axes, Threads>> m{
            mesh, {all.shape(0), all.shape(1)}};
        m.generate([&](std::size_t i, std::size_t j) { return static_cast<float>(all(i, j)); });
        return m;
      };
      const auto y = cut(logits);
      auto dy = y;
      std::vector<float> all;
      const auto keep = [&](double value) {
        all.push_back(static_cast<float>(value));
        for (const float x : gather(dy)) all.push_back(x);
      };
      keep(softmax_cross_entropy(y, labels, dy));
      keep(mean_squared_error(y, cut(targets), dy));
      softmax(y, dy);
      keep(accuracy(y, labels));
      return all;
    });
  };
  const auto got = run(std::type_identity<bfloat16>{});
  const auto wanted = run(std::type_identity<float>{});
  REQUIRE(got.size() == wanted.size());
  const std::size_t each = wanted.size() / 3;
  for (std::size_t i = 0; i < got.size(); ++i)
  {
    CAPTURE(i, got[i], wanted[i]);
    if (i % each == 0)
      CHECK(got[i] == wanted[i]);
    else if (i < 2 * each)
      CHECK(got[i] == bfloat16{wanted[i]});
    else  // e^x was stored in between
      CHECK(std::abs(got[i] - wanted[i]) <= 0x1p-7F * wanted[i]);
  }
}

}  // namespace cubist::test::loss_test
