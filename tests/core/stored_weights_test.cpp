// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/core/stored_weights.hpp"

#include "catch.hpp"

namespace cubist::test::core_stored_weights_test
{

TEST_CASE("stored weights take 2 bytes an element, or 34 for 32")
{
  CHECK(stored_bytes(StoredWeights::scalar, {64, 3}, 4) == 64 * 3 * 4);
  CHECK(stored_bytes(StoredWeights::bfloat16, {64, 3}, 4) == 64 * 3 * 2);
  CHECK(stored_bytes(StoredWeights::half, {64, 3}, 8) == 64 * 3 * 2);
  CHECK(stored_bytes(StoredWeights::q8, {64, 3}, 4) == 3 * 2 * 34);
  CHECK(stored_bytes(StoredWeights::q8, {33, 1}, 4) == 33 + 2 * 2);  // a short block has a scale
}

TEST_CASE("ways to store weights have names")
{
  for (const auto weights :
       {StoredWeights::scalar, StoredWeights::bfloat16, StoredWeights::half, StoredWeights::q8})
    CHECK(stored_weights_of(to_string(weights)) == weights);
  CHECK(stored_weights_of("float") == StoredWeights::scalar);
  CHECK_THROWS_WITH(stored_weights_of("q4"),
                    "got weights stored as q4, which is not a way to store "
                    "them; use float, bfloat16, half or q8");
}

}  // namespace cubist::test::core_stored_weights_test
