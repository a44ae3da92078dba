#include "graph/base/string_ref.h"

#include "absl/container/node_hash_set.h"
#include "absl/synchronization/mutex.h"

namespace onward {
namespace {

struct Pool {
  absl::Mutex mutex;
  absl::node_hash_set<std::string> strings;  // whose addresses stay
};

Pool& ThePool() {
  static Pool* const pool = new Pool;  // never destroyed: handles live as long as the process
  return *pool;
}

}  // namespace

StringRef StringRef::Of(absl::string_view text) {
  if (text.empty()) return {};
  Pool& pool = ThePool();
  absl::MutexLock lock(&pool.mutex);
  const std::string& kept = *pool.strings.emplace(text).first;
  return {static_cast<uint64_t>(reinterpret_cast<uintptr_t>(&kept))};
}

const std::string& StringRef::text() const {
  static const std::string* const empty = new std::string;
  return handle == 0 ? *empty
                     : *reinterpret_cast<const std::string*>(static_cast<uintptr_t>(handle));
}

}  // namespace onward
