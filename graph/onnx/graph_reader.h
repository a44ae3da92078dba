// Reads a proto in the canonical opset into a Graph. For graph/onnx only.
//
// What is known while the file is read happens then: arithmetic on shapes is folded, a
// condition picks the branch of an If, a Loop or Scan of a known number of iterations is
// unrolled, and sequences and optionals, which no plan holds, are lists of values here.
#ifndef ONWARD_GRAPH_ONNX_GRAPH_READER_H_
#define ONWARD_GRAPH_ONNX_GRAPH_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/ir/builder.h"
#include "graph/ir/depends_on_data.h"
#include "graph/ir/evaluator.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"
#include "graph/onnx/import.h"
#include "onnx/onnx_pb.h"

namespace onward {

// A type of which not everything need be known: kDynamic extents, or no rank.
struct PartialType {
  DataType dtype = DataType::kUndefined;
  bool ranked = false;
  Dims dims;

  bool whole() const;  // all of it is known
};

struct Deferred;

// What a name of the file stands for. Several names may stand for one.
struct Item;
using ItemRef = std::shared_ptr<Item>;
struct Item {
  enum class Kind { kTensor, kSequence, kNothing, kDeferred };
  Kind kind = Kind::kTensor;
  // kTensor: known, or a value of the graph; a constant of the graph is both.
  std::shared_ptr<const Tensor> known;
  Value* value = nullptr;
  std::string name;               // of the constant that it becomes in the graph
  std::vector<ItemRef> elements;  // kSequence; kNothing is an optional that holds none
  // kDeferred: what only data decides. Null: it stands for what a body would be given.
  const Deferred* made_by = nullptr;
  PartialType partial;

  // REQUIRES: kTensor.
  const TensorType& type() const { return value != nullptr ? value->type : known->type(); }
  bool initializer() const { return value != nullptr && value->initializer; }
};

// A node that waits for data, and all that it reads (its bodies too), by name. It becomes
// part of the region of the first value behind it whose type is known.
struct Deferred {
  int64_t order = 0;
  std::string where;     // the node, for messages
  onnx::NodeProto node;  // its outputs are renamed: names of bodies come again when unrolled
  std::vector<std::pair<std::string, ItemRef>> reads;
};

// How much may be computed while a graph is read: a small file could ask for much.
class ReadingBudget {
 public:
  // Everything is known, so nothing is left for later: no limit.
  void Lift() { limited_ = false; }
  // Takes what computing the call costs; false where that is more than is left.
  bool Compute(const Operator& op, absl::Span<const TensorType* const> inputs,
               absl::Span<const TensorType> outputs);
  // Takes nodes of the body of a loop, or entries of a list that is taken apart.
  absl::Status Unroll(int64_t count = 1);

 private:
  bool limited_ = true;
  double bytes_ = 256e6;
  double work_ = 1e9;  // elements read, and multiplications of what is not elementwise
  int64_t nodes_ = 200'000;
};

// Of what waits for data: the node from which on it does.
std::string FirstDeferred(const ItemRef& item);

// How a reader reads.
enum class Reading {
  kOpen,    // the inputs of the model have extents; what depends on data is deferred
  kKnown,   // they have values: everything is computed while it is read
  kTraced,  // the same, and what is computed from floating inputs is in the graph too
};

class GraphReader {
 public:
  // What it is given must outlive it.
  GraphReader(const OperatorSet& operators, Evaluator* evaluator, const Binding& binding, int opset,
              Reading reading);

  absl::Status Inputs(const std::vector<ModelInput>& inputs);
  absl::Status KnownInputs(const std::vector<ModelInput>& inputs,
                           const std::vector<ModelValue>& values);
  absl::Status Initializers(
      const onnx::GraphProto& proto,
      const absl::flat_hash_map<std::string, std::shared_ptr<const Tensor>>& stored);
  absl::Status Nodes(const onnx::GraphProto& proto);
  // The types that the file declares, for names of which only data would tell.
  void Declarations(const onnx::GraphProto& proto);
  // As outputs of the graph.
  absl::Status Outputs(const onnx::GraphProto& proto);
  void Keep(Value* value) { graph_->AddOutput(value->name, value); }
  std::unique_ptr<Graph> Take();
  // REQUIRES: not kOpen.
  absl::StatusOr<std::vector<ModelValue>> KnownOutputs(const onnx::GraphProto& proto);
  // kTraced: the values of the outputs in the graph; null where they depend on no floating
  // input.
  std::vector<Value*> TracedOutputs(const onnx::GraphProto& proto) const;

  // Does it read nodes of this operator of ONNX itself, so that none is in a graph?
  static bool Handles(const std::string& op) { return HandlerOf(op) != nullptr; }

 private:
  // Where a node comes from.
  struct Origin {
    const onnx::NodeProto* proto = nullptr;  // null: it was made for one of the file
    std::string name;
    std::string source;
    int64_t ordinal = -1;
  };
  using Items = std::vector<ItemRef>;
  using Handler = absl::StatusOr<std::vector<ItemRef>> (GraphReader::*)(const onnx::NodeProto& node,
                                                                        const Items& inputs);

  // ---- build_graph.cc
  std::string Where(const onnx::NodeProto& node) const;
  absl::StatusOr<Dims> Bind(const ModelInput& input) const;
  ItemRef Find(const std::string& name) const;
  void Set(const std::string& name, ItemRef item);
  absl::StatusOr<Items> ReadInputs(const onnx::NodeProto& node) const;
  absl::Status Add(const onnx::NodeProto& node, int64_t ordinal);
  // The outputs of an operator; null for those without a name in `names`. `names` may be
  // shorter.
  absl::StatusOr<Items> Apply(const Operator& op, const Items& inputs, Attributes attributes,
                              int num_outputs, const std::vector<std::string>& names,
                              const Origin& origin);
  absl::StatusOr<Items> AddToGraph(const Operator& op, const Items& inputs, Attributes attributes,
                                   int num_outputs, const std::vector<std::string>& names,
                                   const Origin& origin);
  // Computes it now where that is possible and wanted; else nothing.
  absl::StatusOr<Items> Fold(const Operator& op, const Items& inputs, const Attributes& attributes,
                             int num_outputs, const std::vector<std::string>& names,
                             const Origin& origin);
  ItemRef FoldCopy(const Operator& op, const ItemRef& input, const TensorType& output,
                   const std::vector<std::string>& names, const Origin& origin);
  bool WaitsForParameters(const Operator& op, const Items& inputs,
                          absl::Span<const TensorType> outputs) const;
  absl::StatusOr<Items> Draw(const Operator& op, const Items& inputs, Attributes attributes,
                             int num_outputs, const std::vector<std::string>& names,
                             const Origin& origin);
  absl::StatusOr<Items> Trace(const Operator& op, const Items& inputs, Attributes attributes,
                              int num_outputs, const std::vector<std::string>& names,
                              const Origin& origin);
  // For the node that is read; an operator of ONNX with one output.
  absl::StatusOr<Items> ApplyMade(const Operator& op, const Items& inputs,
                                  const Attributes& attributes, int num_outputs);
  absl::StatusOr<ItemRef> Make(absl::string_view op, const Items& inputs,
                               const Attributes& attributes = {});
  static ItemRef Known(Tensor tensor);
  Value* ValueOf(const ItemRef& item);
  absl::StatusOr<ModelValue> KnownValue(const ItemRef& item) const;

  // ---- control_flow.cc
  static Handler HandlerOf(const std::string& op);
  absl::StatusOr<Items> ReadIf(const onnx::NodeProto& node, const Items& inputs);
  absl::StatusOr<Items> ReadLoop(const onnx::NodeProto& node, const Items& inputs);
  absl::StatusOr<Items> ReadScan(const onnx::NodeProto& node, const Items& inputs);
  absl::StatusOr<Items> ReadSequenceMap(const onnx::NodeProto& node, const Items& inputs);
  absl::StatusOr<Items> ReadBody(const onnx::GraphProto& body, const Items& inputs);
  // One entry of an axis each, without that axis.
  absl::StatusOr<Items> Unstack(const ItemRef& tensor, int64_t axis);
  absl::StatusOr<Items> Pieces(const ItemRef& tensor, const std::vector<int64_t>& sizes,
                               int64_t axis);
  absl::StatusOr<ItemRef> Joined(const Items& parts, int64_t axis, bool new_axis);
  // `like`: the output of the body, for its type where there is no entry.
  absl::StatusOr<ItemRef> Stack(const Items& entries, int64_t axis,
                                const onnx::ValueInfoProto& like);

  // ---- gradient_node.cc
  absl::StatusOr<Items> ReadGradient(const onnx::NodeProto& node, const Items& inputs);
  absl::Status ReadGraph(const Graph& graph, const onnx::NodeProto& origin,
                         absl::flat_hash_map<const Value*, ItemRef>* ours);

  // ---- sequences.cc
  absl::StatusOr<Items> ReadSequenceEmpty(const onnx::NodeProto& node, const Items& inputs);
  absl::StatusOr<Items> ReadSequenceConstruct(const onnx::NodeProto& node, const Items& inputs);
  absl::StatusOr<Items> ReadSequenceInsert(const onnx::NodeProto& node, const Items& inputs);
  absl::StatusOr<Items> ReadSequenceErase(const onnx::NodeProto& node, const Items& inputs);
  absl::StatusOr<Items> ReadSequenceAt(const onnx::NodeProto& node, const Items& inputs);
  absl::StatusOr<Items> ReadSequenceLength(const onnx::NodeProto& node, const Items& inputs);
  absl::StatusOr<Items> ReadSplitToSequence(const onnx::NodeProto& node, const Items& inputs);
  absl::StatusOr<Items> ReadConcatFromSequence(const onnx::NodeProto& node, const Items& inputs);
  absl::StatusOr<Items> ReadOptional(const onnx::NodeProto& node, const Items& inputs);
  absl::StatusOr<Items> ReadOptionalHasElement(const onnx::NodeProto& node, const Items& inputs);
  absl::StatusOr<Items> ReadOptionalGetElement(const onnx::NodeProto& node, const Items& inputs);

  // ---- regions.cc
  bool inputs_known() const { return reading_ != Reading::kOpen; }
  bool Defers() const { return reading_ == Reading::kOpen && evaluator_ != nullptr; }
  // The outputs of a node that waits for data; those whose types are known come out of a
  // region of the graph.
  absl::StatusOr<Items> Defer(onnx::NodeProto node);
  absl::StatusOr<Items> DeferMade(const Operator& op, const Items& inputs,
                                  const Attributes& attributes, int num_outputs);
  absl::StatusOr<Items> DeferReading(onnx::NodeProto node,
                                     std::vector<std::pair<std::string, ItemRef>> reads);
  std::vector<PartialType> TypesOf(const onnx::NodeProto& node, const Items& inputs);
  std::vector<PartialType> TypesOfBody(const onnx::NodeProto& node, const Items& inputs);
  absl::StatusOr<Items> Close(const Items& outputs);

  const OperatorSet& operators_;
  Evaluator* evaluator_;
  const Binding& binding_;
  int opset_;
  Reading reading_;
  std::vector<std::unique_ptr<Deferred>> deferred_;
  std::unique_ptr<Graph> graph_;
  Builder builder_;
  // The graph's own names, then those of the bodies inside which the reader is.
  std::vector<absl::flat_hash_map<std::string, ItemRef>> scopes_;
  // Constants of bodies: an unrolled body does not get them once per iteration.
  absl::flat_hash_map<const onnx::GraphProto*, absl::flat_hash_map<std::string, ItemRef>>
      body_initializers_;
  absl::flat_hash_map<std::string, int> readers_;    // of each name: nodes and outputs
  int64_t next_ordinal_ = 0;                         // of nodes in bodies
  absl::flat_hash_map<std::string, int64_t> bound_;  // symbols of the inputs' extents
  absl::flat_hash_map<std::string, PartialType> declared_;
  ReadingBudget budget_;
  const onnx::GraphProto* file_graph_ = nullptr;  // the main one, once its nodes are read
};

// What graph_reader's files share: the input of a node, checked.
absl::StatusOr<const Tensor*> KnownTensor(const ItemRef& item, absl::string_view what);
absl::Status CheckSequence(const ItemRef& item, absl::string_view what);

// The types of the outputs as far as the schema's inference tells them from inputs of which
// not everything is known; an input without a type is absent or no tensor.
absl::StatusOr<std::vector<PartialType>> InferPartially(const Operator& op,
                                                        const Attributes& attributes,
                                                        const std::vector<PartialType>& inputs,
                                                        const std::vector<const Tensor*>& constants,
                                                        int num_outputs);

}  // namespace onward

#endif  // ONWARD_GRAPH_ONNX_GRAPH_READER_H_
