// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/engine.hpp"
#include "cubist/engine/host/engine.hpp"

#include "catch.hpp"

namespace cubist::test::engine_engine_test
{

TEST_CASE("op_shape is the shape of an operand")
{
  STATIC_REQUIRE(op_shape(Op::none, {2, 3}) == Shape{2, 3});
  STATIC_REQUIRE(op_shape(Op::transpose, {2, 3}) == Shape{3, 2});
  STATIC_REQUIRE(op_shape(Op::adjoint, {2, 3}) == Shape{3, 2});
}

struct NoGemm : HostEngine
{
  void gemm() const;
};

struct NoForEach : HostEngine
{
  void for_each() const;
};

struct NoMapSums : HostEngine
{
  void map_sums() const;
};

struct NoMapFold : HostEngine
{
  void map_fold() const;
};

struct NoSumRows : HostEngine
{
  void sum_rows() const;
};

struct NotDefault : HostEngine
{
  explicit NotDefault(int) {}
};

struct FloatOfFold : HostEngine
{
  template <class... A>
  float fold(A...) const
  {
    return 0;
  }
};

TEST_CASE("the concept requires all functions of an engine")
{
  STATIC_REQUIRE(Engine<HostEngine>);
  STATIC_REQUIRE_FALSE(Engine<int>);
  STATIC_REQUIRE_FALSE(Engine<NoGemm>);
  STATIC_REQUIRE_FALSE(Engine<NoForEach>);
  STATIC_REQUIRE_FALSE(Engine<NoMapSums>);
  STATIC_REQUIRE_FALSE(Engine<NoMapFold>);
  STATIC_REQUIRE_FALSE(Engine<NoSumRows>);
  STATIC_REQUIRE_FALSE(Engine<NotDefault>);
  STATIC_REQUIRE_FALSE(Engine<FloatOfFold>);
}

struct ShowsSpansOnly : HostEngine
{
  void begin_span(const SpanName&) const {}
  void end_span() const {}
};

TEST_CASE("an engine need not have the optional functions, and may have some of them")
{
  STATIC_REQUIRE_FALSE(detail::ShowsSpans<HostEngine>);
  STATIC_REQUIRE_FALSE(detail::MultipliesBatches<HostEngine, double>);
  STATIC_REQUIRE_FALSE(detail::FusesAttention<HostEngine, bfloat16>);
  STATIC_REQUIRE_FALSE(detail::FoldsInMemory<HostEngine>);
  STATIC_REQUIRE_FALSE(detail::Captures<HostEngine>);
  STATIC_REQUIRE_FALSE(detail::FusesAffine<HostEngine, double>);
  STATIC_REQUIRE_FALSE(detail::DownloadsBeside<HostEngine>);
  STATIC_REQUIRE(Engine<ShowsSpansOnly>);
  STATIC_REQUIRE(detail::ShowsSpans<ShowsSpansOnly>);
  STATIC_REQUIRE_FALSE(detail::Captures<ShowsSpansOnly>);
}

}  // namespace cubist::test::engine_engine_test
