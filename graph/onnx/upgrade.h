// What ONNX's version converter lacks or gets wrong on the way to the canonical opset.
// For graph/onnx only.
#ifndef ONWARD_GRAPH_ONNX_UPGRADE_H_
#define ONWARD_GRAPH_ONNX_UPGRADE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "onnx/onnx_pb.h"

namespace onward {

// One conversion. The rows are in upgrade.cc, each beside the operator that it is about.
class Upgrade {
 public:
  // `opset` is the file's.
  explicit Upgrade(int opset) : opset_(opset) {}

  // Changes nodes, those of subgraphs too, to what the converter takes right.
  // Unimplemented, naming the node, for what cannot be told in the canonical opset.
  absl::Status Before(onnx::GraphProto* graph);

  // Cures what the converter has made.
  void After(onnx::GraphProto* graph) const;

 private:
  // BatchNormalization in training form as it was before opset 14.
  struct TrainingNorm {
    std::string y, mean, var;
  };

  int opset_;
  int names_ = 0;
  std::vector<TrainingNorm> training_norms_;

  using Nodes = std::vector<onnx::NodeProto>;
  absl::Status Refuse(const onnx::NodeProto& node, const std::string& what) const;
  std::string NewName(const std::string& of);
  absl::Status BeforeNode(onnx::NodeProto node, Nodes* out);
  absl::Status BatchNormalization(onnx::NodeProto* node, Nodes* out);
  void Hardmax(onnx::NodeProto node, Nodes* out);
  void AfterNode(onnx::NodeProto node, Nodes* out) const;
};

}  // namespace onward

#endif  // ONWARD_GRAPH_ONNX_UPGRADE_H_
