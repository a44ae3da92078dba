// What is done to a column's rows on their way into a batch, and how that is
// chosen: scale, shape, labels. Choosing happens once, before the first sample.
#ifndef ONWARD_BACKEND_DATA_TRANSFORM_H_
#define ONWARD_BACKEND_DATA_TRANSFORM_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backend/data/dataset.h"
#include "graph/base/data_type.h"
#include "graph/base/shape.h"

namespace onward {

// A model's input as the data must fit it.
struct InputSpec {
  std::string name;
  DataType dtype = DataType::kFloat32;
  Dims dims;  // of one sample; kDynamic where the model leaves an extent open
};

// A factor that is kept as the user wrote it, so that 1/255 divides by 255.
struct Ratio {
  double numerator = 1;
  double denominator = 1;
  double value() const { return numerator / denominator; }
};
// "1/255", "0.1", "2". InvalidArgument (kUsage) for anything else, zero and
// infinity among it.
absl::StatusOr<Ratio> ParseRatio(const std::string& text);

// Mean and standard deviation (divided by N), in double: one of each, or one per
// channel. A deviation is never zero.
struct Statistics {
  std::vector<double> mean;
  std::vector<double> deviation;
};

enum class ChannelOrder { kFirst, kLast };

struct TransformOptions {
  Ratio rescale;                          // value * rescale
  std::optional<Statistics> standardise;  // then (value - mean) / deviation
  std::optional<ChannelOrder> channels;  // of the data's samples, where their extents leave it open
  bool allow_non_finite = false;         // Default: NaN and infinity are errors
};

// A column's way into a batch. Made by FitInput and FitLabels; Converter does it.
struct ColumnTransform {
  enum class Kind {
    kValues,      // scaled and converted
    kIndices,     // class numbers: integers in [0, classes), or ignore_index
    kToOneHot,    // a class number becomes a row of `classes` zeros with a one
    kFromOneHot,  // such a row becomes the number
  };
  Kind kind = Kind::kValues;
  DataType from = DataType::kUndefined;  // of the column
  Dims from_dims;
  DataType dtype = DataType::kUndefined;  // in the batch
  Dims dims;                              // of one sample in the batch
  // Axis i of the batch's sample is axis order[i] of the column's (whose extents
  // are `ordered_dims`); empty: elements stay in their order.
  absl::InlinedVector<int, 6> order;
  Dims ordered_dims;
  // Element e of the column's sample is of channel e / inner % channels.
  int64_t channels = 1;
  int64_t inner = 1;
  Ratio rescale;
  std::vector<double> mean, deviation;  // empty, or `channels` of each
  int64_t classes = 0;
  std::optional<int64_t> ignore_index;
  bool allow_non_finite = false;

  int64_t row_bytes() const { return Elements(dims) * static_cast<int64_t>(SizeOf(dtype)); }
};

// The column's way into the model's input. Where shapes differ, what fits in
// one way only is done, and said in `notes` by one line each: flattening
// (28x28 to 784) and its reverse, an axis of one channel added or dropped,
// channels moved first or last. InvalidArgument (kData) where nothing fits, or
// where more than one does, with the choices.
absl::StatusOr<ColumnTransform> FitInput(const Column& column, const InputSpec& input,
                                         const TransformOptions& options,
                                         std::vector<std::string>* notes);

// What the loss takes as labels.
struct LabelSpec {
  enum class Form { kClassIndex, kOneHot, kValues };
  Form form = Form::kClassIndex;
  DataType dtype = DataType::kInt64;
  Dims dims;            // of one sample, for kOneHot without the classes; kDynamic where open
  int64_t classes = 0;  // for kClassIndex and kOneHot; 0: unknown, then only
                        // negative numbers are refused, and kOneHot is an error
  std::optional<int64_t> ignore_index;
};

// The label column's way into the batch; the forms are turned into one another,
// which is said in `notes`.
absl::StatusOr<ColumnTransform> FitLabels(const Column& column, const LabelSpec& labels,
                                          std::vector<std::string>* notes);

enum class StatisticsPer { kColumn, kChannel };

// Mean and deviation of the rescaled values of the column's first `rows` rows (< 0: of
// all), by two passes in double, in the order of rows. kChannel: per channel of an image, per
// feature of a flat sample. A constant channel gets deviation 1, which is said in `notes`.
// InvalidArgument (kData) for NaN or infinity, for no rows, and where the
// extents leave open which axis is the channels.
absl::StatusOr<Statistics> ComputeStatistics(const Column& column, StatisticsPer per,
                                             const TransformOptions& options,
                                             std::vector<std::string>* notes, int64_t rows = -1);

}  // namespace onward

#endif  // ONWARD_BACKEND_DATA_TRANSFORM_H_
