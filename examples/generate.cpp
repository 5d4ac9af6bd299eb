// SPDX-License-Identifier: BSD-3-Clause
// Continues a prompt with a GPT-2 or Llama model from a folder of Hugging Face's files, on the
// scheme and mesh of your choice. Ranks are MPI processes under mpiexec or srun, otherwise threads.
// A prompt is a list of ids, or a text whose bytes are the ids (for a model of
// examples/train_text). With --stdin, each line of standard input is a prompt of ids. The ids that
// follow it are written as they come, one per line, with an empty line after the last, so that any
// tokenizer can be piped before and after the program. With --score the model predicts a text
// instead.

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <sys/resource.h>

#include <cubist/cubist.hpp>
#include <cubist/nn/transformer/generate.hpp>
#include <cubist/nn/transformer/transformer.hpp>
#include <cubist/nn/transformer/weights.hpp>
#include <cubist/plan/meshes.hpp>
#include <cubist/scheme/catalogue.hpp>

#include "../tools/strict_options.hpp"
#include "backend.hpp"
#include "text.hpp"

namespace
{

struct Settings
{
  std::string model;
  std::vector<int> ids;
  std::string text;
  bool from_stdin = false;
  std::string score;  // a text to predict
  std::string weights = "float";
  std::string scheme = "summa25d";
  std::vector<int> mesh;
  std::string trace;
  cubist::GenerateOptions options;
};

/// Prints a prompt, unless it came from standard input, and then the tokens as they come.
class Printer
{
 public:
  explicit Printer(const Settings& s)
      : s_{s}
  {
  }

  void add(int token)
  {
    print_prompt();
    print(token);
    std::fflush(stdout);
  }
  void finish()
  {
    print_prompt();
    std::printf("\n");
  }

 private:
  void print_prompt()
  {
    if (std::exchange(has_begun_, true) || s_.from_stdin) return;
    if (!s_.text.empty()) std::printf("%s", s_.text.c_str());
    for (const int id : s_.ids) print(id);
  }
  void print(int token)
  {
    if (s_.from_stdin)
      std::printf("%d\n", token);
    else if (s_.text.empty())
      std::printf("%s%d", std::exchange(is_first_, false) ? "" : ",", token);
    else
      std::printf("%c", token);
  }

  const Settings& s_;
  bool has_begun_ = false;
  bool is_first_ = true;
};

/// Checks that a model's tokens are bytes.
/// @throws cubist::ArgumentError if they are not
void require_bytes(const char* option, const Settings& s, const cubist::TransformerConfig& config,
                   const char* remedy)
{
  cubist::require<cubist::ArgumentError>(
      config.vocabulary == text::vocabulary, "got ", option, " for ", s.model,
      ", whose vocabulary of ", config.vocabulary, " is not that of bytes, which has ",
      text::vocabulary, ", so the text's bytes would be read as other tokens; ", remedy);
}

/// Returns the prompt of the options.
/// @throws cubist::ArgumentError for a text and a model whose tokens are not bytes
std::vector<int> prompt_of(const Settings& s, const cubist::TransformerConfig& config)
{
  if (s.text.empty()) return s.ids;
  require_bytes("--text", s, config, "give --ids, from the model's tokenizer");
  return text::tokens_of(s.text);
}

/// Returns the ids of a line, between spaces or commas.
/// @throws cubist::ArgumentError for a line that contains anything else, or nothing
std::vector<int> ids_of(const std::string& line)
{
  std::vector<int> ids;
  for (const char *at = line.data(), *const end = at + line.size(); at < end;)
  {
    if (*at == ' ' || *at == ',' || *at == '\r')
    {
      ++at;
      continue;
    }
    const auto [after, error] = std::from_chars(at, end, ids.emplace_back());
    cubist::require<cubist::ArgumentError>(
        error == std::errc{}, "got the prompt \"", line,
        "\", which is not a list of ids; write one prompt per line, with spaces between its ids");
    at = after;
  }
  cubist::require<cubist::ArgumentError>(
      !ids.empty(),
      "got a line without ids, so there is no prompt; write its ids, or end the input");
  return ids;
}

/// Returns the prompt on the next line of rank 0's standard input, or nothing at its end.
template <class Mesh>
std::optional<std::vector<int>> next_prompt(const Mesh& mesh)
{
  std::vector<int> ids;
  if (std::string line; mesh.rank() == 0 && std::getline(std::cin, line)) ids = ids_of(line);
  std::uint64_t count = ids.size();
  mesh.world().broadcast(std::span{&count, 1}, 0);
  ids.resize(count);
  if (count == 0) return {};
  mesh.world().broadcast(std::span{ids}, 0);
  return ids;
}

/// Returns the peak memory of this process, in MiB.
double peak_memory()
{
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

/// Continues one prompt, and says on standard error how long that took.
template <class Model, class Mesh>
void continue_prompt(Model& model, const Mesh& mesh, const std::vector<int>& prompt,
                     const Settings& s)
{
  using Clock = std::chrono::steady_clock;
  auto options = s.options;
  Printer printer{s};
  const auto begin = Clock::now();
  auto first = begin, last = begin;
  std::size_t tokens = 0;
  options.on_token = [&](std::size_t, int token) {
    last = Clock::now();
    if (tokens++ == 0) first = last;
    if (mesh.rank() == 0) printer.add(token);
  };
  (void)generate(model, prompt, 1, options);
  double memory = peak_memory();
  mesh.world().all_reduce(std::span{&memory, 1}, cubist::ReduceOp::max);
  if (mesh.rank() != 0) return;
  printer.finish();
  std::fflush(stdout);
  const auto seconds = [](auto time) { return std::chrono::duration<double>(time).count(); };
  std::fprintf(stderr, "%zu tokens after %zu: the first after %.3f s", tokens, prompt.size(),
               seconds(first - begin));
  if (tokens > 1)
    std::fprintf(stderr, ", then %.2f a second",
                 static_cast<double>(tokens - 1) / seconds(last - first));
  const int together = examples::on_processes() ? 1 : mesh.size();  // ranks of a process
  std::fprintf(stderr, "; at most %.0f MiB a rank\n", memory / together);
}

/// Predicts the last tenth of a text, which train_text holds out.
template <class Model, class Mesh>
void score(Model& model, const Mesh& mesh, const Settings& s)
{
  const auto& config = model.config();
  require_bytes("--score", s, config, "score a model of examples/train_text");
  const auto text = text::read(s.score).held_out;
  const double bits = text::bits_a_byte(model, text, 16, config.positions, text.size());
  if (mesh.rank() == 0)
    std::printf("%.5f bits a byte, a perplexity of %.5f, with weights in %s\n", bits,
                std::exp2(bits), s.weights.c_str());
}

template <class Backend, class Scheme, class Mesh>
void continue_on_mesh(const Mesh& mesh, const Settings& s)
{
  const auto config = cubist::read_config(s.model);
  const auto prompt = prompt_of(s, config);
  cubist::Transformer<Scheme, Backend, float> model{
      mesh, config, {.inference = true}, cubist::stored_weights_of(s.weights)};
  load_weights(s.model, model.parameters(), config);
  if (!s.score.empty()) return score(model, mesh, s);
  if (!s.from_stdin) return continue_prompt(model, mesh, prompt, s);
  while (const auto next = next_prompt(mesh)) continue_prompt(model, mesh, *next, s);
}

/// Runs on the mesh in `s.mesh`, or by default on all processes that mpiexec has started, or on one
/// rank.
template <class Backend, class Scheme>
int continue_on(const Settings& s)
{
  using Mesh = cubist::Mesh<Scheme, Backend>;
  cubist::LaunchOptions options;
  if (s.mesh.empty())
  {
    if (!examples::on_processes()) options.ranks = 1;
    return cubist::launch<Backend>(
        options, [&](auto& world) { continue_on_mesh<Backend, Scheme>(Mesh{world}, s); });
  }
  const auto extents = cubist::extents_from_list<Scheme>(s.mesh);
  options.ranks = Scheme::Axes::ranks(extents);
  return cubist::launch<Backend>(options, [&](auto& world) {
    continue_on_mesh<Backend, Scheme>(Mesh{world, extents, cubist::IdleRanks::refused}, s);
  });
}

// Summa2D is Summa25D of depth 1, and Grid2D and Cube3D are meshes of Grid3D.
using Known = cubist::Schemes<cubist::Summa25D, cubist::Grid3D, cubist::Megatron1D>;

}  // namespace

int main(int argc, char** argv)
try
{
  Settings s;
  CLI::App app{"Continues a prompt by a transformer, cut over many ranks"};
  app.option_defaults()->always_capture_default();
  app.add_option("model", s.model, "a folder with config.json and model.safetensors")
      ->required()
      ->check(CLI::ExistingDirectory);
  auto* ids = app.add_option("--ids", s.ids, "the prompt's tokens")->delimiter(',');
  app.add_option("--text", s.text, "the prompt as a text, for a model whose tokens are bytes")
      ->excludes(ids);
  app.add_flag("--stdin", s.from_stdin, "read prompts of ids from standard input, one per line")
      ->excludes("--ids")
      ->excludes("--text");
  app.add_option("--score", s.score,
                 "predict the last tenth of this text, for a model whose tokens are bytes")
      ->check(CLI::ExistingFile)
      ->excludes("--ids")
      ->excludes("--text")
      ->excludes("--stdin");
  app.add_option("--weights", s.weights, "how the weights of linear layers are stored")
      ->check(CLI::IsMember({"float", "bfloat16", "half", "q8"}));
  app.add_option("--tokens", s.options.tokens, "the number of tokens to add");
  app.add_option("--temperature", s.options.temperature,
                 "0 picks the most likely token; other values draw one");
  app.add_option("--top-k", s.options.top_k,
                 "draw from this many of the most likely tokens; 0: from all");
  app.add_option(
      "--top-p", s.options.top_p,
      "draw from the fewest of the most likely tokens whose probabilities add up to this");
  app.add_flag("--ignore-end", s.options.ignore_end, "go on after tokens that end a text");
  app.add_option("--seed", s.options.seed, "the seed of the draws");
  app.add_option("--scheme", s.scheme, "the scheme")
      ->check(CLI::IsMember(cubist::scheme_name_list<Known>(), CLI::ignore_case));
  app.add_option("--mesh", s.mesh,
                 "the extents of the scheme's mesh; by default all ranks of mpiexec, or one")
      ->delimiter(',');
  app.add_option("--trace", s.trace,
                 "write a trace of the first ranks to this file, for ui.perfetto.dev");
  cubist::parse_strictly(app, argc, argv);
  CLI11_PARSE(app, argc, argv);
  return examples::on_traced_backend(s.trace, [&]<class Backend>() {
    return cubist::with_scheme<Known>(
        s.scheme, [&]<class Scheme>() { return continue_on<Backend, Scheme>(s); });
  });
}
catch (const std::exception& e)
{
  std::cerr << "generate: " << e.what() << '\n';
  return 1;
}
