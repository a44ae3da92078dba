// The door through which models come in.
//
// A file of any opset from 6 on is checked, its functions are inlined, and it is
// brought to the canonical opset; after that nothing in Onward knows opsets. The
// model keeps the file as it was, for export.
#ifndef ONWARD_GRAPH_ONNX_IMPORT_H_
#define ONWARD_GRAPH_ONNX_IMPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/ir/evaluator.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"

namespace onnx {
class GraphProto;
class ModelProto;
}  // namespace onnx

namespace onward {

struct RawPlace;
using RawPlaces = absl::flat_hash_map<int, RawPlace>;

// One extent of an input as the file gives it.
struct Extent {
  int64_t size = kDynamic;  // kDynamic: not fixed in the file
  std::string symbol;       // "batch"; empty where the file gives none
};

struct ModelInput {
  std::string name;
  bool is_tensor = true;  // false: a sequence or an optional, of which nothing more is known
  bool any_rank = false;  // the file gives no shape
  DataType dtype = DataType::kUndefined;
  std::vector<Extent> extents;
};

// What a model is given or gives: a tensor, a sequence, or an optional that holds nothing
// (one that holds something is that).
struct ModelValue {
  enum class Kind { kTensor, kSequence, kNothing };
  Kind kind = Kind::kTensor;
  std::shared_ptr<const Tensor> tensor;
  std::vector<ModelValue> elements;
};

// An output as the file declares it, which may be wrong.
struct ModelOutput {
  std::string name;
  DataType dtype = DataType::kUndefined;
  std::vector<Extent> extents;
};

// Numbers for the extents that the file leaves open.
struct Binding {
  int64_t batch = kDynamic;                           // open extents of axis 0
  absl::flat_hash_map<std::string, int64_t> symbols;  // "seq" -> 128; before `batch`
  absl::flat_hash_map<std::string, Dims> inputs;      // all extents of one input; before both
};

// A model from a file. Immutable after loading; graphs built from it share its tensors.
class OnnxModel {
 public:
  // InvalidArgument with the file's name first where the file is broken, not
  // ONNX, of an opset outside 6..28, or its external data is missing, short, or
  // outside its folder; NotFound where there is no file. Exit code 3.
  static absl::StatusOr<std::unique_ptr<OnnxModel>> Load(const std::string& path);
  // From a serialized ModelProto without external data; `name` stands for the file in messages.
  static absl::StatusOr<std::unique_ptr<OnnxModel>> FromBytes(const std::string& bytes,
                                                              const std::string& name);
  ~OnnxModel();

  // From now on float32 is float64 in the graphs that it builds: inputs, initializers,
  // constants and casts. For comparisons, in which float32 would not be exact enough.
  // Not for export.
  absl::Status WidenToFloat64();

  // Opens the batch that the file fixes: inputs whose first extent is that, and
  // the constant targets of Reshape and Expand that begin with it. `fixed` is the graph for
  // the file's batch. Whether the model then means the same for every batch is the
  // caller's to check; FixBatchAgain undoes it. The file's own graph, which is exported,
  // stays as it is. Returns how many targets were changed.
  // REQUIRES: FixedBatch(kDynamic) != kDynamic.
  int FreeBatch(const Graph& fixed);
  void FixBatchAgain();

  const std::string& path() const { return path_; }
  int opset() const { return opset_; }  // of the file
  const std::string& producer() const { return producer_; }
  // Of the file's metadata; empty where it has no such key.
  std::string Metadata(absl::string_view key) const;
  const std::vector<ModelInput>& inputs() const { return inputs_; }
  const std::vector<ModelOutput>& outputs() const { return outputs_; }
  // The batch size that the file fixes: the extent of axis 0 of the first input that has
  // one; `otherwise` where all are open.
  int64_t FixedBatch(int64_t otherwise) const;
  // Files outside the model that its initializers were read from; mostly none.
  const std::vector<std::string>& external_files() const { return external_files_; }
  // In the order of the file.
  const std::vector<std::pair<std::string, std::shared_ptr<const Tensor>>>& initializers() const {
    return initializers_;
  }

  // Names of the parameters and buffers that the model had before it was exported, where
  // the exporter has written them down (PyTorch's does); else empty.
  std::vector<std::string> SignatureParameters() const { return SignatureNames("PARAMETER"); }
  std::vector<std::string> SignatureBuffers() const { return SignatureNames("BUFFER"); }

  // The framework's module in which a node was computed, by the node's first output, where
  // the exporter has written it down (PyTorch's newer one does): "encoder.layer.0.dense".
  absl::flat_hash_map<std::string, std::string> ModulesOfNodes() const;

  // First output of a node, by the ordinal that Build gives it; empty for no such node.
  std::string NodeOutput(int64_t ordinal) const;
  // Nodes of the canonical form by operator id, in the order of their first use.
  std::vector<std::pair<std::string, int>> OperatorCounts() const;

  // The graph for these extents. Initializers are its constants under their
  // names; nodes of shape arithmetic are folded away by `evaluator`.
  // Errors name the node. Operators that Onward does not know: Unimplemented.
  absl::StatusOr<std::unique_ptr<Graph>> Build(const OperatorSet& operators, Evaluator* evaluator,
                                               const Binding& binding) const;

  // The outputs for these inputs, in the order of inputs() and outputs(). Every node is
  // computed while the model is read, so that data may decide shapes, branches and the
  // number of iterations: for models of which that is so, Build makes no graph.
  absl::StatusOr<std::vector<ModelValue>> Evaluate(const OperatorSet& operators,
                                                   Evaluator* evaluator,
                                                   const std::vector<ModelValue>& inputs) const;

  // The file as it was, initializers over 256 bytes emptied (their data is in initializers()).
  const onnx::ModelProto& original() const { return *original_; }
  // In the canonical opset, with functions inlined.
  const onnx::ModelProto& canonical() const { return *canonical_; }

 private:
  std::vector<std::string> SignatureNames(absl::string_view kind) const;
  OnnxModel();
  absl::Status Prepare(const RawPlaces& raw_data);
  absl::Status TakeOpset();
  absl::Status TakeInitializers(const RawPlaces& raw_data);
  absl::Status TakeInputs();
  void TakeOutputs();
  absl::Status Canonicalize();

  std::string path_;
  int opset_ = 0;
  std::string producer_;
  std::vector<ModelInput> inputs_;
  std::vector<ModelOutput> outputs_;
  std::vector<std::string> external_files_;
  std::vector<std::pair<std::string, std::shared_ptr<const Tensor>>> initializers_;
  absl::flat_hash_map<std::string, std::shared_ptr<const Tensor>> by_name_;
  std::unique_ptr<onnx::ModelProto> original_;
  std::unique_ptr<onnx::ModelProto> canonical_;
  std::unique_ptr<onnx::ModelProto> kept_canonical_;  // as it was before FreeBatch
  std::vector<ModelInput> kept_inputs_;
};

// Builds a graph from a proto in the canonical opset. `initializers` holds the
// tensors whose data is not in the proto; `opset` is for messages.
absl::StatusOr<std::unique_ptr<Graph>> BuildGraph(
    const onnx::GraphProto& proto, const std::vector<ModelInput>& inputs,
    const absl::flat_hash_map<std::string, std::shared_ptr<const Tensor>>& initializers,
    const OperatorSet& operators, Evaluator* evaluator, const Binding& binding, int opset);

// Operators of ONNX that no graph holds, for they are gone when the model is read: of
// control flow, sequences and optionals.
bool ReadAtImport(absl::string_view op);

}  // namespace onward

#endif  // ONWARD_GRAPH_ONNX_IMPORT_H_
