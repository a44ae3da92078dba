// Files are made here, by the libraries' encoders: what is decoded is what went in, and
// a file that is cut off or changed anywhere is an error or an image, never a crash.
#include "graph/ops/images/image.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
// jpeglib.h wants <cstdio>.
#include <jpeglib.h>
#include <openjpeg-2.5/openjpeg.h>
#include <png.h>
#include <tiffio.h>
#include <webp/encode.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"

namespace onward {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr int kHeight = 9, kWidth = 13;

Image Picture() {
  Image image = *BlankImage(kHeight, kWidth, ImagePart::kPixels);
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      image.at(y, x)[0] = static_cast<uint8_t>(20 * x);
      image.at(y, x)[1] = static_cast<uint8_t>(25 * y);
      image.at(y, x)[2] = static_cast<uint8_t>(255 - 10 * x - 10 * y);
    }
  }
  return image;
}

std::string TemporaryPath(const char* name) {
  return absl::StrCat(::testing::TempDir(), "/image_test_", name);
}

Bytes ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

Bytes Text(const std::string& text) { return Bytes(text.begin(), text.end()); }

Bytes JpegFile() {
  Image image = Picture();
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &data, &size);
  jpeg.image_width = kWidth;
  jpeg.image_height = kHeight;
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 100, TRUE);
  for (int i = 0; i < 3; ++i) jpeg.comp_info[i].h_samp_factor = jpeg.comp_info[i].v_samp_factor = 1;
  jpeg_start_compress(&jpeg, TRUE);
  for (int y = 0; y < kHeight; ++y) {
    JSAMPROW row = image.at(y, 0);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  Bytes file(data, data + size);
  std::free(data);
  return file;
}

// `pixels` in the form that libpng calls so.
Bytes PngFile(uint32_t format, const void* pixels) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = kWidth;
  png.height = kHeight;
  png.format = format;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&png, nullptr, &size, 0, pixels, 0, nullptr);
  Bytes file(size);
  EXPECT_NE(png_image_write_to_memory(&png, file.data(), &size, 0, pixels, 0, nullptr), 0);
  file.resize(size);
  return file;
}

Bytes TiffFile(int compression) {
  const std::string path = TemporaryPath("tiff");
  Image image = Picture();
  TIFF* tiff = TIFFOpen(path.c_str(), "w");
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, kWidth);
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, kHeight);
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 3);
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_RGB);
  TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
  TIFFSetField(tiff, TIFFTAG_COMPRESSION, compression);
  for (int y = 0; y < kHeight; ++y) TIFFWriteScanline(tiff, image.at(y, 0), y, 0);
  TIFFClose(tiff);
  Bytes file = ReadAll(path);
  std::remove(path.c_str());
  return file;
}

Bytes WebpFile() {
  const Image image = Picture();
  uint8_t* data = nullptr;
  const size_t size = WebPEncodeLosslessRGB(image.rgb.data(), kWidth, kHeight, kWidth * 3, &data);
  Bytes file(data, data + size);
  WebPFree(data);
  return file;
}

Bytes Jpeg2000File(OPJ_CODEC_FORMAT format) {
  Image image = Picture();
  opj_cparameters_t parameters;
  opj_set_default_encoder_parameters(&parameters);
  parameters.numresolution = 2;
  parameters.tcp_mct = 1;
  opj_image_cmptparm_t component{};
  component.dx = component.dy = 1;
  component.w = kWidth;
  component.h = kHeight;
  component.prec = 8;
  opj_image_cmptparm_t components[3] = {component, component, component};
  opj_image_t* picture = opj_image_create(3, components, OPJ_CLRSPC_SRGB);
  picture->x1 = kWidth;
  picture->y1 = kHeight;
  for (int i = 0; i < kWidth * kHeight * 3; ++i) picture->comps[i % 3].data[i / 3] = image.rgb[i];
  const std::string path = TemporaryPath("jpeg2000");
  opj_codec_t* codec = opj_create_compress(format);
  opj_setup_encoder(codec, &parameters, picture);
  opj_stream_t* stream = opj_stream_create_default_file_stream(path.c_str(), OPJ_FALSE);
  EXPECT_TRUE(opj_start_compress(codec, picture, stream) && opj_encode(codec, stream) &&
              opj_end_compress(codec, stream));
  opj_stream_destroy(stream);
  opj_destroy_codec(codec);
  opj_image_destroy(picture);
  Bytes file = ReadAll(path);
  std::remove(path.c_str());
  return file;
}

void Append(uint32_t number, int bytes, Bytes* file) {
  for (int i = 0; i < bytes; ++i) file->push_back(static_cast<uint8_t>(number >> (8 * i)));
}

Bytes BmpHeader(int height, int width, int bits, int compression, int behind) {
  Bytes file = Text("BM");
  for (uint32_t n : {0, 0, 54 + behind, 40, width, height}) Append(n, 4, &file);
  Append(1, 2, &file);
  Append(bits, 2, &file);
  for (uint32_t n : {compression, 0, 0, 0, 0, 0}) Append(n, 4, &file);
  return file;
}

Bytes BmpFile() {
  Image image = Picture();
  Bytes file = BmpHeader(kHeight, kWidth, 24, 0, 0);
  for (int y = kHeight - 1; y >= 0; --y) {
    for (int x = 0; x < kWidth; ++x) {
      for (int k : {2, 1, 0}) file.push_back(image.at(y, x)[k]);
    }
    file.push_back(0);  // to a multiple of four bytes
  }
  return file;
}

Bytes PnmFile() {
  const Image image = Picture();
  Bytes file = Text(absl::StrCat("P6\n# made here\n", kWidth, " ", kHeight, "\n255\n"));
  file.insert(file.end(), image.rgb.begin(), image.rgb.end());
  return file;
}

struct Kind {
  const char* name;
  Bytes file;
  int tolerance = 0;
  // Bytes at the end that may be missing: marks behind the last pixel.
  size_t spare = 0;
};

std::vector<Kind> Kinds() {
  const Image image = Picture();
  return {{"JPEG", JpegFile(), 4},
          {"PNG", PngFile(PNG_FORMAT_RGB, image.rgb.data())},
          {"TIFF", TiffFile(COMPRESSION_NONE)},
          {"TIFF with LZW", TiffFile(COMPRESSION_LZW)},
          {"WebP", WebpFile()},
          {"JPEG 2000 (jp2)", Jpeg2000File(OPJ_CODEC_JP2), 0, 2},
          {"JPEG 2000 (j2k)", Jpeg2000File(OPJ_CODEC_J2K), 0, 2},
          {"BMP", BmpFile(), 0, 1},
          {"PNM", PnmFile()}};
}

TEST(DecodeImage, WhatWasEncoded) {
  const Image expected = Picture();
  for (const Kind& kind : Kinds()) {
    const absl::StatusOr<Image> image = DecodeImage(kind.file);
    ASSERT_TRUE(image.ok()) << kind.name << ": " << image.status();
    ASSERT_EQ(image->height, kHeight) << kind.name;
    ASSERT_EQ(image->width, kWidth) << kind.name;
    const absl::StatusOr<Image> size = DecodeImage(kind.file, ImagePart::kSize);
    ASSERT_TRUE(size.ok()) << kind.name << ": " << size.status();
    EXPECT_EQ(size->height, kHeight) << kind.name;
    EXPECT_EQ(size->width, kWidth) << kind.name;
    EXPECT_TRUE(size->rgb.empty()) << kind.name;
    for (size_t i = 0; i < expected.rgb.size(); ++i) {
      ASSERT_NEAR(image->rgb[i], expected.rgb[i], kind.tolerance) << kind.name << " byte " << i;
    }
  }
}

TEST(DecodeImage, AFileThatIsCutOffIsAnError) {
  for (const Kind& kind : Kinds()) {
    for (size_t size = 0; size + kind.spare < kind.file.size(); ++size) {
      // Memory of its own: a read behind its end is one that sanitizers see.
      const Bytes cut(kind.file.begin(), kind.file.begin() + size);
      const absl::Status status = DecodeImage(cut).status();
      EXPECT_TRUE(absl::IsInvalidArgument(status))
          << kind.name << " of " << size << " bytes of " << kind.file.size() << ": " << status;
      EXPECT_EQ(ExitCodeOf(status), ExitCode::kData) << kind.name;
    }
  }
}

TEST(DecodeImage, AFileThatIsChangedDoesNoHarm) {
  for (const Kind& kind : Kinds()) {
    int errors = 0;
    for (size_t i = 0; i < kind.file.size(); ++i) {
      for (int change : {0x01, 0x80, 0xff}) {
        Bytes file = kind.file;
        file[i] = static_cast<uint8_t>(file[i] ^ change);
        const absl::StatusOr<Image> image = DecodeImage(file);
        errors += !image.ok();
        if (!image.ok()) continue;
        ASSERT_EQ(static_cast<int64_t>(image->rgb.size()), image->height * image->width * 3);
      }
    }
    EXPECT_GT(errors, 10) << kind.name;
  }
}

void ExpectError(const Bytes& file, const char* message) {
  const absl::Status status = DecodeImage(file).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), message)) << status;
}

TEST(DecodeImage, SizesAreLookedAtBeforeMemoryIsTaken) {
  ExpectError(Text("P6 65536 65536 255 "), "65536 by 65536 pixels");
  ExpectError(Text("P6 0 5 255 "), "5 by 0 pixels");
  ExpectError(BmpHeader(65536, 65536, 24, 0, 0), "65536 by 65536 pixels");
  Bytes png = PngFile(PNG_FORMAT_RGB, Picture().rgb.data());
  png[18] = 255;  // of the width; the check sum of the header is wrong too
  ExpectError(png, "PNG");
  Bytes jpeg = JpegFile();
  for (size_t i = 0; i + 9 < jpeg.size(); ++i) {
    if (jpeg[i] == 0xff && jpeg[i + 1] == 0xc0) {
      jpeg[i + 5] = jpeg[i + 7] = 0xf0;
      break;
    }
  }
  ExpectError(jpeg, "pixels, expected");
  ExpectError(Text("GIF89a"), "is no image");
  ExpectError({}, "is no image");
}

Bytes Pixels(const Bytes& file) {
  absl::StatusOr<Image> image = DecodeImage(file);
  EXPECT_TRUE(image.ok()) << image.status();
  return image.ok() ? image->rgb : Bytes{};
}

TEST(DecodePnm, EveryKind) {
  const Bytes bits = {255, 255, 255, 0, 0, 0};
  EXPECT_EQ(Pixels(Text("P1 2 1 0 1")), bits);
  EXPECT_EQ(Pixels(Text("P1\n#c\n2 1\n01")), bits);
  EXPECT_EQ(Pixels(Text("P4 2 1 \x40")), bits);
  const Bytes greys = {0, 0, 0, 128, 128, 128};
  EXPECT_EQ(Pixels(Text("P2 2 1 2 0 1")), greys);
  EXPECT_EQ(Pixels(Text(std::string("P5 2 1 2 \0\1", 11))), greys);
  EXPECT_EQ(Pixels(Text(std::string("P5 2 1 65535 \0\0\x80\x80", 17))), greys);
  EXPECT_EQ(Pixels(Text("P3 1 1 255 1 2 3")), (Bytes{1, 2, 3}));
  ExpectError(Text("P3 1 1 255 1 2 256"), "at most 255");
  ExpectError(Text("P2 1 1 0 0"), "largest value is 0");
}

TEST(DecodeBmp, PalettesAndMasks) {
  Bytes file = BmpHeader(-1, 3, 4, 0, 64);
  for (int i = 0; i < 16; ++i) Append(0x010203 * i, 4, &file);
  Append(0x0f21, 4, &file);  // colours 2, 1 and 0
  EXPECT_EQ(Pixels(file), (Bytes{2, 4, 6, 1, 2, 3, 0, 0, 0}));
  file = BmpHeader(1, 2, 16, 3, 12);
  for (uint32_t mask : {0xf800, 0x7e0, 0x1f}) Append(mask, 4, &file);
  Append(0x001f << 16 | 0xf800, 4, &file);
  EXPECT_EQ(Pixels(file), (Bytes{255, 0, 0, 0, 0, 255}));
  ExpectError(BmpHeader(1, 2, 8, 1, 0), "compression 1");
}

TEST(DecodePng, GreysWithAndWithoutOpacity) {
  Bytes grey(kHeight * kWidth), with_opacity;
  Bytes expected;
  for (size_t i = 0; i < grey.size(); ++i) {
    grey[i] = static_cast<uint8_t>(2 * i);
    with_opacity.insert(with_opacity.end(), {grey[i], static_cast<uint8_t>(i)});
    expected.insert(expected.end(), {grey[i], grey[i], grey[i]});
  }
  EXPECT_EQ(Pixels(PngFile(PNG_FORMAT_GRAY, grey.data())), expected);
  EXPECT_EQ(Pixels(PngFile(PNG_FORMAT_GA, with_opacity.data())), expected);
}

}  // namespace
}  // namespace onward
