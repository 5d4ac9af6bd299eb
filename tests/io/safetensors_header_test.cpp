// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/io/safetensors_header.hpp"

#include "catch.hpp"
#include "message.hpp"

namespace cubist::test::io_safetensors_header_test
{

using Catch::Matchers::ContainsSubstring;
using cubist::detail::SafetensorsJson;

TEST_CASE("the text of a header is that of safetensors")
{
  CHECK(format_safetensors_header({{{"k", "v"}}, {{"a", ElementType::i32, {2, 2}, 0, 16}}})
            .substr(8) ==
        R"({"__metadata__":{"k":"v"},"a":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}} )"
        "     ");
}

static std::uint64_t length(std::uint64_t value, std::uint64_t file_bytes)
{
  std::array<std::byte, 8> first{};
  for (auto& byte : first)
  {
    byte = static_cast<std::byte>(value % 256);
    value /= 256;
  }
  return safetensors_header_bytes(first, file_bytes, "x.safetensors");
}

TEST_CASE("the length of a header must fit the file and the limit")
{
  CHECK(length(2, 10) == 2);
  CHECK(length(0x0102, 1000) == 0x0102);
  CHECK(length(100'000'000, 100'000'008) == 100'000'000);
  CHECK_THROWS_WITH(length(2, 9), ContainsSubstring("truncated"));
  CHECK_THROWS_WITH(length(2, 7), ContainsSubstring("truncated"));
  CHECK_THROWS_WITH(length(2, 0), ContainsSubstring("truncated"));
  CHECK_THROWS_WITH(length(1, 100), ContainsSubstring("x.safetensors with a header of 1 bytes"));
  CHECK_THROWS_AS(length(0, 100), DataError);
  CHECK_THROWS_WITH(length(100'000'001, 200'000'000), ContainsSubstring("100000001"));
  for (const std::uint64_t most :
       {~std::uint64_t{0}, ~std::uint64_t{0} - 7, std::uint64_t{1} << 63})
    CHECK_THROWS_AS(length(most, ~std::uint64_t{0}), DataError);
}

static std::string tensor(const std::string& name, const std::string& dtype,
                          const std::string& shape, const std::string& offsets)
{
  return '"' + name + R"(":{"dtype":")" + dtype + R"(","shape":[)" + shape +
         R"(],"data_offsets":[)" + offsets + "]}";
}

const std::string dtype = R"("dtype":"F32")";
const std::string shape = R"("shape":[2,3])";
const std::string offsets = R"("data_offsets":[0,24])";

TEST_CASE("tensors are sorted by their bytes, and found by name")
{
  const auto header = parse_safetensors_header(
      '{' + tensor("b", "F64", "1", "6,14") + ',' + tensor("a", "U8", "2,3", "0,6") + ',' +
          tensor("none", "F32", "5,0", "6,6") + ',' + tensor("c", "C128", "", "14,30") + "}  ",
      30, "x");
  REQUIRE(header.tensors.size() == 4);
  CHECK(header.tensors[0] == TensorInfo{"a", ElementType::u8, {2, 3}, 0, 6});
  CHECK(header.tensors[1].name == "none");
  CHECK(header.tensors[2].name == "b");
  CHECK(header.tensors[3].name == "c");
  REQUIRE(header.find("b") != nullptr);
  CHECK(header.find("b")->begin == 6);
  CHECK(header.find("B") == nullptr);
  CHECK(parse_safetensors_header("{}", 0, "x").tensors.empty());
}

/// The message for a header that is refused; empty for one that is accepted.
static std::string error(const std::string& tensors, std::uint64_t data_bytes)
{
  return message_of<DataError>(
      [&] { (void)parse_safetensors_header('{' + tensors + '}', data_bytes, "x.safetensors"); });
}

TEST_CASE("tensors must cover the data without gaps and overlaps")
{
  const std::string a = tensor("a", "F16", "2", "0,4") + ',';
  CHECK(error(a + tensor("b", "F16", "2", "4,8"), 8).empty());
  CHECK_THAT(error(a + tensor("b", "F16", "2", "6,10"), 10), ContainsSubstring("\"b\" at byte 6"));
  CHECK_THAT(error(a + tensor("b", "F16", "2", "2,6"), 6), ContainsSubstring("\"b\" at byte 2"));
  CHECK_THAT(error(a + tensor("b", "F16", "2", "0,4"), 4), ContainsSubstring("\"b\" at byte 0"));
  CHECK_THAT(error(a + tensor("b", "F16", "0", "2,2"), 4), ContainsSubstring("\"b\" at byte 2"));
  CHECK_THAT(error(tensor("a", "F16", "2", "1,5"), 5), ContainsSubstring("\"a\" at byte 1"));
  CHECK_THAT(error(a + tensor("b", "F16", "2", "4,8"), 7), ContainsSubstring("truncated"));
  CHECK_THAT(error(a + tensor("b", "F16", "2", "4,8"), 9), ContainsSubstring("1 bytes after"));
  CHECK_THAT(error("", 1), ContainsSubstring("1 bytes after"));
  CHECK_THAT(error(a + tensor("a", "F16", "2", "4,8"), 8), ContainsSubstring("two tensors named"));
}

TEST_CASE("the bytes of a tensor must match its shape and type")
{
  CHECK_THAT(error(tensor("a", "F16", "2", "0,5"), 5), ContainsSubstring("need 4"));
  CHECK_THAT(error(tensor("a", "F16", "2,0", "0,4"), 4), ContainsSubstring("need 0"));
  CHECK_THAT(error(tensor("a", "F32", "", "0,2"), 2), ContainsSubstring("need 4"));
  CHECK_THAT(error(tensor("a", "F16", "2", "4,0"), 4), ContainsSubstring("bytes 4 to 0"));
  CHECK_THAT(error(tensor("a", "F16", "2", "18446744073709551612,0"), 4),
             ContainsSubstring("need 4"));
  CHECK_THAT(error(tensor("a", "F32", "4611686018427387904", "0,0"), 0),
             ContainsSubstring("64 bits"));
  CHECK_THAT(error(tensor("a", "U8", "4294967296,4294967296", "0,0"), 0),
             ContainsSubstring("64 bits"));
  CHECK_THAT(error(tensor("a", "U8", "0,4294967296,4294967296", "0,0"), 0),
             ContainsSubstring("64 bits"));
}

TEST_CASE("a written header is parsed as the same")
{
  SafetensorsHeader header;
  header.metadata = {{"format", "cubist"}, {"quote\"", "\xC3\xA9\n\\"}};
  header.tensors = {{"layers.0.weight", ElementType::f32, {2, 3}, 0, 24},
                    {"\xC3\xA9\"\n", ElementType::bf16, {}, 24, 26},
                    {"empty", ElementType::c128, {0, 7}, 26, 26}};
  for (; !header.tensors.empty(); header.tensors.pop_back(), header.metadata.clear())
  {
    const std::string text = format_safetensors_header(header);
    CHECK(text.size() % 8 == 0);
    const std::uint64_t data_bytes = header.tensors.back().end;
    const auto first = std::as_bytes(std::span{text}).first<8>();
    CHECK(safetensors_header_bytes(first, text.size() + data_bytes, "x") == text.size() - 8);
    const auto read = parse_safetensors_header(text.substr(8), data_bytes, "x");
    CHECK(read.metadata == header.metadata);
    CHECK(read.tensors == header.tensors);
  }
  CHECK(format_safetensors_header({}) == std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST_CASE("names that safetensors cannot store are refused")
{
  const auto write = [](const std::string& name) {
    return format_safetensors_header({{}, {{name, ElementType::u8, {}, 0, 1}}});
  };
  CHECK_THROWS_WITH(write("__metadata__"), ContainsSubstring("use another name"));
  CHECK_THROWS_AS(write("\xFF"), ArgumentError);
  CHECK_THROWS_AS(format_safetensors_header({{{"note", "\xFF"}}, {}}), ArgumentError);
}

/// The message for a text that is refused; empty for one that is accepted.
static std::string error_of_json(const std::string& json)
{
  return message_of<DataError>([&] { (void)SafetensorsJson(json, "x.safetensors"); });
}

TEST_CASE("the JSON of a header is parsed, in the order of its text")
{
  const std::string text = R"( "b" : {"shape":[], "dtype":"BF16", "data_offsets":[24,26]},
    "__metadata__":{"format":"pt", "":"\u00e9\n"},
    "a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]} })";
  const SafetensorsJson json{"{" + text + "   ", "x"};
  REQUIRE(json.tensors.size() == 2);
  CHECK(json.tensors[0] == TensorInfo{"b", ElementType::bf16, {}, 24, 26});
  CHECK(json.tensors[1] == TensorInfo{"a", ElementType::f32, {2, 3}, 0, 24});
  CHECK(json.metadata == std::map<std::string, std::string>{{"format", "pt"}, {"", "\xC3\xA9\n"}});
  CHECK(error_of_json("{}").empty());
  CHECK(error_of_json(R"({"__metadata__":{}})").empty());
}

/// The message for a tensor "a" with these fields.
static std::string error_of_tensor(const std::string& fields)
{
  return error_of_json(R"({"a":{)" + fields + "}}");
}

TEST_CASE("numbers must be integers of 64 bits")
{
  const auto most = std::numeric_limits<std::uint64_t>::max();
  const std::string number = std::to_string(most);
  const SafetensorsJson json{R"({"a":{)" + dtype + R"(,"shape":[)" + number +
                                 R"(],"data_offsets":[0,)" + number + "]}}",
                             "x"};
  CHECK(json.tensors[0].shape[0] == most);
  CHECK(json.tensors[0].end == most);
  for (const char* bad : {"-1", "-0", "1.0", "1e2", "18446744073709551616", "\"1\"", "null", "true",
                          "[1]", "{}", "1e999", "01", "+1", "0x1", "NaN"})
  {
    CAPTURE(bad);
    CHECK(!error_of_tensor(dtype + ',' + offsets + R"(,"shape":[2,)" + bad + "]").empty());
    CHECK(!error_of_tensor(dtype + ',' + shape + R"(,"data_offsets":[0,)" + bad + "]").empty());
  }
  CHECK_THAT(error_of_tensor(R"("shape":[-1])"), ContainsSubstring("negative number at \"a\""));
  CHECK_THAT(error_of_tensor(R"("shape":[1.5])"),
             ContainsSubstring("\"1.5\" at \"a\" where a list of"));
}

TEST_CASE("duplicate keys are refused, wherever they are")
{
  CHECK(error_of_tensor(dtype + ',' + shape + ',' + offsets).empty());
  for (const auto& field : {dtype, shape, offsets})
    CHECK_THAT(error_of_tensor(dtype + ',' + shape + ',' + offsets + ',' + field),
               ContainsSubstring("a second"));
  CHECK_THAT(error_of_json(R"({"__metadata__":{"n":"1","n":"1"}})"),
             ContainsSubstring("a second note \"n\""));
  CHECK_THAT(error_of_json(R"({"__metadata__":{},"__metadata__":{}})"),
             ContainsSubstring("a second \"__metadata__\""));
}

TEST_CASE("a tensor must have all fields of the format, and no others")
{
  CHECK_THAT(error_of_tensor(dtype + ',' + shape), ContainsSubstring("too little at \"a\""));
  CHECK_THAT(error_of_tensor(dtype + ',' + offsets), ContainsSubstring("too little"));
  CHECK_THAT(error_of_tensor(shape + ',' + offsets), ContainsSubstring("too little"));
  CHECK_THAT(error_of_tensor(""), ContainsSubstring("too little"));
  CHECK_THAT(error_of_tensor(R"("strides":[1])"), ContainsSubstring("\"strides\" at \"a\""));
  CHECK_THAT(error_of_tensor(R"("dtype":"F4")"),
             ContainsSubstring("the tensor \"a\" of the dtype \"F4\", whose elements have a size"));
  CHECK_THAT(error_of_tensor(R"("dtype":"f32")"), ContainsSubstring("dtype \"f32\""));
  CHECK_THAT(error_of_tensor(R"("dtype":[])"),
             ContainsSubstring("a list at \"a\" where a type's name"));
  CHECK_THAT(error_of_tensor(R"("shape":3)"), ContainsSubstring("the number 3"));
  CHECK_THAT(error_of_tensor(R"("data_offsets":[0])"), ContainsSubstring("fewer than two"));
  CHECK_THAT(error_of_tensor(R"("data_offsets":[])"), ContainsSubstring("fewer than two"));
  CHECK_THAT(error_of_tensor(R"("data_offsets":[0,1,2])"), ContainsSubstring("the number 2"));
  CHECK_THAT(error_of_json(R"({"a":[]})"), ContainsSubstring("a list"));
  CHECK_THAT(error_of_json(R"({"a":null})"), ContainsSubstring("null"));
  for (const char* value : {"1", "null", "[]", "{}", "true", "1.5"})
    CHECK_THAT(error_of_json(std::string{R"({"__metadata__":{"n":)"} + value + "}}"),
               ContainsSubstring("where a text belongs"));
  CHECK_THAT(error_of_json(R"({"__metadata__":null})"), ContainsSubstring("an object of texts"));
}

TEST_CASE("tensors of every type of a byte or more have a place")
{
  for (const std::string type :
       {"F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I8"})
  {
    const SafetensorsJson json{
        R"({"a":{"dtype":")" + type + R"(","shape":[3],"data_offsets":[0,3]}})", "x"};
    CHECK(to_string(json.tensors.at(0).type) == type);
    CHECK(bytes_of(json.tensors.at(0).type) == 1);
    CHECK(!readable_as<float>(json.tensors.at(0).type));
  }
}

TEST_CASE("text that is not JSON is refused")
{
  const std::string whole = R"({"a":{)" + dtype + ',' + shape + ',' + offsets + "}}";
  CHECK(error_of_json(whole).empty());
  for (std::size_t length = 0; length < whole.size(); ++length)
    CHECK(!error_of_json(whole.substr(0, length)).empty());
  CHECK_THAT(error_of_json(" {}"), ContainsSubstring("does not begin with {"));
  CHECK_THAT(error_of_json("\xEF\xBB\xBF{}"), ContainsSubstring("does not begin with {"));
  CHECK_THAT(error_of_json("[]"), ContainsSubstring("does not begin with {"));
  CHECK_THAT(error_of_json("{}{}"), ContainsSubstring("at byte 3 is not JSON"));
  CHECK_THAT(error_of_json("{} x"), ContainsSubstring("not JSON"));
  CHECK_THAT(error_of_json("{},"), ContainsSubstring("not JSON"));
  CHECK_THAT(error_of_json("{/**/}"), ContainsSubstring("not JSON"));
  CHECK_THAT(error_of_json(std::string("{}\0{", 4)), ContainsSubstring("zero byte"));
  CHECK_THAT(error_of_json("{\"\xFF\":{}}"), ContainsSubstring("not JSON"));
  CHECK_THAT(error_of_json("{\"\\ud800\":{}}"), ContainsSubstring("not JSON"));
}

TEST_CASE("a malicious header takes no deep stack, and has a short message")
{
  const std::string long_name(1'000'000, 'n');
  const std::string deep(1'000'000, '[');
  CHECK_THAT(error_of_json(R"({"a":{"shape":)" + deep), ContainsSubstring("a list"));
  CHECK(error_of_json(R"({"a":)" + deep).size() < 300);
  CHECK(error_of_json("{" + deep).size() < 300);
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  CHECK_THAT(error_of_json(objects), ContainsSubstring("an object"));
  CHECK(error_of_json(R"({")" + long_name + R"(":1})").size() < 300);
  CHECK(error_of_json(R"({")" + long_name).size() < 300);
  CHECK(error_of_tensor(R"(")" + long_name + R"(":1)").size() < 300);
  CHECK(error_of_tensor(R"("dtype":")" + long_name + R"(")").size() < 300);

  std::string sizes = "1";
  for (int i = 1; i < 64; ++i) sizes += ",1";
  CHECK(error_of_tensor(dtype + ',' + offsets + R"(,"shape":[)" + sizes + "]").empty());
  CHECK_THAT(error_of_tensor(dtype + ',' + offsets + R"(,"shape":[)" + sizes + ",1]"),
             ContainsSubstring("more than 64 sizes"));
}

}  // namespace cubist::test::io_safetensors_header_test
