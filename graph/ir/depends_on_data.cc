#include "graph/ir/depends_on_data.h"

#include "absl/strings/str_cat.h"

namespace onward {
namespace {

constexpr char kMark[] = "onward/depends_on_data";

}  // namespace

absl::Status DependsOnData(absl::string_view what) {
  absl::Status status = absl::UnimplementedError(absl::StrCat(what, " depends on data"));
  status.SetPayload(kMark, absl::Cord(""));
  return status;
}

bool IsDependsOnData(const absl::Status& status) { return status.GetPayload(kMark).has_value(); }

}  // namespace onward
