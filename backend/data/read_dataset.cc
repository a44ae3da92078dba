#include "backend/data/read_dataset.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <new>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "backend/data/data_error.h"
#include "backend/data/data_file.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

absl::Status UsageError(absl::string_view text) {
  return WithExitCode(absl::InvalidArgumentError(text), ExitCode::kUsage);
}

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

DataSource SplitArray(std::string name, std::string file) {
  DataSource s;
  s.name = std::move(name);
  s.file = std::move(file);
  const size_t colon = s.file.rfind(':');
  if (colon != std::string::npos && colon > 0 && colon + 1 < s.file.size() && !Exists(s.file)) {
    s.array = s.file.substr(colon + 1);
    s.file.resize(colon);
  }
  return s;
}

// Names by which labels are usually known, the likeliest first.
constexpr const char* kLabelNames[] = {"labels", "label",   "fine_labels", "y",
                                       "target", "targets", "class"};

class DatasetReader {
 public:
  explicit DatasetReader(const DataSpec& spec) : spec_(spec) {
    read_.max_bytes = spec.max_bytes;
    read_.read_whole_bytes = spec.cache ? -1 : kReadWholeBytes;
  }

  absl::StatusOr<Dataset> Read() {
    if (spec_.data.empty()) return UsageError("no data is named");
    ASSIGN_OR_RETURN(const std::vector<DataSource> sources, ParseSources(spec_.data));
    RETURN_IF_ERROR(CheckNames(sources));
    if (sources[0].name.empty() || NamesTheOnlyInput(sources)) {
      RETURN_IF_ERROR(ReadUnnamed(sources));
    } else {
      RETURN_IF_ERROR(ReadNamed(sources));
    }
    if (!spec_.labels.empty() && data_.Find(spec_.labels_name) == nullptr)
      RETURN_IF_ERROR(ReadLabels());
    if (data_.rows() == 0) return DataError(sources[0].file, ": has no rows");
    return std::move(data_);
  }

 private:
  absl::Status CheckNames(const std::vector<DataSource>& sources) {
    if (spec_.inputs.empty() || sources[0].name.empty()) return absl::OkStatus();
    for (const DataSource& s : sources) {
      if (!IsInput(s.name)) {
        return UsageError(
            absl::StrCat("the model has no input '", s.name, "'; it has ", InputsText()));
      }
    }
    for (const InputSpec& input : spec_.inputs) {
      if (std::none_of(sources.begin(), sources.end(),
                       [&](const DataSource& s) { return s.name == input.name; })) {
        return UsageError(absl::StrCat("no data is named for input '", input.name, "'"));
      }
    }
    return absl::OkStatus();
  }

  bool IsInput(const std::string& name) const {
    return std::any_of(spec_.inputs.begin(), spec_.inputs.end(),
                       [&](const InputSpec& input) { return input.name == name; });
  }

  // A name that leaves no choice: the files are read as if they had none, with the
  // labels in them.
  bool NamesTheOnlyInput(const std::vector<DataSource>& sources) const {
    return spec_.inputs.size() == 1 &&
           std::all_of(sources.begin(), sources.end(), [&](const DataSource& s) {
             return s.name == spec_.inputs[0].name && s.array.empty() == sources[0].array.empty();
           });
  }

  std::string InputsText() const {
    std::string out;
    for (const InputSpec& input : spec_.inputs)
      absl::StrAppend(&out, out.empty() ? "" : ", ", input.name);
    return out;
  }

  absl::StatusOr<DataFile> Open(const std::string& path) {
    ReadOptions left = read_;
    left.max_bytes = std::max<int64_t>(0, read_.max_bytes - data_.bytes() - pending_bytes_);
    return DataFile::Open(path, spec_.csv, left);
  }

  // Joins a part of a column; memory that it holds counts against the limit.
  absl::Status Join(Column part, Column* whole) {
    pending_bytes_ += part.bytes();
    return whole->Append(std::move(part));
  }

  absl::Status AddColumn(Column column, const std::string& name) {
    column.set_name(name);
    RETURN_IF_ERROR(column.Narrow());  // of parts that were widened to be joined
    pending_bytes_ = std::max<int64_t>(0, pending_bytes_ - column.bytes());
    return data_.Add(std::move(column));
  }

  // NAME=FILE,...: every group of files of one name is a column.
  absl::Status ReadNamed(const std::vector<DataSource>& sources) {
    std::vector<std::string> names;
    for (const DataSource& s : sources) {
      if (std::find(names.begin(), names.end(), s.name) == names.end()) names.push_back(s.name);
    }
    for (const std::string& name : names) {
      Column whole;
      for (const DataSource& s : sources) {
        if (s.name == name) RETURN_IF_ERROR(JoinSource(s, &whole));
      }
      RETURN_IF_ERROR(AddColumn(std::move(whole), name));
    }
    return absl::OkStatus();
  }

  absl::Status JoinSource(const DataSource& s, Column* whole) {
    ASSIGN_OR_RETURN(DataFile file, Open(s.file));
    std::string array = s.array;
    if (array.empty() && !s.name.empty() && file.format() == DataFormat::kNpz &&
        file.arrays().size() > 1 && file.Find(s.name).has_value()) {
      array = s.name;
    }
    absl::StatusOr<Column> part = array.empty() ? file.TakeSamples("") : file.Take(array);
    if (!part.ok()) return part.status();
    return Join(*std::move(part), whole);
  }

  // FILE,FILE,...: all files hold the same arrays.
  absl::Status ReadUnnamed(const std::vector<DataSource>& sources) {
    std::vector<DataFile> files;
    for (const DataSource& s : sources) {
      ASSIGN_OR_RETURN(DataFile file, Open(s.file));
      files.push_back(std::move(file));
    }
    const bool one_array = !sources[0].array.empty();
    ASSIGN_OR_RETURN(const std::string labels, LabelsWithin(files[0], one_array));
    RETURN_IF_ERROR(ReadSamples(sources, labels, &files));
    if (labels.empty() || (spec_.labels.empty() && !spec_.want_labels)) return absl::OkStatus();
    return JoinAll(labels, spec_.labels_name, &files);
  }

  absl::Status ReadSamples(const std::vector<DataSource>& sources, const std::string& labels,
                           std::vector<DataFile>* files_in) {
    std::vector<DataFile>& files = *files_in;
    const bool one_array = !sources[0].array.empty();
    if (!one_array && spec_.inputs.size() > 1) return ReadInputsByName(labels, files_in);
    if (!one_array && spec_.inputs.empty() && files[0].format() == DataFormat::kNpz) {
      for (const std::string& array : files[0].arrays()) {
        if (array != labels) RETURN_IF_ERROR(JoinAll(array, array, files_in));
      }
      return absl::OkStatus();
    }
    const std::string name = spec_.inputs.empty() ? "data" : spec_.inputs[0].name;
    if (spec_.inputs.size() > 1) {
      return UsageError(absl::StrCat("the model has several inputs (", InputsText(),
                                     "): name each one's data as NAME=FILE,NAME=FILE"));
    }
    Column whole;
    for (size_t i = 0; i < files.size(); ++i) {
      const bool by_name =
          !one_array && files[i].format() == DataFormat::kNpz && files[i].Find(name).has_value();
      absl::StatusOr<Column> part = one_array ? files[i].Take(sources[i].array)
                                    : by_name ? files[i].Take(name)
                                              : files[i].TakeSamples(labels);
      if (!part.ok()) return part.status();
      RETURN_IF_ERROR(Join(*std::move(part), &whole));
    }
    RETURN_IF_ERROR(CheckCsvWidth(files[0], labels, whole));
    return AddColumn(std::move(whole), name);
  }

  // A CSV with one column too many mostly has its labels in it.
  absl::Status CheckCsvWidth(const DataFile& file, const std::string& labels,
                             const Column& samples) const {
    if (file.format() != DataFormat::kCsv || !labels.empty() || !spec_.labels.empty())
      return absl::OkStatus();
    const std::optional<int64_t> wanted = InputElements();
    if (wanted.has_value() && Elements(samples.dims()) == *wanted + 1) {
      return DataError(file.path(), ": has ", *wanted + 1, " columns, input '",
                       spec_.inputs[0].name, "' takes ", *wanted, ": ",
                       spec_.want_labels ? "say which column holds the labels"
                                         : "leave the labels out, or call their column 'labels'");
    }
    return absl::OkStatus();
  }

  // Elements that the only input takes, where its extents are all known.
  std::optional<int64_t> InputElements() const {
    if (spec_.inputs.size() != 1) return std::nullopt;
    for (int64_t d : spec_.inputs[0].dims) {
      if (d < 0) return std::nullopt;
    }
    return Elements(spec_.inputs[0].dims);
  }

  absl::Status ReadInputsByName(const std::string& labels, std::vector<DataFile>* files) {
    DataFile& first = (*files)[0];
    for (const InputSpec& input : spec_.inputs) {
      if (!first.Find(input.name).has_value()) {
        return DataError(first.path(), ": has nothing for input '", input.name, "'",
                         first.named() ? absl::StrCat("; it has ", first.ArraysText()) : "",
                         ": name each input's data as NAME=FILE,NAME=FILE");
      }
      RETURN_IF_ERROR(JoinAll(input.name, input.name, files));
    }
    std::string unused;
    for (const std::string& array : first.arrays()) {
      if (array != labels && !IsInput(array))
        absl::StrAppend(&unused, unused.empty() ? "" : ", ", array);
    }
    if (!unused.empty()) data_.notes.push_back(absl::StrCat(first.path(), ": not used: ", unused));
    return absl::OkStatus();
  }

  absl::Status JoinAll(const std::string& array, const std::string& name,
                       std::vector<DataFile>* files) {
    Column whole;
    for (DataFile& file : *files) {
      ASSIGN_OR_RETURN(Column part, file.Take(array));
      RETURN_IF_ERROR(Join(std::move(part), &whole));
    }
    return AddColumn(std::move(whole), name);
  }

  // The array of the data that holds the labels; empty: none does.
  absl::StatusOr<std::string> LabelsWithin(const DataFile& file, bool one_array) {
    if (one_array || !file.named()) return std::string();
    if (!spec_.labels.empty()) {
      const std::optional<std::string> found = file.Find(spec_.labels);
      if (found.has_value()) return *found;
      ASSIGN_OR_RETURN(const std::vector<DataSource> sources, ParseSources(spec_.labels));
      if (sources.size() == 1 && sources[0].file == file.path() &&
          file.Find(sources[0].array).has_value()) {
        return *file.Find(sources[0].array);
      }
      if (sources.size() == 1 && !Exists(sources[0].file)) {
        return DataError(file.path(), ": has no '", spec_.labels, "' (it has ", file.ArraysText(),
                         "), and there is no file of that name");
      }
      return std::string();
    }
    // A CSV as wide as the input has no labels in it, whatever its names.
    if (file.format() == DataFormat::kCsv && InputElements().has_value() &&
        static_cast<int64_t>(file.arrays().size()) == *InputElements()) {
      return std::string();
    }
    for (const char* name : kLabelNames) {
      if (std::find(file.arrays().begin(), file.arrays().end(), name) == file.arrays().end() ||
          IsInput(name)) {
        continue;
      }
      data_.notes.push_back(absl::StrCat(
          file.path(), ": '", name,
          spec_.want_labels ? "' is taken as the labels" : "' holds labels, which are not used"));
      return std::string(name);
    }
    return std::string();
  }

  absl::Status ReadLabels() {
    ASSIGN_OR_RETURN(const std::vector<DataSource> sources, ParseSources(spec_.labels));
    if (!sources[0].name.empty()) return ReadNamed(sources);
    Column whole;
    for (const DataSource& s : sources) RETURN_IF_ERROR(JoinLabels(s, &whole));
    return AddColumn(std::move(whole), spec_.labels_name);
  }

  absl::Status JoinLabels(const DataSource& s, Column* whole) {
    ASSIGN_OR_RETURN(DataFile file, Open(s.file));
    std::string array = s.array;
    if (array.empty() && file.named() && file.arrays().size() > 1) {
      for (const char* name : kLabelNames) {
        if (array.empty() && file.Find(name).has_value()) array = name;
      }
    }
    if (array.empty() && file.format() == DataFormat::kCsv && file.arrays().size() == 1)
      array = file.arrays()[0];
    absl::StatusOr<Column> part = array.empty() ? file.TakeSamples("") : file.Take(array);
    if (!part.ok()) return part.status();
    return Join(*std::move(part), whole);
  }

  const DataSpec& spec_;
  ReadOptions read_;
  Dataset data_;
  int64_t pending_bytes_ = 0;  // of columns that are not in data_ yet
};

}  // namespace

absl::StatusOr<std::vector<DataSource>> ParseSources(const std::string& text) {
  if (Exists(text)) return std::vector<DataSource>{SplitArray("", text)};
  std::vector<DataSource> sources;
  for (const std::string& item : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const size_t equals = item.find('=');
    std::string name = sources.empty() ? "" : sources.back().name;
    std::string file = item;
    if (equals != std::string::npos && !Exists(item)) {
      name = item.substr(0, equals);
      file = item.substr(equals + 1);
      if (!sources.empty() && sources.back().name.empty()) {
        return UsageError(absl::StrCat("'", text, "': '", sources[0].file, "' has no name, '", item,
                                       "' has one"));
      }
      if (name.empty()) return UsageError(absl::StrCat("'", text, "': a name is empty"));
    }
    if (file.empty()) return UsageError(absl::StrCat("'", text, "': a file name is empty"));
    sources.push_back(SplitArray(name, file));
  }
  return sources;
}

absl::StatusOr<Dataset> ReadDataset(const DataSpec& spec) {
  // The standard library's own memory is asked for without a Status.
  try {
    return DatasetReader(spec).Read();
  } catch (const std::bad_alloc&) {
    return DataTooLarge(spec.data, ": there is not enough memory to read it");
  } catch (const std::exception& e) {
    return DataError(spec.data, ": cannot be read: ", e.what());
  }
}

}  // namespace onward
