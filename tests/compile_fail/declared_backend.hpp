// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A backend that is only declared: enough for code that never runs, and quick to compile.

#include <vector>

struct Declared
{
  struct Communicator
  {
    [[nodiscard]] int rank() const;
    [[nodiscard]] int size() const;
    [[nodiscard]] Communicator split(int colour, int key);
  };
  struct Engine
  {
    template <class T>
    using Buffer = std::vector<T>;
  };
};
