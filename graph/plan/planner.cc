#include "graph/plan/planner.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/plan/memory.h"
#include "graph/plan/schedule.h"

namespace onward {
namespace {

// Memory before it has a place: what a value, a scratch area or a state's slot
// needs, and for how long.
struct Slot {
  PlanBuffer buffer;
  int first = -1;  // steps; kArena only
  int last = -1;
  int root = -1;    // slot whose memory this one uses; -1: its own
  int maker = -1;   // step that writes it
  int reader = -1;  // last step that reads it, or what uses its memory
};

// What the programs of one plan number together.
struct SharedNumbers {
  absl::flat_hash_map<std::string, int> states;
  std::map<std::pair<const Tensor*, std::string>, int> constants;
};

// Plans one program: the nodes of one device from one graph.
class ProgramPlanner {
 public:
  ProgramPlanner(Plan* plan, const Graph& graph, int device, const DeviceShare& share,
                 const KernelOracle& kernels, StateLayouts* layouts, const SharedStates& shared,
                 SharedNumbers* numbers)
      : plan_(plan),
        graph_(graph),
        device_(device),
        share_(share),
        kernels_(kernels),
        layouts_(layouts),
        shared_(shared),
        numbers_(numbers) {}

  // `in_segments`: one of several shards of a device, up to the tail.
  absl::StatusOr<PlanProgram> Run(int64_t shard_size, bool tail, bool in_segments) {
    program_.device = device_;
    program_.shard_size = shard_size;
    program_.tail = tail;
    program_.threads = share_.threads_per_lane * (tail ? share_.lanes : 1);
    FindHints();
    for (Node* node : Schedule(graph_, share_.device, shared_)) {
      RETURN_IF_ERROR(node->op().collective ? AddCollective(*node) : AddNode(*node));
      planned_.insert(node);
    }
    RETURN_IF_ERROR(AddOutputs());
    RETURN_IF_ERROR(CommitStates());
    FindLifetimes();
    MarkScattered();
    ShareMemory();
    Place();
    for (size_t i = 0; in_segments && i < program_.steps.size(); ++i) {
      if (program_.steps[i].stream != PlanStep::Stream::kCollective) continue;
      program_.cuts.push_back(static_cast<int>(i));
    }
    return std::move(program_);
  }

 private:
  bool OnThisDevice(const Value& value) const { return DeviceOf(value) == share_.device; }

  // A gradient should come out in the layout of the state that it updates.
  void FindHints() {
    for (Node* node : graph_.nodes()) {
      if (node->phase != Phase::kUpdate) continue;
      const State* state = nullptr;
      for (int i = 0; i < node->num_inputs() && state == nullptr; ++i) {
        if (node->input(i) != nullptr) state = node->input(i)->state;
      }
      if (state == nullptr) continue;
      for (int i = 0; i < node->num_inputs(); ++i) {
        const Value* v = node->input(i);
        if (v != nullptr && v->state == nullptr && v->type == state->current->type) Hint(v, state);
      }
    }
  }
  void Hint(const Value* v, const State* state) {
    hints_[v] = state;
    const Node* producer = v->producer;
    if (producer != nullptr && producer->op().collective) {
      Hint(producer->input(v->output_index), state);
    }
  }

  int NewSlot(PlanBuffer::Space space, int index, TensorType type, std::string name) {
    Slot slot;
    slot.buffer.space = space;
    slot.buffer.device = device_;
    slot.buffer.index = index;
    slot.buffer.type = std::move(type);
    slot.buffer.name = std::move(name);
    slots_.push_back(std::move(slot));
    return static_cast<int>(slots_.size()) - 1;
  }

  // The slot that holds a value now, made at its first use for what no step makes.
  int SlotOf(const Value* value) {
    const auto it = slot_of_.find(value);
    if (it != slot_of_.end()) return it->second;
    int slot = -1;
    switch (value->kind) {
      case Value::Kind::kInput:
        slot = InputSlot(*value);
        break;
      case Value::Kind::kConstant:
        slot = ConstantSlot(*value, Layout());
        break;
      case Value::Kind::kState: {
        TensorType type = value->type;
        const auto fixed = layouts_->find(value->state->name);
        if (fixed != layouts_->end()) type.layout = fixed->second;
        slot = NewSlot(PlanBuffer::Space::kState, StateIndex(*value->state), type, value->name);
        break;
      }
      case Value::Kind::kResult:
        ONWARD_CHECK(false);
    }
    slot_of_[value] = slot;
    return slot;
  }

  int InputSlot(const Value& value) {
    if (value.crossing >= 0) {
      return NewSlot(PlanBuffer::Space::kPartial, value.crossing, plan_->crossing[value.crossing],
                     value.name);
    }
    plan_->feeds.push_back(
        {value.feed.empty() ? value.name : value.feed, value.type, device_, program_.shard_size});
    return NewSlot(PlanBuffer::Space::kFeed, static_cast<int>(plan_->feeds.size()) - 1, value.type,
                   value.name);
  }

  int ConstantSlot(const Value& value, const Layout& layout) {
    const std::string key = absl::StrCat(value.name, ":", ToString(layout));
    const auto it = constant_slots_.find(key);
    if (it != constant_slots_.end()) return it->second;
    TensorType type = value.type;
    type.layout = layout;
    const auto [numbered, fresh] = numbers_->constants.try_emplace(
        {value.constant.get(), ToString(layout)}, static_cast<int>(plan_->constants.size()));
    const int index = numbered->second;
    if (fresh) {
      plan_->constants.push_back(value.constant);
      plan_->constant_types.push_back(type);
      plan_->constant_in_file.push_back(value.initializer);
    }
    const int slot = NewSlot(PlanBuffer::Space::kConstant, index, type, value.name);
    constant_slots_[key] = slot;
    return slot;
  }

  int StateIndex(const State& state) {
    const auto [it, fresh] =
        numbers_->states.try_emplace(state.name, static_cast<int>(plan_->states.size()));
    if (fresh) {
      plan_->states.push_back({state.kind, state.name, state.current->type, state.initial,
                               state.fill, shared_.names.contains(state.name), false});
    }
    if (state.next != nullptr && state.next != state.current) {
      plan_->states[it->second].written = true;
    }
    return it->second;
  }

  // The slot of `value` in `layout`: its own, or one that a reorder makes.
  absl::StatusOr<int> InLayout(const Value* value, const Layout& layout) {
    const int slot = SlotOf(value);
    if (slots_[slot].buffer.type.layout == layout) return slot;
    if (value->kind == Value::Kind::kConstant) return ConstantSlot(*value, layout);
    if (value->kind == Value::Kind::kState && !layouts_->contains(value->state->name)) {
      (*layouts_)[value->state->name] = layout;
      slots_[slot].buffer.type.layout = layout;
      return slot;
    }
    const auto key = std::make_pair(value, ToString(layout));
    const auto it = reordered_.find(key);
    if (it != reordered_.end()) return it->second;
    TensorType type = value->type;
    type.layout = layout;
    const int made = NewSlot(PlanBuffer::Space::kArena, -1, type, absl::StrCat(value->name, "'"));
    RETURN_IF_ERROR(AddCopy("onward.Reorder", slot, made,
                            value->producer == nullptr ? Phase::kForward : value->producer->phase));
    reordered_[key] = made;
    return made;
  }

  absl::Status AddCopy(const std::string& op, int from, int to, Phase phase) {
    static const Attributes* const none = new Attributes;
    KernelCall call;
    call.op = op;
    call.attributes = none;
    call.inputs = {&slots_[from].buffer.type};
    call.outputs = {&slots_[to].buffer.type};
    call.constants = {nullptr};
    call.threads = program_.threads;
    ASSIGN_OR_RETURN(const KernelChoice choice, kernels_.Choose(share_.device, call));
    PlanStep step;
    step.op = op;
    step.kernel = choice.kernel;
    step.reference = choice.reference;
    step.inputs = {from};
    step.outputs = {to};
    step.constants = {nullptr};
    step.scratch_bytes = choice.needs.scratch_bytes;
    step.operations = static_cast<double>(slots_[from].buffer.type.elements());
    step.phase = phase;
    Append(std::move(step), choice.needs.aliases);
    return absl::OkStatus();
  }

  // States that no layout has been fixed for by now are plain.
  void FixLayouts(const Node& node) {
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Value* v = node.input(i);
      if (v != nullptr && v->state != nullptr) {
        layouts_->try_emplace(v->state->name, slots_[SlotOf(v)].buffer.type.layout);
      }
    }
  }

  absl::Status AddNode(const Node& node) {
    KernelCall call;
    call.op = node.op().id();
    call.attributes = &node.attributes;
    call.threads = program_.threads;
    std::vector<TensorType> in(node.num_inputs());
    std::vector<TensorType> out(node.num_outputs());
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Value* v = node.input(i);
      if (v != nullptr) in[i] = slots_[SlotOf(v)].buffer.type;
      call.inputs.push_back(v == nullptr ? nullptr : &in[i]);
      call.constants.push_back(v == nullptr ? nullptr : v->constant.get());
    }
    for (int i = 0; i < node.num_outputs(); ++i) {
      const Value* v = node.output(i);
      if (v != nullptr) out[i] = v->type;
      const auto hint = hints_.find(v);
      if (v != nullptr && hint != hints_.end()) {
        const auto fixed = layouts_->find(hint->second->name);
        if (fixed != layouts_->end()) out[i].layout = fixed->second;
      }
      call.outputs.push_back(v == nullptr ? nullptr : &out[i]);
    }
    call.open_inputs = call.open_outputs = ~uint64_t{0};
    absl::StatusOr<KernelChoice> choice = kernels_.Choose(share_.device, call);
    if (!choice.ok()) {
      return WithExitCode(Annotate(choice.status(), Describe(node)), ExitCode::kUntrainable);
    }
    const KernelNeeds& needs = choice->needs;
    PlanStep step;
    step.op = call.op;
    step.kernel = choice->kernel;
    step.reference = choice->reference;
    step.attributes = node.attributes;
    step.constants = call.constants;
    step.scratch_bytes = needs.scratch_bytes;
    step.operations = Operations(node);
    step.phase = node.phase;
    step.source = node.source;
    if (shared_.updates.contains(&node)) {
      step.part = device_;
      step.parts = static_cast<int>(plan_->devices.size());
      step.range_inputs = node.op().range_inputs;
      step.operations /= step.parts;
    }
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Value* v = node.input(i);
      if (v == nullptr) {
        step.inputs.push_back(-1);
        continue;
      }
      const Layout& wanted =
          i < static_cast<int>(needs.input_layouts.size()) ? needs.input_layouts[i] : in[i].layout;
      ASSIGN_OR_RETURN(const int slot, InLayout(v, wanted));
      step.inputs.push_back(slot);
    }
    FixLayouts(node);
    for (int i = 0; i < node.num_outputs(); ++i) {
      const Value* v = node.output(i);
      if (v == nullptr) {
        step.outputs.push_back(-1);
        continue;
      }
      TensorType type = v->type;
      type.layout = i < static_cast<int>(needs.output_layouts.size()) ? needs.output_layouts[i]
                                                                      : out[i].layout;
      const int slot = NewSlot(PlanBuffer::Space::kArena, -1, type, v->name);
      slot_of_[v] = slot;
      step.outputs.push_back(slot);
    }
    Append(std::move(step), needs.aliases);
    return absl::OkStatus();
  }

  // By another node that is not planned yet, or twice by this one.
  bool IsReadAgain(const Value& value, const Node& node) const {
    int by_node = 0;
    for (const Use& use : value.uses()) {
      if (use.kind != Use::Kind::kNode) return true;
      by_node += use.node == &node ? 1 : 0;
      if (use.node != &node && !planned_.contains(use.node)) return true;
    }
    return by_node > 1;
  }

  absl::Status AddCollective(const Node& node) {
    PlanStep step;
    step.op = node.op().id();
    step.attributes = node.attributes;
    step.phase = Phase::kReduce;
    step.stream = PlanStep::Stream::kCollective;
    step.collective = static_cast<int>(node.attributes.Int("number", 0));
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Value* v = node.input(i);
      if (v == nullptr || !OnThisDevice(*v)) continue;
      int from = SlotOf(v);
      // Sums are formed in the memory of what is summed: that of nothing else, and of
      // nothing that is read later.
      const PlanBuffer::Space space = slots_[from].buffer.space;
      if (space != PlanBuffer::Space::kPartial &&
          (space != PlanBuffer::Space::kArena || IsReadAgain(*v, node))) {
        const int copy = NewSlot(PlanBuffer::Space::kArena, -1, slots_[from].buffer.type, v->name);
        RETURN_IF_ERROR(AddCopy("Identity", from, copy, Phase::kReduce));
        from = copy;
      }
      // Its output may lie in its input's memory, and does where nobody else reads that.
      const Value* out = node.output(i);
      const int to = NewSlot(PlanBuffer::Space::kArena, -1, slots_[from].buffer.type, out->name);
      slot_of_[out] = to;
      step.inputs.push_back(from);
      step.outputs.push_back(to);
      step.constants.push_back(nullptr);
    }
    std::vector<std::pair<int, int>> aliases;
    for (size_t i = 0; i < step.inputs.size(); ++i) aliases.emplace_back(i, i);
    Append(std::move(step), aliases);
    return absl::OkStatus();
  }

  void Append(PlanStep step, std::vector<std::pair<int, int>> aliases) {
    const int number = static_cast<int>(program_.steps.size());
    for (int slot : step.inputs) {
      if (slot >= 0) slots_[slot].reader = number;
    }
    for (int slot : step.outputs) {
      if (slot >= 0 && slots_[slot].maker < 0) slots_[slot].maker = number;
    }
    program_.steps.push_back(std::move(step));
    aliases_.push_back(std::move(aliases));
  }

  // Outputs are plain and have memory of their own, which lasts beyond the step.
  absl::Status AddOutputs() {
    for (const Graph::Output& output : graph_.outputs()) {
      if (!OnThisDevice(*output.value) && output.value->kind != Value::Kind::kConstant) continue;
      const int crossing = output.crossing;
      ASSIGN_OR_RETURN(int slot, crossing < 0 ? InLayout(output.value, Layout())
                                              : InCrossingLayout(output.value, crossing));
      if (slots_[slot].buffer.space != PlanBuffer::Space::kArena || kept_.contains(slot)) {
        const int copy =
            NewSlot(PlanBuffer::Space::kArena, -1, slots_[slot].buffer.type, output.name);
        RETURN_IF_ERROR(AddCopy("Identity", slot, copy, Phase::kMetric));
        slot = copy;
      }
      kept_.insert(slot);
      if (crossing >= 0) {
        outputs_.emplace_back(slot, crossing);
        continue;
      }
      plan_->outputs.push_back({output.name, device_, -1});
      outputs_.emplace_back(slot, -1);
    }
    return absl::OkStatus();
  }

  // The first program that makes a crossing value fixes its layout for all.
  absl::StatusOr<int> InCrossingLayout(const Value* value, int crossing) {
    if (static_cast<int>(plan_->crossing.size()) <= crossing) plan_->crossing.resize(crossing + 1);
    TensorType& type = plan_->crossing[crossing];
    if (type.dtype == DataType::kUndefined) type = slots_[SlotOf(value)].buffer.type;
    return InLayout(value, type.layout);
  }

  // Next values that could not be written in place are copied when all is read.
  absl::Status CommitStates() {
    for (const auto& state : graph_.states()) {
      if (state->next == nullptr || state->next == state->current) continue;
      if (!OnThisDevice(*state->current)) continue;
      const int current = SlotOf(state->current);
      layouts_->try_emplace(state->name, slots_[current].buffer.type.layout);
      const int next = SlotOf(state->next);
      if (WritesInPlace(*state, current, next)) {
        slots_[next].root = current;
        continue;
      }
      if (shared_.names.contains(state->name)) {
        return absl::InternalError(
            absl::StrCat("state '", state->name, "' is shared but not updated in place"));
      }
      const bool same = slots_[next].buffer.type == slots_[current].buffer.type;
      RETURN_IF_ERROR(AddCopy(same ? "Identity" : "onward.Reorder", next, current, Phase::kUpdate));
    }
    return absl::OkStatus();
  }

  bool WritesInPlace(const State& state, int current, int next) {
    if (state.next->producer == nullptr || kept_.contains(next)) return false;
    if (slots_[next].buffer.space != PlanBuffer::Space::kArena || slots_[next].root >= 0)
      return false;
    if (slots_[next].buffer.type != slots_[current].buffer.type) return false;
    const int number = slots_[next].maker;
    const PlanStep& step = program_.steps[number];
    for (const auto& [out, in] : aliases_[number]) {
      if (out < static_cast<int>(step.outputs.size()) && step.outputs[out] == next &&
          in < static_cast<int>(step.inputs.size()) && step.inputs[in] == current) {
        return slots_[current].reader == number;
      }
    }
    return false;
  }

  int Root(int slot) const {
    while (slots_[slot].root >= 0) slot = slots_[slot].root;
    return slot;
  }

  // Also says which steps wait for which of the other stream.
  void FindLifetimes() {
    const int n = static_cast<int>(program_.steps.size());
    int last_compute = -1;
    int last_collective = -1;
    int waited = -1;  // the latest collective that compute has waited for
    for (int i = 0; i < n; ++i) {
      PlanStep& step = program_.steps[i];
      const bool collective = step.stream == PlanStep::Stream::kCollective;
      int wait = collective ? last_compute : -1;
      if (collective) last_collective = i;
      // What all devices keep once is written when all have read it.
      if (step.parts > 1 && last_collective > waited) wait = last_collective;
      for (int slot : step.inputs) {
        if (slot < 0) continue;
        const int made = slots_[slot].maker;
        if (!collective && made > waited && made < i &&
            program_.steps[made].stream == PlanStep::Stream::kCollective) {
          wait = std::max(wait, made);
        }
      }
      if (wait >= 0) step.waits = {wait};
      if (!collective) {
        waited = std::max(waited, wait);
        last_compute = i;
      }
    }
    // A collective holds its buffers until compute has waited for it (or for a
    // later one), else to the end.
    std::vector<int> done(n);
    std::vector<int> open;
    for (int i = 0; i < n; ++i) {
      const PlanStep& step = program_.steps[i];
      done[i] = i;
      if (step.stream == PlanStep::Stream::kCollective) {
        done[i] = n;
        open.push_back(i);
        continue;
      }
      while (!step.waits.empty() && !open.empty() && open.front() <= step.waits[0]) {
        done[open.front()] = i;
        open.erase(open.begin());
      }
    }
    for (int i = 0; i < n; ++i) {
      const PlanStep& step = program_.steps[i];
      const auto touch = [&](int slot) {
        if (slot < 0) return;
        Slot& s = slots_[slot];
        if (s.first < 0) s.first = i;
        s.last = std::max(s.last, done[i]);
      };
      for (int slot : step.inputs) touch(slot);
      for (int slot : step.outputs) touch(slot);
    }
    for (const auto& [slot, crossing] : outputs_) slots_[slot].last = n;
  }

  // Sums that this device reads by its part alone.
  void MarkScattered() {
    absl::flat_hash_set<int> whole;  // slots that are read as a whole
    for (const PlanStep& step : program_.steps) {
      for (size_t i = 0; i < step.inputs.size(); ++i) {
        if (step.parts == 1 || static_cast<int>(i) >= step.range_inputs)
          whole.insert(step.inputs[i]);
      }
    }
    for (const auto& [slot, crossing] : outputs_) whole.insert(slot);
    for (PlanStep& step : program_.steps) {
      if (step.stream != PlanStep::Stream::kCollective) continue;
      for (int slot : step.outputs) step.scattered.push_back(!whole.contains(slot));
    }
  }

  // An output takes over the memory of an input that nobody reads after it.
  void ShareMemory() {
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const PlanStep& step = program_.steps[i];
      std::vector<int> taken;
      for (const auto& [out, in] : aliases_[i]) {
        if (out >= static_cast<int>(step.outputs.size()) ||
            in >= static_cast<int>(step.inputs.size())) {
          continue;
        }
        const int to = step.outputs[out];
        const int from = step.inputs[in];
        if (to < 0 || from < 0 || slots_[to].root >= 0 || kept_.contains(to)) continue;
        if (slots_[to].buffer.space != PlanBuffer::Space::kArena) continue;
        const int root = Root(from);
        if (slots_[root].buffer.space != PlanBuffer::Space::kArena || kept_.contains(root))
          continue;
        if (slots_[to].buffer.type.bytes() != slots_[from].buffer.type.bytes()) continue;
        const bool collective = step.stream == PlanStep::Stream::kCollective;
        if (!collective && slots_[root].last > static_cast<int>(i)) continue;
        if (collective && slots_[root].reader > static_cast<int>(i)) continue;
        if (std::find(taken.begin(), taken.end(), root) != taken.end()) continue;
        taken.push_back(root);
        slots_[to].root = root;
        slots_[root].last = std::max(slots_[root].last, slots_[to].last);
        slots_[root].reader = std::max(slots_[root].reader, slots_[to].reader);
      }
    }
  }

  void Place() {
    std::vector<MemoryRequest> requests;
    std::vector<int> owner;  // slot, or ~step for scratch
    for (size_t s = 0; s < slots_.size(); ++s) {
      if (slots_[s].buffer.space != PlanBuffer::Space::kArena || slots_[s].root >= 0) continue;
      if (kept_.contains(static_cast<int>(s)) && !IsCrossing(static_cast<int>(s))) continue;
      if (slots_[s].first < 0) continue;
      requests.push_back({slots_[s].buffer.type.bytes(), slots_[s].first, slots_[s].last, 0});
      owner.push_back(static_cast<int>(s));
    }
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const int64_t bytes = program_.steps[i].scratch_bytes;
      if (bytes == 0) continue;
      requests.push_back({bytes, static_cast<int>(i), static_cast<int>(i), 0});
      owner.push_back(~static_cast<int>(i));
    }
    program_.arena_bytes = PlaceInArena(requests);
    for (size_t r = 0; r < requests.size(); ++r) {
      if (owner[r] < 0) {
        program_.steps[~owner[r]].scratch_offset = requests[r].offset;
      } else {
        slots_[owner[r]].buffer.offset = requests[r].offset;
      }
    }
    Emit();
  }

  bool IsCrossing(int slot) const {
    for (const auto& [s, crossing] : outputs_) {
      if (s == slot) return crossing >= 0;
    }
    return false;
  }

  // Slots become buffers of the plan.
  void Emit() {
    size_t next_output = plan_->outputs.size();
    for (const auto& [slot, crossing] : outputs_) next_output -= crossing < 0;
    for (const auto& [slot, crossing] : outputs_) {
      if (crossing >= 0) {
        crossing_slots_.emplace_back(slot, crossing);
        continue;
      }
      Slot& s = slots_[slot];
      s.buffer.space = PlanBuffer::Space::kOutput;
      s.buffer.index = static_cast<int>(next_output);
      plan_->outputs[next_output++].buffer = static_cast<int>(plan_->buffers.size()) + slot;
    }
    const int base = static_cast<int>(plan_->buffers.size());
    for (size_t s = 0; s < slots_.size(); ++s) {
      PlanBuffer buffer = slots_[s].buffer;
      const PlanBuffer& root = slots_[Root(static_cast<int>(s))].buffer;
      buffer.space = root.space;
      buffer.index = root.index;
      buffer.offset = root.offset;
      plan_->buffers.push_back(std::move(buffer));
    }
    for (PlanStep& step : program_.steps) {
      for (int& b : step.inputs) b = b < 0 ? -1 : b + base;
      for (int& b : step.outputs) b = b < 0 ? -1 : b + base;
    }
    for (auto& [slot, crossing] : crossing_slots_) {
      program_.crossing.resize(std::max<size_t>(program_.crossing.size(), crossing + 1), -1);
      program_.crossing[crossing] = base + slot;
    }
    for (PlanState& state : plan_->states) {
      const auto fixed = layouts_->find(state.name);
      if (fixed != layouts_->end()) state.type.layout = fixed->second;
    }
  }

  Plan* plan_;
  const Graph& graph_;
  int device_;
  DeviceShare share_;
  const KernelOracle& kernels_;
  StateLayouts* layouts_;
  const SharedStates& shared_;
  SharedNumbers* numbers_;

  PlanProgram program_;
  std::vector<std::vector<std::pair<int, int>>> aliases_;  // by step
  std::vector<Slot> slots_;
  absl::flat_hash_map<const Value*, int> slot_of_;
  absl::flat_hash_map<const Value*, const State*> hints_;
  absl::flat_hash_map<std::string, int> constant_slots_;
  absl::flat_hash_map<std::pair<const Value*, std::string>, int> reordered_;
  absl::flat_hash_set<const Node*> planned_;
  absl::flat_hash_set<int> kept_;             // slots of outputs
  std::vector<std::pair<int, int>> outputs_;  // slot, crossing index or -1
  std::vector<std::pair<int, int>> crossing_slots_;
};

}  // namespace

namespace {

void ListCollectives(const Graph& graph, Plan* plan) {
  for (const Node* node : graph.nodes()) {
    if (!node->op().collective) continue;
    PlanCollective c;
    c.name = absl::StrCat("all-reduce ", plan->collectives.size());
    const int replicas = static_cast<int>(node->attributes.Int("replicas", 1));
    c.tensors = node->num_inputs() / std::max(1, replicas);
    for (int i = 0; i < c.tensors; ++i) c.bytes += node->input(i)->type.bytes();
    plan->collectives.push_back(std::move(c));
  }
}

// Are two neighbouring blocks the halves of one of twice the size in the tree over
// shard numbers?
bool AreHalves(const ShardBlock& left, const ShardBlock& right) {
  return left.shards == right.shards && left.first_shard % (2 * left.shards) == 0;
}

// What each lane of device `d` runs: its shards in order, folding partial sums
// into complete subtrees as soon as both halves are there; then the tail.
void OrderDevice(const ReplicatedStep& step, int d,
                 const std::vector<std::pair<int64_t, int>>& program_of_size, int last,
                 Plan* plan) {
  std::vector<int> shards;
  for (size_t s = 0; s < step.shard_sizes.size(); ++s) {
    if (step.device_of_shard[s] == d) shards.push_back(static_cast<int>(s));
  }
  if (program_of_size.empty()) {
    PlanEntry whole;
    whole.program = last;
    whole.device = d;
    whole.shard = shards.empty() ? -1 : shards[0];
    plan->order.push_back(std::move(whole));
    return;
  }
  PlanDevice& device = plan->devices[d];
  const int count = static_cast<int>(shards.size());
  if (plan->segments > 1) device.arenas = std::max(count, device.lanes);
  for (int lane = 0; lane < device.lanes; ++lane) {
    const int begin = lane * count / device.lanes, end = (lane + 1) * count / device.lanes;
    const auto entry_of = [&](int k, int segment) {
      PlanEntry entry;
      entry.device = d;
      entry.lane = lane;
      entry.shard = shards[k];
      entry.segment = segment;
      entry.arena = plan->segments > 1 ? k : lane;
      for (const auto& [size, program] : program_of_size) {
        if (size == step.shard_sizes[shards[k]]) entry.program = program;
      }
      return entry;
    };
    for (int segment = 0; segment + 1 < plan->segments; ++segment) {
      for (int k = begin; k < end; ++k) plan->order.push_back(entry_of(k, segment));
    }
    std::vector<ShardBlock> held;
    for (int k = begin; k < end; ++k) {
      PlanEntry entry = entry_of(k, plan->segments - 1);
      entry.store = static_cast<int>(held.size());
      held.push_back({d, lane, entry.store, entry.shard, 1});
      device.slots = std::max(device.slots, static_cast<int>(held.size()));
      while (held.size() > 1 && AreHalves(held[held.size() - 2], held.back())) {
        entry.folds.push_back({held[held.size() - 2].slot, held.back().slot});
        held.pop_back();
        held.back().shards *= 2;
      }
      plan->order.push_back(std::move(entry));
    }
    plan->blocks.insert(plan->blocks.end(), held.begin(), held.end());
  }
  PlanEntry tail;
  tail.program = last;
  tail.device = d;
  plan->order.push_back(std::move(tail));
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const ReplicatedStep& step, const KernelOracle& kernels,
                              StateLayouts* layouts) {
  Plan plan;
  plan.shard_sizes = step.shard_sizes;
  for (const DeviceShare& share : step.devices) {
    plan.devices.push_back({share.device, share.lanes, share.threads_per_lane, 0, share.lanes, 0});
  }
  if (!step.shard_graphs.empty()) ListCollectives(*step.shard_graphs[0].second, &plan);
  plan.segments = 1 + static_cast<int>(plan.collectives.size());
  ListCollectives(*step.graph, &plan);
  SharedNumbers numbers;
  std::vector<Device> devices;
  for (const DeviceShare& share : step.devices) devices.push_back(share.device);
  const SharedStates shared = FindSharedStates(*step.graph, devices);
  const bool split = !step.shard_graphs.empty();
  for (int d = 0; d < static_cast<int>(step.devices.size()); ++d) {
    std::vector<std::pair<int64_t, int>> program_of_size;
    if (split) {
      for (const auto& [size, graph] : step.shard_graphs) {
        bool runs_here = false;
        for (size_t s = 0; s < step.shard_sizes.size(); ++s) {
          runs_here |= step.device_of_shard[s] == d && step.shard_sizes[s] == size;
        }
        if (!runs_here) continue;
        // Shard graphs are written for one replica, without device.
        DeviceShare share = step.devices[d];
        const Device real = share.device;
        share.device = Device{real.kind, 0};
        ProgramPlanner planner(&plan, *graph, d, share, kernels, layouts, shared, &numbers);
        ASSIGN_OR_RETURN(PlanProgram program, planner.Run(size, false, true));
        program_of_size.emplace_back(size, static_cast<int>(plan.programs.size()));
        plan.programs.push_back(std::move(program));
      }
    }
    int64_t size = 0;
    for (size_t s = 0; s < step.shard_sizes.size(); ++s) {
      if (step.device_of_shard[s] == d) size = step.shard_sizes[s];
    }
    for (const auto& [shard_size, number] : program_of_size) {
      if (static_cast<int>(plan.programs[number].cuts.size()) + 1 != plan.segments) {
        return absl::InternalError(
            absl::StrCat("shards of ", shard_size, " samples meet at other places than others"));
      }
    }
    ProgramPlanner planner(&plan, *step.graph, d, step.devices[d], kernels, layouts, shared,
                           &numbers);
    ASSIGN_OR_RETURN(PlanProgram program, planner.Run(split ? -1 : size, split, false));
    const int last = static_cast<int>(plan.programs.size());
    plan.programs.push_back(std::move(program));
    OrderDevice(step, d, program_of_size, last, &plan);
  }
  for (const PlanProgram& program : plan.programs) {
    PlanDevice& device = plan.devices[program.device];
    device.arena_bytes = std::max(device.arena_bytes, program.arena_bytes);
  }
  return plan;
}

}  // namespace onward
