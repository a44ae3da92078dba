// make_model OUTPUT.onnx < TEXT: writes the model that ONNX's text says, for tests that
// want a file.
#include <fstream>
#include <iostream>
#include <iterator>

#include "graph/onnx/text.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string text((std::istreambuf_iterator<char>(std::cin)),
                         std::istreambuf_iterator<char>());
  const auto model = onward::ModelFromText(text);
  if (!model.ok()) {
    std::cerr << model.status() << "\n";
    return 1;
  }
  std::ofstream file(argv[1], std::ios::binary);
  file << *model;
  file.close();
  return file.good() ? 0 : 8;
}
