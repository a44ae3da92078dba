#include "graph/ops/images/image.h"

#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"

namespace onward {

absl::Status BrokenImage(absl::string_view what) {
  return WithExitCode(absl::InvalidArgumentError(what), ExitCode::kData);
}

absl::StatusOr<Image> BlankImage(int64_t height, int64_t width, ImagePart part) {
  if (height < 1 || width < 1 || height > kMostPixels / width) {
    return BrokenImage(absl::StrCat("the image is of ", height, " by ", width,
                                    " pixels, expected 1 to ", kMostPixels, " of them"));
  }
  Image image;
  image.height = height;
  image.width = width;
  if (part == ImagePart::kPixels) image.rgb.resize(height * width * 3);
  return image;
}

namespace {

using Decoder = absl::StatusOr<Image> (*)(ImageFile file, ImagePart part);

absl::StatusOr<Image> WithinMemory(Decoder decode, ImageFile file, ImagePart part) {
  try {
    return decode(file, part);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("there is no memory for its pixels");
  }
}

}  // namespace

absl::StatusOr<Image> DecodeImage(ImageFile file, ImagePart part) {
  struct Format {
    const char* name;
    absl::string_view begins;
    Decoder decode;
  };
  static const Format kFormats[] = {
      {"JPEG", "\xff\xd8\xff", DecodeJpeg},
      {"JPEG 2000", absl::string_view("\0\0\0\x0cjP  \r\n\x87\n", 12), DecodeJpeg2000},
      {"JPEG 2000", "\xff\x4f\xff\x51", DecodeJpeg2000},
      {"PNG", "\x89PNG\r\n\x1a\n", DecodePng},
      {"TIFF", absl::string_view("II*\0", 4), DecodeTiff},
      {"TIFF", absl::string_view("MM\0*", 4), DecodeTiff},
      {"WebP", "RIFF", DecodeWebp},
      {"BMP", "BM", DecodeBmp},
      {"PNM", "P1", DecodePnm},
      {"PNM", "P2", DecodePnm},
      {"PNM", "P3", DecodePnm},
      {"PNM", "P4", DecodePnm},
      {"PNM", "P5", DecodePnm},
      {"PNM", "P6", DecodePnm},
  };
  const absl::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  for (const Format& format : kFormats) {
    if (text.substr(0, format.begins.size()) != format.begins) continue;
    absl::StatusOr<Image> image = WithinMemory(format.decode, file, part);
    if (image.ok()) return image;
    return Annotate(image.status(),
                    absl::StrCat("a file of ", file.size(), " bytes that begins as ", format.name));
  }
  return BrokenImage(
      absl::StrCat("a file of ", file.size(),
                   " bytes is no image: expected JPEG, JPEG 2000, PNG, TIFF, WebP, BMP or PNM"));
}

}  // namespace onward
