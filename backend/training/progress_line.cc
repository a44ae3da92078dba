#include "backend/training/progress_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace onward {
namespace {

constexpr double kDrawEvery = 0.1;  // seconds

// Anything from outside (a name of an output) in valid UTF-8.
std::string ToLine(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', false, nlohmann::detail::error_handler_t::replace) + "\n";
}

std::string FormatRate(double samples_per_second) {
  if (samples_per_second < 100) return absl::StrFormat("%.3g samples/s", samples_per_second);
  return absl::StrFormat("%.0f samples/s", samples_per_second);
}

std::string FormatNumbers(const NamedNumbers& numbers) {
  std::string out;
  for (const auto& [name, value] : numbers) {
    absl::StrAppend(&out, "  ", name, " ", FormatNumber(value));
  }
  return out;
}

// "[====>    ]", `width` characters between the brackets.
std::string Bar(int64_t step, int64_t steps, int width) {
  const double share = steps > 0 ? static_cast<double>(step) / static_cast<double>(steps) : 1.0;
  const int full = std::clamp(static_cast<int>(share * width), 0, width);
  std::string bar(full, '=');
  if (full < width) bar += '>';
  bar.resize(width, ' ');
  return absl::StrCat("[", bar, "]");
}

}  // namespace

std::string FormatNumber(double value) {
  const double size = std::fabs(value);
  if (std::isfinite(value) && value != 0 && (size < 1e-3 || size >= 1e6)) {
    return absl::StrFormat("%.3e", value);
  }
  return absl::StrFormat("%.4f", value);
}

std::string FormatLearningRate(double rate) { return absl::StrFormat("%.4g", rate); }

std::string FormatSeconds(double seconds) {
  if (seconds < 9.95) return absl::StrFormat("%.1f s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(std::min(seconds, 1e15)));
  if (whole < 60) return absl::StrCat(whole, " s");
  if (whole < 3600) return absl::StrFormat("%d min %02d s", whole / 60, whole % 60);
  if (whole < 86400) return absl::StrFormat("%d h %02d min", whole / 3600, whole / 60 % 60);
  return absl::StrFormat("%d d %02d h", whole / 86400, whole / 3600 % 24);
}

ProgressLine::Style ProgressLine::StyleFor(std::FILE* file, bool json) {
  if (json) return Style::kJson;
  const char* terminal = std::getenv("TERM");
  const bool rewrites = isatty(fileno(file)) == 1 && terminal != nullptr &&
                        absl::string_view(terminal) != "dumb" && *terminal != '\0';
  return rewrites ? Style::kTerminal : Style::kPlain;
}

int ProgressLine::ColumnsOf(std::FILE* file) {
  winsize size = {};
  if (ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

ProgressLine::ProgressLine(Style style, int64_t epochs, int columns, Write write)
    : style_(style), epochs_(epochs), columns_(columns), write_(std::move(write)) {}

void ProgressLine::BeginEpoch(int64_t epoch, int64_t steps, int64_t first_step, double now) {
  BreakLine();
  epoch_ = epoch;
  steps_ = steps;
  first_step_ = step_ = first_step;
  samples_ = 0;
  begun_ = now;
  trained_ = 0;
  steps_over_ = last_ = false;
  drawn_at_ = now - kDrawEvery;
}

void ProgressLine::Step(int64_t step, int64_t samples, const NamedNumbers& numbers, double now) {
  step_ = step;
  samples_ = samples;
  trained_ = now - begun_;
  if (style_ != Style::kTerminal || now - drawn_at_ < kDrawEvery) return;
  Draw(numbers, now);
}

void ProgressLine::EndSteps(double now) {
  trained_ = now - begun_;
  steps_over_ = true;
}

void ProgressLine::EndEpoch(const NamedNumbers& numbers, bool last, double now) {
  if (!steps_over_) EndSteps(now);
  last_ = last || epoch_ == epochs_;
  // A part of an epoch, after a resume, would promise too little for the next.
  if (first_step_ == 0) epoch_seconds_ = now - begun_;
  if (style_ == Style::kJson) {
    WriteJsonEpoch(numbers, now);
  } else {
    WriteEpoch(numbers, now);
  }
}

void ProgressLine::Note(absl::string_view text) {
  if (style_ == Style::kJson) {
    write_(ToLine({{"event", "note"}, {"text", std::string(text)}}));
    return;
  }
  // What was drawn of the epoch is drawn again below by the next step.
  if (drawn_) write_("\r\x1b[K");
  drawn_ = false;
  write_(absl::StrCat(text, "\n"));
}

void ProgressLine::BreakLine() {
  if (drawn_) write_("\n");
  drawn_ = false;
}

double ProgressLine::SamplesPerSecond() const {
  return trained_ > 0 ? static_cast<double>(samples_) / trained_ : 0.0;
}

double ProgressLine::SecondsLeft(double now) const {
  if (last_) return 0;
  const int64_t done = step_ - first_step_;
  const double spent = now - begun_;
  const double epoch_steps = static_cast<double>(steps_ - first_step_);
  // This epoch's own pace; the last epoch's length, which has validation in it,
  // where there was one.
  double epoch = epoch_seconds_;
  double rest = 0;
  if (step_ < steps_) {
    if (done <= 0 || spent <= 0) return -1;
    rest = spent / static_cast<double>(done) * static_cast<double>(steps_ - step_);
  }
  if (epoch < 0) {
    if (epoch_steps <= 0) return epoch_ == epochs_ ? rest : -1;
    epoch = (spent + rest) * static_cast<double>(steps_) / epoch_steps;
  }
  return rest + epoch * static_cast<double>(epochs_ - epoch_);
}

std::string ProgressLine::Numbers(const NamedNumbers& numbers) const {
  std::string out = FormatNumbers(numbers);
  if (learning_rate_.has_value()) {
    absl::StrAppend(&out, "  learning rate ", FormatLearningRate(*learning_rate_));
  }
  return out;
}

void ProgressLine::Draw(const NamedNumbers& numbers, double now) {
  const std::string front = absl::StrCat("epoch ", epoch_, "/", epochs_, " ");
  std::string back =
      absl::StrCat(" ", step_, "/", steps_, Numbers(numbers), "  ", FormatRate(SamplesPerSecond()));
  const double left = SecondsLeft(now);
  if (left >= 0) absl::StrAppend(&back, "  ", FormatSeconds(left), " left");
  // The last column stays free: some terminals wrap when it is written.
  const int room = columns_ - 1 - static_cast<int>(front.size() + back.size()) - 2;
  std::string line = front;
  if (room >= 5) line += Bar(step_, steps_, std::min(room, 30));
  line += back;
  line.resize(std::min(line.size(), static_cast<size_t>(columns_ - 1)));
  write_(absl::StrCat("\r", line, "\x1b[K"));
  drawn_ = true;
  drawn_at_ = now;
}

void ProgressLine::WriteEpoch(const NamedNumbers& numbers, double now) {
  std::string line = absl::StrCat(
      "epoch ", epoch_, "/", epochs_, "  ", step_, steps_ == step_ ? "" : "/",
      steps_ == step_ ? "" : absl::StrCat(steps_), steps_ == 1 ? " step  " : " steps  ",
      FormatSeconds(now - begun_), Numbers(numbers), "  ", FormatRate(SamplesPerSecond()));
  const double left = SecondsLeft(now);
  if (!last_ && left >= 0) absl::StrAppend(&line, "  ", FormatSeconds(left), " left");
  if (drawn_) write_("\r\x1b[K");
  drawn_ = false;
  write_(line + "\n");
}

void ProgressLine::WriteJsonEpoch(const NamedNumbers& numbers, double now) {
  nlohmann::ordered_json object = {
      {"event", "epoch"},
      {"epoch", epoch_},
      {"epochs", epochs_},
      {"step", step_},
      {"steps", steps_},
      {"samples", samples_},
      {"seconds", now - begun_},
      {"samples_per_second", SamplesPerSecond()},
      {"metrics", nlohmann::ordered_json::object()},
  };
  if (learning_rate_.has_value()) object["learning_rate"] = *learning_rate_;
  const double left = SecondsLeft(now);
  if (left >= 0) object["seconds_left"] = left;
  for (const auto& [name, value] : numbers) object["metrics"][name] = value;
  write_(ToLine(object));
}

}  // namespace onward
