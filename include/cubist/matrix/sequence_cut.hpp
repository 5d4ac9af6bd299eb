// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Context parallelism, where several ranks share a sequence: says which token each row of the
// residual stream is.
//
//   c = `parts` ranks share the same `together` sequences, each of which is cut into c or 2 c
//   chunks of equal length. Member m of the c ranks holds
//
//     chunk m                     with one chunk per rank
//     chunks m and 2 c - 1 - m    with two: one from the front, one from the back. Then every rank
//                                 has the same causal work.
//
//   rows of a rank: for each of its sequences, for each of its chunks, the tokens of the chunk
//
// Ranks are numbered by the blocks of rows that they hold in a matrix of layout S::Output, in which
// attention is computed. So the order of rows is the same in all matrices of the stream, however
// these are cut. Rows after the end of a sequence, or of sequences that do not exist, are padding
// between rows of tokens. They count as rows of a matrix and get the last token of a sequence, but
// nobody reads their results.
//
// Source: Liu et al., "Ring Attention with Blockwise Transformers", arXiv 2310.01889; the two
// chunks: Dubey et al., "The Llama 3 Herd of Models", arXiv 2407.21783, section 3.3.2, and
// Megatron-LM's context parallelism.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/matrix/layout.hpp"

namespace cubist::CUBIST_ABI
{

/// How the ranks of a mesh cut the rows of a matrix in which attention is computed.
struct RowParts
{
  std::size_t parts = 1;    ///< the number of parts into which the rows of a batch are cut
  std::size_t batches = 1;  ///< the number of batches along Data
  std::size_t quantum = 1;  ///< the quantum of the mesh
};

/// Returns how a mesh of these extents cuts the rows of a matrix of layout `L`.
/// @tparam A the axes of the mesh
template <class L, class A>
[[nodiscard]] RowParts row_parts(const typename A::Array& extents, std::size_t quantum)
{
  return [&]<class... R>(Rows<R...>) {
    const auto c = detail::cut<A, R...>(extents, {});
    return RowParts{c.parts / c.batches, c.batches, quantum};
  }(typename L::RowAxes{});
}

/// The order of rows in a batch of sequences. By default, every rank holds whole sequences.
struct SequenceCut
{
  std::size_t sequences = 0;  ///< the number of sequences of all ranks
  std::size_t length = 0;     ///< the number of tokens of a sequence
  std::size_t parts = 1;      ///< the number of ranks that share a sequence
  std::size_t chunks = 1;     ///< the number of its chunks on each of these ranks: 1 or 2
  std::size_t chunk = 0;      ///< the number of rows of a chunk
  std::size_t together = 0;   ///< the number of sequences that the same ranks share
  std::size_t groups = 0;     ///< the number of sets of ranks that share sequences

  friend bool operator==(const SequenceCut&, const SequenceCut&) = default;

  /// Whether ranks share sequences; if not, row b S + s is token s of sequence b.
  [[nodiscard]] CUBIST_HOST_DEVICE bool is_cut() const { return parts > 1; }
  /// The number of rows of a rank.
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t rows_of_part() const
  {
    return together * chunks * chunk;
  }
  /// The number of rows of all ranks, padding included.
  [[nodiscard]] std::size_t rows() const { return groups * parts * rows_of_part(); }

  /// Returns the number of a chunk in its sequence.
  /// @param i its number on this member of the ranks that share the sequence
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t chunk_number(std::size_t member, std::size_t i) const
  {
    return i == 0 ? member : 2 * parts - 1 - member;
  }
  /// Returns the sequence of a row. For padding, that may be a sequence that does not exist.
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t sequence(std::size_t row) const
  {
    const std::size_t part = row / rows_of_part();
    return part / parts * together + row % rows_of_part() / (chunks * chunk);
  }
  /// Returns the position of a row in its sequence. Padding is after the end.
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t position(std::size_t row) const
  {
    const std::size_t member = row / rows_of_part() % parts;
    return chunk_number(member, row / chunk % chunks) * chunk + row % chunk;
  }
  /// Whether a row is a token.
  [[nodiscard]] CUBIST_HOST_DEVICE bool is_token(std::size_t row) const
  {
    return sequence(row) < sequences && position(row) < length;
  }
  /// Returns the number of the row's token, b S + s. For padding it is B S or larger.
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t token(std::size_t row) const
  {
    return is_token(row) ? sequence(row) * length + position(row) : sequences * length + row;
  }
  /// Returns the row of token s of sequence b.
  [[nodiscard]] std::size_t row(std::size_t b, std::size_t s) const
  {
    const std::size_t number = s / chunk;
    const bool is_second = number >= parts;
    const std::size_t member = is_second ? 2 * parts - 1 - number : number;
    const std::size_t part = b / together * parts + member;
    return part * rows_of_part() + b % together * chunks * chunk + (is_second ? chunk : 0) +
           s % chunk;
  }
  /// Returns the number of keys of a chunk that are tokens.
  [[nodiscard]] std::size_t keys(std::size_t number) const
  {
    const std::size_t first = number * chunk;
    return first < length ? std::min(chunk, length - first) : 0;
  }

  /// Arranges the `values` of all tokens in the order of the rows.
  /// @param padding f(b) returns the value for rows of padding of sequence b
  template <class Padding>
  void arrange(std::span<const int> values, std::vector<int>& by_row, Padding padding) const
  {
    by_row.resize(rows());
    for (std::size_t r = 0; r < by_row.size(); ++r)
      by_row[r] = is_token(r) ? values[token(r)] : padding(std::min(sequence(r), sequences - 1));
  }
};

/// Returns the number of elements that a rank sends to the others that share its sequences. Forward
/// sends K and V; backward sends them and their gradients.
/// @param columns the number of columns of K, or of V, on the rank
[[nodiscard]] inline std::uint64_t ring_words(const SequenceCut& cut, std::size_t columns,
                                              bool backward)
{
  return std::uint64_t{cut.parts - 1} * (backward ? 4 : 2) * cut.rows_of_part() * columns;
}

/// Returns the number of key-value heads that go around the ring together: the smallest divisor of
/// `heads` that makes a message at least 2^18 elements long, or all heads if none does. So buffers
/// are small, and latency does not matter.
[[nodiscard]] inline std::size_t ring_heads(const SequenceCut& cut, std::size_t heads,
                                            std::size_t head_size)
{
  constexpr std::size_t enough = std::size_t{1} << 18;
  for (std::size_t n = 1; n < heads; ++n)
    if (heads % n == 0 && 2 * cut.rows_of_part() * n * head_size >= enough) return n;
  return heads;
}

/// Returns the cut in which `parts` ranks share each sequence, with two chunks per rank.
/// @pre `parts` divides rows.parts
[[nodiscard]] inline SequenceCut cut_sequences(std::size_t sequences, std::size_t length,
                                               std::size_t parts, const RowParts& rows)
{
  SequenceCut cut{.sequences = sequences, .length = length, .parts = parts, .chunks = 2};
  cut.groups = rows.batches * (rows.parts / parts);
  cut.together = ceil_div(sequences, cut.groups);
  // The number of rows of a batch is a multiple of the mesh's quantum.
  const std::size_t each = rows.parts * cut.together * cut.chunks;
  cut.chunk =
      pad(ceil_div(length, cut.chunks * parts), rows.quantum / std::gcd(rows.quantum, each));
  return cut;
}

/// Returns the cut for a number of ranks that share a sequence.
/// @param requested that number: 1 keeps whole sequences on every rank; 0 takes the number that
/// leaves the fewest rows on a rank, or 1 if there are at least as many sequences as parts of rows
/// @throws ArgumentError for a number that does not divide the parts of rows
[[nodiscard]] inline SequenceCut choose_cut(std::size_t sequences, std::size_t length,
                                            const RowParts& rows, std::size_t requested)
{
  require<ArgumentError>(requested == 0 || rows.parts % requested == 0, "got ", requested,
                         " ranks that share a sequence, but the mesh cuts rows into ", rows.parts,
                         " parts, and ", requested,
                         " does not divide that; use a divisor, 1 for whole sequences on "
                         "every rank, or 0 to let the library choose");
  if (requested != 0)
    return requested == 1 ? SequenceCut{} : cut_sequences(sequences, length, requested, rows);
  if (sequences == 0 || sequences >= rows.parts * rows.batches) return {};
  SequenceCut best;
  // Whole sequences are padded to a number of sequences that is a multiple of the quantum.
  const std::size_t whole = pad(sequences, rows.batches * std::lcm(rows.quantum, rows.parts)) /
                            (rows.parts * rows.batches);
  std::size_t least = whole * length;
  for (std::size_t c = 2; c <= rows.parts; ++c)
  {
    if (rows.parts % c != 0) continue;
    const auto cut = cut_sequences(sequences, length, c, rows);
    if (cut.rows_of_part() >= least) continue;
    least = cut.rows_of_part();
    best = cut;
  }
  return best;
}

}  // namespace cubist::CUBIST_ABI
