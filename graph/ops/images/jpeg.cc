#include <csetjmp>
#include <cstddef>
#include <cstdio>
// jpeglib.h wants the two above.
#include <jerror.h>
#include <jpeglib.h>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ops/images/image.h"

namespace onward {
namespace {

// libjpeg tells of errors by a jump to where it was called.
struct Errors {
  jpeg_error_mgr handlers;  // first: libjpeg knows of this alone
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

void Fail(j_common_ptr jpeg) {
  auto* errors = reinterpret_cast<Errors*>(jpeg->err);
  jpeg->err->format_message(jpeg, errors->message);
  std::longjmp(errors->back, 1);
}

// A file that ends too early is only warned of, and filled up with grey.
void Warn(j_common_ptr jpeg, int level) {
  if (level < 0 && jpeg->err->msg_code == JWRN_JPEG_EOF) Fail(jpeg);
}

// Decodes up to the size, then with `image` all of it. Holds nothing that a jump would
// leave behind. Is there no error?
bool Read(ImageFile file, jpeg_decompress_struct* jpeg, Errors* errors, Image* image) {
  if (setjmp(errors->back) != 0) return false;
  if (image == nullptr) {
    jpeg_create_decompress(jpeg);
    jpeg_mem_src(jpeg, file.data(), file.size());
    jpeg_read_header(jpeg, TRUE);
    return true;
  }
  jpeg->out_color_space = JCS_RGB;
  jpeg_start_decompress(jpeg);
  while (jpeg->output_scanline < jpeg->output_height) {
    JSAMPROW row = image->at(jpeg->output_scanline, 0);
    jpeg_read_scanlines(jpeg, &row, 1);
  }
  jpeg_finish_decompress(jpeg);
  return true;
}

absl::StatusOr<Image> Decode(ImageFile file, ImagePart part, jpeg_decompress_struct* jpeg,
                             Errors* errors) {
  if (!Read(file, jpeg, errors, nullptr)) return BrokenImage(errors->message);
  ASSIGN_OR_RETURN(Image image, BlankImage(jpeg->image_height, jpeg->image_width, part));
  if (jpeg->num_components != 1 && jpeg->num_components != 3) {
    return BrokenImage(absl::StrCat("it has ", jpeg->num_components,
                                    " components, expected grey or colours of red, green, blue"));
  }
  if (part == ImagePart::kSize) return image;
  if (!Read(file, jpeg, errors, &image)) return BrokenImage(errors->message);
  return image;
}

}  // namespace

absl::StatusOr<Image> DecodeJpeg(ImageFile file, ImagePart part) {
  Errors errors{};
  jpeg_decompress_struct jpeg{};
  jpeg.err = jpeg_std_error(&errors.handlers);
  errors.handlers.error_exit = Fail;
  errors.handlers.emit_message = Warn;
  absl::StatusOr<Image> image = Decode(file, part, &jpeg, &errors);
  jpeg_destroy_decompress(&jpeg);
  return image;
}

}  // namespace onward
