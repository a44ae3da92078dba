#include <zip.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backend/data/data_error.h"
#include "backend/data/npy.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

constexpr zip_int64_t kMostEntries = 10000;

struct ZipCloser {
  void operator()(zip_t* z) const { zip_discard(z); }
};
struct MemberCloser {
  void operator()(zip_file_t* f) const { zip_fclose(f); }
};
using ZipArchive = std::unique_ptr<zip_t, ZipCloser>;

absl::StatusOr<ZipArchive> OpenZip(const std::string& path) {
  // First as a file of ours: its errors are clearer than libzip's.
  RETURN_IF_ERROR(File::Open(path).status());
  int code = 0;
  zip_t* z = zip_open(path.c_str(), ZIP_RDONLY, &code);
  if (z == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string text = zip_error_strerror(&error);
    zip_error_fini(&error);
    return DataError(path, ": cannot be read as .npz (zip): ", text);
  }
  ZipArchive archive(z);
  if (zip_get_num_entries(z, 0) > kMostEntries) {
    return DataError(path, ": has ", zip_get_num_entries(z, 0), " arrays; at most ", kMostEntries,
                     " are read");
  }
  return archive;
}

// One member, as the stream of bytes that its .npy is.
class MemberReader final : public ByteReader {
 public:
  static absl::StatusOr<std::unique_ptr<ByteReader>> Open(const std::string& path, zip_t* z,
                                                          zip_uint64_t index) {
    zip_stat_t stat;
    if (zip_stat_index(z, index, 0, &stat) != 0 || (stat.valid & ZIP_STAT_SIZE) == 0 ||
        (stat.valid & ZIP_STAT_COMP_SIZE) == 0 || (stat.valid & ZIP_STAT_COMP_METHOD) == 0) {
      return DataError(path, ": member ", index, " of the zip is damaged");
    }
    const std::string name = absl::StrCat(path, ":", stat.name == nullptr ? "" : stat.name);
    if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE) {
      return DataError(name, ": is compressed by method ", stat.comp_method,
                       "; stored and deflated arrays are read");
    }
    constexpr zip_uint64_t kMost = zip_uint64_t{1} << 50;
    const int64_t compressed = std::min(stat.comp_size, kMost);
    const int64_t declared = std::min(stat.size, kMost);
    const int64_t most = stat.comp_method == ZIP_CM_STORE ? compressed : MostInflated(compressed);
    if (declared > most) {
      return DataError(name, ": declares ", stat.size, " bytes, but its ", stat.comp_size,
                       " compressed ones give at most ", most);
    }
    zip_file_t* file = zip_fopen_index(z, index, 0);
    if (file == nullptr) return DataError(name, ": cannot be read: ", zip_strerror(z));
    return std::unique_ptr<ByteReader>(new MemberReader(name, declared, file));
  }

 protected:
  absl::StatusOr<int64_t> Fill(char* to, int64_t bytes) override {
    const zip_int64_t got = zip_fread(file_.get(), to, static_cast<zip_uint64_t>(bytes));
    if (got < 0) {
      return DataError(name(), ": byte ", offset(),
                       ": cannot be inflated: ", zip_file_strerror(file_.get()));
    }
    return got;
  }

 private:
  MemberReader(std::string name, int64_t bytes, zip_file_t* file)
      : ByteReader(std::move(name), bytes, /*exact=*/true), file_(file) {}
  std::unique_ptr<zip_file_t, MemberCloser> file_;
};

std::string ArrayName(const std::string& member) {
  return absl::EndsWith(member, ".npy") ? member.substr(0, member.size() - 4) : member;
}

}  // namespace

absl::StatusOr<std::vector<NpzEntry>> ListNpz(const std::string& path) {
  ASSIGN_OR_RETURN(const ZipArchive archive, OpenZip(path));
  std::vector<NpzEntry> entries;
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* member = zip_get_name(archive.get(), i, ZIP_FL_ENC_RAW);
    if (member == nullptr) return DataError(path, ": member ", i, " of the zip has no name");
    if (!absl::EndsWith(member, ".npy")) {
      return DataError(path, ": holds '", member, "'; an .npz holds .npy files only");
    }
    ASSIGN_OR_RETURN(std::unique_ptr<ByteReader> reader,
                     MemberReader::Open(path, archive.get(), i));
    NpzEntry entry;
    entry.name = ArrayName(member);
    ASSIGN_OR_RETURN(entry.header, ReadNpyHeader(*reader));
    entries.push_back(std::move(entry));
  }
  if (entries.empty()) return DataError(path, ": holds no array");
  return entries;
}

absl::StatusOr<Column> ReadNpzArray(const std::string& path, const std::string& array,
                                    const ReadOptions& options) {
  ASSIGN_OR_RETURN(const ZipArchive archive, OpenZip(path));
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  std::string names;
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* member = zip_get_name(archive.get(), i, ZIP_FL_ENC_RAW);
    if (member == nullptr) continue;
    if (ArrayName(member) != array) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", ArrayName(member));
      continue;
    }
    ASSIGN_OR_RETURN(std::unique_ptr<ByteReader> reader,
                     MemberReader::Open(path, archive.get(), i));
    return ReadNpy(*reader, array, options);
  }
  return DataError(path, ": has no array '", array, "'; it has ", names.empty() ? "none" : names);
}

}  // namespace onward
