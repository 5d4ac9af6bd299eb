// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/transformer/transformer.hpp"
#include "cubist/nn/transformer/weights.hpp"

#include "folder.hpp"
#include "reference.hpp"
#ifndef CUBIST_TEST_MPI
#include "interrupted.hpp"
#endif

namespace cubist::test::weights_test
{

const std::string gpt2 = std::string{CUBIST_TRANSFORMER_DATA} + "/gpt2_tiny";
const std::string llama = std::string{CUBIST_TRANSFORMER_DATA} + "/llama_tiny";

/// Checks that two files have the same tensors, in any order.
static void check_same_tensors(const std::filesystem::path& got,
                               const std::filesystem::path& wanted)
{
  const Reference a{got.string()}, b{wanted.string()};
  CHECK(a.names() == b.names());
  for (const auto& name : b.names())
  {
    CAPTURE(name);
    REQUIRE(a.has(name));
    CHECK(a.shape(name) == b.shape(name));
    CHECK(a.bytes(name) == b.bytes(name));
  }
}

/// Loads a folder on one mesh, and saves it to another.
template <class S, class T = double>
void copy(const Place<S>& place, const std::filesystem::path& from, const std::filesystem::path& to,
          const SaveWeightsOptions& options = {})
{
  (void)on_root(place, [&](const auto& mesh) {
    const auto config = read_config(from);
    Transformer<S, TestBackend, T> model{mesh, config};
    load_weights(from, model.parameters(), config);
    save_weights(to, model.parameters(), config, options);
    return 0;
  });
}

TEST_CASE("weights that are loaded and saved are the same, on every mesh")
{
  const Folder folder;
  const auto on = [&](const auto& place) {
    if (!fits(place)) return;
    CAPTURE(place.name());
    for (const auto& model : {gpt2, llama})
    {
      const auto name = std::filesystem::path{model}.filename().string() + place.name();
      copy(place, model, folder / name);
      check_same_tensors(folder / name / "model.safetensors", model + "/model.safetensors");
      CHECK(read_config(folder / name) == read_config(model));
    }
  };
  on(one_rank);
  on(Place<Summa2D>{6, {.rows = 2, .cols = 3}});
  on(two_two_two);
  on(cube);
}

/// The loss of some tokens by the model in a folder.
template <class T = double>
double loss_of(const std::filesystem::path& folder)
{
  return on_root(one_rank, [&](const auto& mesh) {
    const auto config = read_config(folder);
    Transformer<Summa2D, TestBackend, T> model{mesh, config};
    load_weights(folder, model.parameters(), config);
    return model.evaluate(std::vector{1, 2, 3, 4, 5, 6, 7, 8}, 8);
  });
}

TEST_CASE("large models are saved in several files with an index")
{
  if (!fits(two_by_two)) return;
  const Folder folder;
  for (const auto& model : {gpt2, llama})
  {
    once([&] { std::filesystem::remove_all(folder / "parts"); });
    copy(one_rank, model, folder / "parts");
    copy(two_by_two, model, folder / "parts", {.largest_file = 100'000});
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator{folder / "parts"})
    {
      CHECK(entry.file_size() < 102'000);
      files += entry.path().extension() == ".safetensors" ? 1U : 0U;
    }
    CHECK(files >= 4);
    CHECK(std::filesystem::exists(folder / "parts" / "model.safetensors.index.json"));
    CHECK(!std::filesystem::exists(folder / "parts" / "model.safetensors"));
    CHECK(loss_of(folder / "parts") == loss_of(model));
    copy(one_rank, folder / "parts", folder / "whole");
    check_same_tensors(folder / "whole" / "model.safetensors", model + "/model.safetensors");
    copy(one_rank, model, folder / "parts");
    CHECK(!std::filesystem::exists(folder / "parts" / "model.safetensors.index.json"));
  }
}

TEST_CASE("weights are converted to the model's elements")
{
  const Folder folder;
  const double wanted = loss_of(gpt2);
  const double in_float = loss_of<float>(gpt2);
  CHECK(std::abs(in_float - wanted) < 1e-6 * wanted);
  copy<Summa2D, float>(one_rank, gpt2, folder / "float");
  CHECK(loss_of<float>(folder / "float") == in_float);
  copy<Summa2D, bfloat16>(one_rank, gpt2, folder / "16");
  CHECK(std::abs(loss_of(folder / "16") - wanted) < 0.01 * wanted);
}

/// Copies a safetensors file, with other names and without some tensors.
template <class Rename>
void rewrite(const std::filesystem::path& from, const std::filesystem::path& to, Rename rename)
{
  const Reference file{from.string()};
  SafetensorsHeader header;
  std::string data;
  for (const auto& name : file.names())
  {
    const std::string other = rename(name);
    if (other.empty()) continue;
    const auto bytes = file.bytes(name);
    std::vector<std::uint64_t> shape;
    for (const std::size_t n : file.shape(name)) shape.push_back(n);
    header.tensors.push_back(
        {other, ElementType::f64, shape, data.size(), data.size() + bytes.size()});
    data += bytes;
  }
  std::ofstream{to, std::ios::binary} << format_safetensors_header(header) << data;
}

TEST_CASE("GPT-2's names may lack their prefix")
{
  const Folder folder;
  once([&] {
    std::filesystem::copy_file(gpt2 + "/config.json", folder / "config.json");
    rewrite(gpt2 + "/model.safetensors", folder / "model.safetensors", [](const std::string& name) {
      return name.substr(std::string{"transformer."}.size());
    });
  });
  CHECK(loss_of(folder / "") == loss_of(gpt2));
}

/// The message of the error that a load throws, and whether all parameters are as before.
static std::pair<std::string, bool> refusal(const std::filesystem::path& folder,
                                            const TransformerConfig& config)
{
  return on_root(one_rank, [&](const auto& mesh) {
    Transformer<Summa2D, TestBackend, double> model{mesh, config};
    const auto all = [&] {
      std::vector<Global<double>> values;
      for (const auto& p : model.parameters()) values.push_back(gather(p.value));
      return values;
    };
    const auto before = all();
    auto message = message_of<Error>([&] { load_weights(folder, model.parameters(), config); });
    return std::pair{std::move(message), all() == before};
  });
}

TEST_CASE("weights of another model are refused, and change nothing")
{
  const Folder folder;
  const auto config = read_config(gpt2);
  const auto refuses = [&](const std::filesystem::path& files, const TransformerConfig& c,
                           auto... parts) {
    const auto [message, unchanged] = refusal(files, c);
    CAPTURE(message);
    CHECK(mentions(message, parts...));
    CHECK(unchanged);
  };
  auto wide = config;
  wide.feed_forward = 100;
  refuses(gpt2, wide, "mlp.c_fc.weight", "(48, 192)", "(48, 100)", "config.json");
  auto shallow = config;
  shallow.layers = 1;
  refuses(gpt2, shallow, "has a tensor transformer.h.1.", "does not have");
  auto deep = config;
  deep.layers = 3;
  refuses(gpt2, deep, "has no tensor transformer.h.2.");
  auto untied = config;
  untied.tied = false;
  refuses(gpt2, untied, "has no tensor lm_head.weight");
  refuses(llama, config, "has no tensor transformer.wpe.weight");
  refuses(folder / "nowhere", config, "nowhere");
}

TEST_CASE("damaged files are refused, and change nothing")
{
  const Folder folder;
  const auto config = read_config(gpt2);
  const auto refuses = [&](auto... parts) {
    const auto [message, unchanged] = refusal(folder / "copy", config);
    CAPTURE(message);
    CHECK(mentions(message, parts...));
    CHECK(unchanged);
  };
  const auto index = [&](const std::string& text) {
    once([&] { std::ofstream{folder / "copy" / "model.safetensors.index.json"} << text; });
  };
  once([&] {
    std::filesystem::create_directory(folder / "copy");
    std::filesystem::copy_file(gpt2 + "/model.safetensors", folder / "copy" / "model.safetensors");
    std::filesystem::resize_file(folder / "copy" / "model.safetensors", 400'000);
  });
  refuses("model.safetensors", "truncated");
  once([&] { std::filesystem::remove(folder / "copy" / "model.safetensors"); });
  index("{");
  refuses("index.json", "not JSON at byte 2");
  index("{}");
  refuses("index.json", "weight_map");
  index(R"({"weight_map": {"a": "part.safetensors", "a": "b.safetensors"}})");
  refuses("index.json", "two values for \"a\"");
  index(R"({"weight_map": )" + std::string(500'000, '[') + std::string(500'000, ']') + "}");
  refuses("index.json", "nested more than 64 deep");
  index(R"({"weight_map": {"a": "part.safetensors\u0000"}})");
  refuses("not a file of its folder");
  index(R"({"weight_map": {"a": "../../other.safetensors"}})");
  refuses("../../other.safetensors", "not a file of its folder");
  index(R"({"weight_map": {"a": 3}})");
  refuses("not a file of its folder");
  index(R"({"weight_map": {"a": "part.safetensors"}})");
  refuses("part.safetensors");
  once([&] {
    rewrite(gpt2 + "/model.safetensors", folder / "copy" / "part.safetensors",
            [](const std::string& name) { return name; });
  });
  refuses("part.safetensors", "that file lacks it");
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:12\n";
  index(pointer);
  refuses("index.json", "Git LFS pointer", "git lfs pull");
  once([&] { std::filesystem::remove(folder / "copy" / "model.safetensors.index.json"); });
  refuses("copy", "neither model.safetensors nor model.safetensors.index.json");
  once([&] { std::ofstream{folder / "copy" / "pytorch_model.bin"} << "PK"; });
  refuses("only in pytorch_model.bin", "does not run", "save_pretrained");
  once([&] { std::ofstream{folder / "copy" / "model.safetensors"} << pointer; });
  refuses("model.safetensors", "Git LFS pointer", "git lfs pull");
}

TEST_CASE("a tensor is read from the file that the index names, or refused")
{
  const Folder folder;
  const auto config = read_config(gpt2);
  const double wanted = loss_of(gpt2);
  const std::string stale = "transformer.h.0.mlp.c_fc.weight";
  const auto index = [&](bool names_all) {
    nlohmann::json map;
    for (const auto& name : Reference{gpt2 + "/model.safetensors"}.names())
      if (name != "transformer.wpe.weight" || names_all)
        map[name] = name < stale ? "a.safetensors" : "b.safetensors";
    once([&] {
      std::ofstream{folder / "model.safetensors.index.json"} << nlohmann::json{{"weight_map", map}};
    });
  };
  once([&] {
    std::filesystem::copy_file(gpt2 + "/config.json", folder / "config.json");
    // An old copy of one of b's tensors, in a file that comes first.
    rewrite(gpt2 + "/model.safetensors", folder / "a.safetensors", [&](const std::string& name) {
      if (name == "transformer.h.1.mlp.c_fc.weight") return stale;
      return name < stale ? name : "";
    });
    rewrite(gpt2 + "/model.safetensors", folder / "b.safetensors",
            [&](const std::string& name) { return name < stale ? "" : name; });
  });
  index(true);
  CHECK(loss_of(folder / "") == wanted);
  index(false);
  CHECK(mentions(refusal(folder / "", config).first, "index.json", "does not name",
                 "transformer.wpe.weight", "b.safetensors"));
  index(true);
  once([&] {
    std::filesystem::copy_file(gpt2 + "/model.safetensors", folder / "model.safetensors");
  });
  CHECK(mentions(refusal(folder / "", config).first, "model.safetensors and an index that places",
                 "a.safetensors", "unclear which"));
  // An index may name the one file.
  once([&] {
    auto map = nlohmann::json::object();
    for (const auto& name : Reference{gpt2 + "/model.safetensors"}.names())
      map[name] = "model.safetensors";
    std::ofstream{folder / "model.safetensors.index.json"} << nlohmann::json{{"weight_map", map}};
  });
  CHECK(loss_of(folder / "") == wanted);
}

TEST_CASE("a tied model may have its table under the name of the logits")
{
  const Folder folder;
  const auto with = [&](const std::string& model, const std::string& table, auto rename) {
    once([&] {
      std::filesystem::remove_all(folder / "tied");
      std::filesystem::create_directory(folder / "tied");
      auto json = nlohmann::json::parse(config_text(read_config(model)));
      json["tie_word_embeddings"] = true;
      std::ofstream{folder / "tied" / "config.json"} << json;
      rewrite(model + "/model.safetensors", folder / "tied" / "model.safetensors",
              [&](const std::string& name) { return name == table ? rename : name; });
    });
  };
  const std::string head = "lm_head.weight";
  with(gpt2, "transformer.wte.weight", head);
  CHECK(loss_of(folder / "tied") == loss_of(gpt2));
  // Either of an untied model's two tables may be missing, but not both.
  with(llama, head, std::string{});
  const double by_embedding = loss_of(folder / "tied");
  with(llama, "model.embed_tokens.weight", std::string{});
  CHECK(loss_of(folder / "tied") != by_embedding);
  with(llama, "", head);
  const auto config = read_config(folder / "tied");
  const auto refuses = [&](const auto& place) {
    if (!fits(place)) return;
    const auto message = on_root(place, [&](const auto& mesh) {
      using S = typename std::decay_t<decltype(place)>::Scheme;
      Transformer<S, TestBackend, double> model{mesh, config};
      return message_of<DataError>(
          [&] { load_weights(folder / "tied", model.parameters(), config); });
    });
    CHECK(mentions(message, "different values in lm_head.weight and model.embed_tokens.weight",
                   "tie_word_embeddings"));
  };
  refuses(one_rank);
  refuses(two_by_two);
}

TEST_CASE("tied tables that differ in one element are refused on every rank")
{
  if (!fits(two_by_two)) return;
  const Folder folder;
  auto config = read_config(llama);
  config.tied = true;
  const std::string table = "model.embed_tokens.weight";
  const Reference file{llama + "/model.safetensors"};
  // Each rank compares a part of the tables, so two ranks compare the first and the last element.
  for (const bool last : {false, true})
  {
    once([&] {
      SafetensorsHeader header;
      std::string data;
      for (const auto& name : file.names())
      {
        std::string bytes = file.bytes(name == "lm_head.weight" ? table : name);
        if (name == "lm_head.weight") bytes[last ? bytes.size() - 1 : 0] ^= 1;
        std::vector<std::uint64_t> shape;
        for (const std::size_t n : file.shape(name)) shape.push_back(n);
        header.tensors.push_back(
            {name, ElementType::f64, shape, data.size(), data.size() + bytes.size()});
        data += bytes;
      }
      std::ofstream{folder / "model.safetensors", std::ios::binary}
          << format_safetensors_header(header) << data;
    });
    require_clear(on_mesh(two_by_two, [&](const auto& mesh) {
      Transformer<Summa2D, TestBackend, double> model{mesh, config};
      const auto parameters = model.parameters();
      const auto all = [&] {
        std::vector<Global<double>> values;
        for (const auto& p : parameters) values.push_back(gather(p.value));
        return values;
      };
      const auto before = all();
      const auto message =
          message_of<DataError>([&] { load_weights(folder.path(), parameters, config); });
      Findings found;
      found.check(mentions(message, "different values in lm_head.weight and " + table), "rank ",
                  mesh.rank(), " got '", message, "'");
      found.check(all() == before, "rank ", mesh.rank(), " has other parameters");
      return found;
    }));
  }
}

TEST_CASE("a save keeps the keys of the configuration, and leaves no part of an earlier one")
{
  const Folder folder;
  const std::string text = R"({"model_type": "llama", "vocab_size": 1, "hidden_size": 2,
    "max_position_embeddings": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "eos_token_id": [2, 3],
    "intermediate_size": 1, "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"},
    "dtype": "bfloat16", "architectures": ["LlamaForCausalLM"], "hidden_act": "swish"})";
  const auto save = [&](std::uint64_t largest_file) {
    (void)on_root(one_rank, [&](const auto& mesh) {
      const auto config = parse_config(text, "text");
      Transformer<Summa2D, TestBackend, float> model{mesh, config};
      save_weights(folder / "", model.parameters(), config, {.largest_file = largest_file});
      return 0;
    });
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator{folder / ""})
      names.insert(entry.path().filename().string());
    once([] {});  // so that no process begins the next save before all have looked
    return names;
  };
  CHECK(save(1 << 20) == std::set<std::string>{"config.json", "model.safetensors"});
  auto expected = nlohmann::json::parse(text);
  expected["dtype"] = "float32";
  std::ifstream written{folder / "config.json"};
  CHECK(nlohmann::json::parse(written) == expected);
  // Matrices with one row have two dimensions, as transformers expects.
  using Sizes = std::vector<std::size_t>;
  const Reference file{(folder / "model.safetensors").string()};
  CHECK(file.shape("model.embed_tokens.weight") == Sizes{1, 2});
  CHECK(file.shape("lm_head.weight") == Sizes{1, 2});
  CHECK(file.shape("model.layers.0.mlp.up_proj.weight") == Sizes{1, 2});
  CHECK(file.shape("model.layers.0.mlp.down_proj.weight") == Sizes{2, 1});
  CHECK(file.shape("model.layers.0.input_layernorm.weight") == Sizes{2});
  CHECK(file.shape("model.norm.weight") == Sizes{2});

  once([] {});
  const auto many = save(8);
  CHECK(many.size() > 6);
  CHECK(many.count("model.safetensors") == 0);
  const auto few = save(64);
  CHECK(few.size() < many.size());
  CHECK(std::all_of(few.begin(), few.end(), [&](const std::string& name) {
    return name.find("-of-") == name.npos ||
           name.find("-of-0000" + std::to_string(few.size() - 2)) != name.npos;
  }));
  auto names = file.names();
  std::sort(names.begin(), names.end());
  CHECK(SafetensorsFolder{folder / ""}.names() == names);
  CHECK(save(1 << 20) == std::set<std::string>{"config.json", "model.safetensors"});
}

#ifndef CUBIST_TEST_MPI

/// A small model to save over another one.
struct SavedModel
{
  const char* more;        ///< keys of its config.json
  const char* generation;  ///< its generation_config.json, or null
  std::uint64_t seed;
  bool in_files;  ///< whether it is saved in several files
};

static void save(const SavedModel& model, const std::filesystem::path& folder, std::size_t width)
{
  (void)on_root(one_rank, [&](const auto& mesh) {
    auto config = parse_config(
        R"({"model_type": "llama", "vocab_size": 16, "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": )" +
            std::to_string(width) + model.more + "}",
        "text");
    if (model.generation != nullptr)
    {
      config.source.generation = model.generation;
      config.end_ids = {6};
    }
    Transformer<Summa2D, TestBackend, double> transformer{mesh, config, {.seed = model.seed}};
    save_weights(folder, transformer.parameters(), config,
                 {.largest_file = model.in_files ? 300U : 1U << 20});
    return 0;
  });
}

/// What a program computes with the model in a folder, and which tokens end its texts; nothing if
/// cubist refuses the folder.
static std::optional<std::pair<double, std::vector<int>>>
computed(const std::filesystem::path& folder)
try
{
  return std::pair{loss_of(folder), read_config(folder).end_ids};
}
catch (const Error&)
{
  return {};
}

TEST_CASE("a save that is interrupted leaves one model, or a folder that is refused",
          "[.interrupted]")
{
  const char* usual = "";
  const char* rotated = R"(, "rope_theta": 20.0)";
  const char* ends = R"({"eos_token_id": 6})";
  struct Pair
  {
    SavedModel former, next;
    bool adds_ids = false;  // whether the program has added `ends` to the former model
  };
  const std::vector<Pair> pairs{
      {{usual, nullptr, 1, false}, {rotated, nullptr, 2, false}},
      {{usual, nullptr, 1, false}, {usual, ends, 2, false}},
      {{usual, ends, 1, false}, {usual, nullptr, 2, false}},
      {{usual, nullptr, 1, true}, {usual, nullptr, 2, true}},
      {{usual, nullptr, 1, false}, {rotated, nullptr, 2, true}},
      {{rotated, ends, 1, true}, {usual, nullptr, 2, false}},
      {{usual, nullptr, 1, false}, {usual, nullptr, 2, false}, true},
  };
  const Folder folder;
  const auto path = [&](const char* name) { return folder / name; };
  const auto interrupt = [&](Interruption how, std::size_t pair, std::size_t width) {
    CAPTURE(pair, width);
    const auto &former = pairs[pair].former, &next = pairs[pair].next;
    for (const char* name : {"former", "next"}) std::filesystem::remove_all(path(name));
    save(former, path("former"), 8);
    if (pairs[pair].adds_ids) write_contents(path("former") / "generation_config.json", ends);
    save(next, path("next"), width);
    const auto before = computed(path("former")), after = computed(path("next"));
    REQUIRE((before && after && before != after));
    int refused = 0;
    const int calls = interrupt_each_call(
        how,
        [&] {
          std::filesystem::remove_all(path("model"));
          create_folders(path("model"));
          std::filesystem::copy(path("former"), path("model"));
        },
        [&] { save(next, path("model"), width); },
        [&](bool was_interrupted) {
          const auto found = computed(path("model"));
          refused += found ? 0 : 1;
          if (was_interrupted)
            CHECK((!found || found == before || found == after));
          else
            CHECK(found == after);
        });
    CHECK(calls > 1);
    CHECK(refused < calls);
  };
  for (std::size_t pair = 0; pair < pairs.size(); ++pair) interrupt(Interruption::death, pair, 8);
  interrupt(Interruption::death, 3, 4);  // saves to fewer files
  interrupt(Interruption::error, 5, 8);
}
#endif

TEST_CASE("a folder that cannot be written is reported")
{
  const Folder folder;
  once([&] { std::ofstream{folder / "file"} << 1; });
  const auto message = on_root(one_rank, [&](const auto& mesh) {
    const auto config = read_config(gpt2);
    Transformer<Summa2D, TestBackend, double> model{mesh, config};
    return message_of<DataError>(
        [&] { save_weights(folder / "file" / "model", model.parameters(), config); });
  });
  CHECK(mentions(message, "file", "folder"));
}

}  // namespace cubist::test::weights_test
