// BMP: rows of pixels of 1 to 32 bits, the last row first, behind headers of several ages.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ops/images/image.h"

namespace onward {
namespace {

// `bytes` of a number, the lowest first; 0 behind the end.
uint32_t Number(ImageFile file, size_t at, int bytes) {
  uint32_t number = 0;
  for (int i = 0; i < bytes; ++i) {
    if (at + i < file.size()) number |= static_cast<uint32_t>(file[at + i]) << (8 * i);
  }
  return number;
}

int64_t SignedNumber(ImageFile file, size_t at) {
  return static_cast<int32_t>(Number(file, at, 4));
}

struct Header {
  size_t pixels = 0;      // where they begin
  size_t palette = 0;     // likewise
  int palette_entry = 4;  // bytes: blue, green, red
  int64_t colours = 0;    // of the palette
  int64_t width = 0, height = 0;
  bool from_top = false;
  int bits = 0;
  std::array<uint32_t, 3> masks = {};  // red, green, blue: of 16 and 32 bits
};

constexpr size_t kFileHeader = 14;

absl::StatusOr<Header> ReadHeader(ImageFile file) {
  Header h;
  const uint32_t size = Number(file, kFileHeader, 4);
  if (file.size() < kFileHeader + size || (size != 12 && size < 40) || size > 1024) {
    return BrokenImage(absl::StrCat("its header is of ", size, " bytes"));
  }
  const bool oldest = size == 12;
  h.pixels = Number(file, 10, 4);
  h.palette = kFileHeader + size;
  h.palette_entry = oldest ? 3 : 4;
  h.width = oldest ? int64_t{Number(file, 18, 2)} : SignedNumber(file, 18);
  h.height = oldest ? int64_t{Number(file, 20, 2)} : SignedNumber(file, 22);
  h.from_top = h.height < 0;
  h.height = std::abs(h.height);
  h.bits = static_cast<int>(Number(file, oldest ? 24 : 28, 2));
  const uint32_t compression = oldest ? 0 : Number(file, 30, 4);
  h.masks = {0xff0000, 0xff00, 0xff};
  if (h.bits == 16) h.masks = {0x7c00, 0x3e0, 0x1f};
  const bool masked = compression == 3 && (h.bits == 16 || h.bits == 32);
  for (int k = 0; masked && k < 3; ++k) h.masks[k] = Number(file, 54 + 4 * k, 4);
  constexpr int kBits[] = {1, 4, 8, 16, 24, 32};
  if (std::find(std::begin(kBits), std::end(kBits), h.bits) == std::end(kBits) ||
      (compression != 0 && !masked)) {
    return BrokenImage(absl::StrCat("its pixels are of ", h.bits, " bits with compression ",
                                    compression, ", expected 1 to 32 without"));
  }
  h.colours = oldest ? 0 : Number(file, 46, 4);
  if (h.bits <= 8 && (h.colours == 0 || h.colours > 1 << h.bits)) h.colours = 1 << h.bits;
  return h;
}

// The bits of the mask, as 8.
uint8_t Masked(uint32_t pixel, uint32_t mask) {
  if (mask == 0) return 0;
  const int shift = __builtin_ctz(mask);
  const uint64_t most = mask >> shift, value = (pixel & mask) >> shift;
  return static_cast<uint8_t>((value * 255 + most / 2) / most);
}

// REQUIRES: the row is in the file.
absl::Status ReadPixel(ImageFile file, const Header& h, size_t row, int64_t x, uint8_t* rgb) {
  if (h.bits == 16 || h.bits == 32) {
    const uint32_t pixel = Number(file, row + x * h.bits / 8, h.bits / 8);
    for (int k = 0; k < 3; ++k) rgb[k] = Masked(pixel, h.masks[k]);
    return absl::OkStatus();
  }
  size_t at = row + x * 3;
  if (h.bits <= 8) {
    const int64_t bit = x * h.bits;
    const int colour = file[row + bit / 8] >> (8 - h.bits - bit % 8) & ((1 << h.bits) - 1);
    at = h.palette + static_cast<size_t>(colour) * h.palette_entry;
    if (colour >= h.colours || at + 3 > file.size()) {
      return BrokenImage(absl::StrCat("colour ", colour, " is not in its palette"));
    }
  }
  for (int k = 0; k < 3; ++k) rgb[k] = file[at + 2 - k];
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Image> DecodeBmp(ImageFile file, ImagePart part) {
  ASSIGN_OR_RETURN(const Header h, ReadHeader(file));
  ASSIGN_OR_RETURN(Image image, BlankImage(h.height, h.width, part));
  if (part == ImagePart::kSize) return image;

  const size_t row = (static_cast<size_t>(h.width) * h.bits + 31) / 32 * 4;
  // The last row need not be filled up.
  const size_t needed = row * (h.height - 1) + (static_cast<size_t>(h.width) * h.bits + 7) / 8;
  if (h.pixels > file.size() || file.size() - h.pixels < needed) {
    return BrokenImage(absl::StrCat("it ends too early, expected ", needed,
                                    " bytes of pixels behind byte ", h.pixels));
  }
  for (int64_t y = 0; y < h.height; ++y) {
    const size_t at = h.pixels + row * (h.from_top ? y : h.height - 1 - y);
    for (int64_t x = 0; x < h.width; ++x) {
      RETURN_IF_ERROR(ReadPixel(file, h, at, x, image.at(y, x)));
    }
  }
  return image;
}

}  // namespace onward
