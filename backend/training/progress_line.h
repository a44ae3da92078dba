// The lines that tell how training goes: one per epoch.
#ifndef ONWARD_BACKEND_TRAINING_PROGRESS_LINE_H_
#define ONWARD_BACKEND_TRAINING_PROGRESS_LINE_H_

#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace onward {

// What is shown, in order: ("loss", 0.31), ("accuracy", 0.88), ("val_loss", 0.4).
using NamedNumbers = std::vector<std::pair<std::string, double>>;

// The progress of one run:
//   terminal  one line per epoch, rewritten in place while it runs:
//             epoch 2/5 [=======>      ] 240/469  loss 0.3456  accuracy 0.8765  52300 samples/s  9
//             s left
//   plain     one line at the end of an epoch:
//             epoch 2/5  469 steps  1.2 s  loss 0.3400  val_loss 0.3601  52300 samples/s  4 s left
//   JSON      one object at the end of an epoch, with "event":"epoch"
// "left" is the time to the end of the run. It reads no clock: `now` is seconds of
// any clock that does not go back. Not thread-safe. Costs microseconds per step.
class ProgressLine {
 public:
  enum class Style { kTerminal, kPlain, kJson };
  // Takes text as it is to be shown, newlines included.
  using Write = std::function<void(absl::string_view)>;

  // What suits `file`: JSON where asked for, else by whether it is a terminal that
  // can rewrite a line.
  static Style StyleFor(std::FILE* file, bool json);
  // Columns of the terminal; 80 where that is not known.
  static int ColumnsOf(std::FILE* file);

  // REQUIRES: epochs >= 1, columns >= 1 (used by kTerminal only).
  ProgressLine(Style style, int64_t epochs, int columns, Write write);

  // An epoch (from 1) of `steps` steps begins. `first_step` have been done before,
  // by a run that this one resumes. REQUIRES: 1 <= epoch <= epochs.
  void BeginEpoch(int64_t epoch, int64_t steps, int64_t first_step, double now);

  // `step` steps of the epoch are done, with `samples` samples since BeginEpoch;
  // `numbers` so far in this epoch. Ten lines per second are drawn at most.
  // REQUIRES: BeginEpoch before.
  void Step(int64_t step, int64_t samples, const NamedNumbers& numbers, double now);

  // The learning rate of the step that is told next, shown from then on, at the end of
  // an epoch that of its last step. For runs whose rate changes; others leave it out.
  void LearningRate(double rate) { learning_rate_ = rate; }

  // Training of the epoch is over, validation begins: its time does not count in
  // samples/s. Without validation it need not be called.
  void EndSteps(double now);

  // The epoch is over; `numbers` are its own, with those of validation. `last`: no
  // other epoch follows, whatever was planned (early stopping).
  void EndEpoch(const NamedNumbers& numbers, bool last, double now);

  // One line of text between: checkpoints, callbacks. In JSON {"event":"note",...}.
  void Note(absl::string_view text);

 private:
  // Ends a line that is being rewritten.
  void BreakLine();
  // "52300 samples/s", by the samples and the time of this epoch's steps.
  double SamplesPerSecond() const;
  // To the end of the run; negative where nothing is known yet.
  double SecondsLeft(double now) const;
  // The numbers and, where it is told, the learning rate.
  std::string Numbers(const NamedNumbers& numbers) const;
  void Draw(const NamedNumbers& numbers, double now);
  void WriteEpoch(const NamedNumbers& numbers, double now);
  void WriteJsonEpoch(const NamedNumbers& numbers, double now);

  const Style style_;
  const int64_t epochs_;
  const int columns_;
  const Write write_;

  int64_t epoch_ = 0;
  int64_t steps_ = 0;
  int64_t first_step_ = 0;
  int64_t step_ = 0;
  int64_t samples_ = 0;
  double begun_ = 0;    // when the epoch began
  double trained_ = 0;  // seconds of its steps so far
  bool steps_over_ = false;
  bool last_ = false;
  bool drawn_ = false;  // a line is on the terminal, without newline
  double drawn_at_ = 0;
  double epoch_seconds_ = -1;  // of the last whole epoch; negative: none yet
  std::optional<double> learning_rate_;
};

// "0.3456"; "1.234e-07" where that says more; "nan", "inf".
std::string FormatNumber(double value);

// "0.001", "0.000125", "1e-06": four digits that count.
std::string FormatLearningRate(double rate);

// "0.4 s", "12 s", "3 min 05 s", "2 h 03 min", "4 d 03 h". REQUIRES: seconds >= 0.
std::string FormatSeconds(double seconds);

}  // namespace onward

#endif  // ONWARD_BACKEND_TRAINING_PROGRESS_LINE_H_
