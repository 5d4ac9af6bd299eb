// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/io/safetensors.hpp"

#include "folder.hpp"
#include "nn.hpp"

namespace cubist::test::io_safetensors_test
{

template <class S>
using MeshOf = AxisMesh<typename S::Axes, TestBackend>;

/// The names of three tensors.
const std::vector<std::string> names{"weight", "bias", "x \"quoted\" \xc3\xa4"};

/// How large the three are: W (in, out), and X with this many rows.
struct Sizes
{
  std::size_t in = 13;
  std::size_t out = 7;
  std::size_t rows = 9;
};

/// Three matrices of a network on the mesh of scheme S.
template <class S>
struct Three
{
  using M = MeshOf<S>;

  DistMatrix<double, typename S::Weight, M> weight;
  DistMatrix<double, RowVector<typename S::Output>, M> bias;
  DistMatrix<double, typename S::Input, M> x;

  explicit Three(const M& mesh, Sizes n = {})
      : weight{mesh, {n.in, n.out}},
        bias{mesh, {1, n.out}},
        x{mesh, {n.rows, n.in}}
  {
  }
  std::vector<NamedMatrix<double, M>> all()
  {
    return {{names[0], weight.view()}, {names[1], bias.view()}, {names[2], x.view()}};
  }
  void scatter_from(std::uint64_t seed)
  {
    for (const auto& [name, m] : all())
      scatter(uniform<double>(m.shape.rows, m.shape.cols, seed + name.size()), m);
  }
  std::vector<Global<double>> gathered()
  {
    std::vector<Global<double>> g;
    for (const auto& [name, m] : all()) g.push_back(gather(m));
    return g;
  }
};

/// What rank 0 gathers after load(file, three) on a mesh of S.
template <class S, class F>
auto loaded(const Place<S>& place, const std::filesystem::path& path, F load, Sizes sizes = {})
{
  return on_root(place, [&](const auto& mesh) {
    Three<S> three{mesh, sizes};
    load(SafetensorsFile{path}, three);
    return three.gathered();
  });
}
template <class S>
auto loaded(const Place<S>& place, const std::filesystem::path& path, Sizes sizes = {})
{
  return loaded(
      place, path, [](const auto& file, auto& three) { file.load(three.all()); }, sizes);
}

template <class S = Summa25D>
void save(const std::filesystem::path& path, const Place<S>& place = two_two_two, Sizes sizes = {})
{
  (void)on_mesh(place, [&](const auto& mesh) {
    Three<S> three{mesh, sizes};
    three.scatter_from(5);
    save_safetensors(path, three.all(), {{"program", "a test"}});
    return 0;
  });
}

TEST_CASE("matrices that are saved on one mesh are loaded on others")
{
  if (!fits(8)) return;
  const Folder folder;
  save(folder / "a");
  const auto saved = on_root(one_rank, [](const auto& mesh) {
    Three<Summa2D> three{mesh};
    three.scatter_from(5);
    return three.gathered();
  });
  const auto same = [&](const std::vector<Global<double>>& all) {
    return identical(all[0], saved[0]) && identical(all[1], saved[1]) &&
           identical(all[2], saved[2]);
  };
  CHECK(same(loaded(two_two_two, folder / "a")));
  CHECK(same(loaded(two_by_two, folder / "a")));
  CHECK(same(loaded(one_rank, folder / "a")));

  const SafetensorsFile file{folder / "a"};
  CHECK(file.header().metadata.at("program") == "a test");
  CHECK(file.header().tensors.size() == 3);
  CHECK(file.header().find("bias")->shape == std::vector<std::uint64_t>{1, 7});
}

TEST_CASE("matrices of fewer rows and columns than ranks are saved and loaded")
{
  if (!fits(8)) return;
  const Folder folder;
  // Blocks of padding only, some of which would begin after the end of their matrix.
  for (const Sizes sizes : {Sizes{1, 1, 1}, Sizes{2, 1, 3}, Sizes{1, 2, 5}, Sizes{3, 5, 2}})
  {
    CAPTURE(sizes.in, sizes.out, sizes.rows);
    save(folder / "a", two_two_two, sizes);
    save(folder / "b", one_rank, sizes);
    once([&] { CHECK(contents(folder / "a") == contents(folder / "b")); });
    const auto saved = on_root(one_rank, [&](const auto& mesh) {
      Three<Summa2D> three{mesh, sizes};
      three.scatter_from(5);
      return three.gathered();
    });
    const auto same = [&](const std::vector<Global<double>>& all) {
      return identical(all[0], saved[0]) && identical(all[1], saved[1]) &&
             identical(all[2], saved[2]);
    };
    CHECK(same(loaded(two_two_two, folder / "a", sizes)));
    CHECK(same(loaded(two_by_two, folder / "a", sizes)));
    CHECK(same(loaded(one_rank, folder / "a", sizes)));
  }
}

#ifndef CUBIST_TEST_MPI
TEST_CASE("replicas of a block read a part of it each, so that every byte is read once")
{
  if (!fits(8)) return;
  const Folder folder;
  const Sizes sizes{301, 257, 8};  // the replicas' parts of a block differ
  save(folder / "a", two_two_two, sizes);
  // What this process has read, from the disk or not.
  const auto bytes_read = [] {
    std::string text = contents("/proc/self/io");
    return std::stod(text.substr(text.find("rchar:") + 6));
  };
  const double before = bytes_read();
  const auto all = loaded(two_two_two, folder / "a", sizes);
  const double read = bytes_read() - before;
  const auto data = 8.0 * (301 * 257 + 257 + 8 * 301);
  CHECK(read >= data);
  CHECK(read < 1.1 * data);  // headers, of 8 ranks
  CHECK(identical(all[0], loaded(one_rank, folder / "a", sizes)[0]));
  // Each replica has the elements that the others have read.
  require_clear(on_mesh(two_two_two, [&](const auto& mesh) {
    Findings found;
    Three<Summa25D> three{mesh, sizes};
    SafetensorsFile{folder / "a"}.load(three.all());
    const auto w = uniform<double>(301, 257, 5 + names[0].size());
    const Block& b = three.weight.block();
    const auto mine = three.weight.valid();
    for (std::size_t i = 0; i < mine.rows(); ++i)
      for (std::size_t j = 0; j < mine.cols(); ++j)
        found.check(mine(i, j) == w(b.rows.offset + i, b.cols.offset + j), "element ", i, ", ", j);
    return found;
  }));
}
#endif

TEST_CASE("elements of other types are converted, and a tensor of one dimension is a row")
{
  const Folder folder;
  const auto path = folder / "a";
  once([&] {
    const std::string header = R"({"weight":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]},)"
                               R"("bias":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]},)"
                               R"("count":{"dtype":"I64","shape":[],"data_offsets":[8,16]}})";
    std::string length(8, '\0');
    length[0] = static_cast<char>(header.size());
    // 1.5 and -2 as halfs; 3 and 0.5 as bfloat16
    write_contents(path, length + header + std::string("\x00\x3e\x00\xc0\x40\x40\x00\x3f", 8) +
                             std::string(8, '\1'));
  });
  const auto load = [&](const std::string& name, Shape shape) {
    return on_root(one_rank, [&](const auto& mesh) {
      DistMatrix<float, Summa2D::Input, MeshOf<Summa2D>> m{mesh, shape};
      SafetensorsFile{path}.load(
          std::vector<NamedMatrix<float, MeshOf<Summa2D>>>{{name, m.view()}});
      return gather(m);
    });
  };
  CHECK(identical(load("weight", {1, 2}), Global<float>{{1.5F, -2.0F}}));
  CHECK(identical(load("bias", {1, 2}), Global<float>{{3.0F, 0.5F}}));
  CHECK(mentions(message_of<ShapeError>([&] {
                   (void)load("bias", {2, 1});
                 }),
                 "bias of (2)", "(2, 1)"));
  CHECK(mentions(message_of<ShapeError>([&] { (void)load("count", {1, 1}); }), "count of ()"));
  CHECK(mentions(message_of<DataError>([&] { (void)load("none", {1, 1}); }), "no tensor none"));
  // Those that cubist saved, too, whose fingerprint is that of other elements.
  save(path, one_rank);
  const auto weight = loaded(one_rank, path).front();
  const auto narrow = load(names[0], {weight.shape(0), weight.shape(1)});
  bool same = true;
  for (std::size_t i = 0; i < weight.size(); ++i)
    same = same && narrow.data()[i] == static_cast<float>(weight.data()[i]);
  CHECK(same);
}

/// Writes a file as a program other than cubist does: without metadata.
static void write_foreign(const std::filesystem::path& path,
                          const std::vector<std::pair<std::string, Global<double>>>& tensors)
{
  std::string header;
  std::string data;
  for (const auto& [name, x] : tensors)
  {
    const bool row = x.shape(0) == 1;
    const auto begin = std::to_string(data.size());
    data.append(reinterpret_cast<const char*>(x.data()), x.size() * sizeof(double));
    header += (header.empty() ? "{\"" : ",\"") + name + R"(":{"dtype":"F64","shape":[)" +
              (row ? "" : std::to_string(x.shape(0)) + ",") + std::to_string(x.shape(1)) +
              R"(],"data_offsets":[)" + begin + ',' + std::to_string(data.size()) + "]}";
  }
  header += '}';
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size() % 256);
  length[1] = static_cast<char>(header.size() / 256);
  once([&] { write_contents(path, length + header + data); });
}

TEST_CASE("a file of another program is loaded as its order says, on any mesh")
{
  if (!fits(8)) return;
  const Folder folder;
  const auto path = folder / "a";
  const std::vector<Global<double>> all{uniform<double>(13, 7, 1), uniform<double>(1, 7, 2),
                                        uniform<double>(9, 13, 3)};
  for (const auto order : {WeightOrder::in_out, WeightOrder::out_in})
  {
    const bool turned = order == WeightOrder::out_in;
    const auto stored = [&](std::size_t i) { return turned ? transposed(all[i]) : all[i]; };
    write_foreign(path, {{"w", stored(0)}, {"b", all[1]}, {"x", stored(2)}});
    const auto same = [&](const auto& place) {
      const auto got = loaded(place, path, [&](const auto& file, auto& three) {
        auto matrices = three.all();
        matrices[0].name = "w";
        matrices[1].name = "b";
        matrices[2].name = "x";
        file.load(matrices, order);
      });
      return identical(got[0], all[0]) && identical(got[1], all[1]) && identical(got[2], all[2]);
    };
    CHECK(same(two_two_two));
    CHECK(same(two_by_two));
    CHECK(same(cube));
    CHECK(same(one_rank));
  }
}

TEST_CASE("the order of a weight is neither guessed nor contradicted")
{
  const Folder folder;
  const auto w = uniform<double>(6, 6, 1);
  const auto load = [&](const std::string& name, Shape shape, std::optional<WeightOrder> order) {
    return on_root(one_rank, [&](const auto& mesh) {
      DistMatrix<double, Summa2D::Weight, MeshOf<Summa2D>> m{mesh, shape};
      SafetensorsFile{folder / "a"}.load(
          std::vector<NamedMatrix<double, MeshOf<Summa2D>>>{{name, m.view()}}, order);
      return gather(m);
    });
  };
  write_foreign(folder / "a", {{"fc1.weight", w},
                               {"fc1.bias", uniform<double>(1, 6, 2)},
                               {"fc2.weight", uniform<double>(6, 1, 3)}});
  CHECK(mentions(message_of<ArgumentError>([&] {
                   (void)load("fc1.weight", {6, 6}, {});
                 }),
                 "fc1.weight of (6, 6)", "without the fingerprint that cubist saves",
                 "pass SafetensorsFile::load WeightOrder::out_in"));
  CHECK(identical(load("fc1.weight", {6, 6}, WeightOrder::out_in), transposed(w)));
  // Vectors have one order.
  CHECK(load("fc1.bias", {1, 6}, {}).size() == 6);
  CHECK(load("fc1.bias", {1, 6}, WeightOrder::out_in).size() == 6);
  CHECK(load("fc2.weight", {6, 1}, {}).size() == 6);
  CHECK(load("fc2.weight", {1, 6}, WeightOrder::out_in).size() == 6);
  CHECK(load("fc2.weight", {6, 1}, WeightOrder::out_in).size() == 6);
  CHECK(mentions(message_of<ShapeError>([&] {
                   (void)load("fc2.weight", {1, 6}, {});
                 }),
                 "fc2.weight of (6, 1) for a matrix of (1, 6)"));
  CHECK(mentions(message_of<ShapeError>([&] {
                   (void)load("fc1.weight", {6, 5}, WeightOrder::out_in);
                 }),
                 "fc1.weight of (6, 6), in WeightOrder::out_in, for a matrix of (6, 5)"));

  save(folder / "a", one_rank);
  CHECK(identical(load("weight", {13, 7}, {}), load("weight", {13, 7}, WeightOrder::in_out)));
  CHECK(mentions(message_of<ArgumentError>([&] {
                   (void)load("weight", {13, 7}, WeightOrder::out_in);
                 }),
                 "got WeightOrder::out_in for weight", "leave the order out"));
}

TEST_CASE("a load that is refused changes nothing")
{
  const Folder folder;
  write_foreign(folder / "a", {{names[1], uniform<double>(1, 7, 2)}});
  const auto [message, bias] = on_root(one_rank, [&](const auto& mesh) {
    Three<Summa2D> three{mesh};
    auto all = three.all();
    std::swap(all[0], all[1]);
    const auto refusal = message_of<DataError>([&] { SafetensorsFile{folder / "a"}.load(all); });
    return std::pair{refusal, gather(three.bias)};
  });
  CHECK(mentions(message, "no tensor weight"));
  CHECK(identical(bias, generate<double>(1, 7, [](std::size_t, std::size_t) { return 0.0; })));
}

TEST_CASE("a file with changed elements is refused")
{
  if (!fits(8)) return;
  const Folder folder;
  save(folder / "a");
  std::string text = contents(folder / "a");
  for (const std::size_t from_end : {std::size_t{1}, 8 * 9 * 13 + std::size_t{5}})
  {
    std::string damaged = text;
    damaged[damaged.size() - from_end] ^= 4;
    once([&] { write_contents(folder / "b", damaged); });
    CHECK(mentions(message_of<DataError>([&] { (void)loaded(two_two_two, folder / "b"); }),
                   "has elements in", from_end == 1 ? "quoted" : "bias", "damaged"));
  }
  once([&] { write_contents(folder / "b", text.substr(0, text.size() - 1)); });
  CHECK_THROWS_AS(loaded(two_two_two, folder / "b"), DataError);
  for (const std::size_t bytes : {0U, 7U, 8U, 40U})
  {
    once([&] { write_contents(folder / "b", text.substr(0, bytes)); });
    CHECK_THROWS_AS(SafetensorsFile{folder / "b"}, DataError);
  }
}

TEST_CASE("two matrices of one name, or none, are refused")
{
  const Folder folder;
  const auto save = [&](std::size_t count) {
    return message_of<ArgumentError>([&] {
      (void)on_mesh(one_rank, [&](const auto& mesh) {
        DistMatrix<float, Summa2D::Input, MeshOf<Summa2D>> m{mesh, {2, 2}};
        save_safetensors(folder / "a",
                         std::vector<NamedMatrix<float, MeshOf<Summa2D>>>(count, {"m", m.view()}));
        return 0;
      });
    });
  };
  CHECK(mentions(save(2), "two matrices named m"));
  CHECK(mentions(save(0), "no matrices"));
  CHECK_FALSE(std::filesystem::exists(folder / "a"));
}

}  // namespace cubist::test::io_safetensors_test
