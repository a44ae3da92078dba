// Losses as a numerator and a denominator, so that a mean over a batch that is cut
// into shards, accumulated or uneven is divided once, at the end.
#ifndef ONWARD_GRAPH_PASSES_LOSS_TERMS_H_
#define ONWARD_GRAPH_PASSES_LOSS_TERMS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/ir/builder.h"

namespace onward {

// A loss between predictions and labels. Numbers must be in range (smoothing in
// [0, 1), weights >= 0, delta > 0).
struct LossSpec {
  enum class Measure { kCrossEntropy, kBinaryCrossEntropy, kMeanSquared, kMeanAbsolute, kHuber };
  // What the predictions of a cross-entropy are.
  enum class Scores { kLogits, kProbabilities, kLogProbabilities };

  Measure measure = Measure::kCrossEntropy;
  Scores scores = Scores::kLogits;
  // kCrossEntropy: where the classes lie in the predictions; PyTorch's 1, Keras' -1.
  int64_t class_axis = 1;
  // The share of a label that is spread over all classes; for kBinaryCrossEntropy
  // over both outcomes.
  double label_smoothing = 0;
  // kCrossEntropy: one per class; kBinaryCrossEntropy: two, of labels 0 and 1. Empty:
  // all 1.
  std::vector<double> class_weights;
  // kBinaryCrossEntropy on logits: PyTorch's pos_weight, one number or one per last
  // axis. Empty: 1.
  std::vector<double> positive_weights;
  // Integer labels (of kBinaryCrossEntropy: any) that count for nothing.
  std::optional<int64_t> ignore_index;
  // kHuber: where the square ends and the line begins.
  double huber_delta = 1;
};

// Scalars of the predictions' type. The loss is numerator / denominator, summed over
// all shards before the division; where the denominator is 0 it is 0.
struct LossTerms {
  Expr numerator;
  Expr denominator;
};

// Appends the terms, which equal the frameworks' means over the batch:
// - kCrossEntropy with integer labels: the denominator is the sum of the class
//   weights of the labels that are not ignored, as in PyTorch (without weights and
//   ignored labels, the number of labels: Keras too). Probabilities are clipped to
//   [1e-7, 1 - 1e-7] and brought to a sum of 1, as in Keras.
// - kCrossEntropy with target probabilities: labels are smoothed, then weighted by
//   class, and the denominator is their number, as in PyTorch. Without class weights
//   Keras is the same.
// - kBinaryCrossEntropy: the mean over elements; probabilities are clipped as above.
//   With class weights the denominator is the sum of the labels' weights.
// - the others: the mean over all elements.
//
// Labels of a cross-entropy are numbers of classes where they have the predictions'
// extents without the classes (an extent of 1 more or less is fine), of any numeric
// type; target probabilities (one-hot among them) where they have the predictions'
// extents. Labels of the other measures have the predictions' extents, up to
// extents of 1.
//
// `sample_weight` may be empty; it has one number per sample, or one per label. It
// multiplies the numerator only, as in Keras.
//
// InvalidArgument, with exit code kData, where labels do not fit the predictions;
// kUsage where the spec does not fit them.
absl::StatusOr<LossTerms> BuildLossTerms(Builder& builder, const LossSpec& spec, Expr prediction,
                                         Expr labels, Expr sample_weight);

}  // namespace onward

#endif  // ONWARD_GRAPH_PASSES_LOSS_TERMS_H_
