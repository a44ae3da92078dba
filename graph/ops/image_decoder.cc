// ImageDecoder: pixels [height, width, channels] of a file of an image. The file decides the
// extents, so it must be known when the graph is built, and the pixels are a constant.
// ONNX lets a file that cannot be decoded be an empty image; here it is an error that says
// what is wrong with it.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/graph.h"
#include "graph/onnx/schema.h"
#include "graph/ops/images/image.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

// Of red, green and blue: what people see of each (ITU-R 601), rounded as Pillow does.
uint8_t Grey(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

struct Request {
  ImageFile file;
  bool grey = false, blue_first = false;
  int64_t channels() const { return grey ? 1 : 3; }
};

absl::StatusOr<Request> ReadRequest(const Tensor* file, const Attributes& attributes) {
  if (file == nullptr) {
    return absl::UnimplementedError("the size of its result depends on data");
  }
  const std::string format = attributes.String("pixel_format", "RGB");
  Request request{file->values<uint8_t>(), format == "Grayscale", format == "BGR"};
  if (!request.grey && !request.blue_first && format != "RGB") {
    return absl::InvalidArgumentError(
        absl::StrCat("pixel_format is '", format, "', expected RGB, BGR or Grayscale"));
  }
  return request;
}

absl::StatusOr<Tensor> Decoded(const Request& request) {
  ASSIGN_OR_RETURN(const Image image, DecodeImage(request.file));
  ASSIGN_OR_RETURN(Tensor pixels, Tensor::Allocate(DataType::kUint8, {image.height, image.width,
                                                                      request.channels()}));
  uint8_t* y = pixels.mutable_values<uint8_t>().data();
  for (size_t i = 0; i < image.rgb.size(); i += 3) {
    const uint8_t* rgb = image.rgb.data() + i;
    if (request.grey) {
      *y++ = Grey(rgb);
      continue;
    }
    for (int k = 0; k < 3; ++k) *y++ = rgb[request.blue_first ? 2 - k : k];
  }
  return pixels;
}

absl::Status InferDecoder(InferContext& c) {
  RETURN_IF_ERROR(OnnxInference("", "ImageDecoder")(c));
  ASSIGN_OR_RETURN(const Request request, ReadRequest(c.constant(0), c.attributes()));
  ASSIGN_OR_RETURN(const Image size, DecodeImage(request.file, ImagePart::kSize));
  c.SetOutput(0, DataType::kUint8, {size.height, size.width, request.channels()});
  return absl::OkStatus();
}

absl::Status LowerDecoder(LowerContext& l) {
  ASSIGN_OR_RETURN(const Request request,
                   ReadRequest(l.node().input(0)->constant.get(), l.attributes()));
  ASSIGN_OR_RETURN(Tensor pixels, Decoded(request));
  l.y(0, l.b().Constant(std::move(pixels)));
  return absl::OkStatus();
}

}  // namespace

void AddImageOperators(OperatorFamily& list) {
  // "P6 2 1 255\n" and two pixels.
  const auto with = [](const char* y, const char* attributes) {
    return absl::StrCat("g (float[1, 2, ", y, "] a) => (float[1, 2, ", y,
                        "] y) { f = Constant<value = uint8[17] {80, 54, 32, 50, 32, 49, 32, 50, "
                        "53, 53, 10, 250, 100, 7, 0, 128, 255}>() p = ImageDecoder",
                        attributes, "(f) q = CastLike(p, a) y = Mul(q, a) }");
  };
  list.push_back(Operator("", "ImageDecoder")
                     .Example(with("3", ""))
                     .Example(with("3", "<pixel_format = \"BGR\">"))
                     .Example(with("1", "<pixel_format = \"Grayscale\">"))
                     .Infer(InferDecoder)
                     .AlwaysLower(LowerDecoder)
                     .Samples(SamplesMixed));
}

}  // namespace onward
