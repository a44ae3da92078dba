#include "backend/data/cifar.h"

#include "backend/data/pickle.h"
#include "backend/data/test_files.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

absl::StatusOr<std::vector<Column>> Binary(const std::string& path,
                                           const ReadOptions& options = {}) {
  ASSIGN_OR_RETURN(std::unique_ptr<ByteReader> reader, ByteReader::Open(path));
  return ReadCifarBinary(*reader, options);
}

absl::StatusOr<std::vector<Column>> Pickled(const std::string& path,
                                            const ReadOptions& options = {}) {
  ASSIGN_OR_RETURN(std::unique_ptr<ByteReader> reader, ByteReader::Open(path));
  return ReadCifarPickle(*reader, options);
}

uint8_t Byte(const Column& column, int64_t row, int64_t at) {
  return static_cast<const uint8_t*>(column.Row(row))[at];
}

std::string Record(const std::string& labels, char fill) {
  return labels + std::string(3072, fill);
}

TEST(CifarBinary, ReadsTenClasses) {
  const std::string bytes = Record("\x03", 'a') + Record("\x09", 'b');
  for (const std::string& form : {bytes, Gzip(bytes)}) {
    const auto columns = Binary(WriteFile("ten.bin", form));
    ASSERT_TRUE(columns.ok()) << columns.status();
    ASSERT_EQ(columns->size(), 2u);
    EXPECT_EQ((*columns)[0].name(), "images");
    EXPECT_EQ((*columns)[0].dims(), (Dims{3, 32, 32}));
    EXPECT_EQ((*columns)[0].rows(), 2);
    EXPECT_EQ(Byte((*columns)[0], 1, 3071), 'b');
    EXPECT_EQ((*columns)[1].name(), "labels");
    EXPECT_EQ(Byte((*columns)[1], 1, 0), 9);
  }
}

TEST(CifarBinary, ReadsHundredClasses) {
  const auto columns =
      Binary(WriteFile("hundred.bin", Record("\x13\x63", 'a') + Record("\x01\x02", 'b')));
  ASSERT_TRUE(columns.ok()) << columns.status();
  ASSERT_EQ(columns->size(), 3u);
  EXPECT_EQ((*columns)[1].name(), "fine_labels");
  EXPECT_EQ(Byte((*columns)[1], 0, 0), 99);
  EXPECT_EQ((*columns)[2].name(), "coarse_labels");
  EXPECT_EQ(Byte((*columns)[2], 1, 0), 1);
  EXPECT_EQ(Byte((*columns)[0], 1, 0), 'b');
}

TEST(CifarBinary, RefusesOtherLengthsAndLabels) {
  const auto length = Binary(WriteFile("c.bin", Record("\x03", 'a') + "xx")).status();
  ExpectDataError(length, "c.bin");
  const auto label = Binary(WriteFile("c.bin", Record("\x03", 'a') + Record("\x0a", 'a'))).status();
  ExpectDataError(label, "byte 3073: label 10 where 0 to 9 were expected");
  ExpectDataError(Binary(WriteFile("c.bin", "")).status(), "c.bin");
  ReadOptions options;
  options.max_bytes = 5000;
  EXPECT_EQ(Binary(WriteFile("c.bin", Record("\x03", 'a')), options).status().code(),
            absl::StatusCode::kResourceExhausted);
  options.max_bytes = 10000;
  // A bomb: 100 MB in 100 kB.
  EXPECT_EQ(Binary(WriteFile("c.bin", Gzip(std::string(100 << 20, '\0'))), options).status().code(),
            absl::StatusCode::kResourceExhausted);
}

// One image, 200, 7, 7 ... 7, 255, of class 3: the bytes around the 3070 sevens,
// as pickle.dumps of Python 3.11 with NumPy 2 and, last, Python 2 write them.
struct Pickling {
  const char* name;
  std::string head, tail;
};
const std::vector<Pickling>& Picklings() {
  static const auto* all = new std::vector<Pickling>{
      {"protocol 2",
       std::string(
           "\200\002}q\000(c_codecs\012encode\012q\001X\013\000\000\000batch_labelq\002X\006\000"
           "\000\000latin1q\003\206q\004Rq\005X\024\000\000\000testing batch 1 of 1q\006h\001"
           "X\006\000\000\000labelsq\007h\003\206q\010Rq\011]q\012K\003ah\001X\004\000\000\000"
           "dataq\013h\003\206q\014Rq\015cnumpy._core.multiarray\012_reconstruct\012q\016cnum"
           "py\012ndarray\012q\017K\000\205q\020h\001X\001\000\000\000bq\021h\003\206q\022Rq\023"
           "\207q\024Rq\025(K\001K\001M\000\014\206q\026cnumpy\012dtype\012q\027X\002\000\000"
           "\000u1q\030\211\210\207q\031Rq\032(K\003X\001\000\000\000|q\033NNNJ\377\377\377\377"
           "J\377\377\377\377K\000tq\034b\211h\001X\002\014\000\000\303\210",
           306),
       std::string(
           "\303\277q\035h\003\206q\036Rq\037tq bh\001X\011\000\000\000filenamesq!h\003\206q\""
           "Rq#]q$X\005\000\000\000a.pngq%au.",
           60)},
      {"protocol 3",
       std::string(
           "\200\003}q\000(X\013\000\000\000batch_labelq\001X\024\000\000\000testing batch 1 "
           "of 1q\002X\006\000\000\000labelsq\003]q\004K\003aX\004\000\000\000dataq\005cnumpy"
           "._core.multiarray\012_reconstruct\012q\006cnumpy\012ndarray\012q\007K\000\205q\010"
           "C\001bq\011\207q\012Rq\013(K\001K\001M\000\014\206q\014cnumpy\012dtype\012q\015X\002"
           "\000\000\000u1q\016\211\210\207q\017Rq\020(K\003X\001\000\000\000|q\021NNNJ\377\377"
           "\377\377J\377\377\377\377K\000tq\022b\211B\000\014\000\000\310",
           233),
       std::string(
           "\377q\023tq\024bX\011\000\000\000filenamesq\025]q\026X\005\000\000\000a.pngq\027a"
           "u.",
           41)},
      {"protocol 4",
       std::string(
           "\200\004\225\344\014\000\000\000\000\000\000}\224(\214\013batch_label\224\214\024"
           "testing batch 1 of 1\224\214\006labels\224]\224K\003a\214\004data\224\214\026nump"
           "y._core.multiarray\224\214\014_reconstruct\224\223\224\214\005numpy\224\214\007nd"
           "array\224\223\224K\000\205\224C\001b\224\207\224R\224(K\001K\001M\000\014\206\224"
           "h\011\214\005dtype\224\223\224\214\002u1\224\211\210\207\224R\224(K\003\214\001|\224"
           "NNNJ\377\377\377\377J\377\377\377\377K\000t\224b\211B\000\014\000\000\310",
           211),
       std::string("\377\224t\224b\214\011filenames\224]\224\214\005a.png\224au.", 30)},
      {"protocol 5",
       std::string(
           "\200\005\225\314\014\000\000\000\000\000\000}\224(\214\013batch_label\224\214\024"
           "testing batch 1 of 1\224\214\006labels\224]\224K\003a\214\004data\224\214\023nump"
           "y._core.numeric\224\214\013_frombuffer\224\223\224(\226\000\014\000\000\000\000\000"
           "\000\310",
           121),
       std::string(
           "\377\224\214\005numpy\224\214\005dtype\224\223\224\214\002u1\224\211\210\207\224R"
           "\224(K\003\214\001|\224NNNJ\377\377\377\377J\377\377\377\377K\000t\224bK\001M\000"
           "\014\206\224\214\001C\224t\224R\224\214\011filenames\224]\224\214\005a.png\224au."
           "",
           96)},
      {"Python 2",
       std::string(
           "\200\002}q\001(U\013batch_labelq\002U\024testing batch 1 of 1q\003U\006labelsq\004"
           "]q\005K\003aU\004dataq\006cnumpy.core.multiarray\012_reconstruct\012q\007cnumpy\012"
           "ndarray\012q\010K\000\205U\001b\207Rq\011(K\001K\001M\000\014\206cnumpy\012dtype\012"
           "q\012U\002u1K\000K\001\207Rq\013(K\003U\001|NNNJ\377\377\377\377J\377\377\377\377"
           "K\000tb\211T\000\014\000\000\310",
           200),
       std::string("\377tbU\011filenamesq\014]q\015U\005a.pngq\016au.", 31)}};
  return *all;
}

std::string Whole(const Pickling& p) { return p.head + std::string(3070, '\x07') + p.tail; }

TEST(CifarPickle, ReadsEveryProtocol) {
  for (const Pickling& p : Picklings()) {
    SCOPED_TRACE(p.name);
    const auto columns = Pickled(WriteFile("batch", Whole(p)));
    ASSERT_TRUE(columns.ok()) << columns.status();
    ASSERT_EQ(columns->size(), 2u);
    const Column& images = (*columns)[0];
    EXPECT_EQ(images.dims(), (Dims{3, 32, 32}));
    ASSERT_EQ(images.rows(), 1);
    EXPECT_EQ(Byte(images, 0, 0), 200);
    EXPECT_EQ(Byte(images, 0, 1), 7);
    EXPECT_EQ(Byte(images, 0, 3071), 255);
    EXPECT_EQ((*columns)[1].name(), "labels");
    EXPECT_EQ(Byte((*columns)[1], 0, 0), 3);
  }
}

TEST(CifarPickle, BrokenFilesAreErrors) {
  for (const Pickling& p : Picklings()) {
    SCOPED_TRACE(p.name);
    const auto parse = [](const std::string& bytes) {
      return Pickle::Parse("batch", bytes).status();
    };
    const std::string whole = Whole(p);
    for (size_t length = 0; length < whole.size(); ++length)
      ExpectDataError(parse(whole.substr(0, length)), "batch");
    for (size_t at = 0; at < whole.size(); ++at) {
      if (at > p.head.size() + 4 && at + 4 < p.head.size() + 3070) continue;  // the sevens
      for (int change : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff}) {
        std::string flipped = whole;
        flipped[at] = static_cast<char>(flipped[at] ^ change);
        const absl::Status status = parse(flipped);
        if (!status.ok()) ExpectDataError(status, "batch");
      }
    }
  }
  // Through files, with what is made of the values.
  TryBroken(
      "batch", Whole(Picklings()[2]),
      [](const std::string& path) { return Pickled(path).status(); }, 7);
}

TEST(CifarPickle, ExecutesNothing) {
  // os.system('true'), in the ways that pickle has for calls.
  for (const std::string& bytes :
       {std::string("\x80\x02"
                    "cos\nsystem\nU\x04true\x85R."),
        std::string("\x80\x02"
                    "cposix\nsystem\n(U\x04truetR."),
        std::string("\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R."),
        std::string("\x80\x02"
                    "c__builtin__\neval\nU\x01"
                    "1\x85R."),
        std::string("\x80\x02(i__main__\nX\n."),
        std::string("\x80\x02"
                    "cnumpy\nload\n.")}) {
    ExpectDataError(Pickle::Parse("evil", bytes).status(), "evil");
  }
  const auto status = Pickle::Parse("evil",
                                    "\x80\x02"
                                    "cos\nsystem\n.")
                          .status();
  ExpectDataError(status, "evil: byte 2: asks for 'os.system'");
}

TEST(CifarPickle, StackAndMemoAreGuarded) {
  const std::string start("\x80\x02", 2);
  for (const std::string& rest :
       {std::string("."), std::string("a."), std::string("]a."), std::string("K\x01K\x02s."),
        std::string("t."), std::string("(.", 2), std::string("K\x01(\x86.", 5),
        std::string("h\x05."), std::string("j\xff\xff\xff\x7f."),
        std::string("Nr\xff\xff\xff\xff."), std::string("}(K\x01u."), std::string("NNR."),
        std::string("NNb."),
        std::string("B\xff\xff\xff\xff"
                    "ab."),
        std::string("\x8e\xff\xff\xff\xff\xff\xff\xff\xff"
                    "ab."),
        std::string("\x8a\xff"
                    "abc."),
        std::string("N.N")}) {
    ExpectDataError(Pickle::Parse("p", start + rest).status(), "p: byte");
  }
  // A list that holds itself is a value like any other.
  EXPECT_TRUE(
      Pickle::Parse("p", start + "]q" + std::string(1, '\0') + "h" + std::string(1, '\0') + "a.")
          .ok());
  ExpectDataError(Pickled(WriteFile("list", start + "].")).status(), "list: is no CIFAR batch");
  ExpectDataError(Pickle::Parse("p", std::string(3 << 20, 'N')).status(), "opcodes");
}

TEST(CifarPickle, ShapesAreHeldAgainstTheBytes) {
  std::string head = Picklings()[2].head;
  const size_t rows = head.find("K\x01K\x01M") + 3;
  for (char wrong : {'\x00', '\x02', '\xff'}) {
    Pickling p = Picklings()[2];
    p.head[rows] = wrong;
    ExpectDataError(Pickled(WriteFile("shape", Whole(p))).status(), "shape: 'data' is [");
  }
}

}  // namespace
}  // namespace onward
