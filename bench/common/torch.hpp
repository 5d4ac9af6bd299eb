// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A network's step by PyTorch on the CPU or a GPU, for comparison. It is a program in peers/, whose
// process sleeps until it is its turn.

#include <memory>
#include <string>
#include <vector>

#include "common/times.hpp"

namespace bench
{

/// What PyTorch measured.
struct TorchResult
{
  Times times = {};
  int threads = 0;
  std::string version = {};  // empty: not measured

  [[nodiscard]] bool measured() const { return !version.empty(); }
};

class Torch
{
 public:
  /// Starts PyTorch on all cores that this process may run on now; null where no Python has it.
  /// @param program in peers/
  /// @throws cubist::Error if PyTorch is installed, but does not work
  [[nodiscard]] static std::unique_ptr<Torch> start(const std::string& program,
                                                    const std::string& options, bool gpu);

  Torch(const Torch&) = delete;
  Torch& operator=(const Torch&) = delete;
  ~Torch();

  /// Takes a step, and waits for it.
  /// @throws cubist::Error if the step fails
  void step(bool counts);
  [[nodiscard]] TorchResult result() const;

 private:
  explicit Torch(const std::string& command);
  [[nodiscard]] std::string answer();

  std::string command_;
  int socket_ = -1;
  int process_ = -1;
  int threads_ = 0;
  std::string version_;
  std::vector<double> times_;
};

}  // namespace bench
