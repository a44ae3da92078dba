// check_model FILE.onnx: what ONNX's own checker says, shapes inferred as well. Exits 1,
// with its line, where it refuses the file.
#include <cstdio>
#include <exception>

#include "onnx/checker.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("check_model FILE.onnx\n", stderr);
    return 2;
  }
  try {
    onnx::checker::check_model(argv[1], /*full_check=*/true);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[1], e.what());
    return 1;
  }
  return 0;
}
