#include <webp/decode.h>

#include "graph/base/status_macros.h"
#include "graph/ops/images/image.h"

namespace onward {

absl::StatusOr<Image> DecodeWebp(ImageFile file, ImagePart part) {
  int width = 0, height = 0;
  if (WebPGetInfo(file.data(), file.size(), &width, &height) == 0) {
    return BrokenImage("its header is broken");
  }
  ASSIGN_OR_RETURN(Image image, BlankImage(height, width, part));
  if (part == ImagePart::kSize) return image;

  if (WebPDecodeRGBInto(file.data(), file.size(), image.rgb.data(), image.rgb.size(), width * 3) ==
      nullptr) {
    return BrokenImage("its data is broken or cut off, or it is animated");
  }
  return image;
}

}  // namespace onward
