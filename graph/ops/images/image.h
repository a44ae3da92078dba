// Files of images, decoded: JPEG, JPEG 2000, PNG, TIFF, WebP, BMP and PNM.
//
// The formats are told apart by how a file begins. What is read is untrusted: a file that
// is broken, cut off or larger than kMostPixels is an error, whatever it holds.
#ifndef ONWARD_GRAPH_OPS_IMAGES_IMAGE_H_
#define ONWARD_GRAPH_OPS_IMAGES_IMAGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace onward {

struct Image {
  int64_t height = 0;
  int64_t width = 0;
  // [height, width, 3], the first row at the top; empty where the size alone was asked for.
  std::vector<uint8_t> rgb;

  uint8_t* at(int64_t y, int64_t x) { return rgb.data() + (y * width + x) * 3; }
};

using ImageFile = absl::Span<const uint8_t>;

inline constexpr int64_t kMostPixels = int64_t{1} << 26;  // 192 MiB

// Greys are three equal values, opacity is left out, more than 8 bits are rounded off.
// kSize: what the file's header says, without the work of reading the pixels.
enum class ImagePart { kSize, kPixels };
absl::StatusOr<Image> DecodeImage(ImageFile file, ImagePart part = ImagePart::kPixels);

// ---- For the decoders, one per format. REQUIRES: the file begins as the format does.

absl::StatusOr<Image> DecodeJpeg(ImageFile file, ImagePart part);
absl::StatusOr<Image> DecodeJpeg2000(ImageFile file, ImagePart part);
absl::StatusOr<Image> DecodePng(ImageFile file, ImagePart part);
absl::StatusOr<Image> DecodeTiff(ImageFile file, ImagePart part);
absl::StatusOr<Image> DecodeWebp(ImageFile file, ImagePart part);
absl::StatusOr<Image> DecodeBmp(ImageFile file, ImagePart part);
absl::StatusOr<Image> DecodePnm(ImageFile file, ImagePart part);

// An image whose pixels, if wanted, are still to be filled in, or an error where it would be
// empty or too large.
absl::StatusOr<Image> BlankImage(int64_t height, int64_t width, ImagePart part);
absl::Status BrokenImage(absl::string_view what);

}  // namespace onward

#endif  // ONWARD_GRAPH_OPS_IMAGES_IMAGE_H_
