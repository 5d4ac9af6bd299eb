// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

#include <unistd.h>

namespace cubist::test
{

/// Runs `f`, and returns what it prints on stderr.
template <class F>
std::string printed(F f)
{
  std::fflush(stderr);
  const int terminal = dup(STDERR_FILENO);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{std::tmpfile(), &std::fclose};
  dup2(fileno(file.get()), STDERR_FILENO);
  f();
  std::fflush(stderr);
  dup2(terminal, STDERR_FILENO);
  close(terminal);
  std::fseek(file.get(), 0, SEEK_END);
  std::string text(static_cast<std::size_t>(std::ftell(file.get())), ' ');
  std::rewind(file.get());
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  return text;
}

}  // namespace cubist::test
