#include "graph/onnx/proto.h"

#include <gtest/gtest.h>

namespace onward {
namespace {

constexpr int kElements = 100000;

TEST(ClearData, GivesTheMemoryBack) {
  onnx::TensorProto proto;
  proto.set_name("w");
  proto.add_dims(kElements);
  proto.set_data_type(onnx::TensorProto::FLOAT);
  proto.set_raw_data(std::string(4 * kElements, 'x'));
  for (int i = 0; i < kElements; ++i) proto.add_float_data(1);
  ASSERT_GT(proto.SpaceUsedLong(), size_t{8 * kElements});
  ClearData(&proto);
  EXPECT_LT(proto.SpaceUsedLong(), size_t{kElements});
  EXPECT_FALSE(proto.has_raw_data());
  EXPECT_EQ(proto.float_data_size(), 0);
  EXPECT_EQ(proto.name(), "w");
  EXPECT_EQ(proto.dims(0), kElements);
}

TEST(ClearData, TheTensorIsReferredToElsewhere) {
  onnx::TensorProto proto;
  proto.set_raw_data("abcd");
  EXPECT_FALSE(RefersToData(proto));
  ReferToData(&proto);
  EXPECT_TRUE(RefersToData(proto));
  EXPECT_FALSE(proto.has_raw_data());
}

TEST(TensorProto, SmallElementsArePackedAndUnpacked) {
  // Of ONNX's description of TensorProto: 4 bits by pairs, lowest first; four of 6 bits in
  // three bytes.
  for (DataType type : {DataType::kInt4, DataType::kUint4, DataType::kInt2, DataType::kUint2,
                        DataType::kFloat4E2M1, DataType::kFloat6E2M3, DataType::kFloat6E3M2,
                        DataType::kFloat8E5M2, DataType::kFloat8E8M0}) {
    Tensor t(type, {7});
    for (int i = 0; i < 7; ++i) {
      const int code = (i * 37 + 5) % (1 << PackedBits(type));
      t.mutable_values<uint8_t>()[i] =
          IsSmallInteger(type) ? SmallIntegerOf(type, code) : static_cast<uint8_t>(code);
    }
    onnx::TensorProto proto;
    TensorToProto(t, "t", &proto);
    EXPECT_EQ(static_cast<int>(proto.raw_data().size()), (7 * PackedBits(type) + 7) / 8);
    const absl::StatusOr<Tensor> back = TensorFromProto(proto);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(t.values<uint8_t>(), back->values<uint8_t>()) << Name(type);
    proto.mutable_raw_data()->push_back('x');
    EXPECT_FALSE(TensorFromProto(proto).ok());
  }
}

TEST(TensorProto, TypedFieldsOfSmallElements) {
  onnx::TensorProto proto;
  proto.set_data_type(onnx::TensorProto::INT4);
  proto.add_dims(3);
  proto.add_int32_data(0xf1);  // 1, -1
  proto.add_int32_data(0x08);  // -8
  absl::StatusOr<Tensor> t = TensorFromProto(proto);
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_EQ(t->IntAt(0), 1);
  EXPECT_EQ(t->IntAt(1), -1);
  EXPECT_EQ(t->IntAt(2), -8);
  proto.add_int32_data(0);
  EXPECT_FALSE(TensorFromProto(proto).ok());
}

TEST(TensorProto, Strings) {
  onnx::TensorProto proto;
  proto.set_data_type(onnx::TensorProto::STRING);
  proto.add_dims(2);
  proto.add_string_data("a b");
  EXPECT_FALSE(TensorFromProto(proto).ok());
  proto.add_string_data("");
  const absl::StatusOr<Tensor> t = TensorFromProto(proto);
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_EQ(t->values<StringRef>()[0].text(), "a b");
  onnx::TensorProto again;
  TensorToProto(*t, "", &again);
  EXPECT_EQ(again.string_data_size(), 2);
  EXPECT_EQ(again.string_data(0), "a b");
  // A handle is no business of files.
  proto.set_raw_data(std::string(16, 'x'));
  EXPECT_FALSE(TensorFromProto(proto).ok());
}

}  // namespace
}  // namespace onward
