// One data file of any format, as the arrays that it holds.
#ifndef ONWARD_BACKEND_DATA_DATA_FILE_H_
#define ONWARD_BACKEND_DATA_DATA_FILE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backend/data/csv_reader.h"
#include "backend/data/dataset.h"
#include "backend/data/npy.h"
#include "backend/data/read_dataset.h"

namespace onward {

// Open(): formats without a header of contents (CSV, CIFAR) are read there,
// others when an array is taken. Movable.
class DataFile {
 public:
  static absl::StatusOr<DataFile> Open(const std::string& path, const CsvOptions& csv,
                                       const ReadOptions& read);

  const std::string& path() const { return path_; }
  DataFormat format() const { return format_; }
  // Whether its arrays have names: .npz, CIFAR and CSV.
  bool named() const { return format_ != DataFormat::kNpy && format_ != DataFormat::kIdx; }
  // Names of the arrays; one empty name where they have none.
  const std::vector<std::string>& arrays() const { return arrays_; }
  // "x, y": for messages.
  std::string ArraysText() const;
  // The array called so (a CSV's column also by its number), as its exact name.
  std::optional<std::string> Find(const std::string& array) const;
  // Elements of one sample of that array, 1 for a column of a CSV.
  int64_t SampleElements(const std::string& array) const;

  // The array as a column. An array is taken once. InvalidArgument (kData)
  // where there is none of that name.
  absl::StatusOr<Column> Take(const std::string& array);
  // What a model's only input is fed with: a CSV's columns without `labels`,
  // CIFAR's images, an .npz's only array that is not `labels`, the array of the
  // others. InvalidArgument where that leaves a choice.
  absl::StatusOr<Column> TakeSamples(const std::string& labels);

 private:
  std::string path_;
  DataFormat format_ = DataFormat::kNpy;
  ReadOptions read_;
  std::vector<std::string> arrays_;
  std::unique_ptr<ByteReader> reader_;  // kNpy, kIdx
  std::vector<NpzEntry> entries_;       // kNpz
  std::vector<Column> columns_;         // CIFAR
  CsvTable table_;
};

}  // namespace onward

#endif  // ONWARD_BACKEND_DATA_DATA_FILE_H_
