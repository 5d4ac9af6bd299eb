// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The conformance suite of communicators. Each function is a rank's body: it calls a communicator,
// compares what it receives with what it computes locally, and returns its findings.
// Any backend runs them: `require_clear(on_ranks<B>(n, [](auto& world) { return
// conformance::…(world); }))`.

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "cubist/comm/communicator.hpp"
#include "cubist/core/function_ref.hpp"

#include "ranks.hpp"
#include "sanitized.hpp"

namespace cubist::test::conformance
{

inline constexpr std::array group_sizes{1, 2, 3, 4, 5, 6, 8};

/// The sizes of a piece: none, one, about as many as ranks, and more than a block of a reduction.
inline std::vector<std::size_t> counts() { return {0, 1, 7, 600}; }

/// The sizes of `counts`, and one of several blocks.
inline std::vector<std::size_t> more_counts()
{
  auto sizes = counts();
  sizes.push_back(sanitized ? 1300 : 5000);
  return sizes;
}

/// Calls `f.template operator()<T>()` for every element type except double.
template <class F>
void for_each_other_element(F f)
{
  f.template operator()<float>();
  f.template operator()<std::complex<float>>();
  f.template operator()<std::complex<double>>();
  f.template operator()<std::int32_t>();
  f.template operator()<std::int64_t>();
  f.template operator()<std::uint8_t>();
}

/// Element i of the input of `rank`, so small that a sum over 8 ranks fits in 8 bits.
template <Element T>
[[nodiscard]] T value(int rank, std::size_t i)
{
  const int v = static_cast<int>((7 * static_cast<std::size_t>(rank) + 3 * i + i / 29) % 29);
  if constexpr (ComplexScalar<T>)
    return {static_cast<Real<T>>(v), static_cast<Real<T>>(v * v % 11 - 5)};
  else
    return static_cast<T>(v);
}

template <Element T>
[[nodiscard]] std::vector<T> values(int rank, std::size_t n)
{
  std::vector<T> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = value<T>(rank, i);
  return v;
}

/// A value that no rank sends: a buffer that still holds it was not written.
template <Element T>
[[nodiscard]] std::vector<T> untouched(std::size_t n)
{
  return std::vector<T>(n, T{99});
}

/// Reduces the `value` of all ranks, locally.
template <Element T>
[[nodiscard]] std::vector<T> reduced_values(int ranks, std::size_t n, ReduceOp op)
{
  std::vector<T> all = values<T>(0, n);
  for (int r = 1; r < ranks; ++r)
    for (std::size_t i = 0; i < n; ++i)
    {
      const T v = value<T>(r, i);
      if constexpr (ComplexScalar<T>)
        all[i] += v;
      else if (op == ReduceOp::sum)
        all[i] = static_cast<T>(all[i] + v);
      else
        all[i] = op == ReduceOp::min ? std::min(all[i], v) : std::max(all[i], v);
    }
  return all;
}

template <Element T>
[[nodiscard]] std::vector<ReduceOp> operations()
{
  if constexpr (ComplexScalar<T>)
    return {ReduceOp::sum};
  else
    return {ReduceOp::sum, ReduceOp::min, ReduceOp::max};
}

/// How a rank calls a collective.
enum class Form
{
  blocking,
  waited,
  polled
};

inline constexpr std::array forms{Form::blocking, Form::waited, Form::polled};

template <Request R>
void complete(R request, Form form)
{
  if (form == Form::polled)
    while (!request.test()) std::this_thread::yield();
  request.wait();
}

/// Calls every collective with one element type, one size and one form. Ranks may use different
/// forms.
template <class C, Element T>
class EveryCollective
{
 public:
  EveryCollective(C& world, std::size_t n, Form form, Findings& found)
      : world_{world},
        n_{n},
        form_{form},
        found_{found},
        rank_{world.rank()},
        size_{world.size()},
        ranks_{static_cast<std::size_t>(size_)},
        mine_{static_cast<std::size_t>(rank_)}
  {
  }

  /// Runs what depends on the element type: the arithmetic, and the size of messages.
  void run_type()
  {
    const int root = size_ / 2;
    broadcast(root);
    for (const auto op : operations<T>()) reduce(root, op), all_reduce(op), reduce_scatter(op);
    all_gather();
    all_to_all();
    ring();
  }

  void run()
  {
    barrier();
    for (const int root : roots()) broadcast(root), gather(root), scatter(root);
    for (const auto op : operations<T>())
    {
      for (const int root : roots()) reduce(root, op), reduce_in_place(root, op);
      all_reduce(op);
      reduce_scatter(op);
      reduce_scatter_in_place(op);
    }
    all_gather();
    all_gather_in_place();
    all_to_all();
    ring();
  }

 private:
  /// The roots to test: all ranks for one size; else the first, the middle, and the last rank.
  [[nodiscard]] std::vector<int> roots() const
  {
    std::vector<int> all;
    for (int r = 0; r < size_; ++r)
      if (n_ == 7 || r == 0 || r == size_ / 2 || r == size_ - 1) all.push_back(r);
    return all;
  }

  void barrier()
  {
    if (form_ == Form::blocking)
      world_.barrier();
    else
      complete(world_.async_barrier(), form_);
  }

  void broadcast(int root)
  {
    auto data = rank_ == root ? values<T>(root, n_) : untouched<T>(n_);
    if (form_ == Form::blocking)
      world_.broadcast(data, root);
    else
      complete(world_.async_broadcast(data, root), form_);
    check(data == values<T>(root, n_), "broadcast", root);

    // One buffer sends and others receive; unused buffers are not accessed, whatever their size.
    const auto from = rank_ == root ? values<T>(root, n_) : untouched<T>(n_ + 2);
    auto to = untouched<T>(rank_ == root ? n_ + 2 : n_);
    complete(world_.async_broadcast(from, to, root), form_);
    check(to == (rank_ == root ? untouched<T>(n_ + 2) : values<T>(root, n_)), "broadcast from, to",
          root);
    check(from == (rank_ == root ? values<T>(root, n_) : untouched<T>(n_ + 2)),
          "the send buffer of broadcast", root);
  }

  void reduce(int root, ReduceOp op)
  {
    const auto in = values<T>(rank_, n_);
    auto out = untouched<T>(n_);
    if (form_ == Form::blocking)
      world_.reduce(in, out, root, op);
    else
      complete(world_.async_reduce(in, out, root, op), form_);
    check(out == (rank_ == root ? reduced_values<T>(size_, n_, op) : untouched<T>(n_)), "reduce",
          root);
    check(in == values<T>(rank_, n_), "the input of reduce", root);
  }

  void reduce_in_place(int root, ReduceOp op)
  {
    auto data = values<T>(rank_, n_);
    std::vector<T> none;
    auto& out = rank_ == root ? data : none;
    if (form_ == Form::blocking)
      world_.reduce(data, out, root, op);
    else
      complete(world_.async_reduce(data, out, root, op), form_);
    check(data == (rank_ == root ? reduced_values<T>(size_, n_, op) : values<T>(rank_, n_)),
          "reduce in place", root);
  }

  void all_reduce(ReduceOp op)
  {
    auto data = values<T>(rank_, n_);
    if (form_ == Form::blocking)
      world_.all_reduce(data, op);
    else
      complete(world_.async_all_reduce(data, op), form_);
    check(data == reduced_values<T>(size_, n_, op), "all_reduce");
  }

  void all_gather()
  {
    const auto in = values<T>(rank_, n_);
    auto out = untouched<T>(ranks_ * n_);
    if (form_ == Form::blocking)
      world_.all_gather(in, out);
    else
      complete(world_.async_all_gather(in, out), form_);
    check(out == gathered(), "all_gather");
  }

  void all_gather_in_place()
  {
    auto out = untouched<T>(ranks_ * n_);
    const auto own = piece(out);
    std::ranges::copy(values<T>(rank_, n_), own.begin());
    if (form_ == Form::blocking)
      world_.all_gather(own, out);
    else
      complete(world_.async_all_gather(own, out), form_);
    check(out == gathered(), "all_gather in place");
  }

  void reduce_scatter(ReduceOp op)
  {
    const auto in = values<T>(rank_, ranks_ * n_);
    auto out = untouched<T>(n_);
    if (form_ == Form::blocking)
      world_.reduce_scatter(in, out, op);
    else
      complete(world_.async_reduce_scatter(in, out, op), form_);
    auto all = reduced_values<T>(size_, ranks_ * n_, op);
    check(std::ranges::equal(out, piece(all)), "reduce_scatter");
    check(in == values<T>(rank_, ranks_ * n_), "the input of reduce_scatter");
  }

  void reduce_scatter_in_place(ReduceOp op)
  {
    auto data = values<T>(rank_, ranks_ * n_);
    const auto own = piece(data);
    if (form_ == Form::blocking)
      world_.reduce_scatter(data, own, op);
    else
      complete(world_.async_reduce_scatter(data, own, op), form_);
    auto expected = values<T>(rank_, ranks_ * n_);
    auto all = reduced_values<T>(size_, ranks_ * n_, op);
    std::ranges::copy(piece(all), piece(expected).begin());
    check(data == expected, "reduce_scatter in place");
  }

  void all_to_all()
  {
    const auto in = values<T>(rank_, ranks_ * n_);
    auto out = untouched<T>(ranks_ * n_);
    if (form_ == Form::blocking)
      world_.all_to_all(in, out);
    else
      complete(world_.async_all_to_all(in, out), form_);
    std::vector<T> expected;
    for (int r = 0; r < size_; ++r)
      for (std::size_t i = 0; i < n_; ++i) expected.push_back(value<T>(r, mine_ * n_ + i));
    check(out == expected, "all_to_all");
  }

  void gather(int root)
  {
    const auto in = values<T>(rank_, n_);
    auto out = untouched<T>(rank_ == root ? ranks_ * n_ : 3);
    if (form_ == Form::blocking)
      world_.gather(in, out, root);
    else
      complete(world_.async_gather(in, out, root), form_);
    check(out == (rank_ == root ? gathered() : untouched<T>(3)), "gather", root);
  }

  void scatter(int root)
  {
    const auto in = rank_ == root ? values<T>(root, ranks_ * n_) : std::vector<T>{};
    auto out = untouched<T>(n_);
    if (form_ == Form::blocking)
      world_.scatter(in, out, root);
    else
      complete(world_.async_scatter(in, out, root), form_);
    auto all = values<T>(root, ranks_ * n_);
    check(std::ranges::equal(out, piece(all)), "scatter", root);
  }

  /// Sends from each rank to the next. If calls block, even ranks send first.
  void ring()
  {
    const int next = (rank_ + 1) % size_;
    const int previous = (rank_ + size_ - 1) % size_;
    const auto out = values<T>(rank_, n_);
    auto in = untouched<T>(n_);
    if (form_ == Form::blocking && size_ > 1)
    {
      if (rank_ % 2 == 0) world_.send(out, next);
      world_.receive(in, previous);
      if (rank_ % 2 == 1) world_.send(out, next);
    }
    else
    {
      auto sent = world_.async_send(out, next);
      complete(world_.async_receive(in, previous), form_);
      complete(std::move(sent), form_);
    }
    check(in == values<T>(previous, n_), "send and receive");
  }

  [[nodiscard]] std::span<T> piece(std::vector<T>& pieces) const
  {
    return std::span{pieces}.subspan(mine_ * n_, n_);
  }

  [[nodiscard]] std::vector<T> gathered() const
  {
    std::vector<T> all;
    for (int r = 0; r < size_; ++r)
      for (std::size_t i = 0; i < n_; ++i) all.push_back(value<T>(r, i));
    return all;
  }

  void check(bool holds, const char* what, int root = -1)
  {
    found_.check(holds, what, " of ", n_, ' ', element_name<T>(), ", root ", root, ", form ",
                 static_cast<int>(form_), ", on rank ", rank_, " of ", size_, " gave wrong data");
  }

  C& world_;
  std::size_t n_;
  Form form_;
  Findings& found_;
  int rank_;
  int size_;
  std::size_t ranks_;
  std::size_t mine_;
};

/// Runs every collective with every size, root and element type. `form_of(rank)` is the form of a
/// rank's calls.
template <class C, class FormOf>
[[nodiscard]] Findings every_collective(C& world, FormOf form_of,
                                        const std::vector<std::size_t>& sizes = counts())
{
  Findings found;
  for (const auto n : sizes)
    EveryCollective<C, double>{world, n, form_of(world.rank()), found}.run();
  for_each_other_element([&]<class T>() {
    for (const std::size_t n : {7U, 600U})
      EveryCollective<C, T>{world, n, form_of(world.rank()), found}.run_type();
  });
  return found;
}

/// Starts one call of each collective, so that all are in flight at once, and completes them in
/// reverse order.
template <class C>
[[nodiscard]] Findings many_at_once(C& world, std::size_t n)
{
  Findings found;
  const int size = world.size();
  const int rank = world.rank();
  const auto ranks = static_cast<std::size_t>(size);
  const auto mine = static_cast<std::size_t>(rank);
  const int next = (rank + 1) % size;
  const int previous = (rank + size - 1) % size;
  const int root = size - 1;
  const auto in = values<double>(rank, n);
  const auto wide = values<double>(rank, ranks * n);
  const auto all = reduced_values<double>(size, ranks * n, ReduceOp::sum);

  auto broadcast = rank == 0 ? values<double>(0, n) : untouched<double>(n);
  auto reduced = untouched<double>(n);
  auto all_reduced = in;
  auto gathered = untouched<double>(ranks * n);
  auto scattered = untouched<double>(n);
  auto exchanged = untouched<double>(ranks * n);
  auto collected = untouched<double>(rank == root ? ranks * n : 0);
  auto dealt = untouched<double>(n);
  auto received = untouched<double>(n);
  {
    auto r0 = world.async_receive(received, previous);
    auto r1 = world.async_barrier();
    auto r2 = world.async_broadcast(broadcast, 0);
    auto r3 = world.async_reduce(in, reduced, root);
    auto r4 = world.async_all_reduce(all_reduced);
    auto r5 = world.async_all_gather(in, gathered);
    auto r6 = world.async_reduce_scatter(wide, scattered);
    auto r7 = world.async_all_to_all(wide, exchanged);
    auto r8 = world.async_gather(in, collected, root);
    auto r9 = world.async_scatter(wide, dealt, root);
    auto r10 = world.async_send(in, next);
    // Odd ranks poll the first request, which advances all others.
    if (rank % 2 == 1)
      while (!r0.test()) std::this_thread::yield();
    r10.wait();
    r9.wait();
    r8.wait();
    r7.wait();
    r6.wait();
    r5.wait();
    r4.wait();
    r3.wait();
    r2.wait();
    r1.wait();
    r0.wait();
    found.check(r4.test(), "test() returns false for a request that wait() has completed");
    r4.wait();
  }

  const auto check = [&](const char* what, bool holds) {
    found.check(holds, what, " of ", n, " among many gave wrong data on rank ", rank, " of ", size);
  };
  const auto own = std::span{all}.subspan(mine * n, n);
  std::vector<double> every;
  std::vector<double> mine_of_all;
  for (int r = 0; r < size; ++r)
    for (std::size_t i = 0; i < n; ++i)
    {
      every.push_back(value<double>(r, i));
      mine_of_all.push_back(value<double>(r, mine * n + i));
    }
  const auto from_root = values<double>(root, ranks * n);
  check("broadcast", broadcast == values<double>(0, n));
  check("reduce", reduced == (rank == root ? reduced_values<double>(size, n, ReduceOp::sum)
                                           : untouched<double>(n)));
  check("all_reduce", all_reduced == reduced_values<double>(size, n, ReduceOp::sum));
  check("all_gather", gathered == every);
  check("reduce_scatter", std::ranges::equal(scattered, own));
  check("all_to_all", exchanged == mine_of_all);
  check("gather", rank != root || collected == every);
  check("scatter", std::ranges::equal(dealt, std::span{from_root}.subspan(mine * n, n)));
  check("receive", received == values<double>(previous, n));
  return found;
}

/// Starts many calls of one collective, which are in flight at once and matched by order alone.
template <class C>
[[nodiscard]] Findings many_alike(C& world)
{
  Findings found;
  constexpr std::size_t calls = 20;
  using Handle = decltype(world.async_all_reduce(std::declval<std::vector<std::int64_t>&>()));
  std::vector<std::vector<std::int64_t>> data;
  for (std::size_t c = 0; c < calls; ++c)
    data.push_back({static_cast<std::int64_t>(c), world.rank(), 1});
  std::vector<Handle> requests;
  for (auto& d : data) requests.push_back(world.async_all_reduce(d));
  for (std::size_t c = calls; c-- > 0;) requests[c].wait();
  const std::int64_t p = world.size();
  for (std::size_t c = 0; c < calls; ++c)
    found.check(data[c] ==
                    std::vector<std::int64_t>{static_cast<std::int64_t>(c) * p, p * (p - 1) / 2, p},
                "all_reduce ", c, " of many received another call's data");
  return found;
}

/// Checks that the messages of every pair of ranks, including a rank with itself, arrive in the
/// order in which they were sent.
template <class C>
[[nodiscard]] Findings messages_in_order(C& world)
{
  Findings found;
  constexpr int each = 6;
  const int size = world.size();
  const int rank = world.rank();
  const auto message = [](int from, int to, int number) {
    return std::vector<int>(static_cast<std::size_t>(number * 10),
                            from * 10000 + to * 100 + number);
  };
  using Sent = decltype(world.async_send(std::declval<const std::vector<int>&>(), 0));
  std::vector<std::vector<int>> buffers;
  buffers.reserve(static_cast<std::size_t>(size * each));
  std::vector<Sent> sent;
  for (int number = 0; number < each; ++number)
    for (int to = 0; to < size; ++to)
      sent.push_back(world.async_send(buffers.emplace_back(message(rank, to, number)), to));

  // Receives from the pairs in another order than they sent, but in order for each pair.
  struct Received
  {
    int from;
    int number;
    std::vector<int> data;
  };
  std::vector<Received> received;
  for (int from = size - 1; from >= 0; --from)
    for (int number = 0; number < each; ++number)
      received.push_back({from, number, std::vector<int>(static_cast<std::size_t>(number * 10))});
  if constexpr (independent_messages<C>)
    for (auto& r : received) world.receive(r.data, r.from);
  else
  {
    std::vector<decltype(world.async_receive(received[0].data, 0))> pending;
    for (auto& r : received) pending.push_back(world.async_receive(r.data, r.from));
    for (auto& p : pending) p.wait();
  }
  for (const auto& [from, number, data] : received)
    found.check(data == message(from, rank, number), "rank ", rank,
                " received another message than ", number, " from rank ", from);
  for (auto& s : sent) s.wait();
  return found;
}

/// The world ranks of a group's members, in the group's order.
template <class C>
[[nodiscard]] std::vector<int> members(C& group, int world_rank)
{
  std::vector<int> all(static_cast<std::size_t>(group.size()));
  group.all_gather(std::array{world_rank}, all);
  return all;
}

/// Splits by colour, ordered by key and then by rank; then splits the splits, and uses all
/// together.
template <class C>
[[nodiscard]] Findings splits(C& world)
{
  Findings found;
  const int size = world.size();
  const int rank = world.rank();
  const auto check = [&](bool holds, const char* what) {
    found.check(holds, what, " on rank ", rank, " of ", size);
  };
  const auto of_colour = [&](int colours) {
    std::vector<int> ranks;
    for (int r = rank % colours; r < size; r += colours) ranks.push_back(r);
    return ranks;
  };

  auto same_key = world.split(rank % 3, 0);
  check(members(same_key, rank) == of_colour(3), "equal keys changed the order of ranks");
  check(same_key.rank() == rank / 3, "wrong rank in a split with equal keys");

  auto reversed = world.split(rank % 2, -rank);
  auto expected = of_colour(2);
  std::ranges::reverse(expected);
  check(members(reversed, rank) == expected, "keys did not order the ranks");
  check(expected[static_cast<std::size_t>(reversed.rank())] == rank, "wrong rank by keys");

  auto whole = world.split(5, size - rank);
  check(whole.size() == size && whole.rank() == size - 1 - rank,
        "a split by one colour is not the world");

  auto alone = world.split(rank, 0);
  check(alone.size() == 1 && alone.rank() == 0,
        "a colour that no other rank has does not make a group of one");

  // Two levels of splits; the group in between is destroyed before the last one is used.
  auto grandchild = [&] {
    auto parent = world.split(rank % 2, -rank);
    return parent.split(parent.rank() / 2, 0);
  }();
  std::vector<int> pair;
  const int first = rank % 2 + 2 * (static_cast<int>(expected.size()) - 1);
  const int place = (first - rank) / 2;
  for (int p = place / 2 * 2; p < std::min(place / 2 * 2 + 2, static_cast<int>(expected.size()));
       ++p)
    pair.push_back(first - 2 * p);
  check(members(grandchild, rank) == pair, "a split of a split has the wrong ranks");

  // Calls on all groups at once, completed in reverse order.
  std::vector<int> a{rank};
  std::vector<int> b{rank};
  std::vector<int> c{rank};
  {
    auto ra = world.async_all_reduce(a);
    auto rb = reversed.async_all_reduce(b);
    auto rc = grandchild.async_all_reduce(c);
    rc.wait();
    rb.wait();
    ra.wait();
  }
  const auto sum = [](const std::vector<int>& ranks) {
    int s = 0;
    for (const int r : ranks) s += r;
    return s;
  };
  check(a[0] == size * (size - 1) / 2 && b[0] == sum(expected) && c[0] == sum(pair),
        "calls on different groups exchanged their data");
  return found;
}

/// Checks that all ranks agree whether they are on several nodes, and that a single rank is on one.
template <class C>
[[nodiscard]] Findings nodes(C& world)
{
  Findings found;
  std::array<int, 1> remote{world.remote() ? 1 : 0};
  world.all_reduce(remote);
  found.check(remote[0] == (world.remote() ? world.size() : 0), "ranks disagree on remote()");
  found.check(!world.split(world.rank(), 0).remote(), "a single rank is on several nodes");
  return found;
}

/// Checks that a copy of a communicator is the same communicator.
template <class C>
[[nodiscard]] Findings copies(C& world)
{
  Findings found;
  C copy = world;
  found.check(copy.rank() == world.rank() && copy.size() == world.size(),
              "a copy has another rank or size");
  std::vector<int> a{1};
  std::vector<int> b{2};
  // Some ranks use the copy and others the original, and their calls still match.
  auto& one = world.rank() % 2 == 0 ? copy : world;
  auto& other = world.rank() % 3 == 0 ? copy : world;
  auto ra = one.async_all_reduce(a);
  auto rb = other.async_all_reduce(b);
  rb.wait();
  ra.wait();
  found.check(a[0] == world.size() && b[0] == 2 * world.size(), "calls on a copy did not match");
  return found;
}

/// Checks that bad arguments throw at once, name the fix, and do not change the communicator.
template <class C>
[[nodiscard]] Findings bad_arguments(C& world)
{
  Findings found;
  const int size = world.size();
  const auto ranks = static_cast<std::size_t>(size);
  const std::string last = std::to_string(size - 1);
  std::vector<float> x(4);
  std::vector<float> wide(4 * ranks);
  std::vector<float> wrong(4 * ranks + 1);
  std::vector<std::complex<float>> z(4 * ranks);

  const auto no_such_rank = [&](const char* call, auto f) {
    for (const int peer : {-1, size, 1000})
    {
      const auto text = message_of<ArgumentError>([&] { f(peer); });
      found.check(
          mentions(text, call, "got rank " + std::to_string(peer), "use one of 0 to " + last), call,
          " with rank ", peer, " says: ", text);
    }
  };
  no_such_rank("broadcast", [&](int r) { world.broadcast(x, r); });
  no_such_rank("reduce", [&](int r) { world.reduce(x, x, r); });
  no_such_rank("gather", [&](int r) { world.gather(x, wide, r); });
  no_such_rank("scatter", [&](int r) { world.scatter(wide, x, r); });
  no_such_rank("send", [&](int r) { world.send(x, r); });
  no_such_rank("receive", [&](int r) { world.receive(x, r); });

  const auto wrong_size = [&](const char* call, const char* buffer, auto f) {
    const auto text = message_of<ShapeError>(f);
    found.check(mentions(text, call, buffer, "elements", "give it a buffer of that size"), call,
                " with a wrong buffer says: ", text);
  };
  const int me = world.rank();
  wrong_size("reduce", "out", [&] { world.reduce(x, wrong, me); });
  wrong_size("all_gather", "pieces", [&] { world.all_gather(x, wrong); });
  wrong_size("reduce_scatter", "pieces", [&] { world.reduce_scatter(wrong, x); });
  wrong_size("all_to_all", "received", [&] { world.all_to_all(wide, wrong); });
  wrong_size("gather", "pieces", [&] { world.gather(x, wrong, me); });
  wrong_size("scatter", "pieces", [&] { world.scatter(wrong, x, me); });
  if (size > 1) wrong_size("all_to_all", "pieces", [&] { world.all_to_all(wrong, wrong); });

  const auto no_order = [&](const char* op, auto f) {
    const auto text = message_of<ArgumentError>(f);
    found.check(mentions(text, op, "complex<float>", "reduce real parts or magnitudes"),
                "a reduction of complex numbers by ", op, " says: ", text);
  };
  no_order("max", [&] { world.all_reduce(z, ReduceOp::max); });
  no_order("min", [&] { world.reduce(z, z, 0, ReduceOp::min); });
  no_order("max", [&] { world.reduce_scatter(z, std::span{z}.first(4), ReduceOp::max); });

  const auto overlap = [&](const char* call, auto f) {
    const auto text = message_of<ArgumentError>(f);
    found.check(mentions(text, call, "overlaps", "use two buffers"), call,
                " with overlapping buffers says: ", text);
  };
  if (size > 1)
  {
    overlap("all_to_all", [&] { world.all_to_all(wide, wide); });
    const std::size_t next = 4 * static_cast<std::size_t>((me + 1) % size);
    overlap("all_gather", [&] { world.all_gather(std::span{wide}.subspan(next, 4), wide); });
  }

  x = {1, 2, 3, 4};
  world.all_reduce(x);
  const auto p = static_cast<float>(size);
  found.check(x == std::vector<float>{p, 2 * p, 3 * p, 4 * p},
              "bad arguments changed the communicator");
  return found;
}

/// Checks that buffers can be any contiguous ranges: spans, arrays, vectors, temporary spans.
template <class C>
[[nodiscard]] Findings any_range(C& world)
{
  Findings found;
  std::array<int, 2> a{world.rank(), 1};
  world.all_reduce(a);
  found.check(a[1] == world.size(), "a std::array was not reduced");
  int c[2] = {world.rank(), 1};
  world.all_reduce(c);
  found.check(c[1] == world.size(), "an array was not reduced");
  std::vector<int> v{5, 1, 6};
  world.all_reduce(std::span{v}.subspan(1, 1));
  found.check(v == std::vector<int>{5, world.size(), 6}, "a span was not reduced");
  std::vector<int> out(static_cast<std::size_t>(world.size()));
  world.all_gather(std::array{world.rank()}, std::span{out});
  found.check(out.back() == world.size() - 1, "a temporary was not gathered");
  return found;
}

/// Checks that sums have the same bits on every run, and on every communicator that adds in order:
/// starting at rank 0 or, in a reduce, at the root's successor around the ring to the root. Calls
/// `disturb` between the calls, to change their timing.
template <class C>
[[nodiscard]] Findings reproducible_sums(C& world, cubist::detail::FunctionRef<void()> disturb)
{
  using T = float;
  Findings found;
  constexpr std::size_t n = 1003;
  const auto ranks = static_cast<std::size_t>(world.size());
  const auto x = [](int rank, std::size_t i) {
    // Magnitudes differ so much that every order of summation rounds differently.
    const int exponent = static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * 5) % 23);
    return static_cast<T>((static_cast<std::size_t>(rank) + i) % 2 == 0 ? 1 : -1) *
           static_cast<T>(1 << exponent) / T(3);
  };
  std::vector<T> in(ranks * n);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = x(world.rank(), i);
  const auto sum_from = [&](int first, std::size_t i) {
    T sum = x(first % world.size(), i);
    for (int step = 1; step < world.size(); ++step) sum += x((first + step) % world.size(), i);
    return sum;
  };
  // The last rank sums a share that is one element shorter.
  std::vector<T> shared(ranks * n - 1);
  for (std::size_t i = 0; i < shared.size(); ++i) shared[i] = sum_from(0, i);
  std::vector<T> own(n);
  for (std::size_t i = 0; i < n; ++i)
    own[i] = sum_from(0, static_cast<std::size_t>(world.rank()) * n + i);
  const int root = world.size() / 2;
  std::vector<T> at_root(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) at_root[i] = sum_from(root + 1, i);
  if constexpr (!sums_in_order<C>)
  {
    // The first run must be close to the expected sums; later runs must give the bits of the first.
    const auto accept = [&](std::vector<T>& expected, const std::vector<T>& got, const char* what) {
      for (std::size_t i = 0; i < got.size(); ++i)
        found.check(std::abs(got[i] - expected[i]) < T(8), what, " gave another sum");
      expected = got;
    };
    std::vector<T> all{in.begin(), in.end() - 1};
    world.all_reduce(all);
    accept(shared, all, "all_reduce");
    std::vector<T> mine(n);
    world.reduce_scatter(in, mine);
    accept(own, mine, "reduce_scatter");
    std::vector<T> reduced(in.size());
    world.reduce(in, reduced, root);
    if (world.rank() == root) accept(at_root, reduced, "reduce");
  }
  for (int run = 0; run < 10; ++run)
  {
    disturb();
    std::vector<T> all{in.begin(), in.end() - 1};
    world.all_reduce(all);
    found.check(all == shared, "all_reduce ", run, " gave other bits");
    disturb();
    std::vector<T> mine(n);
    world.reduce_scatter(in, mine);
    found.check(mine == own, "reduce_scatter ", run, " gave other bits");
    disturb();
    std::vector<T> reduced(in.size());
    world.reduce(in, reduced, root);
    if (world.rank() == root) found.check(reduced == at_root, "reduce ", run, " gave other bits");
  }
  return found;
}

/// 16-bit sums, rounded after each addition; in order if the communicator adds in order.
template <ShortReal T, class C>
void short_sums(C& world, Findings& found)
{
  const int size = world.size();
  const auto ranks = static_cast<std::size_t>(size);
  constexpr std::size_t n = 600;  // more than a block of a reduction
  const auto x = [](int rank, std::size_t i) {
    return T{std::sin(static_cast<float>(i) + 1000 * static_cast<float>(rank))};
  };
  const auto sum_from = [&](int begin, std::size_t i) {
    T sum = x(begin % size, i);
    for (int step = 1; step < size; ++step) sum += x((begin + step) % size, i);
    return sum;
  };
  // The bound for a sum of at most 8 numbers of at most 1, in any order.
  const float bound = 4.0F * static_cast<float>(size * size) * std::numeric_limits<T>::epsilon();
  const auto check = [&](std::span<const T> got, int begin, std::size_t first, const char* what) {
    for (std::size_t i = 0; i < got.size(); ++i)
    {
      const T expected = sum_from(begin, first + i);
      const bool same =
          sums_in_order<C> ? got[i] == expected : std::abs(got[i] - expected) <= bound;
      found.check(same, what, " gave ", got[i], ", not ", expected);
    }
  };
  std::vector<T> in(ranks * n);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = x(world.rank(), i);
  std::vector<T> out(n);
  world.reduce_scatter(in, out);
  check(out, 0, static_cast<std::size_t>(world.rank()) * n, "reduce_scatter");
  std::vector<T> all(in.size());
  const int root = size / 2;
  world.reduce(in, all, root);
  if (world.rank() == root) check(all, root + 1, 0, "reduce");
  all = in;
  world.all_reduce(all);
  check(all, 0, 0, "all_reduce");
  world.all_reduce(in, ReduceOp::max);
  float most = -2;
  for (int r = 0; r < size; ++r) most = std::max<float>(most, x(r, 5));
  found.check(in[5] == most, "the maximum is ", in[5], ", not ", most);
}

}  // namespace cubist::test::conformance
