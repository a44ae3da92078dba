#include "graph/passes/training_mode.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/passes/quantisation.h"
#include "graph/passes/sample_axis.h"

namespace onward {
namespace {

std::string PlaceOf(const Node& node) { return node.name.empty() ? node.source : node.name; }

// The running statistic that enters a normalisation, as a state. Exporters merge
// equal statistics (all fresh means are zero): one that several nodes read is one
// state per node.
absl::StatusOr<State*> StatisticState(Graph* graph, Node* node, int input,
                                      TrainingModeNotes* notes) {
  Value* value = node->input(input);
  if (value->state != nullptr) return value->state;
  if (value->constant == nullptr) {
    return WithExitCode(
        absl::UnimplementedError(absl::StrCat(Describe(*node), ": input ", input,
                                              " (a running statistic) is computed in the graph")),
        ExitCode::kUntrainable);
  }
  const bool shared = value->uses().size() > 1;
  const std::string name =
      FreeStateName(*graph, shared ? absl::StrCat(value->name, "@", PlaceOf(*node)) : value->name);
  if (notes != nullptr) {
    Parameter origin{name, value->name, false, {}};
    if (shared) origin.uses.push_back({node->ordinal, input});
    notes->statistics.push_back(std::move(origin));
  }
  State* state = graph->AddState(State::Kind::kStatistic, name, value->type, value->constant);
  graph->SetInput(node, input, state->current);
  return state;
}

// Normalises with the statistics of all shards. n_i, m_i and v_i are a shard's count,
// mean and variance, K the running mean, which is the same everywhere:
//   n = sum n_i,  d = sum n_i (m_i - K) / n,  mean = K + d,
//   variance = sum n_i (v_i + (m_i - K)^2) / n - d^2
// in float64, where what cancels is below float32's last digit. Its gradient comes from
// those of these nodes: two more sums over shards. Outputs y, m_i and v_i.
std::vector<Expr> NormalizeAcrossShards(Builder* b, const Node& node, const State& running_mean,
                                        double epsilon) {
  constexpr DataType kWide = DataType::kFloat64;
  Expr x = b->Wrap(node.input(0)), scale = b->Wrap(node.input(1)), bias = b->Wrap(node.input(2));
  const Dims& channels = scale.dims();
  const std::vector<Expr> own = b->Ops("onward.BatchNormalizationTraining",
                                       {x, b->Constant(Tensor::Full(scale.dtype(), channels, 1)),
                                        b->Constant(Tensor::Full(scale.dtype(), channels, 0))},
                                       {{"epsilon", epsilon}}, 3);
  if (!b->status().ok()) return {};
  const auto total = [&](Expr part) {
    return b->Op("onward.AllReduce", {part}, {{"replicas", int64_t{1}}});
  };
  const double count = static_cast<double>(Elements(x.dims())) /
                       static_cast<double>(std::max<int64_t>(Elements(channels), 1));
  Expr k = b->Cast(b->Wrap(running_mean.current), kWide);
  Expr from_k = b->Cast(own[1], kWide) - k;
  Expr sum = from_k * count;
  Expr squares = (b->Cast(own[2], kWide) + from_k * from_k) * count;
  Expr n = total(b->Scalar(kWide, count));
  Expr all_sum = total(sum), all_squares = total(squares);
  Expr offset = all_sum / n;
  Expr variance = all_squares / n - offset * offset;
  const DataType dtype = running_mean.current->dtype();
  Expr y = b->Op("BatchNormalization",
                 {x, scale, bias, b->Cast(k + offset, dtype), b->Cast(variance, dtype)},
                 {{"epsilon", epsilon}});
  return {y, own[1], own[2]};
}

// ONNX: running = running * momentum + batch * (1 - momentum), with the variance
// over N. `mean` and `variance` are of one shard; where there are several shards
// the strategy combines them before the update.
absl::Status NormalizeWithBatch(Graph* graph, const OperatorSet& operators, Node* node,
                                const TrainingModeOptions& options, TrainingModeNotes* notes) {
  const double epsilon = node->attributes.Float("epsilon", 1e-5);
  const double momentum = node->attributes.Float("momentum", 0.9);
  State* running[2];
  for (int i = 0; i < 2; ++i) {
    ASSIGN_OR_RETURN(running[i], StatisticState(graph, node, 3 + i, notes));
  }
  Builder b(graph, &operators);
  b.InsertBefore(node);
  b.SetSource(PlaceOf(*node));
  b.SetScope(PlaceOf(*node));
  const std::vector<Expr> out =
      options.sync_normalization
          ? NormalizeAcrossShards(&b, *node, *running[0], epsilon)
          : b.Ops("onward.BatchNormalizationTraining",
                  {b.Wrap(node->input(0)), b.Wrap(node->input(1)), b.Wrap(node->input(2))},
                  {{"epsilon", epsilon}}, 3);
  RETURN_IF_ERROR(b.status());
  out[0].value()->producer->ordinal = node->ordinal;  // scale and bias are told by their place
  b.InsertBefore(nullptr);
  b.SetPhase(Phase::kUpdate);
  for (int i = 0; i < 2; ++i) {
    Expr next = b.Wrap(running[i]->current) * momentum + out[1 + i] * (1 - momentum);
    RETURN_IF_ERROR(b.status());
    graph->SetNext(running[i], next.value());
    Value* given = node->output(1 + i);
    if (given != nullptr) graph->ReplaceUses(given, next.value());
  }
  graph->ReplaceUses(node->output(0), out[0].value());
  graph->Remove(node);
  return absl::OkStatus();
}

absl::StatusOr<double> DropoutRatio(const Node& node) {
  if (node.input(1) == nullptr) return 0.5;
  if (node.input(1)->constant == nullptr) {
    return WithExitCode(
        absl::UnimplementedError(absl::StrCat(Describe(node), ": its ratio is not constant")),
        ExitCode::kUntrainable);
  }
  return node.input(1)->constant->At(0);
}

// `samples` says where the samples lie in what is dropped: a mask is drawn by a
// sample's number in the whole batch, whatever shard it is in.
absl::Status DrawDropout(Graph* graph, const OperatorSet& operators, Node* node, double ratio,
                         const SampleAxis& samples, const TrainingModeOptions& options) {
  if (node->output(1) != nullptr && !node->output(1)->uses().empty()) {
    return WithExitCode(
        absl::UnimplementedError(absl::StrCat(Describe(*node), ": its mask is read by a node")),
        ExitCode::kUntrainable);
  }
  Value* result = node->input(0);
  if (options.dropout && ratio > 0) {
    State* seed = CounterState(graph, kSeedState, options.seed);
    State* step = CounterState(graph, kStepState, 0);
    Value* offset = SampleOffset(graph);
    Builder b(graph, &operators);
    b.InsertBefore(node);
    b.SetSource(PlaceOf(*node));
    b.SetScope(PlaceOf(*node));
    const bool along = samples.kind == SampleAxis::Kind::kAxis;
    Expr first = b.Wrap(offset);
    if (along && samples.inner > 1) first = first * static_cast<double>(samples.inner);
    Expr y = b.Op(
        "onward.Dropout",
        {b.Wrap(node->input(0)), b.Wrap(seed->current), b.Wrap(step->current), first},
        {{"ratio", ratio}, {"key", node->ordinal}, {"axis", int64_t{along ? samples.axis : -1}}});
    RETURN_IF_ERROR(b.status());
    y.value()->producer->ordinal = node->ordinal;
    result = y.value();
  }
  graph->ReplaceUses(node->output(0), result);
  graph->Remove(node);
  return absl::OkStatus();
}

// An operator of ONNX that draws numbers draws others in every step, and by a sample's
// number in the whole batch where it draws for each sample. Its `seed`, where the file
// gives one, stays.
absl::Status DrawByStep(Graph* graph, const OperatorSet& operators, Node* node,
                        const SampleAxis& samples, const TrainingModeOptions& options) {
  const bool seeded = node->attributes.Has("seed");
  const bool along = samples.kind == SampleAxis::Kind::kAxis;
  Node* before = node->previous();
  Node* behind = node->next();
  RETURN_IF_ERROR(LowerNode(graph, &operators, node));
  for (Node* made = before == nullptr ? graph->first() : before->next(); made != behind;
       made = made->next()) {
    if (made->op().domain != kOnward || !made->attributes.Has("key")) continue;
    if (!seeded) graph->SetInput(made, 0, CounterState(graph, kSeedState, options.seed)->current);
    graph->SetInput(made, 1, CounterState(graph, kStepState, 0)->current);
    if (!along) continue;
    Builder b(graph, &operators);
    b.InsertBefore(made);
    Expr first = b.Wrap(SampleOffset(graph));
    if (samples.inner > 1) first = first * static_cast<double>(samples.inner);
    RETURN_IF_ERROR(b.status());
    graph->SetInput(made, 2, first.value());
    made->attributes.Set("axis", int64_t{samples.axis});
  }
  return absl::OkStatus();
}

}  // namespace

Value* SampleOffset(Graph* graph) {
  Value* offset = graph->FindInput(kSampleOffsetFeed);
  if (offset == nullptr) {
    offset = graph->AddInput(kSampleOffsetFeed, {DataType::kInt64, {}, {}});
    offset->feed = kSampleOffsetFeed;
  }
  return offset;
}

std::string FreeStateName(const Graph& graph, std::string name) {
  while (name == kSeedState || name == kStepState || graph.FindState(name) != nullptr) name += '~';
  return name;
}

State* CounterState(Graph* graph, const std::string& name, int64_t initial) {
  State* state = graph->FindState(name);
  if (state != nullptr) return state;
  return graph->AddState(State::Kind::kCounter, name, {DataType::kInt64, {}, {}},
                         std::make_shared<const Tensor>(Tensor::Scalar<int64_t>(initial)));
}

absl::StatusOr<TrainingModeNotes> ToTrainingMode(Graph* graph, const OperatorSet& operators,
                                                 const TrainingModeOptions& options) {
  TrainingModeNotes notes;
  // Where samples lie is asked before anything is edited.
  absl::flat_hash_map<const Node*, SampleAxis> samples;
  {
    const SampleAxes axes = FindSampleAxes(*graph);
    for (const Node* node : graph->nodes()) {
      const auto it = axes.find(node->input(0));
      if (it != axes.end()) samples[node] = it->second;
    }
  }
  for (Node* node = graph->first(); node != nullptr;) {
    Node* next = node->next();
    if (node->op().domain.empty() && node->op().name == "Dropout") {
      ASSIGN_OR_RETURN(const double ratio, DropoutRatio(*node));
      notes.dropouts += ratio > 0;
      RETURN_IF_ERROR(DrawDropout(graph, operators, node, ratio, samples[node], options));
    } else if (node->op().domain.empty() && node->op().name == "BatchNormalization") {
      ++notes.normalizations;
      RETURN_IF_ERROR(NormalizeWithBatch(graph, operators, node, options, &notes));
    } else if (node->op().domain.empty() && node->op().random) {
      RETURN_IF_ERROR(DrawByStep(graph, operators, node, samples[node], options));
    }
    node = next;
  }
  RETURN_IF_ERROR(OpenQuantisation(graph, operators).status());
  return notes;
}

absl::Status ToInferenceMode(Graph* graph, const OperatorSet& operators) {
  for (Node* node = graph->first(); node != nullptr;) {
    Node* next = node->next();
    if (node->op().domain.empty() && node->op().name == "Dropout") {
      TrainingModeOptions off;
      off.dropout = false;
      RETURN_IF_ERROR(DrawDropout(graph, operators, node, 0, SampleAxis::None(), off));
    } else if (node->op().domain.empty() && node->op().name == "BatchNormalization") {
      Attributes attributes = node->attributes;
      attributes.Remove("training_mode");
      std::vector<Value*> inputs;
      for (int i = 0; i < 5; ++i) {
        if (i >= 3) RETURN_IF_ERROR(StatisticState(graph, node, i, nullptr).status());
        inputs.push_back(node->input(i));
      }
      for (int i = 0; i < 2; ++i) {
        if (node->output(1 + i) != nullptr) {
          graph->ReplaceUses(node->output(1 + i), node->input(3 + i));
        }
      }
      Builder b(graph, &operators);
      b.InsertBefore(node);
      ASSIGN_OR_RETURN(Node * made, b.AddNode(&node->op(), inputs, std::move(attributes)));
      made->name = node->name;
      made->source = node->source;
      made->ordinal = node->ordinal;
      graph->ReplaceUses(node->output(0), made->output(0));
      graph->Remove(node);
    }
    node = next;
  }
  return absl::OkStatus();
}

}  // namespace onward
