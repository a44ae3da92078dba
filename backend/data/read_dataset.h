// From what the user names (files, arrays, columns) to a data set that has the
// model's inputs and the labels as columns.
#ifndef ONWARD_BACKEND_DATA_READ_DATASET_H_
#define ONWARD_BACKEND_DATA_READ_DATASET_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backend/data/csv_reader.h"
#include "backend/data/dataset.h"
#include "backend/data/transform.h"

namespace onward {

// Which data to read.
struct DataSpec {
  // FILE, or FILE,FILE,... (joined by rows), or NAME=FILE,NAME=FILE,... for
  // several inputs (files that follow without a name are joined to the last).
  // FILE may be FILE:ARRAY: an array of an .npz, a column of a CSV. Formats are
  // told by content; all but .npz may be gzipped.
  std::string data;
  // The same for the labels; or the name of an array or column of `data` (of a
  // CSV also its number; -1 is the last). Default (empty): the labels that
  // `data` has by their usual names, or none.
  std::string labels;
  // False: labels that `data` has by their usual names are left out of it, and of the
  // result.
  bool want_labels = true;
  // The model's inputs. Empty: unknown; then every array becomes a column.
  std::vector<InputSpec> inputs;
  // What the column of labels is called in the data set.
  std::string labels_name = "labels";
  CsvOptions csv;
  // Default: off. All columns in memory, also large uncompressed ones.
  bool cache = false;
  int64_t max_bytes = AvailableMemory();
};

enum class DataFormat { kNpy, kNpz, kIdx, kCifarBinary, kCifarPickle, kCsv };

// The format of what `reader` is at the start of, by its first bytes; nothing is
// taken from the stream. InvalidArgument (kData) for none of them, by name for
// the usual others.
absl::StatusOr<DataFormat> TellFormat(ByteReader& reader);

// One item of a list of files.
struct DataSource {
  std::string name;  // of the input; empty: not given
  std::string file;
  std::string array;  // in the file; empty: not given
};
// InvalidArgument (kUsage) for an empty item. A text that is the name of a file
// as it stands is one.
absl::StatusOr<std::vector<DataSource>> ParseSources(const std::string& text);

// Reads everything that `spec` names. Columns: one for each input, by its name,
// and `labels_name`, where there are labels. What was chosen without being asked
// for is in Dataset::notes. Shapes are not compared with the inputs here: FitInput
// does it. NotFound, InvalidArgument, ResourceExhausted: kData, or kUsage where
// `spec` contradicts itself.
absl::StatusOr<Dataset> ReadDataset(const DataSpec& spec);

}  // namespace onward

#endif  // ONWARD_BACKEND_DATA_READ_DATASET_H_
