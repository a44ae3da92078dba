#include "backend/data/dataset.h"

#include "backend/data/test_files.h"

namespace onward {
namespace {

TEST(Column, PartsAreOneSequenceOfRows) {
  Column c = ColumnOf("a", Tensor::Of<int32_t>({2, 2}, {1, 2, 3, 4}));
  ASSERT_TRUE(c.Append(ColumnOf("none", Tensor(DataType::kInt32, {0, 2}))).ok());
  ASSERT_TRUE(c.Append(ColumnOf("b", Tensor::Of<int32_t>({1, 2}, {5, 6}))).ok());
  ASSERT_TRUE(c.Append(ColumnOf("c", Tensor::Of<int32_t>({2, 2}, {7, 8, 9, 10}))).ok());
  EXPECT_EQ(c.rows(), 5);
  EXPECT_EQ(c.bytes(), 5 * 8);
  std::vector<int32_t> v(10);
  ASSERT_TRUE(c.Read(0, 5, v.data()).ok());
  EXPECT_EQ(v, (std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  ASSERT_TRUE(c.Read(1, 2, v.data()).ok());
  EXPECT_EQ(v[2], 5);
  EXPECT_EQ(static_cast<const int32_t*>(c.Row(4))[1], 10);
  EXPECT_EQ(c.Where(2), "b.file: row 0");
  EXPECT_EQ(c.Where(4), "c.file: row 1");
  ExpectDataError(c.Append(ColumnOf("d", Tensor(DataType::kInt32, {1, 3}))), "d.file");
  ExpectDataError(c.Append(ColumnOf("d", Tensor(DataType::kInt64, {1, 2}))), "d.file");
}

TEST(Column, OnlyTextIsNarrowedAndWidened) {
  Column typed = ColumnOf("a", Tensor::Of<double>({2}, {1, 2}));
  ASSERT_TRUE(typed.Narrow().ok());
  EXPECT_EQ(typed.dtype(), DataType::kFloat64);
  Column text = ColumnOf("a", Tensor::Of<uint8_t>({2}, {1, 2}));
  Column more = ColumnOf("b", Tensor::Of<float>({1}, {0.5f}));
  text.set_from_text();
  more.set_from_text();
  ASSERT_TRUE(text.Append(std::move(more)).ok());
  EXPECT_EQ(text.dtype(), DataType::kFloat64);
  ASSERT_TRUE(text.Narrow().ok());
  EXPECT_EQ(text.dtype(), DataType::kFloat32);
  EXPECT_EQ(static_cast<const float*>(text.Row(1))[0], 2.0f);
  EXPECT_EQ(static_cast<const float*>(text.Row(2))[0], 0.5f);
}

TEST(Dataset, ColumnsHaveNamesAndEquallyManyRows) {
  Dataset data;
  ASSERT_TRUE(data.Add(ColumnOf("x", Tensor(DataType::kFloat32, {3, 2}))).ok());
  ASSERT_TRUE(data.Add(ColumnOf("y", Tensor(DataType::kUint8, {3}))).ok());
  ExpectDataError(data.Add(ColumnOf("x", Tensor(DataType::kFloat32, {3}))),
                  "two columns are called 'x'");
  ExpectDataError(data.Add(ColumnOf("z", Tensor(DataType::kFloat32, {2}))),
                  "'z' has 2 rows, but 'x' has 3");
  EXPECT_EQ(data.bytes(), 3 * 2 * 4 + 3);
  EXPECT_EQ(data.Find("q"), nullptr);
  EXPECT_EQ(data.Find("y")->rows(), 3);
}

}  // namespace
}  // namespace onward
