// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/group/call.hpp"
#include "cubist/comm/group/group.hpp"

#include "ranks.hpp"

namespace cubist::test::comm_group_group_test
{

// Tests how the calls of ranks are matched, without ranks that wait.

using namespace cubist::detail;

struct TestCall;

struct TestMember : GroupMember<TestCall>
{
};

struct TestCall : GroupCall<TestMember>
{
  bool adopted = false;
};

class TestGroup : public RankGroup<TestGroup, TestCall>
{
 public:
  explicit TestGroup(std::vector<int> ranks)
      : RankGroup{std::move(ranks), {1, 1}}
  {
    add_spare_collectives();
  }

  TestMember& post(int rank, const ErasedCall& call)
  {
    return next(rank, call, [&](const std::string& why) { failure = why; });
  }
  void release(TestMember& me) { leave(*me.call); }
  void adopt(TestCall& call) { call.adopted = true; }

  std::string failure;
};

const Call<int> barrier{CallKind::barrier};

TEST_CASE("the n-th collectives of all ranks are one call, which is reused when all have left it")
{
  TestGroup group{{5, 3}};
  auto& a0 = group.post(0, barrier);
  auto& a1 = group.post(0, barrier);
  auto& b0 = group.post(1, barrier);
  CHECK(a0.call == b0.call);
  CHECK(a0.call != a1.call);
  CHECK((a0.call->adopted && a1.call->adopted));
  CHECK((a0.world_rank == 5 && b0.world_rank == 3));
  CHECK(a0.call->open(Gate::posted));
  CHECK_FALSE(a1.call->open(Gate::posted));
  const auto* completed = a0.call;
  group.release(a0);
  CHECK(group.post(0, barrier).call != completed);
  group.release(b0);
  CHECK(group.post(0, barrier).call == completed);
  CHECK(completed->posted() == 1);
}

TEST_CASE("a group matches messages by their ends and order, apart from collectives")
{
  TestGroup group{{5, 3}};
  std::vector<int> x(2);
  const Call<int> send{CallKind::send, x, {}, 2, 1};
  const Call<int> receive{CallKind::receive, {}, x, 2, 0};
  auto& collective = group.post(0, barrier);
  auto& r0 = group.post(1, receive);
  auto& s0 = group.post(0, send);
  auto& s1 = group.post(0, send);
  auto& back = group.post(1, Call<int>{CallKind::send, x, {}, 2, 0});
  CHECK(s0.call == r0.call);
  CHECK(s1.call == group.post(1, receive).call);
  CHECK(collective.call != s0.call);
  CHECK(back.call != s0.call);
  CHECK(back.call != s1.call);
  CHECK(s0.call->is_source(s0));
  CHECK_FALSE(s0.call->is_source(r0));
  auto& to_itself = group.post(0, Call<int>{CallKind::send, x, {}, 2, 0});
  CHECK(to_itself.call->members[1].world_rank == 5);
}

TEST_CASE("a call that differs in its collective, size, type, root or operation is a mismatch")
{
  std::vector<float> x(4);
  const Call<float> first{CallKind::reduce, x, {}, 3, 1, ReduceOp::sum};
  const auto failure = [&](const ErasedCall& second) {
    TestGroup group{{5, 3}};
    group.post(0, first);
    const auto text = message_of<CollectiveMismatch>([&] { group.post(1, second); });
    CHECK(text == group.failure);
    return text;
  };
  CHECK(failure(first).empty());
  CHECK(mentions(failure(Call<float>{CallKind::reduce, x, {}, 4, 1}),
                 "rank 3 called reduce of 4 float by sum with root 1",
                 "rank 5 called reduce of 3 float by sum with root 1",
                 "as call 0 on ranks {5, 3}"));
  CHECK(mentions(failure(Call<int>{CallKind::reduce, {}, {}, 3, 1}), "of 3 int32"));
  CHECK(mentions(failure(Call<float>{CallKind::reduce, x, {}, 3, 0}), "with root 0"));
  CHECK(mentions(failure(Call<float>{CallKind::reduce, x, {}, 3, 1, ReduceOp::max}), "by max"));
  CHECK(mentions(failure(Call<float>{CallKind::all_reduce, x, {}, 3}), "called all_reduce"));
}

TEST_CASE("a mismatched message names its two ends")
{
  TestGroup group{{5, 3}};
  std::vector<int> x(2);
  group.post(0, Call<int>{CallKind::send, x, {}, 2, 1});
  const auto text = message_of<CollectiveMismatch>([&] {
    group.post(1, Call<int>{CallKind::receive, {}, x, 1, 0});
  });
  CHECK(mentions(text, "rank 3 called receive of 1 int32, but rank 5 called send of 2 int32",
                 "as call 0 from rank 5 to rank 3"));
}

}  // namespace cubist::test::comm_group_group_test
