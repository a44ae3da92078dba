// Models and their data in files. For graph/onnx only.
#ifndef ONWARD_GRAPH_ONNX_READ_FILE_H_
#define ONWARD_GRAPH_ONNX_READ_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "graph/base/tensor.h"
#include "graph/onnx/import.h"
#include "onnx/onnx_pb.h"

namespace onward {

// Where the raw data of an initializer lies in the model's file.
struct RawPlace {
  int64_t offset = 0;
  int64_t bytes = 0;
};

struct ModelFile {
  std::unique_ptr<onnx::ModelProto> proto;
  // By the initializer's number: data that is large, and not in `proto` therefore.
  RawPlaces raw_data;
};

// Files are read, not mapped: one that is changed meanwhile must not harm us.
// NotFound where there is no file; InvalidArgument where it is no model, or over 2 GB.
absl::StatusOr<ModelFile> ReadModelFile(const std::string& path);

// An initializer from its place in the model's file `path`. InvalidArgument where that does
// not hold what the extents want, or the file has become shorter.
absl::StatusOr<Tensor> ReadRawData(const onnx::TensorProto& proto, const std::string& path,
                                   const RawPlace& place);

// An initializer whose data is in another file, in the folder of `model`: a model must not
// be able to read files of its user elsewhere. Adds that file to `files` where it is not
// there yet. InvalidArgument or NotFound, naming the file, where it cannot be.
absl::StatusOr<Tensor> ReadExternal(const onnx::TensorProto& proto, const std::string& model,
                                    std::vector<std::string>* files);

}  // namespace onward

#endif  // ONWARD_GRAPH_ONNX_READ_FILE_H_
