// PNM: a header of text, then bits (P1, P4; 1 is black), greys (P2, P5) or colours (P3, P6),
// as text (P1 to P3) or bytes.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ops/images/image.h"

namespace onward {
namespace {

class Reader {
 public:
  explicit Reader(ImageFile file) : file_(file) {}

  // A number of the text, behind white space and comments; of one digit for `bit`.
  absl::StatusOr<int64_t> Number(int64_t most, bool bit = false) {
    for (bool comment = false; at_ < file_.size(); ++at_) {
      if (file_[at_] == '#') comment = true;
      if (file_[at_] == '\n') comment = false;
      if (!comment && !absl::ascii_isspace(file_[at_])) break;
    }
    int64_t number = -1;
    for (; at_ < file_.size() && absl::ascii_isdigit(file_[at_]); ++at_) {
      number = std::max<int64_t>(number, 0) * 10 + (file_[at_] - '0');
      if (number > most) break;
      if (bit) {
        ++at_;
        break;
      }
    }
    if (number >= 0 && number <= most) return number;
    return BrokenImage(absl::StrCat("byte ", at_, ": expected a number of at most ", most));
  }
  // The white space between header and bytes.
  void SkipOne() { ++at_; }
  bool Has(int64_t bytes) const {
    return at_ <= file_.size() && file_.size() - at_ >= static_cast<size_t>(bytes);
  }
  // REQUIRES: Has(bytes). The highest byte first.
  int64_t Bytes(int bytes) {
    int64_t number = 0;
    for (; bytes > 0; --bytes) number = number << 8 | file_[at_++];
    return number;
  }

 private:
  ImageFile file_;
  size_t at_ = 2;
};

uint8_t Scaled(int64_t value, int64_t most) {
  return static_cast<uint8_t>((std::min(value, most) * 255 + most / 2) / most);
}

absl::Status ReadBits(Reader* reader, bool text, Image* image) {
  if (!text && !reader->Has((image->width + 7) / 8 * image->height)) {
    return BrokenImage("it ends too early");
  }
  for (int64_t y = 0; y < image->height; ++y) {
    int64_t byte = 0;
    for (int64_t x = 0; x < image->width; ++x) {
      int64_t black;
      if (text) {
        ASSIGN_OR_RETURN(black, reader->Number(1, true));
      } else {
        if (x % 8 == 0) byte = reader->Bytes(1);
        black = byte >> (7 - x % 8) & 1;
      }
      for (int k = 0; k < 3; ++k) image->at(y, x)[k] = black != 0 ? 0 : 255;
    }
  }
  return absl::OkStatus();
}

absl::Status ReadSamples(Reader* reader, bool text, bool colours, int64_t most, Image* image) {
  const int bytes = most > 255 ? 2 : 1;
  const int64_t pixels = image->height * image->width, samples = colours ? 3 : 1;
  if (!text && !reader->Has(pixels * samples * bytes)) return BrokenImage("it ends too early");
  for (int64_t i = 0; i < pixels; ++i) {
    for (int64_t k = 0; k < samples; ++k) {
      int64_t value;
      if (text) {
        ASSIGN_OR_RETURN(value, reader->Number(most));
      } else {
        value = reader->Bytes(bytes);
      }
      image->rgb[3 * i + k] = Scaled(value, most);
    }
    for (int64_t k = samples; k < 3; ++k) image->rgb[3 * i + k] = image->rgb[3 * i];
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Image> DecodePnm(ImageFile file, ImagePart part) {
  const char kind = static_cast<char>(file[1]);
  const bool text = kind <= '3', bits = kind == '1' || kind == '4';
  Reader reader(file);
  ASSIGN_OR_RETURN(const int64_t width, reader.Number(kMostPixels));
  ASSIGN_OR_RETURN(const int64_t height, reader.Number(kMostPixels));
  int64_t most = 1;
  if (!bits) {
    ASSIGN_OR_RETURN(most, reader.Number(65535));
  }
  if (most == 0) return BrokenImage("its largest value is 0");
  reader.SkipOne();
  ASSIGN_OR_RETURN(Image image, BlankImage(height, width, part));
  if (part == ImagePart::kSize) return image;

  RETURN_IF_ERROR(bits ? ReadBits(&reader, text, &image)
                       : ReadSamples(&reader, text, kind == '3' || kind == '6', most, &image));
  return image;
}

}  // namespace onward
