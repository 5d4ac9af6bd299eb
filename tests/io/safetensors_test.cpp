// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cubist/io/safetensors.hpp"

#include "catch.hpp"
#include "folder.hpp"
#include "nn.hpp"

namespace io_safetensors_test
{

using namespace cubist;
using namespace cubist::test;

namespace
{

template <class S>
using MeshOf = AxisMesh<typename S::Axes, TestBackend>;

/// Three matrices of a network on the mesh of scheme S.
template <class S>
struct Three
{
  using M = MeshOf<S>;

  DistMatrix<double, typename S::Weight, M> weight;
  DistMatrix<double, RowVector<typename S::Output>, M> bias;
  DistMatrix<double, typename S::Input, M> x;

  explicit Three(const M& mesh) : weight{mesh, {13, 7}}, bias{mesh, {1, 7}}, x{mesh, {9, 13}} {}
  std::vector<NamedMatrix<double, M>> all()
  {
    return {{"weight", weight.view()}, {"bias", bias.view()}, {"x \"quoted\" \xc3\xa4", x.view()}};
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
auto loaded(const Place<S>& place, const std::filesystem::path& path, F load)
{
  return on_root(place, [&](const auto& mesh) {
    Three<S> three{mesh};
    load(SafetensorsFile{path}, three);
    return three.gathered();
  });
}
template <class S>
auto loaded(const Place<S>& place, const std::filesystem::path& path)
{
  return loaded(place, path, [](const auto& file, auto& three) { file.load(three.all()); });
}

void save(const std::filesystem::path& path)
{
  (void)on_mesh(two_two_two, [&](const auto& mesh) {
    Three<Summa25D> three{mesh};
    three.scatter_from(5);
    save_safetensors(path, three.all(), {{"program", "a test"}});
    return 0;
  });
}

}  // namespace

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
                   "other elements in", from_end == 1 ? "quoted" : "bias", "damaged"));
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
  CHECK(mentions(save(2), "two matrices of the name m"));
  CHECK(mentions(save(0), "no matrices"));
  CHECK_FALSE(std::filesystem::exists(folder / "a"));
}

}  // namespace io_safetensors_test
