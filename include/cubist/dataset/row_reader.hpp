// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Reads rows of a CSV file as the input of a network and the labels or targets of its loss.
//
//   X (rows, features): any layout; each rank reads its columns of its rows
//   labels: one per row, on every rank, as softmax_cross_entropy takes them
//   targets (rows, targets): cut like the output of the network
//
// A feature v becomes (v - mean) / deviation, in double. All features have the same mean and
// deviation. Nothing is sent.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dataset/csv_file.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/mesh/mesh.hpp"

namespace cubist::CUBIST_ABI
{

/// A scaling of features: v becomes (v - mean) / deviation.
struct Scaling
{
  double mean = 0;       ///< what is subtracted from each value
  double deviation = 1;  ///< what the difference is divided by

  friend bool operator==(const Scaling&, const Scaling&) = default;
};

/// Which columns are read, and how they are scaled.
struct RowOptions
{
  std::optional<std::size_t> label = {};  ///< the labels' column, from 0; by default the last
  std::size_t targets = 0;                ///< how many last columns are targets, instead of labels
  Scaling scaling = {};                   ///< the scaling of every feature
};

/// Rows in the form that a layer and a loss take.
template <class T, class L, class M>
struct LabelledRows
{
  DistMatrix<T, L, M> x;  ///< the features, cut as the layout says
  std::vector<int>
      labels;  ///< the labels of all rows, on every rank; empty without a column of labels
};

/// Reads rows of a CSV file. Reading is const, so threads may share an object.
class RowReader
{
 public:
  /// @throws DataError for a file without features, and for a label that is not a class;
  /// ArgumentError for a column that the file lacks, and for a deviation that is not positive
  RowReader(CsvFile file, const RowOptions& options)
      : file_{std::move(file)},
        options_{options},
        outputs_{find_outputs(file_, options)}
  {
    set_scaling(options.scaling);
    if (options_.targets == 0) read_labels();
  }

  /// The file that is read.
  [[nodiscard]] const CsvFile& file() const { return file_; }
  /// The number of columns of X.
  [[nodiscard]] std::size_t features() const { return file_.cols() - outputs_.size; }
  /// The largest label plus one; 0 if the file has targets.
  /// @throws DataError if a smaller number is not the label of any row
  [[nodiscard]] std::size_t classes() const
  {
    if (found_.empty()) return 0;
    const std::size_t classes = static_cast<std::size_t>(*found_.rbegin()) + 1;
    const std::size_t count = classes - found_.size();
    std::string missing;
    std::size_t listed = 0;
    for (int label = 0; listed < std::min<std::size_t>(count, 4); ++label)
      if (!found_.contains(label)) missing += (listed++ > 0 ? ", " : "") + std::to_string(label);
    require<DataError>(count == 0, "got labels up to ", classes - 1, " in ", file_.path(),
                       ", where no row has the label ", missing, count > listed ? ", …" : "",
                       ", so a network of ", classes,
                       " outputs would have some for classes that do not exist; number the classes "
                       "from 0 without gaps, or do not ask for their number, and give the network "
                       "as many outputs as there are classes");
    return classes;
  }
  /// The scaling of the features.
  [[nodiscard]] const Scaling& scaling() const { return options_.scaling; }

  /// Reads X and the labels.
  /// @throws what read_features() and labels_of() throw
  template <Scalar T, class L, class A, class B>
  [[nodiscard]] LabelledRows<T, L, AxisMesh<A, B>> read(const AxisMesh<A, B>& mesh,
                                                        std::span<const std::uint64_t> rows) const
  {
    return {read_features<T, L>(mesh, rows), labels_of(rows)};
  }

  /// Reads X (rows, features).
  /// @throws ShapeError for a row that the file lacks, DataError for a value that no T can
  /// represent
  template <Scalar T, class L, class A, class B>
  [[nodiscard]] auto read_features(const AxisMesh<A, B>& mesh,
                                   std::span<const std::uint64_t> rows) const
  {
    DistMatrix<T, L, AxisMesh<A, B>> x{mesh, {rows.size(), features()}};
    const auto column = [&](std::size_t j) { return column_of_feature(j); };
    set(x, rows, column, options_.scaling);
    return x;
  }

  /// The label of each row.
  /// @throws ShapeError for a row that the file lacks, ArgumentError if rows have targets instead
  [[nodiscard]] std::vector<int> labels_of(std::span<const std::uint64_t> rows) const
  {
    require<ArgumentError>(options_.targets == 0, "got ", options_.targets, " targets per row of ",
                           file_.path(),
                           ", so there are no labels; read the targets, or set their number to 0");
    std::vector<int> labels;
    labels.reserve(rows.size());
    for (const std::uint64_t row : rows)
    {
      require_row(row);
      labels.push_back(labels_[row]);
    }
    return labels;
  }

  /// Reads the targets (rows, targets), cut like the output `y` of a network.
  /// @throws ShapeError unless y has their shape, and for a row that the file lacks; DataError for
  /// a value that no T can represent
  template <Scalar T, class L, class M>
  [[nodiscard]] DistMatrix<T, L, M> targets_like(const DistMatrix<T, L, M>& y,
                                                 std::span<const std::uint64_t> rows) const
  {
    const Shape shape{rows.size(), options_.targets};
    require<ShapeError>(y.shape() == shape, "got an output of ", y.shape(),
                        ", but the targets are ", shape, "; make the network end with ",
                        options_.targets, " columns, or set the number of targets");
    DistMatrix<T, L, M> out{y.mesh(), shape, y.quanta()};
    const auto column = [&](std::size_t j) { return outputs_.offset + j; };
    set(out, rows, column, Scaling{});
    return out;
  }
  /// Reads the targets for the output of a network that has one of two layouts at run time.
  /// @tparam Y NetworkMatrix
  template <class Y>
  requires requires
  {
    typename Y::Even;
    typename Y::Odd;
  }
  [[nodiscard]] Y targets_like(const Y& y, std::span<const std::uint64_t> rows) const
  {
    return y.visit([&](const auto& matrix) -> Y { return targets_like(matrix, rows); });
  }

  /// Computes the mean and deviation of the features of the rows whose element of `chosen` is true,
  /// by Welford's method in the order of the file.
  /// @throws DataError if the deviation is zero or infinite, ShapeError unless there is one element
  /// per row
  [[nodiscard]] Scaling measure_features(const std::vector<bool>& chosen) const
  {
    require<ShapeError>(chosen.size() == file_.rows(), "got ", chosen.size(), " flags for the ",
                        file_.rows(), " rows of ", file_.path(),
                        ", so it is unclear which rows are chosen; give one flag for each row");
    std::vector<double> values(file_.cols());
    double count = 0, mean = 0, squares = 0;
    for (std::uint64_t row = 0; row < file_.rows(); ++row)
    {
      if (!chosen[row]) continue;
      file_.read(row, 0, values);
      for (std::size_t j = 0; j < features(); ++j)
      {
        const double distance = values[column_of_feature(j)] - mean;
        mean += distance / ++count;
        squares += distance * (values[column_of_feature(j)] - mean);
      }
    }
    const double deviation = std::sqrt(squares / count);
    require<DataError>(is_finite(deviation) && deviation > 0, "got features of ", file_.path(),
                       " with a deviation of ", deviation,
                       ", so they cannot be divided by it; check them, or do not normalise them");
    return {mean, deviation};
  }

  /// Sets the scaling of the features.
  /// @throws ArgumentError unless mean and deviation are finite and the deviation is positive
  void set_scaling(const Scaling& s)
  {
    require<ArgumentError>(
        is_finite(s.mean) && is_finite(s.deviation) && s.deviation > 0,
        "got features with a mean of ", s.mean, " and a deviation of ", s.deviation,
        ", which cannot be scaled; use finite numbers, and a positive deviation");
    options_.scaling = s;
  }

 private:
  static Range find_outputs(const CsvFile& file, const RowOptions& o)
  {
    const std::size_t count = std::max<std::size_t>(o.targets, 1);
    require<DataError>(
        file.cols() > count, "got ", file.path(), " with ", file.cols(), " columns, of which ",
        count, " would be labels or targets, so no features are left; give each row features, too");
    require<ArgumentError>(
        !o.label || (o.targets == 0 && *o.label < file.cols()), "got the label in column ",
        o.label.value_or(0), " of ", file.cols(), " (from 0) with ", o.targets, " targets in ",
        file.path(),
        ", so the column does not exist, or both labels and targets are asked for; name a column "
        "that exists, or set targets only");
    return {o.label.value_or(file.cols() - count), count, count};
  }

  void read_labels()
  {
    labels_.reserve(file_.rows());
    for (std::uint64_t row = 0; row < file_.rows(); ++row)
    {
      double label = 0;
      file_.read(row, outputs_.offset, {&label, 1});
      require<DataError>(label >= 0 && label < std::numeric_limits<int>::max() &&
                             label == std::floor(label),
                         "got ", file_.path(), ", whose line ", file_.line_of(row),
                         " has the label ", label, " in column ", outputs_.offset,
                         " (from 0), which is not a class; number the classes from 0, or name the "
                         "column of the labels");
      labels_.push_back(static_cast<int>(label));
      found_.insert(labels_.back());
    }
  }

  [[nodiscard]] std::size_t column_of_feature(std::size_t j) const
  {
    return j < outputs_.offset ? j : j + outputs_.size;
  }

  void require_row(std::uint64_t row) const
  {
    require<ShapeError>(row < file_.rows(), "got row ", row, ", but ", file_.path(), " has only ",
                        file_.rows(), " rows; count rows from 0");
  }

  /// Sets this rank's block: column j comes from column `column(j)` of the file, which increases
  /// with j.
  template <class T, class L, class M, class Column>
  void set(DistMatrix<T, L, M>& out, std::span<const std::uint64_t> rows, Column column,
           const Scaling& scaling) const
  {
    for (const std::uint64_t row : rows) require_row(row);
    const Block& block = out.block();
    const Shape mine = block.valid();
    if (mine.size() == 0) return;
    const std::size_t first = column(block.cols.offset);
    std::vector<double> line(column(block.cols.offset + mine.cols - 1) + 1 - first);
    std::vector<T> values;
    values.reserve(mine.size());
    for (std::size_t i = 0; i < mine.rows; ++i)
    {
      const std::uint64_t row = rows[block.rows.offset + i];
      file_.read(row, first, line);
      for (std::size_t j = 0; j < mine.cols; ++j)
      {
        const double v = line[column(block.cols.offset + j) - first];
        values.push_back(to_scalar<T>((v - scaling.mean) / scaling.deviation, row));
      }
    }
    out.mesh().engine().upload(MatrixView<const T>{values.data(), mine}, out.valid());
  }

  template <Scalar T>
  [[nodiscard]] T to_scalar(double x, std::uint64_t row) const
  {
    const auto value = static_cast<Real<T>>(x);
    require<DataError>(is_finite(value), "got ", file_.path(), ", whose line ", file_.line_of(row),
                       " has a feature or target of ", x,
                       ", which is infinite in the scalar of the matrix; scale it, or use a wider "
                       "scalar");
    return T{value};
  }

  CsvFile file_;
  RowOptions options_;
  Range outputs_;  // the columns of the labels or targets
  std::vector<int> labels_;
  std::set<int> found_;  // the labels, each once
};

}  // namespace cubist::CUBIST_ABI
