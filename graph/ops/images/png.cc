#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "graph/base/status_macros.h"
#include "graph/ops/images/image.h"

namespace onward {
namespace {

struct Source {
  ImageFile file;
  size_t at = 0;
  char message[200] = {};
};

// libpng tells of errors by a jump to where it was called.
void Fail(png_structp png, png_const_charp message) {
  auto* source = static_cast<Source*>(png_get_error_ptr(png));
  std::snprintf(source->message, sizeof source->message, "%s", message);
  png_longjmp(png, 1);
}

void Ignore(png_structp, png_const_charp) {}

void ReadBytes(png_structp png, png_bytep to, size_t count) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (count > source->file.size() - source->at) png_error(png, "the file ends too early");
  std::memcpy(to, source->file.data() + source->at, count);
  source->at += count;
}

// Both hold nothing that a jump would leave behind. Is there no error?
bool ReadHeader(png_structp png, png_infop about) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_chunk_malloc_max(png, 16 << 20);
  png_read_info(png, about);
  // To three bytes a pixel.
  png_set_expand(png);
  png_set_scale_16(png);
  png_set_strip_alpha(png);
  png_set_gray_to_rgb(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, about);
  return true;
}

bool ReadRows(png_structp png, png_bytepp rows) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_read_image(png, rows);
  png_read_end(png, nullptr);
  return true;
}

absl::StatusOr<Image> Decode(png_structp png, png_infop about, ImagePart part, Source* source) {
  png_set_read_fn(png, source, ReadBytes);
  if (!ReadHeader(png, about)) return BrokenImage(source->message);
  ASSIGN_OR_RETURN(Image image, BlankImage(png_get_image_height(png, about),
                                           png_get_image_width(png, about), part));
  if (part == ImagePart::kSize) return image;

  if (png_get_rowbytes(png, about) != static_cast<size_t>(image.width) * 3) {
    return BrokenImage("its pixels do not become red, green and blue");
  }
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < image.height; ++y) rows.push_back(image.at(y, 0));
  if (!ReadRows(png, rows.data())) return BrokenImage(source->message);
  return image;
}

}  // namespace

absl::StatusOr<Image> DecodePng(ImageFile file, ImagePart part) {
  Source source;
  source.file = file;
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, Fail, Ignore);
  png_infop about = png == nullptr ? nullptr : png_create_info_struct(png);
  absl::StatusOr<Image> image = absl::ResourceExhaustedError("libpng cannot begin");
  if (about != nullptr) image = Decode(png, about, part, &source);
  png_destroy_read_struct(&png, &about, nullptr);
  return image;
}

}  // namespace onward
