#include "backend/data/pickle.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/data/data_error.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

// CIFAR-100's 50,000 images take about 300,000 opcodes.
constexpr int64_t kMostOpcodes = 1 << 21;
constexpr int64_t kMostMemo = 1 << 21;
constexpr size_t kMostRank = 8;

enum Callable : int64_t { kReconstruct, kNdarray, kDtypeClass, kEncode, kFromBuffer, kBytesClass };

struct Accepted {
  const char* module;
  const char* name;
  Callable callable;
};
constexpr Accepted kAccepted[] = {
    {"numpy.core.multiarray", "_reconstruct", kReconstruct},
    {"numpy._core.multiarray", "_reconstruct", kReconstruct},
    {"numpy", "ndarray", kNdarray},
    {"numpy", "dtype", kDtypeClass},
    {"_codecs", "encode", kEncode},
    {"numpy.core.numeric", "_frombuffer", kFromBuffer},
    {"numpy._core.numeric", "_frombuffer", kFromBuffer},
    {"__builtin__", "bytes", kBytesClass},
    {"builtins", "bytes", kBytesClass},
    {"__builtin__", "bytearray", kBytesClass},
    {"builtins", "bytearray", kBytesClass},
};

}  // namespace

// A machine with a stack and a memo, as pickle's own documentation has it
// (CPython's Lib/pickletools.py).
class PickleParser {
 public:
  using Kind = Pickle::Kind;
  using Value = Pickle::Value;

  PickleParser(absl::string_view file, absl::string_view bytes) : file_(file), bytes_(bytes) {}

  absl::StatusOr<Pickle> Parse() {
    for (int64_t n = 0; !done_; ++n) {
      if (n == kMostOpcodes) return Error("more than 2^21 opcodes");
      op_at_ = at_;
      ASSIGN_OR_RETURN(const uint64_t op, Number(1));
      RETURN_IF_ERROR(Step(static_cast<unsigned char>(op)));
    }
    if (at_ != bytes_.size()) {
      op_at_ = at_;
      return Error("more follows behind the end of the pickle");
    }
    return std::move(out_);
  }

 private:
  template <typename... Parts>
  absl::Status Error(const Parts&... parts) const {
    return DataError(file_, ": byte ", op_at_, ": ", parts...);
  }

  absl::Status Step(unsigned char op) {
    switch (op) {
      case 0x80:
        return Protocol();
      case 0x95:  // FRAME: a hint for reading ahead
        return Number(8).status();
      case '.':
        return Stop();
      case 'U':
      case 'C':
        return Bytes(1, Kind::kBytes);
      case 'T':
      case 'B':
        return Bytes(4, Kind::kBytes);
      case 0x8e:
      case 0x96:
        return Bytes(8, Kind::kBytes);
      case 0x8c:
        return Bytes(1, Kind::kText);
      case 'X':
        return Bytes(4, Kind::kText);
      case 0x8d:
        return Bytes(8, Kind::kText);
      case 'N':
        return Push(Value());
      case 'K':
      case 'M':
      case 'J':
      case 0x88:
      case 0x89:
      case 0x8a:
        return Int(op);
      default:
        return StepContainer(op);
    }
  }

  absl::Status StepContainer(unsigned char op) {
    switch (op) {
      case '}':
        return PushKind(Kind::kDict);
      case ']':
        return PushKind(Kind::kList);
      case ')':
        return PushKind(Kind::kTuple);
      case 0x85:
      case 0x86:
      case 0x87:
        return Tuple(op - 0x84);
      case '(':
        marks_.push_back(stack_.size());
        return absl::OkStatus();
      case 't':
      case 'e':
      case 'u':
        return FromMark(op);
      case 'a':
        return Extend(Kind::kList, 1);
      case 's':
        return Extend(Kind::kDict, 2);
      case 'q':
        return Put(1);
      case 'r':
        return Put(4);
      case 0x94:
        return PutAt(memo_.size());
      case 'h':
        return Get(1);
      case 'j':
        return Get(4);
      case 'c':
      case 0x93:
        return Global(op);
      case 'R':
        return Reduce();
      case 'b':
        return Build();
      default:
        return Error("opcode ", static_cast<int>(op),
                     " is not read: CIFAR's batches hold none such");
    }
  }

  // A little-endian number of `size` bytes.
  absl::StatusOr<uint64_t> Number(size_t size) {
    if (bytes_.size() - at_ < size) return Error("the pickle ends in the middle");
    uint64_t v = 0;
    for (size_t i = 0; i < size; ++i)
      v |= uint64_t{static_cast<unsigned char>(bytes_[at_ + i])} << (8 * i);
    at_ += size;
    return v;
  }

  absl::StatusOr<absl::string_view> Slice(uint64_t length) {
    if (bytes_.size() - at_ < length) {
      return Error("a text of ", length, " bytes, but ", bytes_.size() - at_, " follow");
    }
    const absl::string_view s = bytes_.substr(at_, length);
    at_ += length;
    return s;
  }

  absl::StatusOr<absl::string_view> Line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == absl::string_view::npos) return Error("the pickle ends in the middle");
    const absl::string_view s = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return s;
  }

  absl::Status Protocol() {
    ASSIGN_OR_RETURN(const uint64_t version, Number(1));
    if (version < 2 || version > 5) return Error("pickle protocol ", version, "; 2 to 5 are read");
    return absl::OkStatus();
  }

  absl::Status Push(Value v) {
    out_.values_.push_back(std::move(v));
    stack_.push_back(static_cast<int32_t>(out_.values_.size() - 1));
    return absl::OkStatus();
  }
  absl::Status PushKind(Kind kind) {
    Value v;
    v.kind = kind;
    return Push(std::move(v));
  }

  // Values above the innermost mark: an opcode may not reach below it.
  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }
  absl::Status Need(size_t n) const {
    if (stack_.size() - Floor() < n)
      return Error("the stack holds fewer values than the opcode takes");
    return absl::OkStatus();
  }
  int32_t Pop() {
    const int32_t v = stack_.back();
    stack_.pop_back();
    return v;
  }
  Value& At(int32_t v) { return out_.values_[v]; }

  absl::Status Stop() {
    RETURN_IF_ERROR(Need(1));
    out_.root_ = Pop();
    done_ = true;
    return absl::OkStatus();
  }

  absl::Status Bytes(size_t length_size, Kind kind) {
    ASSIGN_OR_RETURN(const uint64_t length, Number(length_size));
    Value v;
    v.kind = kind;
    ASSIGN_OR_RETURN(v.bytes, Slice(length));
    return Push(std::move(v));
  }

  absl::Status Int(unsigned char op) {
    Value v;
    v.kind = Kind::kInt;
    if (op == 0x88 || op == 0x89) {
      v.number = op == 0x88;
      return Push(std::move(v));
    }
    uint64_t size = op == 'K' ? 1 : op == 'M' ? 2 : 4;
    const bool is_signed = op == 'J' || op == 0x8a;
    if (op == 0x8a) {
      ASSIGN_OR_RETURN(size, Number(1));
      if (size > 8) return Error("a number of ", size, " bytes; at most 8 are read");
    }
    ASSIGN_OR_RETURN(uint64_t bits, Number(size));
    if (is_signed && size > 0 && size < 8 && (bits >> (8 * size - 1)) != 0)
      bits |= ~uint64_t{0} << (8 * size);
    v.number = static_cast<int64_t>(bits);
    return Push(std::move(v));
  }

  absl::Status Tuple(size_t n) {
    RETURN_IF_ERROR(Need(n));
    Value v;
    v.kind = Kind::kTuple;
    v.items.assign(stack_.end() - n, stack_.end());
    stack_.resize(stack_.size() - n);
    return Push(std::move(v));
  }

  absl::Status FromMark(unsigned char op) {
    if (marks_.empty()) return Error("the stack has no mark");
    const size_t n = stack_.size() - marks_.back();
    marks_.pop_back();
    if (op == 't') return Tuple(n);
    return Extend(op == 'e' ? Kind::kList : Kind::kDict, n);
  }

  // The upper n values go into the list or dictionary below them.
  absl::Status Extend(Kind kind, size_t n) {
    RETURN_IF_ERROR(Need(n + 1));
    Value& target = At(stack_[stack_.size() - n - 1]);
    if (target.kind != kind) return Error("values for a list or dictionary, but there is none");
    if (kind == Kind::kDict && n % 2 != 0) return Error("a key without a value");
    target.items.insert(target.items.end(), stack_.end() - n, stack_.end());
    stack_.resize(stack_.size() - n);
    return absl::OkStatus();
  }

  absl::Status Put(size_t size) {
    ASSIGN_OR_RETURN(const uint64_t slot, Number(size));
    return PutAt(slot);
  }
  absl::Status PutAt(uint64_t slot) {
    RETURN_IF_ERROR(Need(1));
    if (slot >= kMostMemo) return Error("memo ", slot, "; at most 2^21 are read");
    if (slot >= memo_.size()) memo_.resize(slot + 1, -1);
    memo_[slot] = stack_.back();
    return absl::OkStatus();
  }
  absl::Status Get(size_t size) {
    ASSIGN_OR_RETURN(const uint64_t slot, Number(size));
    if (slot >= memo_.size() || memo_[slot] < 0) return Error("memo ", slot, " was never set");
    stack_.push_back(memo_[slot]);
    return absl::OkStatus();
  }

  absl::Status Global(unsigned char op) {
    absl::string_view module, name;
    if (op == 'c') {
      ASSIGN_OR_RETURN(module, Line());
      ASSIGN_OR_RETURN(name, Line());
    } else {
      RETURN_IF_ERROR(Need(2));
      name = At(Pop()).bytes;
      module = At(Pop()).bytes;
    }
    for (const Accepted& a : kAccepted) {
      if (module != a.module || name != a.name) continue;
      Value v;
      v.kind = Kind::kGlobal;
      v.number = a.callable;
      return Push(std::move(v));
    }
    return Error("asks for '", Printable(module), ".", Printable(name),
                 "'; only NumPy arrays of plain numbers are read");
  }

  static std::string Printable(absl::string_view text) {
    std::string out;
    for (char c : text.substr(0, 60)) out.push_back(c >= ' ' && c < 127 ? c : '?');
    return out;
  }

  bool Is(const Value& tuple, size_t i, Kind kind) const {
    return i < tuple.items.size() && out_.values_[tuple.items[i]].kind == kind;
  }

  bool IsShape(const Value& tuple, size_t i) const {
    return Is(tuple, i, Kind::kTuple) && out_.values_[tuple.items[i]].items.size() <= kMostRank;
  }

  absl::Status Reduce() {
    RETURN_IF_ERROR(Need(2));
    const int32_t args_at = Pop(), callable_at = Pop();
    if (At(callable_at).kind != Kind::kGlobal || At(args_at).kind != Kind::kTuple) {
      return Error("a call of what is no function");
    }
    const Value& args = At(args_at);  // until the first Push
    Value v;
    switch (At(callable_at).number) {
      case kReconstruct:
        if (!Is(args, 0, Kind::kGlobal) || At(args.items[0]).number != kNdarray) break;
        return PushKind(Kind::kArray);
      case kDtypeClass:
        if (!Is(args, 0, Kind::kBytes) && !Is(args, 0, Kind::kText)) break;
        v.kind = Kind::kDtype;
        v.bytes = At(args.items[0]).bytes;
        return Push(std::move(v));
      case kEncode:
        if (!Is(args, 0, Kind::kText) || args.items.size() != 2 ||
            At(args.items[1]).bytes != "latin1")
          break;
        return Latin1(At(args.items[0]).bytes);
      case kFromBuffer:
        if (!Is(args, 0, Kind::kBytes) || !Is(args, 1, Kind::kDtype) || !IsShape(args, 2)) break;
        v.kind = Kind::kArray;
        v.data = args.items[0];
        v.dtype = args.items[1];
        v.items = At(args.items[2]).items;
        v.fortran = args.items.size() > 3 && At(args.items[3]).bytes == "F";
        return Push(std::move(v));
      case kBytesClass:
        v.kind = Kind::kBytes;
        if (args.items.empty()) return Push(std::move(v));
        if (!Is(args, 0, Kind::kBytes)) break;
        stack_.push_back(args.items[0]);
        return absl::OkStatus();
    }
    return Error("a call with arguments that no NumPy array is made of");
  }

  // Python 3 writes bytes in protocol 2 as text of the same code points.
  absl::Status Latin1(absl::string_view utf8) {
    std::string out;
    for (size_t i = 0; i < utf8.size(); ++i) {
      const unsigned char c = utf8[i];
      if (c < 0x80) {
        out.push_back(utf8[i]);
        continue;
      }
      const unsigned char next = i + 1 < utf8.size() ? utf8[i + 1] : 0;
      if ((c != 0xc2 && c != 0xc3) || (next & 0xc0) != 0x80)
        return Error("bytes encoded as text are damaged");
      out.push_back(static_cast<char>((c & 3) << 6 | (next & 0x3f)));
      ++i;
    }
    // Views of short strings would dangle when the vector grows: each is given
    // room outside of the string object.
    out.reserve(64);
    out_.decoded_.push_back(std::move(out));
    Value v;
    v.kind = Kind::kBytes;
    v.bytes = out_.decoded_.back();
    return Push(std::move(v));
  }

  absl::Status Build() {
    RETURN_IF_ERROR(Need(2));
    const int32_t state_at = Pop();
    const Value& state = At(state_at);
    Value& target = At(stack_.back());
    if (target.kind == Kind::kDtype && state.kind == Kind::kTuple && state.items.size() >= 2) {
      target.big_endian = At(state.items[1]).bytes == ">";
      return absl::OkStatus();
    }
    if (target.kind == Kind::kArray && IsShape(state, 1) && Is(state, 2, Kind::kDtype) &&
        Is(state, 3, Kind::kInt) && Is(state, 4, Kind::kBytes)) {
      target.items = At(state.items[1]).items;
      target.dtype = state.items[2];
      target.fortran = At(state.items[3]).number != 0;
      target.data = state.items[4];
      return absl::OkStatus();
    }
    return Error("a state that no NumPy array of plain numbers has");
  }

  absl::string_view file_;
  absl::string_view bytes_;
  size_t at_ = 0;
  size_t op_at_ = 0;
  bool done_ = false;
  Pickle out_;
  std::vector<int32_t> stack_;
  std::vector<size_t> marks_;
  std::vector<int32_t> memo_;
};

absl::StatusOr<Pickle> Pickle::Parse(absl::string_view file, absl::string_view bytes) {
  return PickleParser(file, bytes).Parse();
}

const Pickle::Value* Pickle::Find(const Value& dict, absl::string_view key) const {
  if (dict.kind != Kind::kDict) return nullptr;
  for (size_t i = dict.items.size(); i >= 2; i -= 2) {
    const Value& k = values_[dict.items[i - 2]];
    if ((k.kind == Kind::kBytes || k.kind == Kind::kText) && k.bytes == key)
      return &values_[dict.items[i - 1]];
  }
  return nullptr;
}

}  // namespace onward
