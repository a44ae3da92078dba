// Broken and hostile models, made by code: for tests of everything that reads a model.
#ifndef ONWARD_GRAPH_ONNX_HOSTILE_MODELS_H_
#define ONWARD_GRAPH_ONNX_HOSTILE_MODELS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace onward {

struct HostileModel {
  std::string name;   // what is wrong with it
  std::string bytes;  // of the file
  // What the message must say. Empty: the model may also be taken.
  std::string says;
};

// A small sound model that trains: y = x [N, 4] * w [4, 3] + b [3].
std::string SoundModel();

// One thing is wrong in each.
std::vector<HostileModel> HostileModels();

// Whose initializer 'w' (float32[rows, 3]) lies outside the file, where these entries say;
// an empty one is left out. It loads; only with four rows it fits its node.
std::string ModelWithExternalData(const std::string& location, const std::string& offset,
                                  const std::string& length, int64_t rows = 4);
// The same with 'w' in the file.
std::string ModelOfRows(int64_t rows);

// The model of `bytes` with something to train: every floating-point input with a rank over 1
// and known extents is multiplied by a parameter of its samples' shape first.
std::string WithParameters(const std::string& bytes);

// `bytes` changed in a few places that `seed` picks: fields set, removed, repeated and
// exchanged where the bytes are a model, else bytes flipped, cut and inserted. The same
// seed makes the same.
std::string MutatedModel(const std::string& bytes, uint64_t seed);

}  // namespace onward

#endif  // ONWARD_GRAPH_ONNX_HOSTILE_MODELS_H_
