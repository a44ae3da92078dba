#include "backend/data/transform.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "backend/data/convert.h"
#include "backend/data/data_error.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

bool Matches(const Dims& data, const Dims& model) {
  if (data.size() != model.size()) return false;
  for (size_t i = 0; i < data.size(); ++i) {
    if (model[i] != kDynamic && model[i] != data[i]) return false;
  }
  return true;
}

bool IsStatic(const Dims& dims) {
  return std::find(dims.begin(), dims.end(), kDynamic) == dims.end();
}

Dims WithoutOnes(const Dims& dims) {
  Dims out;
  for (int64_t d : dims) {
    if (d != 1) out.push_back(d);
  }
  return out;
}

// Channels moved from the last axis to the first, or back.
absl::InlinedVector<int, 6> MoveChannels(size_t rank, ChannelOrder to) {
  absl::InlinedVector<int, 6> order;
  const int last = static_cast<int>(rank) - 1;
  if (to == ChannelOrder::kFirst) order.push_back(last);
  for (int axis = to == ChannelOrder::kFirst ? 0 : 1;
       axis < (to == ChannelOrder::kFirst ? last : last + 1); ++axis) {
    order.push_back(axis);
  }
  if (to == ChannelOrder::kLast) order.push_back(0);
  return order;
}

Dims Permuted(const Dims& dims, const absl::InlinedVector<int, 6>& order) {
  Dims out;
  for (int axis : order) out.push_back(dims[axis]);
  return out;
}

// Finds the one way in which samples of `data` fit `model`.
class ShapeFit {
 public:
  ShapeFit(const std::string& what, const Dims& data, const Dims& model,
           const std::string& model_name, std::optional<ChannelOrder> channels)
      : what_(what), data_(data), model_(model), model_name_(model_name), channels_(channels) {}

  // Labels keep the order of their elements: only `moves` allows another.
  absl::Status Find(bool moves, ColumnTransform* t, std::vector<std::string>* notes) {
    if (Matches(data_, model_)) {
      t->dims = data_;
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(TryOnes());
    if (!found_ && moves) RETURN_IF_ERROR(TryMovedChannels());
    if (!found_) TryFlat();
    if (!found_ && moves) RETURN_IF_ERROR(TryUnflat());
    if (!found_) {
      return DataError(what_, " of ", DimsText(data_), " do not fit ", model_name_, " of ",
                       DimsText(model_));
    }
    t->dims = dims_;
    t->order = order_;
    t->ordered_dims = order_.empty() ? Dims{} : ordered_dims_;
    notes->push_back(note_);
    return absl::OkStatus();
  }

 private:
  void Found(Dims dims, absl::string_view done) {
    found_ = true;
    dims_ = std::move(dims);
    note_ = absl::StrCat(what_, " ", DimsText(data_), " are ", done, " ", DimsText(dims_),
                         " to fit ", model_name_);
  }

  // An axis of one added or dropped.
  absl::Status TryOnes() {
    const bool more = model_.size() > data_.size();
    if (IsStatic(model_)) {
      if (WithoutOnes(data_) == WithoutOnes(model_))
        Found(model_, more ? "given an axis of 1:" : "seen as");
      return absl::OkStatus();
    }
    Dims front = data_, back = data_;
    if (model_.size() == data_.size() + 1) {
      front.insert(front.begin(), 1);
      back.push_back(1);
    } else if (model_.size() + 1 == data_.size()) {
      if (data_.front() == 1) front.erase(front.begin());
      if (data_.back() == 1) back.pop_back();
    }
    const bool fits_front = Matches(front, model_), fits_back = Matches(back, model_);
    if (fits_front && fits_back && front != back) {
      return Ambiguous(absl::StrCat(DimsText(front), " or ", DimsText(back)),
                       "give the model's input fixed extents");
    }
    if (fits_front || fits_back)
      Found(fits_front ? front : back, more ? "given an axis of 1:" : "seen as");
    return absl::OkStatus();
  }

  absl::Status TryMovedChannels() {
    if (data_.size() != model_.size() || data_.size() < 3 || data_.size() > 4)
      return absl::OkStatus();
    const auto first = MoveChannels(data_.size(), ChannelOrder::kFirst);
    const auto last = MoveChannels(data_.size(), ChannelOrder::kLast);
    const bool fits_first =
        channels_ != ChannelOrder::kFirst && Matches(Permuted(data_, first), model_);
    const bool fits_last =
        channels_ != ChannelOrder::kLast && Matches(Permuted(data_, last), model_);
    if (fits_first && fits_last) {
      return Ambiguous("channels last to first, or first to last",
                       "say whether the data has channels first or last");
    }
    if (fits_first || fits_last) {
      order_ = fits_first ? first : last;
      ordered_dims_ = data_;
      Found(Permuted(data_, order_),
            fits_first ? "turned to channels first:" : "turned to channels last:");
    }
    return absl::OkStatus();
  }

  void TryFlat() {
    const int64_t elements = Elements(data_);
    if (data_.size() > 1 && model_.size() == 1 &&
        (model_[0] == elements || model_[0] == kDynamic)) {
      Found({elements}, "flattened to");
    }
  }

  absl::Status TryUnflat() {
    if (data_.size() != 1 || model_.size() < 2 || !IsStatic(model_) ||
        Elements(model_) != data_[0]) {
      return absl::OkStatus();
    }
    if (model_.size() == 2 || model_.front() == 1 || model_.back() == 1) {
      Found(model_, "seen as");
      return absl::OkStatus();
    }
    if (!channels_.has_value()) {
      return Ambiguous("channels first or last within a row",
                       "say whether the data has channels first or last");
    }
    // The model's own order is told by where its few channels are.
    const bool model_first = model_.front() <= model_.back();
    if (model_first == (*channels_ == ChannelOrder::kFirst)) {
      Found(model_, "seen as");
      return absl::OkStatus();
    }
    ordered_dims_ = Permuted(
        model_,
        MoveChannels(model_.size(), model_first ? ChannelOrder::kLast : ChannelOrder::kFirst));
    order_ = MoveChannels(model_.size(), model_first ? ChannelOrder::kFirst : ChannelOrder::kLast);
    Found(model_, absl::StrCat("seen as ", DimsText(ordered_dims_), " and turned to"));
    return absl::OkStatus();
  }

  absl::Status Ambiguous(absl::string_view choices, absl::string_view advice) {
    return DataError(what_, " of ", DimsText(data_), " fit ", model_name_, " of ", DimsText(model_),
                     " in more than one way (", choices, "): ", advice);
  }

  std::string what_;
  Dims data_, model_;
  std::string model_name_;
  std::optional<ChannelOrder> channels_;
  bool found_ = false;
  Dims dims_;
  absl::InlinedVector<int, 6> order_;
  Dims ordered_dims_;
  std::string note_;
};

// Which axis of a column's sample is the channels; -1: the sample has one.
absl::StatusOr<int> ChannelAxis(const Column& column, std::optional<ChannelOrder> channels) {
  const Dims& dims = column.dims();
  if (dims.size() == 1) return 0;
  if (dims.size() < 3) return -1;
  const int last = static_cast<int>(dims.size()) - 1;
  if (channels.has_value()) return *channels == ChannelOrder::kFirst ? 0 : last;
  const bool first_few = dims.front() <= 4, last_few = dims.back() <= 4;
  if (first_few == last_few) {
    return DataError("'", column.name(), "': samples of ", DimsText(dims),
                     " may have their channels first or last: say which");
  }
  return first_few ? 0 : last;
}

int64_t Inner(const Dims& dims, int axis) {
  return Elements(absl::MakeConstSpan(dims).subspan(axis + 1));
}

absl::Status FitScale(const Column& column, const TransformOptions& options, ColumnTransform* t) {
  t->rescale = options.rescale;
  t->allow_non_finite = options.allow_non_finite;
  if (!options.standardise.has_value()) return absl::OkStatus();
  const Statistics& s = *options.standardise;
  t->mean = s.mean;
  t->deviation = s.deviation;
  if (s.mean.empty() || s.mean.size() != s.deviation.size()) {
    return DataError("standardising takes as many means as deviations, at least one of each; got ",
                     s.mean.size(), " and ", s.deviation.size());
  }
  for (size_t i = 0; i < s.mean.size(); ++i) {
    if (!std::isfinite(s.mean[i]) || !std::isfinite(s.deviation[i]) || s.deviation[i] <= 0) {
      return DataError("standardising by mean ", s.mean[i], " and deviation ", s.deviation[i],
                       ": finite numbers and a deviation above 0 were expected");
    }
  }
  if (s.mean.size() == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int axis, ChannelAxis(column, options.channels));
  const int64_t channels = axis < 0 ? 1 : column.dims()[axis];
  if (channels != static_cast<int64_t>(s.mean.size())) {
    return DataError("'", column.name(), "': samples of ", DimsText(column.dims()), " have ",
                     channels, " channels, but ", s.mean.size(), " means are given");
  }
  t->channels = channels;
  t->inner = Inner(column.dims(), axis);
  return absl::OkStatus();
}

// Calls `f` with the rescaled values of each of the first `rows` rows, in order.
absl::Status ForEachRow(const Column& column, int64_t rows, const Ratio& rescale,
                        const std::function<void(const double*)>& f) {
  ColumnTransform t;
  t.from = column.dtype();
  t.from_dims = t.dims = column.dims();
  t.dtype = DataType::kFloat64;
  t.rescale = rescale;
  Converter converter(t);
  ASSIGN_OR_RETURN(Buffer raw, Buffer::Allocate(column.row_bytes()));
  ASSIGN_OR_RETURN(Buffer values, Buffer::Allocate(t.row_bytes()));
  for (int64_t row = 0; row < rows; ++row) {
    const void* at = column.Row(row);
    if (at == nullptr) {
      RETURN_IF_ERROR(column.Read(row, 1, raw.data()));
      at = raw.data();
    }
    if (converter.Convert(&at, 1, values.data()) != 1) {
      return DataError(column.Where(row), ", ", converter.Complaint(at));
    }
    f(reinterpret_cast<const double*>(values.data()));
  }
  return column.CheckUnchanged();
}

std::string WhatRows(const Column& column) { return column.dims().size() >= 2 ? "images" : "rows"; }

}  // namespace

absl::StatusOr<Ratio> ParseRatio(const std::string& text) {
  const auto wrong = [&] {
    return WithExitCode(
        absl::InvalidArgumentError(
            absl::StrCat("'", text, "' is no factor; a number such as 0.1 or 1/255 was expected")),
        ExitCode::kUsage);
  };
  Ratio r;
  const size_t slash = text.find('/');
  if (!absl::SimpleAtod(text.substr(0, slash), &r.numerator)) return wrong();
  if (slash != std::string::npos && !absl::SimpleAtod(text.substr(slash + 1), &r.denominator))
    return wrong();
  if (!std::isfinite(r.value()) || r.value() == 0) return wrong();
  return r;
}

absl::StatusOr<ColumnTransform> FitInput(const Column& column, const InputSpec& input,
                                         const TransformOptions& options,
                                         std::vector<std::string>* notes) {
  ColumnTransform t;
  t.from = column.dtype();
  t.from_dims = column.dims();
  t.dtype = input.dtype;
  const auto is_number = [](DataType d) {
    return IsFloating(d) || IsInteger(d) || d == DataType::kBool;
  };
  if (!is_number(t.from) || !is_number(t.dtype)) {
    return DataError("input '", input.name, "' takes ", Name(input.dtype), ", which ", Name(t.from),
                     " data cannot be turned into");
  }
  const bool scaled = options.rescale.value() != 1 || options.standardise.has_value();
  // Scaling is for measured values: ids, masks and lengths stay as they are.
  if (!scaled || IsFloating(input.dtype)) {
    RETURN_IF_ERROR(FitScale(column, options, &t));
  } else {
    notes->push_back(
        absl::StrCat("input '", input.name, "' takes ", Name(input.dtype), ": it is not rescaled"));
  }
  ShapeFit fit(WhatRows(column), column.dims(), input.dims,
               absl::StrCat("input '", input.name, "'"), options.channels);
  RETURN_IF_ERROR(fit.Find(/*moves=*/true, &t, notes));
  return t;
}

absl::StatusOr<ColumnTransform> FitLabels(const Column& column, const LabelSpec& labels,
                                          std::vector<std::string>* notes) {
  ColumnTransform t;
  t.from = column.dtype();
  t.from_dims = column.dims();
  t.dtype = labels.dtype;
  t.classes = labels.classes;
  t.ignore_index = labels.ignore_index;
  Dims one_hot = labels.dims;
  one_hot.push_back(labels.classes);
  const bool data_one_hot = labels.classes > 1 && Matches(column.dims(), one_hot);
  if (labels.form == LabelSpec::Form::kClassIndex) {
    t.kind = ColumnTransform::Kind::kIndices;
    if (data_one_hot) {
      t.kind = ColumnTransform::Kind::kFromOneHot;
      t.dims = Dims(column.dims().begin(), column.dims().end() - 1);
      notes->push_back(absl::StrCat("one-hot labels of ", labels.classes,
                                    " classes are turned into class numbers"));
      return t;
    }
  } else if (labels.form == LabelSpec::Form::kOneHot) {
    if (labels.classes < 1) return DataError("one-hot labels need the number of classes");
    if (data_one_hot) {
      t.dims = column.dims();
      return t;
    }
    t.kind = ColumnTransform::Kind::kToOneHot;
    RETURN_IF_ERROR(ShapeFit("labels", column.dims(), labels.dims, "the loss's labels", {})
                        .Find(/*moves=*/false, &t, notes));
    t.dims.push_back(labels.classes);
    notes->push_back(absl::StrCat("class numbers are turned into one-hot labels of ",
                                  labels.classes, " classes"));
    return t;
  }
  RETURN_IF_ERROR(ShapeFit("labels", column.dims(), labels.dims, "the loss's labels", {})
                      .Find(/*moves=*/false, &t, notes));
  return t;
}

absl::StatusOr<Statistics> ComputeStatistics(const Column& column, StatisticsPer per,
                                             const TransformOptions& options,
                                             std::vector<std::string>* notes, int64_t rows) {
  rows = rows < 0 ? column.rows() : std::min(rows, column.rows());
  if (rows == 0)
    return DataError("'", column.name(), "': has no rows to compute mean and deviation of");
  int axis = -1;
  if (per == StatisticsPer::kChannel) {
    ASSIGN_OR_RETURN(axis, ChannelAxis(column, options.channels));
  }
  const int64_t channels = axis < 0 ? 1 : column.dims()[axis];
  const int64_t inner = axis < 0 ? 1 : Inner(column.dims(), axis);
  const int64_t elements = Elements(column.dims());
  Statistics s;
  s.mean.assign(channels, 0);
  s.deviation.assign(channels, 0);
  const double count = static_cast<double>(rows) * (static_cast<double>(elements) / channels);
  std::vector<double> row_sum(channels);
  for (const bool first_pass : {true, false}) {
    std::vector<double>& total = first_pass ? s.mean : s.deviation;
    RETURN_IF_ERROR(ForEachRow(column, rows, options.rescale, [&](const double* x) {
      // Summed by row first: the rounding of a long sum grows with its length.
      std::fill(row_sum.begin(), row_sum.end(), 0.0);
      for (int64_t e = 0; e < elements;) {
        const int64_t c = e / inner % channels;
        const double mean = first_pass ? 0 : s.mean[c];
        double sum = 0;
        const int64_t end = channels == 1 ? elements : e + inner;
        for (; e < end; ++e) sum += first_pass ? x[e] : (x[e] - mean) * (x[e] - mean);
        row_sum[c] += sum;
      }
      for (int64_t c = 0; c < channels; ++c) total[c] += row_sum[c];
    }));
    for (double& t : total) t = first_pass ? t / count : std::sqrt(t / count);
  }
  int64_t constant = 0;
  for (double& d : s.deviation) {
    if (d == 0) {
      d = 1;
      ++constant;
    }
  }
  if (constant > 0) {
    notes->push_back(absl::StrCat("'", column.name(), "': ", constant, " of ", channels,
                                  channels == 1 ? " channel is" : " channels are",
                                  " constant, deviation 1 is used"));
  }
  return s;
}

}  // namespace onward
