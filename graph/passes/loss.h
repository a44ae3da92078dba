// Appends the loss to a model.
#ifndef ONWARD_GRAPH_PASSES_LOSS_H_
#define ONWARD_GRAPH_PASSES_LOSS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"

namespace onward {

inline constexpr char kLabelsFeed[] = "labels";

struct LossRequest {
  enum class Kind {
    kNone,
    kCrossEntropy,
    kBinaryCrossEntropy,
    kMeanSquared,
    kMeanAbsolute,
    kHuber,
    kModelOutput,  // `prediction` is the loss itself: a scalar, or one number per sample
    kModelFile,    // a second model computes it: see AttachLossModel
  };
  enum class Input { kAuto, kLogits, kProbabilities, kLogProbabilities };
  Kind kind = Kind::kNone;
  // What the model's output is. kAuto: told from the operator that makes it.
  Input input = Input::kAuto;
  std::string prediction;  // the output that is compared; empty: the only one
  // Class numbers (integer) or a row per sample (floating), without the batch axis.
  DataType label_dtype = DataType::kInt64;
  Dims label_dims;
  double label_smoothing = 0;
  std::vector<double> class_weights;
  std::optional<int64_t> ignore_index;
  double huber_delta = 1;
};

struct LossValues {
  Value* numerator = nullptr;    // scalar: summed over the samples of the graph
  Value* denominator = nullptr;  // scalar of the same type; loss = numerator / denominator
  Value* prediction = nullptr;   // as the model gives it
  Value* scores = nullptr;       // classification: larger is likelier; [n, classes] or [n, 1]
  Value* labels = nullptr;       // classification: int64 [n]; else the labels' own shape
  Value* counted = nullptr;  // classification: float [n], 0 for ignored labels, else 1; null: all
  double threshold = 0.5;    // of a single score
  std::vector<std::string> notes;  // what was decided, for people
};

// Where a Softmax, LogSoftmax or Sigmoid makes the prediction and the loss is a cross
// entropy, the loss is taken from what enters it: the same value, without the loss of
// precision. The model keeps its Softmax.
// InvalidArgument where labels and prediction do not fit (kUsage).
absl::StatusOr<LossValues> AttachLoss(Graph* graph, const OperatorSet& operators,
                                      const LossRequest& request);

// Whether labels are expected as integers, for a prediction of these extents.
bool TakesClassNumbers(LossRequest::Kind kind);

}  // namespace onward

#endif  // ONWARD_GRAPH_PASSES_LOSS_H_
