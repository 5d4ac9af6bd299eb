// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/io/npy.hpp"

#include "folder.hpp"
#include "nn.hpp"

namespace cubist::test::io_npy_test
{

TEST_CASE("a matrix that is saved on one mesh is loaded on others")
{
  if (!fits(8)) return;
  for (const Shape shape : {Shape{13, 7}, Shape{1, 1}, Shape{64, 48}, Shape{0, 3}})
  {
    const Folder folder;
    const auto path = folder / "x.npy";
    const auto x = uniform<double>(shape.rows, shape.cols, 1);
    (void)on_mesh(two_two_two, [&](const auto& mesh) {
      save_npy(path, scatter<Summa25D::Weight>(mesh, x));
      return 0;
    });
    once([&] {
      const auto text = contents(path);
      CHECK(text.size() == 128 + shape.size() * sizeof(double));
      CHECK(mentions(text, "'<f8'"));
    });
    CHECK(identical(x, on_root(cube, [&](const auto& mesh) {
                      return gather(load_npy<Cube3D::Input, double>(mesh, path));
                    })));
    CHECK(identical(
        x, on_root(two_by_two, [&](const auto& mesh) {
          DistMatrix<double, Summa2D::Input, AxisMesh<Summa2D::Axes, TestBackend>> out{mesh, shape};
          load_npy(path, out.view());
          return gather(out);
        })));
  }
}

TEST_CASE("complex<float> is NumPy's c8")
{
  using C = std::complex<float>;
  const Folder folder;
  const auto x = uniform<C>(13, 7, 1);
  CHECK(identical(x, on_root(one_rank, [&](const auto& mesh) {
                    save_npy(folder / "x.npy", scatter<Summa2D::Input>(mesh, x));
                    return gather(load_npy<Summa2D::Input, C>(mesh, folder / "x.npy"));
                  })));
  once([&] { CHECK(mentions(contents(folder / "x.npy"), "'<c8'")); });
}

TEST_CASE("half is NumPy's f2, and bfloat16 has no name in .npy files")
{
  const Folder folder;
  const auto x = uniform<half>(3, 5, 1);
  const auto got = on_root(one_rank, [&](const auto& mesh) {
    save_npy(folder / "x.npy", scatter<Summa2D::Input>(mesh, x));
    return gather(load_npy<Summa2D::Input, half>(mesh, folder / "x.npy"));
  });
  CHECK(identical(got, x));
  once([&] { CHECK(mentions(contents(folder / "x.npy"), "'<f2'")); });
  const auto message = message_of<ArgumentError>([&] {
    (void)on_mesh(one_rank, [&](const auto& mesh) {
      const auto y = load_npy<Summa2D::Input, bfloat16>(mesh, folder / "x.npy");
      save_npy(folder / "y.npy", y);
      return 0;
    });
  });
  CHECK(mentions(message, "elements of BF16", "have no name", "save safetensors"));
  once([&] { CHECK_FALSE(std::filesystem::exists(folder / "y.npy")); });
}

/// Writes a file with these elements.
template <class V>
void write_npy(const std::filesystem::path& path, std::string dictionary, const V& values)
{
  const auto bytes = std::as_bytes(std::span{values});
  dictionary.resize(118, ' ');
  once([&] {
    write_contents(path,
                   "\x93NUMPY" + std::string("\1\0\x76\0", 4) + dictionary +
                       std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  });
}

static std::string dictionary(const std::string& descr, const std::string& shape,
                              bool columns = false)
{
  return "{'descr': '" + descr + "', 'fortran_order': " + (columns ? "True" : "False") +
         ", 'shape': " + shape + ", }";
}

TEST_CASE(
    "arrays of another order are converted, and of another type or number of dimensions refused")
{
  const Folder folder;
  const auto load = [&](const std::string& name) {
    return on_root(one_rank, [&](const auto& mesh) {
      return gather(load_npy<Summa2D::Input, double>(mesh, folder / name));
    });
  };
  const auto save = [&](const std::string& name, const std::string& header, const auto& values) {
    write_npy(folder / name, header, values);
  };
  save("columns", dictionary("<f4", "(2, 3)", true), std::vector<float>{1, 4, 2, 5, 3, 6});
  CHECK(identical(load("columns"), Global<double>{{1, 2, 3}, {4, 5, 6}}));
  save("row", dictionary("<f8", "(3,)"), std::vector<double>{1, 2, 3});
  CHECK(identical(load("row"), Global<double>{{1, 2, 3}}));

  save("cube", dictionary("<f8", "(1, 1, 2)"), std::vector<double>{1, 2});
  CHECK(mentions(message_of<DataError>([&] { (void)load("cube"); }), "cube", "3 dimensions"));
  save("integers", dictionary("<i4", "(1, 2)"), std::vector<int>{1, 2});
  CHECK(mentions(message_of<DataError>([&] { (void)load("integers"); }), "I32", "double", "F64"));
  CHECK(mentions(message_of<DataError>([&] { (void)load("none"); }), "cannot open"));
  once([&] { write_contents(folder / "text", "1,2,3\n"); });
  CHECK_THROWS_AS(load("text"), DataError);
  CHECK(mentions(message_of<ShapeError>([&] {
                   (void)on_mesh(one_rank, [&](const auto& mesh) {
                     auto out = scatter<Summa2D::Input>(mesh, uniform<double>(3, 1, 1));
                     load_npy(folder / "row", out.view());
                     return 0;
                   });
                 }),
                 "(1, 3)", "(3, 1)"));
}

TEST_CASE("a weight of (out, in) is loaded transposed on request")
{
  if (!fits(8)) return;
  const Folder folder;
  const auto w = uniform<double>(13, 7, 1);
  const auto turned = transposed(w);
  for (const bool columns : {false, true})  // either order of the elements in the file
  {
    write_npy(folder / "w", dictionary("<f8", "(7, 13)", columns), columns ? w : turned);
    CHECK(identical(w, on_root(two_two_two, [&](const auto& mesh) {
                      return gather(load_npy<Summa25D::Weight, double>(mesh, folder / "w",
                                                                       WeightOrder::out_in));
                    })));
    CHECK(identical(turned, on_root(one_rank, [&](const auto& mesh) {
                      return gather(load_npy<Summa2D::Input, double>(mesh, folder / "w"));
                    })));
  }
  CHECK(mentions(message_of<ShapeError>([&] {
                   (void)on_mesh(one_rank, [&](const auto& mesh) {
                     auto out = scatter<Summa2D::Input>(mesh, w);
                     load_npy(folder / "w", out.view());
                     return 0;
                   });
                 }),
                 "(7, 13)", "(13, 7)", "WeightOrder::out_in"));
}

TEST_CASE("labels are read from integers of any type")
{
  const Folder folder;
  const auto labels = [&](const std::string& header, const auto& values) {
    write_npy(folder / "y", header, values);
    return read_npy_labels(folder / "y");
  };
  const std::vector<int> wanted{2, 0, 1};
  const auto as = [&]<class Integer>(const char* descr, Integer) {
    return labels(dictionary(descr, "(3,)"), std::vector<Integer>{2, 0, 1});
  };
  CHECK(as("|u1", std::uint8_t{}) == wanted);
  CHECK(as("|i1", std::int8_t{}) == wanted);
  CHECK(as("<u2", std::uint16_t{}) == wanted);
  CHECK(as("<i2", std::int16_t{}) == wanted);
  CHECK(as("<u4", std::uint32_t{}) == wanted);
  CHECK(as("<i4", std::int32_t{}) == wanted);
  CHECK(as("<u8", std::uint64_t{}) == wanted);
  CHECK(as("<i8", std::int64_t{}) == wanted);
  using Long = std::vector<std::int64_t>;
  CHECK(labels(dictionary("|b1", "(2,)"), std::vector<char>{0, 1}) == std::vector{0, 1});
  CHECK(labels(dictionary("<i8", "(3, 1)"), Long{2, 0, 1}) == wanted);
  CHECK(labels(dictionary("<i8", "(3, 1)", true), Long{2, 0, 1}) == wanted);
  CHECK(labels(dictionary("<i8", "(1, 3)"), Long{2, 0, 1}) == wanted);
  CHECK(labels(dictionary("<i8", "(0,)"), Long{}).empty());

  const auto refusal = [&](const std::string& header, const auto& values) {
    return message_of<DataError>([&] { (void)labels(header, values); });
  };
  CHECK(mentions(refusal(dictionary("<f4", "(2,)"), std::vector<float>{1, 2}), "F32",
                 "y.astype('<i8')"));
  CHECK(mentions(refusal(dictionary("<i8", "(2, 2)"), Long{1, 0, 0, 1}), "matrix of (2, 2)",
                 "y.argmax(axis=1)"));
  CHECK(mentions(refusal(dictionary("<i8", "(2,)"), Long{1, Long::value_type{1} << 32}),
                 "label 4294967296 at 1", "an int"));
  CHECK(mentions(refusal(dictionary(">i8", "(1,)"), Long{1}), "wrong order", "'<i8'"));
  CHECK(mentions(message_of<DataError>([&] { (void)read_npy_labels(folder / "none"); }),
                 "cannot open"));
}

TEST_CASE("ranks that a mesh leaves idle save and load nothing")
{
  if (!fits(6)) return;
  const Folder folder;
  const auto x = uniform<float>(5, 4, 1);
  const auto ranks = on_ranks<TestBackend>(6, [&](TestBackend::Communicator& world) {
    const Mesh<Summa2D, TestBackend> mesh{world, {2, 2}, IdleRanks::allowed};
    DistMatrix<float, Summa2D::Input, AxisMesh<Summa2D::Axes, TestBackend>> out{mesh, {5, 4}};
    scatter(x, out);
    save_npy(folder / "x", out);
    out.generate([](std::size_t, std::size_t) { return 0.0F; });
    load_npy(folder / "x", out.view());
    return gather(out);
  });
  CHECK(identical(ranks[0], x));
}

}  // namespace cubist::test::io_npy_test
