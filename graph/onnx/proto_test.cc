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

}  // namespace
}  // namespace onward
