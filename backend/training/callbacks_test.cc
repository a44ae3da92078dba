#include "backend/training/callbacks.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "graph/base/errors.h"

namespace onward {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// One letter per epoch: b best, s stop, B both, '.' neither.
std::string Marks(EarlyStopping stopping, const std::vector<double>& values) {
  std::string out;
  for (size_t i = 0; i < values.size(); ++i) {
    const EarlyStopping::Decision d = stopping.OnEpochEnd(static_cast<int64_t>(i), values[i]);
    out += d.best && d.stop ? 'B' : d.best ? 'b' : d.stop ? 's' : '.';
  }
  return out;
}

TEST(Callbacks, DirectionsByName) {
  for (const char* name : {"loss", "val_loss", "mae", "val_mse"}) {
    EXPECT_EQ(DirectionOf(name), Direction::kMin) << name;
  }
  for (const char* name : {"accuracy", "val_accuracy", "top_5_accuracy", "val_top_5_accuracy"}) {
    EXPECT_EQ(DirectionOf(name), Direction::kMax) << name;
  }
}

TEST(EarlyStopping, WaitsForPatience) {
  EarlyStopping::Options o;
  o.patience = 2;
  EXPECT_EQ(Marks(EarlyStopping(o), {3, 2, 2, 2}), "bb.s");  // equal is no improvement
  EXPECT_EQ(Marks(EarlyStopping(o), {3, 4, 2, 3, 1, 2, 2}), "b.b.b.s");
  o.direction = Direction::kMax;
  EXPECT_EQ(Marks(EarlyStopping(o), {0.5, 0.6, 0.6, 0.55}), "bb.s");
}

TEST(EarlyStopping, PatienceOfNoneStopsAtOnceButNotAfterTheFirstEpoch) {
  EarlyStopping::Options o;
  o.patience = 0;
  EXPECT_EQ(Marks(EarlyStopping(o), {3, 2, 2}), "bbs");
  EXPECT_EQ(Marks(EarlyStopping(o), {kNan, kNan}), "bs");
}

TEST(EarlyStopping, ChangesOfMinDeltaAndLessAreNone) {
  EarlyStopping::Options o;
  o.patience = 2;
  o.min_delta = 0.5;
  // 1.5 is no better than 2 by more than 0.5; 1.25 is (against 2, the last best).
  EXPECT_EQ(Marks(EarlyStopping(o), {2, 1.5, 1.25, 1, 0.75}), "b.b.s");
  o.direction = Direction::kMax;
  EXPECT_EQ(Marks(EarlyStopping(o), {2, 2.5, 2.75, 3, 3.25}), "b.b.s");
}

TEST(EarlyStopping, NanIsNoImprovementAndNoBest) {
  EarlyStopping::Options o;
  o.patience = 2;
  EXPECT_EQ(Marks(EarlyStopping(o), {kNan, 5, kNan, 4, kNan, kNan}), "bb.b.s");
  EXPECT_EQ(Marks(EarlyStopping(o), {std::numeric_limits<double>::infinity(), 5}), "bb");
}

TEST(EarlyStopping, AResumedOneDecidesAlike) {
  EarlyStopping::Options o;
  o.patience = 3;
  const std::vector<double> values = {0.1 + 0.2, 0.29, 1.0 / 3, 0.3, 0.31, 0.28};
  const std::string whole = Marks(EarlyStopping(o), values);
  EXPECT_EQ(whole, "bb..sb");
  for (size_t cut = 0; cut <= values.size(); ++cut) {
    EarlyStopping first(o);
    std::string got;
    EarlyStopping second(o);
    for (size_t i = 0; i < values.size(); ++i) {
      if (i == cut) {
        const std::string text = first.ToJson().dump();
        ASSERT_TRUE(second.FromJson(nlohmann::json::parse(text)).ok()) << text;
      }
      EarlyStopping& now = i < cut ? first : second;
      const EarlyStopping::Decision d = now.OnEpochEnd(static_cast<int64_t>(i), values[i]);
      got += d.best ? 'b' : d.stop ? 's' : '.';
    }
    EXPECT_EQ(got, whole) << "cut at " << cut;
  }
}

// The rate after each epoch.
std::vector<double> Rates(ReduceLROnPlateau reduce, const std::vector<double>& values,
                          double scheduled) {
  std::vector<double> out;
  for (double v : values) {
    const double before = reduce.Apply(scheduled);
    const bool reduced = reduce.OnEpochEnd(v, scheduled);
    out.push_back(reduce.Apply(scheduled));
    EXPECT_EQ(reduced, out.back() < before);
  }
  return out;
}

TEST(ReduceLROnPlateau, LowersAfterPatienceAndWaitsAnew) {
  ReduceLROnPlateau::Options o;
  o.patience = 2;
  using Table = std::vector<double>;
  EXPECT_EQ(Rates(ReduceLROnPlateau(o), {3, 3, 3, 3, 3, 2, 2, 2}, 8),
            (Table{8, 8, 4, 4, 2, 2, 2, 1}));
  o.patience = 0;  // counts as 1
  EXPECT_EQ(Rates(ReduceLROnPlateau(o), {3, 3, 2, 2}, 8), (Table{8, 4, 4, 2}));
}

TEST(ReduceLROnPlateau, StopsAtTheLeastRateAndGoesOnWaiting) {
  ReduceLROnPlateau::Options o;
  o.patience = 1;
  o.min_learning_rate = 3;
  using Table = std::vector<double>;
  ReduceLROnPlateau reduce(o);
  EXPECT_EQ(Rates(reduce, {3, 3, 3, 3}, 8), (Table{8, 4, 3, 3}));
  for (double v : {3, 3, 3, 3, 3}) reduce.OnEpochEnd(v, 8);
  EXPECT_EQ(reduce.wait(), 2);
  // A schedule that is below the least rate by itself is left alone.
  EXPECT_EQ(reduce.Apply(1), 1);
  EXPECT_EQ(reduce.Apply(100), 25);
}

TEST(ReduceLROnPlateau, HasAMinDeltaOfItsOwn) {
  ReduceLROnPlateau::Options o;
  o.patience = 1;
  using Table = std::vector<double>;
  EXPECT_EQ(Rates(ReduceLROnPlateau(o), {1, 0.99995, 0.9998}, 8), (Table{8, 4, 4}));
  o.min_delta = 0;
  EXPECT_EQ(Rates(ReduceLROnPlateau(o), {1, 0.99995, 0.9998}, 8), (Table{8, 8, 8}));
}

TEST(ReduceLROnPlateau, AResumedOneDecidesAlike) {
  ReduceLROnPlateau::Options o;
  o.patience = 2;
  o.factor = 0.3;
  const std::vector<double> values = {1.1, 1.1, 1.1, 0.7, 0.7, 0.7, 0.7};
  const std::vector<double> whole = Rates(ReduceLROnPlateau(o), values, 1e-3);
  for (size_t cut = 0; cut <= values.size(); ++cut) {
    ReduceLROnPlateau first(o);
    Rates(first, {}, 1e-3);
    for (size_t i = 0; i < cut; ++i) first.OnEpochEnd(values[i], 1e-3);
    ReduceLROnPlateau second(o);
    ASSERT_TRUE(second.FromJson(nlohmann::json::parse(first.ToJson().dump())).ok());
    const std::vector<double> rest(values.begin() + cut, values.end());
    EXPECT_EQ(Rates(second, rest, 1e-3), std::vector<double>(whole.begin() + cut, whole.end()));
  }
}

TEST(Callbacks, BrokenStatesAreErrorsAndChangeNothing) {
  EarlyStopping stopping(EarlyStopping::Options{});
  stopping.OnEpochEnd(0, 4);
  ReduceLROnPlateau reduce(ReduceLROnPlateau::Options{});
  for (const char* text :
       {"null", "3", "[]", "{}", R"({"best":"x","best_epoch":0,"wait":0,"scale":1})",
        R"({"best":1,"best_epoch":0.5,"wait":-1,"scale":1})",
        R"({"best":1,"best_epoch":-2,"wait":0,"scale":2})", R"({"best":1,"wait":0,"scale":-1})",
        R"({"best":1,"best_epoch":0,"wait":"0"})"}) {
    const nlohmann::json json = nlohmann::json::parse(text);
    EXPECT_EQ(ExitCodeOf(stopping.FromJson(json)), ExitCode::kNoCheckpoint) << text;
    EXPECT_EQ(ExitCodeOf(reduce.FromJson(json)), ExitCode::kNoCheckpoint) << text;
  }
  EXPECT_EQ(stopping.best(), 4);
  EXPECT_EQ(reduce.scale(), 1);
}

}  // namespace
}  // namespace onward
