#include <openjpeg-2.5/openjpeg.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "graph/base/status_macros.h"
#include "graph/ops/images/image.h"

namespace onward {
namespace {

struct Source {
  ImageFile file;
  size_t at = 0;
  std::string message;
};

OPJ_SIZE_T ReadBytes(void* to, OPJ_SIZE_T count, void* user) {
  auto* s = static_cast<Source*>(user);
  const size_t n = std::min(count, s->file.size() - s->at);
  if (n == 0) return static_cast<OPJ_SIZE_T>(-1);
  std::memcpy(to, s->file.data() + s->at, n);
  s->at += n;
  return n;
}

OPJ_OFF_T Skip(OPJ_OFF_T count, void* user) {
  auto* s = static_cast<Source*>(user);
  if (count < 0) return -1;
  const auto n = std::min(static_cast<size_t>(count), s->file.size() - s->at);
  s->at += n;
  return static_cast<OPJ_OFF_T>(n);
}

OPJ_BOOL Seek(OPJ_OFF_T to, void* user) {
  auto* s = static_cast<Source*>(user);
  if (to < 0 || static_cast<size_t>(to) > s->file.size()) return OPJ_FALSE;
  s->at = static_cast<size_t>(to);
  return OPJ_TRUE;
}

// Keeps the first error, which the others follow from.
void KeepError(const char* message, void* user) {
  auto* s = static_cast<Source*>(user);
  if (s->message.empty()) s->message = std::string(absl::StripSuffix(message, "\n"));
}

// The first two types are void.
using Codec = std::unique_ptr<opj_codec_t, void (*)(opj_codec_t*)>;
using Stream = std::unique_ptr<opj_stream_t, void (*)(opj_stream_t*)>;
using Picture = std::unique_ptr<opj_image_t, void (*)(opj_image_t*)>;

// A component's value at a pixel, as 8 bits. A component may have fewer rows and columns.
double At(const opj_image_comp_t& c, const Image& image, int64_t y, int64_t x) {
  const int64_t row = y * c.h / image.height, column = x * c.w / image.width;
  int64_t value = c.data[row * c.w + column];
  if (c.sgnd != 0) value += int64_t{1} << (c.prec - 1);
  const auto most = static_cast<double>((int64_t{1} << c.prec) - 1);
  return std::min(std::max(static_cast<double>(value), 0.0), most) * 255 / most;
}

uint8_t ToByte(double v) {
  return static_cast<uint8_t>(std::lround(std::min(std::max(v, 0.0), 255.0)));
}

absl::Status CheckComponents(const opj_image_t& picture, int64_t height, int64_t width) {
  const OPJ_UINT32 count = picture.numcomps;
  if (count < 1 || picture.color_space == OPJ_CLRSPC_CMYK) {
    return BrokenImage(
        absl::StrCat("it has ", count, " components, expected grey or red, green and blue"));
  }
  for (OPJ_UINT32 i = 0; i < std::min<OPJ_UINT32>(count, 3); ++i) {
    const opj_image_comp_t& c = picture.comps[i];
    if (c.w < 1 || c.h < 1 || c.w > width || c.h > height || c.prec < 1 || c.prec > 31) {
      return BrokenImage(absl::StrCat("component ", i, " is of ", c.h, " by ", c.w, " pixels of ",
                                      c.prec, " bits"));
    }
  }
  return absl::OkStatus();
}

void Fill(const opj_image_t& picture, Image* image) {
  const opj_image_comp_t* c = picture.comps;
  const bool colours = picture.numcomps >= 3;
  const bool by_luminance = colours && picture.color_space == OPJ_CLRSPC_SYCC;
  for (int64_t y = 0; y < image->height; ++y) {
    for (int64_t x = 0; x < image->width; ++x) {
      const double a = At(c[0], *image, y, x);
      double rgb[3] = {a, a, a};
      if (colours) {
        rgb[1] = At(c[1], *image, y, x);
        rgb[2] = At(c[2], *image, y, x);
      }
      if (by_luminance) {
        const double blue = rgb[1] - 128, red = rgb[2] - 128;
        rgb[0] = a + 1.402 * red;
        rgb[1] = a - 0.344136 * blue - 0.714136 * red;
        rgb[2] = a + 1.772 * blue;
      }
      for (int k = 0; k < 3; ++k) image->at(y, x)[k] = ToByte(rgb[k]);
    }
  }
}

}  // namespace

absl::StatusOr<Image> DecodeJpeg2000(ImageFile file, ImagePart part) {
  Source source;
  source.file = file;
  const Codec codec(opj_create_decompress(file[0] == 0 ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K),
                    opj_destroy_codec);
  const Stream stream(opj_stream_default_create(OPJ_TRUE), opj_stream_destroy);
  if (codec == nullptr || stream == nullptr) {
    return absl::ResourceExhaustedError("openjpeg cannot begin");
  }
  const auto broken = [&] {
    return BrokenImage(source.message.empty() ? "openjpeg cannot read it" : source.message);
  };
  opj_set_error_handler(codec.get(), KeepError, &source);
  opj_stream_set_user_data(stream.get(), &source, nullptr);
  opj_stream_set_user_data_length(stream.get(), file.size());
  opj_stream_set_read_function(stream.get(), ReadBytes);
  opj_stream_set_skip_function(stream.get(), Skip);
  opj_stream_set_seek_function(stream.get(), Seek);
  opj_dparameters_t parameters;
  opj_set_default_decoder_parameters(&parameters);
  if (opj_setup_decoder(codec.get(), &parameters) == OPJ_FALSE) return broken();
  opj_image_t* read = nullptr;
  const bool has_header = opj_read_header(stream.get(), codec.get(), &read) != OPJ_FALSE;
  const Picture picture(read, opj_image_destroy);
  if (!has_header || picture == nullptr) return broken();
  ASSIGN_OR_RETURN(Image image, BlankImage(int64_t{picture->y1} - int64_t{picture->y0},
                                           int64_t{picture->x1} - int64_t{picture->x0}, part));
  if (part == ImagePart::kSize) return image;

  RETURN_IF_ERROR(CheckComponents(*picture, image.height, image.width));
  if (opj_decode(codec.get(), stream.get(), picture.get()) == OPJ_FALSE ||
      opj_end_decompress(codec.get(), stream.get()) == OPJ_FALSE) {
    return broken();
  }
  // A palette may have made other components of them.
  RETURN_IF_ERROR(CheckComponents(*picture, image.height, image.width));
  for (OPJ_UINT32 i = 0; i < std::min<OPJ_UINT32>(picture->numcomps, 3); ++i) {
    if (picture->comps[i].data == nullptr) return BrokenImage("it has no data");
  }
  Fill(*picture, &image);
  return image;
}

}  // namespace onward
