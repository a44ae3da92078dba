// Structured mutations of models, by protobuf's reflection.
#include <random>
#include <vector>

#include "google/protobuf/message.h"
#include "graph/onnx/hostile_models.h"
#include "onnx/onnx_pb.h"

namespace onward {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

class Mutation {
 public:
  explicit Mutation(uint64_t seed) : random_(seed) {}

  std::string Apply(const std::string& bytes) {
    onnx::ModelProto model;
    if (Below(8) == 0 || !model.ParseFromString(bytes)) return OnBytes(bytes);
    const uint64_t changes = 1 + Below(3);
    for (uint64_t i = 0; i < changes; ++i) {
      std::vector<Message*> messages;
      Collect(&model, &messages);
      Change(messages[Below(messages.size())]);
    }
    return model.SerializePartialAsString();
  }

 private:
  uint64_t Below(uint64_t n) { return n == 0 ? 0 : random_() % n; }

  std::string OnBytes(std::string bytes) {
    const uint64_t changes = 1 + Below(4);
    for (uint64_t i = 0; i < changes && !bytes.empty(); ++i) {
      const size_t at = Below(bytes.size());
      switch (Below(4)) {
        case 0:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << Below(8)));
          break;
        case 1:
          bytes[at] = static_cast<char>(Below(256));
          break;
        case 2:
          bytes.resize(at);
          break;
        default:
          bytes.insert(at, bytes.substr(Below(bytes.size()), Below(16)));
      }
    }
    return bytes;
  }

  // All messages inside, some of the names and words in them too.
  void Collect(Message* message, std::vector<Message*>* out) {
    out->push_back(message);
    const Reflection* r = message->GetReflection();
    std::vector<const FieldDescriptor*> fields;
    r->ListFields(*message, &fields);
    for (const FieldDescriptor* f : fields) {
      if (f->cpp_type() == FieldDescriptor::CPPTYPE_STRING && words_.size() < 4096) {
        const int n = f->is_repeated() ? r->FieldSize(*message, f) : 1;
        for (int i = 0; i < n; ++i) {
          const std::string word =
              f->is_repeated() ? r->GetRepeatedString(*message, f, i) : r->GetString(*message, f);
          if (word.size() < 64) words_.push_back(word);
        }
      }
      if (f->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      if (!f->is_repeated()) {
        Collect(r->MutableMessage(message, f), out);
        continue;
      }
      for (int i = 0; i < r->FieldSize(*message, f); ++i) {
        Collect(r->MutableRepeatedMessage(message, f, i), out);
      }
    }
  }

  int64_t Number() {
    static constexpr int64_t kNumbers[] = {
        0, 1, 2, 3, -1, -2, 7, 16, 100, 1000, 65536, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    if (Below(4) == 0) return (int64_t{1} << Below(63)) + static_cast<int64_t>(Below(3)) - 1;
    return kNumbers[Below(sizeof(kNumbers) / sizeof(kNumbers[0]))];
  }

  std::string Word() {
    static constexpr const char* kWords[] = {"",
                                             "x",
                                             "Relu",
                                             "MatMul",
                                             "Reshape",
                                             "Concat",
                                             "Conv",
                                             "Gather",
                                             "Slice",
                                             "Pad",
                                             "Expand",
                                             "Dropout",
                                             "Identity",
                                             "Cast",
                                             "Split",
                                             "Squeeze",
                                             "Clip",
                                             "MaxPool",
                                             "Shape",
                                             "Constant",
                                             "Tile",
                                             "Range",
                                             "Softmax",
                                             "Resize",
                                             "Gemm",
                                             "ConstantOfShape",
                                             "Transpose",
                                             "axis",
                                             "Sum",
                                             "Add",
                                             "If",
                                             "Loop",
                                             "BatchNormalization",
                                             "Flatten",
                                             "onward",
                                             "axes",
                                             "to",
                                             "Where",
                                             "Unsqueeze",
                                             "ReduceSum",
                                             "GatherND",
                                             "Hardmax"};
    if (!words_.empty() && Below(3) != 0) return words_[Below(words_.size())];
    return kWords[Below(sizeof(kWords) / sizeof(kWords[0]))];
  }

  // One field of `message` set, removed, repeated or exchanged.
  void Change(Message* message) {
    const auto* descriptor = message->GetDescriptor();
    const Reflection* r = message->GetReflection();
    std::vector<const FieldDescriptor*> present;
    r->ListFields(*message, &present);
    const FieldDescriptor* f =
        !present.empty() && Below(4) != 0
            ? present[Below(present.size())]
            : descriptor->field(static_cast<int>(Below(descriptor->field_count())));
    if (f->is_repeated()) {
      ChangeRepeated(message, f);
    } else if (Below(6) == 0) {
      r->ClearField(message, f);
    } else {
      Set(message, f, -1);
    }
  }

  void ChangeRepeated(Message* message, const FieldDescriptor* f) {
    const Reflection* r = message->GetReflection();
    const int n = r->FieldSize(*message, f);
    const uint64_t what = n == 0 ? 3 : Below(5);
    if (what == 0) {
      r->RemoveLast(message, f);
    } else if (what == 1) {
      r->SwapElements(message, f, static_cast<int>(Below(n)), static_cast<int>(Below(n)));
    } else if (what == 2) {
      r->ClearField(message, f);
    } else {
      Set(message, f, what == 3 ? n : static_cast<int>(Below(n)));
    }
  }

  // index -1: a single field; the number of elements: one more.
  void Set(Message* message, const FieldDescriptor* f, int index) {
    const Reflection* r = message->GetReflection();
    const bool more = index >= 0 && index == r->FieldSize(*message, f);
    switch (f->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT64: {
        const int64_t v = Number();
        if (index < 0)
          r->SetInt64(message, f, v);
        else if (more)
          r->AddInt64(message, f, v);
        else
          r->SetRepeatedInt64(message, f, index, v);
        return;
      }
      case FieldDescriptor::CPPTYPE_INT32: {
        const int32_t v =
            static_cast<int32_t>(Below(2) == 0 ? static_cast<int64_t>(Below(24)) : Number());
        if (index < 0)
          r->SetInt32(message, f, v);
        else if (more)
          r->AddInt32(message, f, v);
        else
          r->SetRepeatedInt32(message, f, index, v);
        return;
      }
      case FieldDescriptor::CPPTYPE_FLOAT: {
        const float v = static_cast<float>(Number());
        if (index < 0)
          r->SetFloat(message, f, v);
        else if (more)
          r->AddFloat(message, f, v);
        else
          r->SetRepeatedFloat(message, f, index, v);
        return;
      }
      case FieldDescriptor::CPPTYPE_STRING: {
        std::string v = Word();
        if (index < 0)
          r->SetString(message, f, std::move(v));
        else if (more)
          r->AddString(message, f, std::move(v));
        else
          r->SetRepeatedString(message, f, index, std::move(v));
        return;
      }
      case FieldDescriptor::CPPTYPE_ENUM: {
        const auto* type = f->enum_type();
        const auto* v = type->value(static_cast<int>(Below(type->value_count())));
        if (index < 0)
          r->SetEnum(message, f, v);
        else if (more)
          r->AddEnum(message, f, v);
        else
          r->SetRepeatedEnum(message, f, index, v);
        return;
      }
      case FieldDescriptor::CPPTYPE_MESSAGE:
        SetMessage(message, f, index);
        return;
      default:
        return;
    }
  }

  // A copy of another element, or an empty one.
  void SetMessage(Message* message, const FieldDescriptor* f, int index) {
    const Reflection* r = message->GetReflection();
    if (index < 0) {
      if (f->message_type() != message->GetDescriptor()) r->MutableMessage(message, f);
      return;
    }
    const int n = r->FieldSize(*message, f);
    Message* added = r->AddMessage(message, f);
    if (n == 0 || Below(8) == 0) return;
    added->CopyFrom(r->GetRepeatedMessage(*message, f, static_cast<int>(Below(n))));
    r->SwapElements(message, f, n, static_cast<int>(Below(n + 1)));
  }

  std::mt19937_64 random_;
  std::vector<std::string> words_;
};

}  // namespace

std::string MutatedModel(const std::string& bytes, uint64_t seed) {
  return Mutation(seed).Apply(bytes);
}

}  // namespace onward
