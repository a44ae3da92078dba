// The door through which trained models go out: the user's own file, with new values.
#ifndef ONWARD_GRAPH_ONNX_EXPORT_H_
#define ONWARD_GRAPH_ONNX_EXPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/base/tensor.h"
#include "graph/onnx/import.h"

namespace onward {

// One use of an initializer that gets an initializer of its own: the exporter had
// merged several that were equal.
struct SplitInitializer {
  std::string node_output;  // first output of the node that reads it (in OnnxModel::canonical())
  int input = 0;     // which input of that node: an initializer, a constant, or an Identity of one
  std::string name;  // of the new initializer; a number is added where it is taken
  std::shared_ptr<const Tensor> value;  // splits with the same name share the first's
};

// A bias that the exporter had dropped because it was zero. A Gemm or convolution gets
// it as its third input, any other node an Add behind it.
struct RestoredBias {
  std::string node_output;
  std::string name;
  std::shared_ptr<const Tensor> value;
};

// What is to be different from the file.
struct ExportChanges {
  // New values by name: of initializers, or of the results of Constant nodes. The same
  // type and extents as in the file.
  std::vector<std::pair<std::string, std::shared_ptr<const Tensor>>> values;
  std::vector<SplitInitializer> splits;
  // Results of nodes that read nothing but initializers (an Identity of one that the
  // exporter had merged): each node goes, and an initializer of the result's name comes.
  std::vector<std::pair<std::string, std::shared_ptr<const Tensor>>> restored;
  std::vector<RestoredBias> biases;
  // Entries of the file's metadata, new or with another value.
  std::vector<std::pair<std::string, std::string>> metadata;
  // BatchNormalization uses its running statistics and has one output; Dropout has no
  // training_mode. Where a running statistic is read, it is that of the input.
  bool inference_form = true;
  // Models of this many bytes and more keep their data in a file beside them; protobuf's
  // limit is 2^31. So does a model that was read from such files.
  int64_t embed_below = (int64_t{1} << 31) - (int64_t{1} << 20);
};

// Writes `model` as it was read, but for `changes`, to `path`; data that lies outside
// goes to `path`.data. Everything else stays as it is in the file: opset, IR version,
// names, metadata, functions (unless a change lies in one: then all are written out in
// place). Initializers, constants and Identities that nothing reads now are left out. Each file
// is replaced at once, the model last.
// Gives back what was changed, one line each, for people.
// Errors: kUsage where `path` is a file that the model was read from; kOutput where it
// cannot be written; InvalidArgument (kInternal) for changes that do not fit the model.
absl::StatusOr<std::vector<std::string>> ExportModel(const OnnxModel& model,
                                                     const ExportChanges& changes,
                                                     const std::string& path);

}  // namespace onward

#endif  // ONWARD_GRAPH_ONNX_EXPORT_H_
