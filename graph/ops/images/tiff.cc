#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "graph/base/status_macros.h"
#include "graph/ops/images/image.h"

namespace onward {
namespace {

// A file in memory, and what libtiff says of it.
struct Source {
  ImageFile file;
  uint64_t at = 0;
  char message[300] = {};
};

Source* Of(thandle_t handle) { return static_cast<Source*>(handle); }

tmsize_t ReadBytes(thandle_t handle, void* to, tmsize_t count) {
  Source* s = Of(handle);
  const uint64_t left = s->at < s->file.size() ? s->file.size() - s->at : 0;
  const auto n = std::min(left, static_cast<uint64_t>(std::max<tmsize_t>(count, 0)));
  if (n > 0) std::memcpy(to, s->file.data() + s->at, n);
  s->at += n;
  return static_cast<tmsize_t>(n);
}

tmsize_t WriteBytes(thandle_t, void*, tmsize_t) { return 0; }

toff_t Seek(thandle_t handle, toff_t offset, int whence) {
  Source* s = Of(handle);
  s->at = offset + (whence == SEEK_CUR ? s->at : whence == SEEK_END ? s->file.size() : 0);
  return s->at;
}

int Close(thandle_t) { return 0; }

toff_t Size(thandle_t handle) { return Of(handle)->file.size(); }

// Keeps the first error, which the others follow from.
int KeepError(TIFF*, void* source, const char*, const char* format, va_list arguments) {
  Source* s = static_cast<Source*>(source);
  if (s->message[0] == 0) std::vsnprintf(s->message, sizeof s->message, format, arguments);
  return 1;
}

int Ignore(TIFF*, void*, const char*, const char*, va_list) { return 1; }

absl::Status Broken(const Source& source) {
  return BrokenImage(source.message[0] != 0 ? source.message : "libtiff cannot read it");
}

absl::StatusOr<Image> Decode(TIFF* tiff, ImagePart part, const Source& source) {
  uint32_t width = 0, height = 0;
  TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
  ASSIGN_OR_RETURN(Image image, BlankImage(height, width, part));
  if (part == ImagePart::kSize) return image;

  std::vector<uint32_t> pixels(image.height * image.width);
  if (TIFFReadRGBAImageOriented(tiff, width, height, pixels.data(), ORIENTATION_TOPLEFT, 1) == 0 ||
      source.message[0] != 0) {
    return Broken(source);
  }
  for (size_t i = 0; i < pixels.size(); ++i) {
    image.rgb[3 * i] = TIFFGetR(pixels[i]);
    image.rgb[3 * i + 1] = TIFFGetG(pixels[i]);
    image.rgb[3 * i + 2] = TIFFGetB(pixels[i]);
  }
  return image;
}

}  // namespace

absl::StatusOr<Image> DecodeTiff(ImageFile file, ImagePart part) {
  Source source;
  source.file = file;
  TIFFOpenOptions* options = TIFFOpenOptionsAlloc();
  if (options == nullptr) return absl::ResourceExhaustedError("libtiff cannot begin");
  TIFFOpenOptionsSetMaxSingleMemAlloc(options, 4 * kMostPixels);
  TIFFOpenOptionsSetErrorHandlerExtR(options, KeepError, &source);
  TIFFOpenOptionsSetWarningHandlerExtR(options, Ignore, nullptr);
  // "m": not mapped, so that what is read is checked against the end of the file.
  TIFF* tiff = TIFFClientOpenExt("image", "rm", &source, ReadBytes, WriteBytes, Seek, Close, Size,
                                 nullptr, nullptr, options);
  TIFFOpenOptionsFree(options);
  if (tiff == nullptr) return Broken(source);
  absl::StatusOr<Image> image = Decode(tiff, part, source);
  TIFFClose(tiff);
  return image;
}

}  // namespace onward
