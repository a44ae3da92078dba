#include "backend/training/free_batch.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/onnx/text.h"

namespace onward {
namespace {

std::unique_ptr<OnnxModel> Model(const std::string& graph) {
  const auto bytes =
      ModelFromText(absl::StrCat("<ir_version: 8, opset_import: [\"\" : 17]>\n", graph));
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  auto model = OnnxModel::FromBytes(*bytes, "m.onnx");
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

TEST(FreeBatchTest, ABatchInShapesIsTakenOut) {
  for (const char* target : {"{4, 6}", "{4, -1}"}) {
    const auto model = Model(absl::StrCat(
        "g (float[4, 2, 3] x) => (float[4, 6] y) <int64[2] s = ", target,
        ", float[6] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}> { f = Reshape(x, s) y = Mul(f, w) }"));
    const std::string said = FreeBatchOf(model.get());
    EXPECT_TRUE(absl::StrContains(said, "taken out of 1 shapes")) << said;
    EXPECT_EQ(model->FixedBatch(kDynamic), kDynamic);
    EXPECT_EQ(FreeBatchOf(model.get()), "");
  }
}

TEST(FreeBatchTest, AModelFromPyTorchWithoutDynamicAxes) {
  auto model = OnnxModel::Load("tests/models/mlp-torch-dynamo-default.onnx");
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_NE((*model)->FixedBatch(kDynamic), kDynamic);
  EXPECT_TRUE(absl::StrContains(FreeBatchOf(model->get()), "any batch trains here"));
}

// [1, 3, 4] lies with its second axis in front: where the batch is 1, a Reshape puts it
// back. With another batch it would mix samples.
TEST(FreeBatchTest, WhatWouldMixSamplesStaysFixed) {
  const auto model = Model(
      "g (float[1, 3, 4] x) => (float[1, 3, 4] y) <int64[3] s = {1, 3, 4}, float[4] w = {1.0, "
      "2.0, 3.0, 4.0}> { t = Transpose <perm = [1, 0, 2]> (x) r = Reshape(t, s) y = Mul(r, w) }");
  const std::string said = FreeBatchOf(model.get());
  EXPECT_TRUE(absl::StrContains(said, "only --batch-size 1 fits")) << said;
  EXPECT_EQ(model->FixedBatch(kDynamic), 1);
}

TEST(FreeBatchTest, AnOpenBatchIsLeftAlone) {
  const auto model = Model("g (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }");
  EXPECT_EQ(FreeBatchOf(model.get()), "");
}

}  // namespace
}  // namespace onward
