// Regions: parts of a model in which data decides shapes, branches or the number of
// iterations. In a graph a region is one node, onward.Region, whose results have known types;
// what is inside is read anew in every step, with the values that it is given then.
#ifndef ONWARD_GRAPH_ONNX_REGION_H_
#define ONWARD_GRAPH_ONNX_REGION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/ir/evaluator.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"

namespace onnx {
class GraphProto;
}

namespace onward {

class RegionBody {
 public:
  // `text` is the attribute "body" of the node. Internal where it is none.
  static absl::StatusOr<std::unique_ptr<RegionBody>> Parse(const std::string& text);
  ~RegionBody();

  // The outputs for these inputs. An error is one of data, and names the node inside.
  absl::StatusOr<std::vector<std::shared_ptr<const Tensor>>> Run(
      const OperatorSet& operators, Evaluator* evaluator,
      absl::Span<const std::shared_ptr<const Tensor>> inputs) const;

  // What it does with these inputs as a graph without control flow, to be differentiated:
  // `graph` has all inputs, and `outputs` are its values; null where they do not depend on a
  // floating input.
  struct Traced {
    std::unique_ptr<Graph> graph;
    std::vector<Value*> outputs;
  };
  absl::StatusOr<Traced> Trace(const OperatorSet& operators, Evaluator* evaluator,
                               absl::Span<const std::shared_ptr<const Tensor>> inputs) const;

 private:
  RegionBody();
  std::unique_ptr<onnx::GraphProto> body_;
};

}  // namespace onward

#endif  // ONWARD_GRAPH_ONNX_REGION_H_
