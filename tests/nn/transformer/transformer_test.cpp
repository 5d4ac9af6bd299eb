// SPDX-License-Identifier: BSD-3-Clause
#include "transformer_reference.hpp"

namespace cubist::test::transformer_test
{

TEST_CASE("transformers on Cube3D compute what Hugging Face's and PyTorch's do")
{
  equals_references<Cube3D>({{1, {}}, {8, {.q = 2}}});
}

}  // namespace cubist::test::transformer_test
