// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Makes batches of the rows of a CSV file. A batch is a function of its number and the seed, so it
// is the same on every mesh and in a resumed run. Each epoch visits every training row once, in its
// own order (dataset/batch_order.hpp). The held-out rows are drawn by the seed, or are the last
// rows of the file.
//
//   const CsvFile file{"digits.csv"};  // one for all threads
//   const RowBatches data{file, {.batch = 64, .seed = 42, .held_out = 0.2, .normalize = true}};
//   const auto [x, labels] = data.batch<T, Scheme::Input>(mesh, step);
//
// Rows become matrices and labels as dataset/row_reader.hpp says. Nothing is sent.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/random_stream.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dataset/batch_order.hpp"
#include "cubist/dataset/csv_file.hpp"
#include "cubist/dataset/row_reader.hpp"
#include "cubist/dataset/shuffle.hpp"
#include "cubist/mesh/mesh.hpp"

namespace cubist::CUBIST_ABI
{

/// How rows are divided into batches, and in which order.
struct RowBatchOptions
{
  std::size_t batch = 64;  ///< the number of rows in a batch
  std::uint64_t seed = 0;  ///< the seed of the order and of the held-out rows
  double held_out = 0;     ///< the fraction of rows that are held out, rounded to whole rows
  bool normalize = false;  ///< whether to scale by the training features' mean and deviation
  RowOptions rows = {};    ///< the columns, and how features are scaled without `normalize`
  /// Whether the last rows of the file are held out, in the order of the file, instead of rows that
  /// the seed draws.
  bool held_out_last = false;
};

/// The batches of a CSV file. Reading is const, so threads may share an object.
class RowBatches
{
 public:
  /// @throws ArgumentError for a held-out fraction outside [0, 1), and for more rows in a batch
  /// than there are training rows; DataError if features to normalise are all equal; and what
  /// RowReader throws
  RowBatches(CsvFile file, const RowBatchOptions& options)
      : reader_{std::move(file), options.rows},
        split_{reader_.file().rows(), options.seed, 0, Draw::held_out},
        held_out_{count_held_out(reader_.file(), options.held_out)},
        held_out_last_{options.held_out_last},
        order_{split_.count() - held_out_, options.batch, options.seed,
               "training rows of " + reader_.file().path()}
  {
    if (!options.normalize) return;
    std::vector<bool> training(split_.count(), true);
    for (std::uint64_t i = 0; i < held_out_; ++i) training[row_at(i)] = false;
    reader_.set_scaling(reader_.measure_features(training));
  }

  /// The number of rows to learn from.
  [[nodiscard]] std::uint64_t training_count() const { return order_.count(); }
  /// The number of rows that are held out.
  [[nodiscard]] std::uint64_t held_out_count() const { return held_out_; }
  /// The number of columns of X.
  [[nodiscard]] std::size_t features() const { return reader_.features(); }
  /// The largest label of the file plus one; 0 if the file has targets.
  /// @throws DataError if a smaller number is not the label of any row
  [[nodiscard]] std::size_t classes() const { return reader_.classes(); }

  /// The number of rows in a batch.
  [[nodiscard]] std::size_t batch_size() const { return order_.batch_size(); }
  /// The number of batches after which every training row was visited.
  [[nodiscard]] std::uint64_t batches_per_epoch() const { return order_.batches_per_epoch(); }
  /// The epoch, from 0, of the first row of batch `b`.
  [[nodiscard]] std::uint64_t epoch_of(std::uint64_t b) const { return order_.epoch_of(b); }

  /// Reads batch `b`, cut by layout `L`. Batches are counted from 0 over the whole run. Idle ranks
  /// may call it.
  /// @throws what RowReader::read() throws
  template <Scalar T, class L, class A, class B>
  [[nodiscard]] LabelledRows<T, L, AxisMesh<A, B>> batch(const AxisMesh<A, B>& mesh,
                                                         std::uint64_t b) const
  {
    return reader_.read<T, L>(mesh, rows_of(b));
  }
  /// Reads all rows that are held out.
  /// @throws ArgumentError if there are none
  template <Scalar T, class L, class A, class B>
  [[nodiscard]] LabelledRows<T, L, AxisMesh<A, B>> held_out(const AxisMesh<A, B>& mesh) const
  {
    return reader_.read<T, L>(mesh, held_out_rows());
  }

  /// The rows of the file, from 0, in batch `b`.
  [[nodiscard]] std::vector<std::uint64_t> rows_of(std::uint64_t b) const
  {
    auto rows = order_(b);
    for (auto& row : rows) row = row_at(held_out_ + row);
    return rows;
  }
  /// The rows of the file that are held out.
  /// @throws ArgumentError if there are none
  [[nodiscard]] std::vector<std::uint64_t> held_out_rows() const
  {
    require<ArgumentError>(held_out_ > 0, "got no held-out rows of ", reader_.file().path(),
                           ", so there is nothing to test on; set held_out to a fraction of them");
    std::vector<std::uint64_t> rows(held_out_);
    for (std::uint64_t i = 0; i < held_out_; ++i) rows[i] = row_at(i);
    return rows;
  }

  /// The reader of the file, which reads any rows and their targets.
  [[nodiscard]] const RowReader& reader() const { return reader_; }

 private:
  /// The row at position `i` of all rows, in an order in which the held-out rows come first.
  [[nodiscard]] std::uint64_t row_at(std::uint64_t i) const
  {
    if (!held_out_last_) return split_(i);
    return i < held_out_ ? order_.count() + i : i - held_out_;
  }

  static std::uint64_t count_held_out(const CsvFile& file, double fraction)
  {
    require<ArgumentError>(
        fraction >= 0 && fraction < 1, "got a held-out fraction of ", fraction, " of the rows of ",
        file.path(),
        ", which is not a part of them or leaves none to learn from; use a number from 0 to below "
        "1");
    return static_cast<std::uint64_t>(std::llround(fraction * static_cast<double>(file.rows())));
  }

  RowReader reader_;
  Shuffle split_;  // orders the held-out rows, and then the training rows
  std::uint64_t held_out_;
  bool held_out_last_;
  BatchOrder order_;  // the order of the training rows
};

}  // namespace cubist::CUBIST_ABI
