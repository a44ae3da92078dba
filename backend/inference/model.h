// A model that is run as it stands, without training: what the Python face wraps.
#ifndef ONWARD_BACKEND_INFERENCE_MODEL_H_
#define ONWARD_BACKEND_INFERENCE_MODEL_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backend/runtime/executor.h"
#include "backend/runtime/state_store.h"
#include "graph/onnx/import.h"

namespace onward {

// Not for several threads at once. Every node does what the file says: a Dropout or
// BatchNormalization in training form stays in it.
class InferenceModel {
 public:
  // Errors as OnnxModel::Load's. `threads` >= 1.
  static absl::StatusOr<std::unique_ptr<InferenceModel>> Load(const std::string& path, int threads);
  static absl::StatusOr<std::unique_ptr<InferenceModel>> FromBytes(const std::string& bytes,
                                                                   const std::string& name,
                                                                   int threads);

  const OnnxModel& onnx() const { return *model_; }

  // The outputs for these inputs, in the order of the file (initializers that are listed
  // as inputs too are left out). For the first inputs of their shapes a plan is made, and kept;
  // a model in which data decides shapes or branches is computed node by node.
  // InvalidArgument where an input does not fit; errors of nodes name them.
  absl::StatusOr<std::vector<ModelValue>> Run(const std::vector<ModelValue>& inputs);

 private:
  struct Planned {
    StateStore states{/*devices=*/1};  // holds none
    std::unique_ptr<Executor> executor;
  };
  InferenceModel(std::unique_ptr<OnnxModel> model, int threads);
  absl::StatusOr<std::unique_ptr<Planned>> MakePlanned(const std::vector<ModelValue>& inputs) const;
  absl::StatusOr<std::vector<ModelValue>> RunPlanned(Planned* planned,
                                                     const std::vector<ModelValue>& inputs) const;

  std::unique_ptr<OnnxModel> model_;
  int threads_;
  // By the shapes of the inputs; null: not to be planned for those.
  std::map<std::string, std::unique_ptr<Planned>> planned_;
};

}  // namespace onward

#endif  // ONWARD_BACKEND_INFERENCE_MODEL_H_
