#include "graph/ops/differentiability.h"

namespace onward {

const std::vector<InputNote>& InputNotes() {
  static constexpr char kUntagged[] = "the schema does not say; the output moves with it";
  static constexpr char kMoves[] = "the schema says no, but the output moves with it";
  static constexpr char kSetting[] =
      "the output moves with it, but class weights are no parameters";
  static const auto* const notes = new std::vector<InputNote>{
      // Said to be differentiable, and not so.
      {"BatchNormalization", "input_mean", false, "a running statistic, which is not trained"},
      {"BatchNormalization", "input_var", false, "a running statistic, which is not trained"},
      {"Hardmax", "input", false, "a step function: its derivative is zero"},
      // Said not to be; asked for, a gradient is refused and not taken for zero.
      {"NegativeLogLikelihoodLoss", "weight", false, kSetting},
      {"SoftmaxCrossEntropyLoss", "weights", false, kSetting},
      // Said not to be, and so all the same.
      {"AffineGrid", "theta", true, kMoves},
      {"CausalConvWithState", "past_state", true, kMoves},
      {"Clip", "min", true, kMoves},
      {"Clip", "max", true, kMoves},
      {"DFT", "input", true, kMoves},
      {"GRU", "initial_h", true, kMoves},
      {"GridSample", "grid", true, kMoves},
      {"LSTM", "initial_h", true, kMoves},
      {"LSTM", "initial_c", true, kMoves},
      {"LinearAttention", "past_state", true, kMoves},
      {"Mod", "B", true, kMoves},
      {"OneHot", "values", true, kMoves},
      {"Pad", "constant_value", true, kMoves},
      {"RNN", "initial_h", true, kMoves},
      {"STFT", "signal", true, kMoves},
      {"STFT", "window", true, kMoves},
      // Not said.
      {"Attention", "Q", true, kUntagged},
      {"Attention", "K", true, kUntagged},
      {"Attention", "V", true, kUntagged},
      {"Attention", "attn_mask", true, kUntagged},
      {"Attention", "past_key", true, kUntagged},
      {"Attention", "past_value", true, kUntagged},
      {"DeformConv", "X", true, kUntagged},
      {"DeformConv", "W", true, kUntagged},
      {"DeformConv", "offset", true, kUntagged},
      {"DeformConv", "B", true, kUntagged},
      {"DeformConv", "mask", true, kUntagged},
      {"DequantizeLinear", "x_scale", true, kUntagged},
      {"LayerNormalization", "X", true, kUntagged},
      {"LayerNormalization", "Scale", true, kUntagged},
      {"LayerNormalization", "B", true, kUntagged},
      {"RMSNormalization", "X", true, kUntagged},
      {"RMSNormalization", "scale", true, kUntagged},
      {"ReverseSequence", "input", true, kUntagged},
      {"RoiAlign", "X", true, kUntagged},
      {"RoiAlign", "rois", true, kUntagged},
      {"RotaryEmbedding", "X", true, kUntagged},
      {"RotaryEmbedding", "cos_cache", true, kUntagged},
      {"RotaryEmbedding", "sin_cache", true, kUntagged},
      {"Loop", "v_initial", true, kUntagged},
      {"Scan", "initial_state_and_scan_inputs", true, kUntagged},
      {"SequenceConstruct", "inputs", true, kUntagged},
      {"SequenceInsert", "tensor", true, kUntagged},
      {"SequenceAt", "input_sequence", true, kUntagged},
      {"SplitToSequence", "input", true, kUntagged},
      {"ConcatFromSequence", "input_sequence", true, kUntagged},
  };
  return *notes;
}

const InputNote* FindInputNote(absl::string_view op, absl::string_view input) {
  for (const InputNote& note : InputNotes()) {
    if (note.op == op && note.input == input) return &note;
  }
  return nullptr;
}

bool IsDifferentiable(absl::string_view op, const FormalInput& input) {
  const InputNote* note = FindInputNote(op, input.name);
  return note != nullptr ? note->differentiable : input.tag == FormalInput::Tag::kDifferentiable;
}

const std::vector<AbsentOperator>& AbsentOperators() {
  static constexpr char kFlow[] =
      "taken apart when the model is read, where its course is known; its parts are "
      "differentiated";
  static constexpr char kSequence[] =
      "sequences and optionals are lists of values when the model is read, and are gone after it";
  static const auto* const absent = new std::vector<AbsentOperator>{
      {"ConcatFromSequence", true, kSequence},
      {"If", true, kFlow},
      {"Loop", true, kFlow},
      {"Optional", true, kSequence},
      {"OptionalGetElement", true, kSequence},
      {"OptionalHasElement", true, kSequence},
      {"Scan", true, kFlow},
      {"SequenceAt", true, kSequence},
      {"SequenceConstruct", true, kSequence},
      {"SequenceEmpty", true, kSequence},
      {"SequenceErase", true, kSequence},
      {"SequenceInsert", true, kSequence},
      {"SequenceLength", true, kSequence},
      {"SequenceMap", true, kFlow},
      {"SplitToSequence", true, kSequence},
  };
  return *absent;
}

}  // namespace onward
