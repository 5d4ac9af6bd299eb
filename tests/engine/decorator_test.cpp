// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/decorator.hpp"
#include "cubist/engine/epilogue.hpp"
#include "cubist/engine/host/engine.hpp"
#include "cubist/engine/matrix_groups.hpp"

#include "catch.hpp"

namespace cubist::test::engine_decorator_test
{

static std::vector<std::string>& log()
{
  static std::vector<std::string> lines;
  return lines;
}

/// Records when a call begins, and when it ends.
class Line
{
 public:
  explicit Line(const EngineCall& call)
      : name_{(call.is_product ? "product " : "pass ") + call.name.to_string()}
  {
    log().push_back("begin " + name_);
  }
  Line(Line&&) = delete;
  ~Line() { log().push_back("end " + name_); }

 private:
  std::string name_;
};

template <Engine E>
struct LoggedEngine : EngineDecorator<LoggedEngine<E>, E>
{
  [[nodiscard]] static Line around(const EngineCall& call) { return Line{call}; }
};

/// An engine with every optional part. It computes batches, groups and affine maps.
struct RichEngine : HostEngine
{
  struct Graph
  {
    void replay() const {}
    [[nodiscard]] bool is_valid() const { return true; }
    void ignore(const void*) const {}
  };
  template <class T>
  struct Buffer : HostEngine::Buffer<T>
  {
    using HostEngine::Buffer<T>::Buffer;
    static Buffer uninitialized(std::size_t n) { return Buffer(n); }
    static Buffer apart_from_captures(std::size_t n) { return Buffer(n); }
  };

  void begin_span(const SpanName&) const {}
  void end_span() const {}
  template <class T, class F>
  bool fused_affine(MatrixView<const T> x, MatrixView<const T> w, MatrixView<const T> b, const F& f,
                    MatrixView<T> z, MatrixView<T> y) const
  {
    detail::multiply(HostEngine{}, x, w, detail::Epilogue<T, F>{b, f, y}, z);
    return true;
  }
  template <class T>
  bool fused_affine(MatrixView<const T> x, MatrixView<const T> w, MatrixView<const T> b,
                    MatrixView<T> z) const
  {
    detail::multiply(HostEngine{}, x, w, detail::Epilogue<T>{b}, z);
    return true;
  }
  bool fused_attention(const AttentionShape&, const auto&...) const { return false; }
  bool fused_attention_gradients(const AttentionShape&, const auto&...) const { return false; }
  void for_each_row(Shape, const auto&) const {}
  [[nodiscard]] bool passes_rows(Shape) const { return true; }
  void column_sums_of(const auto&...) const {}
  void fold_to(const auto&...) const {}
  void map_fold_to(const auto&...) const {}
  [[nodiscard]] Graph capture(const std::function<void()>&) const { return {}; }
  [[nodiscard]] bool is_capturing() const { return false; }
  void before_replay(const std::function<void()>&) const {}
  void set(auto*, const auto&) const {}
  void repeat(const RepeatedWork&, const auto& f) const { f(); }
  struct Downloads
  {
    explicit Downloads(std::span<std::byte>) {}
    void wait() const {}
  };
  void download_beside(std::span<const detail::Download> all, Downloads&) const
  {
    for (const auto& [from, to] : all) std::copy_n(from.data(), from.size(), to.data());
  }
  [[nodiscard]] double start_write(double) const { return 0; }
  [[nodiscard]] double seconds() const { return 0; }
  void wait_until(double) const {}
  void gemm_batch(Op op_a, Op op_b, double alpha, std::span<const MatrixView<const double>> a,
                  std::span<const MatrixView<const double>> b, double beta,
                  std::span<const MatrixView<double>> c) const
  {
    for (std::size_t i = 0; i < c.size(); ++i) gemm(op_a, op_b, alpha, a[i], b[i], beta, c[i]);
  }
  template <class F, class... T>
  void for_each_in_all(const F* f, const MatrixGroup* groups, std::size_t count,
                       MatrixTypes<T...> types) const
  {
    for (std::size_t i = 0; i < count; ++i) detail::for_each_in_group(*this, *f, groups[i], types);
  }
};

/// The lines that one call on views of these shapes records.
template <class F>
std::vector<std::string> lines_of(F f)
{
  log().clear();
  f();
  return log();
}

/// The lines that one call of this name records.
static std::vector<std::string> lines(const std::string& name)
{
  return {"begin " + name, "end " + name};
}

}  // namespace cubist::test::engine_decorator_test

namespace cubist
{
template <>
inline constexpr bool in_host_memory<test::engine_decorator_test::RichEngine> = false;
template <>
inline constexpr std::size_t row_alignment<test::engine_decorator_test::RichEngine> = 16;
}  // namespace cubist

namespace cubist::test::engine_decorator_test
{

TEST_CASE("a decorator sees a product, which its engine computes")
{
  const std::vector<double> a{1, 2, 3, 4, 5, 6}, b{1, 0, 0, 1, 2, 2};
  std::vector<double> c(4);
  const MatrixView<const double> in_a{a.data(), {2, 3}}, in_b{b.data(), {3, 2}};
  const auto seen = lines_of([&] {
    LoggedEngine<HostEngine>{}.gemm(Op::none, Op::none, 1.0, in_a, in_b, 0.0,
                                    MatrixView<double>{c.data(), {2, 2}});
  });
  CHECK(seen == lines("product gemm 2x2x3"));
  CHECK(c == std::vector<double>{7, 8, 16, 17});
}

TEST_CASE(
    "a decorator sees the bytes of a call, how a product's operands are stored, and the function of a pass")
{
  static EngineCall seen;
  struct LastCall : EngineDecorator<LastCall, HostEngine>
  {
    [[nodiscard]] static int around(const EngineCall& call)
    {
      seen = call;
      return 0;
    }
  };
  const LastCall engine;
  std::vector<double> x(6, 1), y(6), z(4), row(3);
  const MatrixView<const double> in{x.data(), {2, 3}}, bias{x.data(), 2, 3, 0};
  const MatrixView<double> out{y.data(), {2, 3}};
  engine.gemm(Op::none, Op::transpose, 1.0, in, in, 0.0, MatrixView<double>{z.data(), {2, 2}});
  CHECK_FALSE(seen.transposes_a);
  CHECK(seen.transposes_b);
  CHECK(seen.bytes == (6 + 6 + 4) * sizeof(double));
  engine.map(out, detail::Same{}, in);
  CHECK(seen.bytes == (6 + 6) * sizeof(double));
  CHECK(seen.function.ends_with("Same"));
  // for_each also reads what it writes, and a repeated row counts once.
  engine.for_each(detail::Add{}, out, bias);
  CHECK(seen.bytes == (6 + 6 + 3) * sizeof(double));
  CHECK(seen.function.ends_with("Add"));
  engine.row_fold(MatrixView<double>{row.data(), 2, 1, 1}, 0.0, detail::Sum{}, detail::Itself{},
                  in);
  CHECK(seen.function.ends_with("Itself"));
  engine.copy(in, out);
  CHECK(seen.function.empty());
}

TEST_CASE("a decorator sees other calls with the shape of the largest operand")
{
  const LoggedEngine<HostEngine> engine;
  std::vector<double> x(6, 1), y(6), row(3), column(2);
  const MatrixView<const double> in{x.data(), {2, 3}};
  const MatrixView<double> out{y.data(), {2, 3}}, sums{row.data(), {1, 3}};
  CHECK(lines_of([&] { engine.copy(in, out); }) == lines("pass copy 2x3"));
  CHECK(lines_of([&] { engine.fill(out, 2.0); }) == lines("pass fill 2x3"));
  CHECK(lines_of([&] { engine.map(out, detail::Same{}, in); }) == lines("pass map 2x3"));
  CHECK(lines_of([&] { engine.column_sums(in, sums); }) == lines("pass column_sums 2x3"));
  CHECK(row == std::vector<double>{2, 2, 2});
  CHECK(lines_of([&] {
          engine.row_fold(MatrixView<double>{column.data(), {2, 1}}, 0.0, detail::Sum{},
                          detail::Itself{}, in);
        }) == lines("pass row_fold 2x3"));
  CHECK(column == std::vector<double>{3, 3});
  double all = 0;
  CHECK(lines_of([&] { all = engine.fold(0.0, detail::Sum{}, detail::Itself{}, in); }) ==
        lines("pass fold 2x3"));
  CHECK(all == 6);
  CHECK(lines_of([&] { engine.upload(in, out); }) == lines("pass upload 2x3"));
  CHECK(lines_of([&] { engine.download(in, out); }) == lines("pass download 2x3"));
  CHECK(lines_of([&] { engine.for_each(detail::Add{}, out, in); }) == lines("pass for_each 2x3"));
  CHECK(lines_of([&] { engine.map_sums(out, sums, detail::Same{}, in); }) ==
        lines("pass map_sums 2x3"));
  CHECK(lines_of([&] { engine.map_indexed(out, detail::Itself{}, in); }) ==
        lines("pass map_indexed 2x3"));
  CHECK(lines_of([&] {
          engine.map_rows(
              out, [](std::size_t) { return detail::Same{}; }, in);
        }) == lines("pass map_rows 2x3"));
  CHECK(lines_of([&] { engine.sum_rows(in, RowLists{}, out, false); }) ==
        lines("pass sum_rows 2x3"));
  const auto value_and_term = [](std::size_t, std::size_t, double v) {
    return detail::ValueAndTerm<double, double>{v, v};
  };
  CHECK(lines_of([&] { all = engine.map_fold(0.0, detail::Sum{}, out, value_and_term, in); }) ==
        lines("pass map_fold 2x3"));
  CHECK(all == 6);
}

TEST_CASE("a decorator has the optional functions of its engine, and no others")
{
  using Plain = LoggedEngine<HostEngine>;
  using Rich = LoggedEngine<LoggedEngine<RichEngine>>;
  for (const auto& [part, has] : detail::optional_parts<RichEngine>)
  {
    CAPTURE(part);
    CHECK(has);
  }
  CHECK(detail::optional_parts<Rich> == detail::optional_parts<RichEngine>);
  CHECK(detail::optional_parts<Plain> == detail::optional_parts<HostEngine>);
  STATIC_REQUIRE(Engine<Plain>);
  STATIC_REQUIRE(in_host_memory<Plain>);
  STATIC_REQUIRE(Engine<Rich>);
  STATIC_REQUIRE_FALSE(detail::MultipliesBatches<Rich, float>);
  STATIC_REQUIRE_FALSE(in_host_memory<Rich>);
  STATIC_REQUIRE(row_alignment<Rich> == 16);

  const LoggedEngine<RichEngine> engine;
  double x = 3, y = 4, z = 0;
  const std::vector<MatrixView<const double>> a{{&x, {1, 1}}}, b{{&y, {1, 1}}};
  const std::vector<MatrixView<double>> c{{&z, {1, 1}}};
  const auto batch = lines_of([&] {
    engine.gemm_batch(Op::none, Op::none, 1.0, std::span{a}, std::span{b}, 0.0, std::span{c});
  });
  CHECK(batch == lines("product gemm_batch 1"));
  CHECK(z == 12);

  const auto group = detail::make_group(c[0], a[0]);
  const detail::Add add;
  const auto groups = lines_of([&] {
    engine.for_each_in_all(&add, &group, std::size_t{1}, MatrixTypes<double, const double>{});
  });
  CHECK(groups == lines("pass for_each_in_all 1"));
  CHECK(z == 15);

  LoggedEngine<RichEngine>::Downloads downloads{{}};
  const auto list = std::array{detail::Download::of(a[0], c[0])};
  const auto copies = lines_of([&] { engine.download_beside(std::span{list}, downloads); });
  CHECK(copies == lines("pass download_beside 1"));
  CHECK(z == 3);
  CHECK(detail::downloads_call("", std::span{list}, downloads).bytes == 2 * sizeof(double));
}

/// Calls of an optional part's functions, and the lines that a decorator records of them.
struct PartCalls
{
  std::string_view part;
  std::function<void(const LoggedEngine<RichEngine>&)> call;
  std::vector<std::string> computed;  // without functions that compute nothing, which remain E's
};

/// A decorator inherits a function that it does not decorate. Its engine then seems complete, but
/// traces miss the calls. So every optional part has a row here.
static std::vector<PartCalls> calls_of_parts()
{
  using E = LoggedEngine<RichEngine>;
  static const std::vector<double> x(64, 1);
  static std::vector<double> y(64);
  static const MatrixView<const double> in{x.data(), {1, 1}};
  static const MatrixView<double> out{y.data(), {1, 1}};
  return {
      {"ShowsSpans", [](const E& e) { e.begin_span({"part"}), e.end_span(); }, {}},
      {"MultipliesBatches",
       [](const E& e) {
         e.gemm_batch(Op::none, Op::none, 1.0, std::span{&in, 1}, std::span{&in, 1}, 0.0,
                      std::span{&out, 1});
       },
       {"product gemm_batch 1"}},
      {"ComputesTriangles",
       [](const E& e) { e.syrk(Triangle::lower, Op::none, 1.0, in, 0.0, out); },
       {"product syrk 1x1x1"}},
      {"ReadsStoredWeights",
       [](const E& e) {
         StoredWeight w{StoredWeights::q8, {0, 1, 1}, 1, 1};
         w.set(0, 0, in, "w");
         e.multiply_stored(in, w.view(), out);
       },
       {"product multiply_stored 1x1x1"}},
      {"SolvesTriangles",
       [](const E& e) {
         e.trmm(TriangularOperand{}, 1.0, in, out), e.trsm(TriangularOperand{}, 1.0, in, out);
         e.symm(SymmetricOperand{}, 1.0, in, in, 0.0, out);
       },
       {"product trmm 1x1x1", "product trsm 1x1x1", "product symm 1x1x1"}},
      {"FusesAffine",
       [](const E& e) {
         e.fused_affine(in, in, in, out), e.fused_affine(in, in, in, detail::Same{}, out, out);
       },
       {"product fused_affine 1x1x1", "product fused_affine 1x1x1"}},
      {"FusesAttention",
       [](const E& e) {
         const AttentionShape s{.sequences = 2, .queries = 5, .heads = 3};
         e.fused_attention(s, in, in, in, out, out);
         e.fused_attention_gradients(s, in, in, in, in, out, in, out, out, out, out);
       },
       {"product fused_attention 2x3x5", "product fused_attention_gradients 2x3x5"}},
      {"PassesRows",
       [](const E& e) {
         if (e.passes_rows({1, 1})) e.for_each_row(Shape{1, 1}, detail::Same{});
         e.column_sums_of(detail::Same{}, out, in);
       },
       {"pass for_each_row 1x1", "pass column_sums_of 1x1"}},
      {"FoldsInMemory",
       [](const E& e) {
         e.fold_to(out, 0.0, detail::Sum{}, detail::Itself{}, in);
         e.map_fold_to(out, 0.0, detail::Sum{}, out, detail::Itself{}, in);
       },
       {"pass fold_to 1x1", "pass map_fold_to 1x1"}},
      {"Captures",
       [](const E& e) {
         e.capture([] {}).replay(), e.before_replay([] {}), e.set(y.data(), 1.0);
         const auto group = detail::make_group(out, in);
         const detail::Add add;
         e.for_each_in_all(&add, &group, std::size_t{1}, MatrixTypes<double, const double>{});
       },
       {"pass for_each_in_all 1"}},
      {"RemembersTimes",
       [](const E& e) { e.repeat(RepeatedWork{}, [&] { e.copy(in, out); }); },
       {"pass copy 1x1"}},
      {"WritesInTime", [](const E& e) { e.wait_until(e.start_write(1) + e.seconds()); }, {}},
      {"DownloadsBeside",
       [](const E& e) {
         E::Downloads downloads{{}};
         const auto list = std::array{detail::Download::of(in, out)};
         e.download_beside(std::span{list}, downloads);
       },
       {"pass download_beside 1"}},
  };
}

TEST_CASE("a decorator sees what the functions of every optional part compute")
{
  const auto parts = calls_of_parts();
  REQUIRE(parts.size() == detail::optional_parts<RichEngine>.size());
  for (std::size_t i = 0; i < parts.size(); ++i)
  {
    CAPTURE(parts[i].part);
    CHECK(parts[i].part == detail::optional_parts<RichEngine>[i].first);
    std::vector<std::string> wanted;
    for (const auto& name : parts[i].computed)
      for (const auto& line : lines(name)) wanted.push_back(line);
    CHECK(lines_of([&] { parts[i].call(LoggedEngine<RichEngine>{}); }) == wanted);
  }
}

TEST_CASE("a decorator sees a product with a stored weight, with the bytes that are stored")
{
  const LoggedEngine<HostEngine> engine;
  const std::vector<double> ones(64, 1), x{1, 2};
  StoredWeight w{StoredWeights::q8, {0, 2, 2}, 2, 3};
  w.set(0, 0, MatrixView<const double>{ones.data(), {2, 3}}, "w");
  std::vector<double> y(3);
  const MatrixView<const double> in{x.data(), {1, 2}};
  const MatrixView<double> out{y.data(), {1, 3}};
  CHECK(lines_of([&] { engine.multiply_stored(in, w.view(), out); }) ==
        lines("product multiply_stored 1x3x2"));
  CHECK(detail::product_call("", in, w.view(), out).bytes == 5 * sizeof(double) + 3 * 34);
}

TEST_CASE("a decorator sees a product with a bias as a product, with the bytes of all operands")
{
  const LoggedEngine<RichEngine> engine;
  const detail::Same same;
  double x = 3, w = 4, b = 5, z = 0, y = 0;
  const auto in = [](const double& v) { return MatrixView<const double>{&v, {1, 1}}; };
  const MatrixView<double> out{&z, {1, 1}}, activated{&y, {1, 1}};
  CHECK(lines_of([&] {
          detail::multiply(engine, in(x), in(w), detail::Epilogue<double>{in(b)}, out);
        }) == lines("product fused_affine 1x1x1"));
  CHECK(z == 17);
  CHECK(lines_of([&] {
          detail::multiply(engine, in(x), in(w),
                           detail::Epilogue<double, detail::Same>{in(b), same, activated}, out);
        }) == lines("product fused_affine 1x1x1"));
  CHECK(y == 17);
  const auto call = detail::affine_call("", in(x), in(w), in(b), detail::Same{}, out, activated);
  CHECK(call.bytes == 5 * sizeof(double));
  CHECK(call.function.ends_with("Same"));
}

}  // namespace cubist::test::engine_decorator_test
