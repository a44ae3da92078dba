#include "backend/training/progress_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace onward {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

struct Screen {
  std::string text;
  ProgressLine::Write write() {
    return [this](absl::string_view piece) { text.append(piece.data(), piece.size()); };
  }
};

TEST(ProgressLine, PlainIsOneLinePerEpoch) {
  Screen screen;
  ProgressLine progress(ProgressLine::Style::kPlain, 2, 80, screen.write());
  progress.BeginEpoch(1, 4, 0, 100.0);
  for (int step = 1; step <= 4; ++step) {
    progress.Step(step, step * 50, {{"loss", 2.0 / step}}, 100.0 + step * 0.5);
  }
  EXPECT_EQ(screen.text, "");
  progress.EndSteps(102.0);
  progress.EndEpoch({{"loss", 0.75}, {"val_loss", 1e-5}}, false, 103.0);
  // 200 samples in the 2 s of training; the next epoch takes 3 s like this one.
  EXPECT_EQ(screen.text,
            "epoch 1/2  4 steps  3.0 s  loss 0.7500  val_loss 1.000e-05  100 samples/s  3.0 s "
            "left\n");
  screen.text.clear();
  progress.BeginEpoch(2, 4, 0, 103.0);
  progress.Step(4, 200, {{"loss", 0.5}}, 105.0);
  progress.EndEpoch({{"loss", 0.5}}, false, 105.0);
  EXPECT_EQ(screen.text, "epoch 2/2  4 steps  2.0 s  loss 0.5000  100 samples/s\n");
}

TEST(ProgressLine, AnEpochCutShortSaysSo) {
  Screen screen;
  ProgressLine progress(ProgressLine::Style::kPlain, 3, 80, screen.write());
  progress.BeginEpoch(1, 10, 0, 0);
  progress.Step(5, 5, {}, 1.0);
  progress.EndEpoch({}, true, 1.0);
  EXPECT_EQ(screen.text, "epoch 1/3  5/10 steps  1.0 s  5 samples/s\n");
}

TEST(ProgressLine, TerminalRewritesOneLine) {
  Screen screen;
  ProgressLine progress(ProgressLine::Style::kTerminal, 5, 100, screen.write());
  progress.BeginEpoch(1, 10, 0, 0.0);
  progress.Step(5, 500, {{"loss", 0.5}}, 2.0);
  // Half an epoch in 2 s: 2 s more, and 4 epochs of 4 s.
  EXPECT_EQ(screen.text, std::string("\repoch 1/5 [===============>              ] 5/10") +
                             "  loss 0.5000  250 samples/s  18 s left\x1b[K");
  screen.text.clear();
  progress.Step(6, 600, {{"loss", 0.4}}, 2.05);  // too soon
  EXPECT_EQ(screen.text, "");
  progress.EndEpoch({{"loss", 0.3}}, false, 4.0);
  EXPECT_EQ(screen.text,
            "\r\x1b[K"
            "epoch 1/5  6/10 steps  4.0 s  loss 0.3000  150 samples/s  19 s left\n");
}

TEST(ProgressLine, NarrowTerminalsLoseTheBarAndNeverWrap) {
  Screen screen;
  ProgressLine progress(ProgressLine::Style::kTerminal, 5, 30, screen.write());
  progress.BeginEpoch(1, 10, 0, 0.0);
  progress.Step(5, 500, {{"loss", 0.5}}, 2.0);
  EXPECT_EQ(screen.text, "\repoch 1/5  5/10  loss 0.5000 \x1b[K");
}

TEST(ProgressLine, NotesDoNotCutALine) {
  Screen screen;
  ProgressLine progress(ProgressLine::Style::kTerminal, 1, 80, screen.write());
  progress.BeginEpoch(1, 2, 0, 0.0);
  progress.Step(1, 1, {}, 1.0);
  screen.text.clear();
  progress.Note("saved run/1");
  EXPECT_EQ(screen.text, "\r\x1b[Ksaved run/1\n");
  screen.text.clear();
  progress.Step(2, 2, {}, 2.0);
  progress.BeginEpoch(1, 2, 0, 3.0);
  EXPECT_THAT(screen.text, EndsWith("\n"));
}

TEST(ProgressLine, AResumedEpochCountsItsOwnSteps) {
  Screen screen;
  ProgressLine progress(ProgressLine::Style::kTerminal, 2, 200, screen.write());
  progress.BeginEpoch(1, 10, 8, 0.0);
  progress.Step(9, 100, {}, 1.0);
  // 1 s a step: 1 step more, and a whole epoch of 10.
  EXPECT_THAT(screen.text, HasSubstr(" 9/10  100 samples/s  11 s left"));
  screen.text.clear();
  progress.Step(10, 200, {}, 2.0);
  progress.EndEpoch({}, false, 2.0);
  EXPECT_THAT(screen.text, HasSubstr("  10 s left\n"));
}

TEST(ProgressLine, JsonIsOneObjectPerEpoch) {
  Screen screen;
  ProgressLine progress(ProgressLine::Style::kJson, 2, 80, screen.write());
  progress.BeginEpoch(1, 4, 0, 10.0);
  progress.Step(4, 100, {{"loss", 0.5}}, 12.0);
  progress.EndEpoch({{"loss", 0.5}, {"accuracy", std::nan("")}}, false, 12.0);
  progress.Note("a \"b\"\n\xff");
  const size_t end = screen.text.find('\n');
  const auto epoch = nlohmann::json::parse(screen.text.substr(0, end));
  EXPECT_EQ(epoch["event"], "epoch");
  EXPECT_EQ(epoch["epoch"], 1);
  EXPECT_EQ(epoch["epochs"], 2);
  EXPECT_EQ(epoch["steps"], 4);
  EXPECT_EQ(epoch["samples"], 100);
  EXPECT_EQ(epoch["seconds"], 2.0);
  EXPECT_EQ(epoch["samples_per_second"], 50.0);
  EXPECT_EQ(epoch["seconds_left"], 2.0);
  EXPECT_EQ(epoch["metrics"]["loss"], 0.5);
  EXPECT_TRUE(epoch["metrics"]["accuracy"].is_null());
  const auto note = nlohmann::json::parse(screen.text.substr(end + 1));
  EXPECT_EQ(note["event"], "note");
  EXPECT_THAT(note["text"].get<std::string>(), HasSubstr("a \"b\"\n"));
}

TEST(ProgressLine, ALearningRateThatIsToldIsShown) {
  for (const auto style : {ProgressLine::Style::kPlain, ProgressLine::Style::kJson}) {
    Screen screen;
    ProgressLine progress(style, 2, 80, screen.write());
    progress.BeginEpoch(1, 1, 0, 0);
    progress.LearningRate(0.001);
    progress.LearningRate(0.00025);
    progress.Step(1, 10, {{"loss", 0.5}}, 1.0);
    progress.EndEpoch({{"loss", 0.5}}, true, 1.0);
    if (style == ProgressLine::Style::kPlain) {
      EXPECT_EQ(screen.text,
                "epoch 1/2  1 step  1.0 s  loss 0.5000  learning rate 0.00025  10 samples/s\n");
    } else {
      EXPECT_EQ(nlohmann::json::parse(screen.text)["learning_rate"], 0.00025);
    }
  }
}

TEST(ProgressLine, ClocksThatStandStillGiveNoNonsense) {
  Screen screen;
  ProgressLine progress(ProgressLine::Style::kTerminal, 2, 200, screen.write());
  progress.BeginEpoch(1, 2, 0, 5.0);
  progress.Step(1, 10, {}, 5.0);
  progress.EndEpoch({}, false, 5.0);
  EXPECT_THAT(screen.text, Not(HasSubstr("nan")));
  EXPECT_THAT(screen.text, Not(HasSubstr("inf")));
}

TEST(ProgressLine, AFileIsNoTerminal) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(ProgressLine::StyleFor(file, false), ProgressLine::Style::kPlain);
  EXPECT_EQ(ProgressLine::StyleFor(file, true), ProgressLine::Style::kJson);
  EXPECT_EQ(ProgressLine::ColumnsOf(file), 80);
  std::fclose(file);
}

TEST(Format, NumbersAndSeconds) {
  EXPECT_EQ(FormatNumber(0.12345), "0.1235");
  EXPECT_EQ(FormatNumber(0), "0.0000");
  EXPECT_EQ(FormatNumber(-1.5e7), "-1.500e+07");
  EXPECT_EQ(FormatNumber(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(FormatSeconds(0.44), "0.4 s");
  EXPECT_EQ(FormatSeconds(9.99), "10 s");
  EXPECT_EQ(FormatSeconds(59.7), "1 min 00 s");
  EXPECT_EQ(FormatSeconds(185), "3 min 05 s");
  EXPECT_EQ(FormatSeconds(7385), "2 h 03 min");
  EXPECT_EQ(FormatSeconds(90000), "1 d 01 h");
}

}  // namespace
}  // namespace onward
