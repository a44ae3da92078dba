#include "tools/onward/dump.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/text.h"
#include "graph/plan/plan.h"

namespace onward {

StageObserver DumpStages(const RunConfig& config) {
  if (config.dump.empty()) return nullptr;
  auto written = std::make_shared<absl::flat_hash_set<std::string>>();
  return
      [names = config.dump, folder = config.dump_dir, written](const Stage& stage) -> absl::Status {
        const bool wanted = std::any_of(names.begin(), names.end(), [&](const std::string& s) {
          return s == stage.name || s == "all";
        });
        if (!wanted || !written->insert(stage.name).second) return absl::OkStatus();
        std::error_code error;
        std::filesystem::create_directories(folder, error);
        const std::string base = absl::StrCat(folder, "/", stage.name);
        if (stage.graph != nullptr) RETURN_IF_ERROR(WriteOnnx(*stage.graph, base + ".onnx"));
        std::ofstream text(base + ".txt");
        text << (stage.graph != nullptr ? ToText(*stage.graph) : ToText(*stage.plan)) << "\n";
        if (!text.flush()) {
          return WithExitCode(absl::UnavailableError(absl::StrCat(base, ".txt: cannot be written")),
                              ExitCode::kOutput);
        }
        return absl::OkStatus();
      };
}

}  // namespace onward
