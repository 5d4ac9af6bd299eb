// SPDX-License-Identifier: BSD-3-Clause

#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cubist/core/error.hpp>

#include "common/torch.hpp"

namespace bench
{

namespace
{

/// Returns a Python that has PyTorch, built for GPUs if `gpu`; empty if there is none. Debian's
/// PyTorch belongs to Debian's Python, which need not come first in the path.
const std::string& python_with_torch(bool gpu)
{
  static const std::string found = [&] {
    const std::string test =
        gpu ? "import torch; assert torch.cuda.is_available()" : "import torch";
    for (const std::string python : {"/usr/bin/python3", "python3"})
      if (std::system((python + " -c '" + test + "' >/dev/null 2>&1").c_str()) == 0) return python;
    return std::string{};
  }();
  return found;
}

}  // namespace

std::unique_ptr<Torch> Torch::start(const std::string& program, const std::string& options,
                                    bool gpu)
{
  const auto& python = python_with_torch(gpu);
  if (python.empty()) return nullptr;
  const std::string script = "'" CUBIST_BENCH_PEERS "/" + program + "'";
  std::unique_ptr<Torch> torch{
      new Torch{python + " " + script + " " + options + (gpu ? " --device cuda" : "")}};
  const auto first_line = nlohmann::json::parse(torch->answer());
  torch->threads_ = first_line.at("threads");
  torch->version_ = first_line.at("version");
  return torch;
}

Torch::Torch(const std::string& command)
    : command_{command}
{
  // One of the two sockets is the script's standard input and output. Unlike a pipe, a socket
  // reports the script's end as an error, without a signal.
  std::array<int, 2> ends{};
  cubist::require<cubist::Error>(
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0,
      "cannot open a socket to talk to PyTorch, so PyTorch cannot be measured; leave it "
      "out with --torch off");
  socket_ = ends[0];
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  const std::string shell = "exec " + command + " --in-turns";
  std::array arguments{const_cast<char*>("sh"), const_cast<char*>("-c"),
                       const_cast<char*>(shell.c_str()), static_cast<char*>(nullptr)};
  if (posix_spawn(&process_, "/bin/sh", &files, nullptr, arguments.data(), environ) != 0)
    process_ = -1;
  posix_spawn_file_actions_destroy(&files);
  close(ends[1]);
}

Torch::~Torch()
{
  close(socket_);  // this ends the script
  if (process_ > 0) waitpid(process_, nullptr, 0);
}

void Torch::step(bool counts)
{
  send(socket_, "\n", 1, MSG_NOSIGNAL);
  const double time = nlohmann::json::parse(answer()).at("seconds");
  if (counts) times_.push_back(time);
}

TorchResult Torch::result() const { return {Times{times_}, threads_, version_}; }

std::string Torch::answer()
{
  std::string line;
  for (char c = 0; c != '\n'; line += c)
    cubist::require<cubist::Error>(
        recv(socket_, &c, 1, 0) == 1,
        "PyTorch's step failed, so there is nothing to compare with; try ", command_,
        ", or leave PyTorch out with --torch off");
  return line;
}

}  // namespace bench
