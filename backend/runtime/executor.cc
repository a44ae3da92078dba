#include "backend/runtime/executor.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "backend/runtime/all_reduce.h"
#include "backend/runtime/bind.h"
#include "backend/runtime/collectives.h"
#include "backend/runtime/flush_denormals.h"
#include "backend/runtime/interpreter.h"
#include "backend/runtime/lanes.h"
#include "graph/base/errors.h"
#include "graph/base/memory.h"
#include "graph/base/status_macros.h"
#include "kernels/threads/progress.h"
#include "kernels/threads/team.h"

namespace onward {
class Executor::Machine {
 public:
  Machine(Plan plan, const KernelTable& kernels, StateStore* states, ExecutorOptions options)
      : plan_(std::move(plan)), kernels_(kernels), states_(states), options_(std::move(options)) {}

  ~Machine() {
    quit_.store(true);
    stop_.store(true);
    start_.Wake();
    for (auto& lane : lanes_) {
      if (lane->thread.joinable()) lane->thread.join();
    }
  }

  absl::Status Prepare() {
    RETURN_IF_ERROR(TakeMemory());
    RETURN_IF_ERROR(MakeLanes());
    MakeCollectives();
    MakeCrossings();
    StartThreads();
    return absl::OkStatus();
  }

  absl::Status Run(int set) {
    set_ = set;
    stop_.store(false, std::memory_order_relaxed);
    for (auto& lane : lanes_) {
      lane->arrived.Reset();
      lane->reduced.Reset();
      lane->shards_done.Reset();
      lane->status = absl::OkStatus();
    }
    if (collectives_ != nullptr) collectives_->BeginStep();
    ++generation_;
    start_.Publish(generation_);
    {
      const TeamSizeScope size(lanes_[0]->threads);
      const FlushDenormals flush;
      RunLane(*lanes_[0]);
    }
    const std::atomic<bool> never{false};
    for (auto& lane : lanes_) {
      if (lane->thread.joinable()) lane->finished.WaitFor(generation_, never, !crowded_);
    }
    if (collectives_ != nullptr) collectives_->EndStep();
    for (auto& lane : lanes_) RETURN_IF_ERROR(lane->status);
    return absl::OkStatus();
  }

  const Plan& plan() const { return plan_; }

  int64_t bytes() const {
    int64_t sum = 0;
    const auto add = [&sum](const std::vector<DeviceMemory>& pieces) {
      for (const DeviceMemory& memory : pieces) sum += AlignedBytes(memory.bytes());
    };
    for (const auto& device : arenas_) add(device);
    for (const auto& device : partials_) {
      for (const auto& lane : device) add(lane);
    }
    sum += constant_bytes_;
    add(own_feeds_);
    add(output_memory_);
    return sum;
  }

  TensorView Feed(const std::string& name, int shard, int set) const {
    const int device = DeviceOfShard(shard);
    for (size_t f = 0; f < plan_.feeds.size(); ++f) {
      const PlanFeed& feed = plan_.feeds[f];
      if (feed.name != name || feed.device != device) continue;
      if (feed.shard_size >= 0 && feed.shard_size != plan_.shard_sizes[shard]) continue;
      return {feed.type,
              FeedPlace(static_cast<int>(f), feed.shard_size < 0 ? 0 : SlotOfShard(shard), set)};
    }
    return {};
  }

  int feed_sets() const { return options_.feed_sets; }

  // Every place of the feed: data type, set, memory.
  template <typename Visit>
  void VisitPlaces(const std::string& name, const Visit& visit) const {
    for (size_t f = 0; f < plan_.feeds.size(); ++f) {
      if (plan_.feeds[f].name != name) continue;
      for (size_t i = 0; i < feed_memory_[f].size(); ++i) {
        visit(plan_.feeds[f].type.dtype, static_cast<int>(i) % options_.feed_sets,
              feed_memory_[f][i]);
      }
    }
  }

  TensorView Output(const std::string& name, int device) const {
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const PlanOutput& o = plan_.outputs[i];
      if (o.name == name && o.device == device) {
        return {plan_.buffers[o.buffer].type, output_memory_[i].data()};
      }
    }
    return {};
  }

  void StartTrace(int64_t most) {
    trace_.assign(lanes_.size() + plan_.devices.size(), {});
    for (auto& events : trace_) events.reserve(most);
    SetTrace(true);
  }
  std::vector<TraceEvent> StopTrace() {
    SetTrace(false);
    std::vector<TraceEvent> all;
    for (auto& events : trace_) all.insert(all.end(), events.begin(), events.end());
    trace_.clear();
    return all;
  }

 private:
  int DeviceOfShard(int shard) const {
    for (const PlanEntry& e : plan_.order) {
      if (e.shard == shard) return e.device;
    }
    return 0;
  }

  // The number of a shard among those of its size on its device.
  int SlotOfShard(int shard) const {
    const int device = DeviceOfShard(shard);
    int slot = 0;
    for (int s = 0; s < shard; ++s) {
      slot += DeviceOfShard(s) == device && plan_.shard_sizes[s] == plan_.shard_sizes[shard];
    }
    return slot;
  }

  void* FeedPlace(size_t feed, int slot, int set) const {
    return feed_memory_[feed][slot * options_.feed_sets + set];
  }

  absl::Status TakeMemory() {
    for (size_t d = 0; d < plan_.devices.size(); ++d) {
      const PlanDevice& device = plan_.devices[d];
      arenas_.emplace_back();
      partials_.emplace_back();
      for (int a = 0; a < device.arenas; ++a) {
        ASSIGN_OR_RETURN(DeviceMemory arena, DeviceMemory::Allocate(device.arena_bytes));
        arenas_.back().push_back(std::move(arena));
      }
      for (int lane = 0; lane < device.lanes; ++lane) {
        partials_.back().emplace_back();
        for (int slot = 0; slot < device.slots; ++slot) {
          for (const TensorType& type : plan_.crossing) {
            ASSIGN_OR_RETURN(DeviceMemory memory, DeviceMemory::Allocate(type.bytes()));
            partials_.back().back().push_back(std::move(memory));
          }
        }
      }
    }
    for (size_t c = 0; c < plan_.constants.size(); ++c) {
      // One that lies as the plan wants it is read where it is.
      const Tensor& constant = *plan_.constants[c];
      constants_.push_back(const_cast<void*>(constant.data()));
      constant_bytes_ += plan_.ConstantBytes(static_cast<int>(c));
      if (constant.type() == plan_.constant_types[c]) continue;
      ASSIGN_OR_RETURN(DeviceMemory memory,
                       DeviceMemory::Allocate(plan_.constant_types[c].bytes()));
      ConvertLayout(constant.view(), {plan_.constant_types[c], memory.data()});
      constants_.back() = memory.data();
      constant_memory_.push_back(std::move(memory));
    }
    for (const PlanFeed& feed : plan_.feeds) RETURN_IF_ERROR(TakeFeed(feed));
    for (const PlanOutput& o : plan_.outputs) {
      ASSIGN_OR_RETURN(DeviceMemory memory,
                       DeviceMemory::Allocate(plan_.buffers[o.buffer].type.bytes()));
      output_memory_.push_back(std::move(memory));
    }
    return absl::OkStatus();
  }

  // Places for every shard that the feed belongs to, in all sets.
  absl::Status TakeFeed(const PlanFeed& feed) {
    std::vector<int> shards;
    for (size_t s = 0; s < plan_.shard_sizes.size(); ++s) {
      if (feed.shard_size == plan_.shard_sizes[s] &&
          DeviceOfShard(static_cast<int>(s)) == feed.device) {
        shards.push_back(static_cast<int>(s));
      }
    }
    if (feed.shard_size < 0) shards = {-1};
    feed_memory_.emplace_back();
    for (int shard : shards) {
      for (int set = 0; set < options_.feed_sets; ++set) {
        void* memory = options_.feed_memory && shard >= 0
                           ? options_.feed_memory(feed.name, shard, set)
                           : nullptr;
        if (memory == nullptr) {
          ASSIGN_OR_RETURN(DeviceMemory own, DeviceMemory::Allocate(feed.type.bytes()));
          memory = own.data();
          own_feeds_.push_back(std::move(own));
        }
        feed_memory_.back().push_back(memory);
      }
    }
    return absl::OkStatus();
  }

  void* Partial(int device, int lane, int slot, int crossing) const {
    return partials_[device][lane][slot * plan_.crossing.size() + crossing].data();
  }

  // Absent where `b` is negative.
  TensorView ViewOf(int b, int arena, int feed_set) const {
    return b < 0 ? TensorView{} : TensorView{plan_.buffers[b].type, Memory(b, arena, feed_set)};
  }

  // Where buffer `b` lies for an entry with that arena.
  void* Memory(int b, int arena, int feed_set) const {
    const PlanBuffer& buffer = plan_.buffers[b];
    switch (buffer.space) {
      case PlanBuffer::Space::kArena:
        return arenas_[buffer.device][arena].data() + buffer.offset;
      case PlanBuffer::Space::kState:
        return states_->data(plan_.states[buffer.index].name, buffer.device);
      case PlanBuffer::Space::kConstant:
        return constants_[buffer.index];
      case PlanBuffer::Space::kFeed: {
        const auto& places = feed_memory_[buffer.index];
        // A feed of the whole step has one place per set.
        return places[feed_set < static_cast<int>(places.size()) ? feed_set
                                                                 : feed_set % options_.feed_sets];
      }
      case PlanBuffer::Space::kOutput:
        return output_memory_[buffer.index].data();
      case PlanBuffer::Space::kPartial:
        return Partial(buffer.device, 0, 0, buffer.index);
    }
    return nullptr;
  }

  absl::StatusOr<std::unique_ptr<BoundKernel>> BindStep(const PlanStep& step,
                                                        const PlanProgram& program, int arena,
                                                        int feed_set) {
    KernelMemory memory;
    for (int b : step.inputs) memory.inputs.push_back(ViewOf(b, arena, feed_set));
    for (int b : step.outputs) memory.outputs.push_back(ViewOf(b, arena, feed_set));
    memory.scratch = arenas_[program.device][arena].data() + step.scratch_offset;
    return BindKernel(kernels_, step, std::move(memory), program.threads);
  }

  int FeedSets(const PlanStep& step) const {
    size_t sets = 1;
    for (int b : step.inputs) {
      if (b >= 0 && plan_.buffers[b].space == PlanBuffer::Space::kFeed) {
        sets = std::max(sets, feed_memory_[plan_.buffers[b].index].size());
      }
    }
    return static_cast<int>(sets);
  }

  absl::StatusOr<std::unique_ptr<BoundProgram>> BindProgram(const PlanProgram& program, int arena) {
    auto bound = std::make_unique<BoundProgram>();
    const TeamSizeScope size(program.threads);
    for (const PlanStep& step : program.steps) {
      BoundStep out;
      out.collective = step.stream == PlanStep::Stream::kCollective;
      // Between segments all lanes wait for one another.
      const bool beside = program.cuts.empty();
      out.wait = step.waits.empty() || !beside ? -1 : step.waits[0];
      bound->has_collectives |= out.collective && beside;
      const int sets = FeedSets(step);
      for (int set = 0; set < sets && !out.collective; ++set) {
        ASSIGN_OR_RETURN(std::unique_ptr<BoundKernel> kernel, BindStep(step, program, arena, set));
        out.kernels.push_back(std::move(kernel));
      }
      if (out.collective && beside && !step.waits.empty()) {
        bound->steps[step.waits[0]].awaited = true;
      }
      bound->steps.push_back(std::move(out));
    }
    return bound;
  }

  absl::Status MakeLanes() {
    for (size_t d = 0; d < plan_.devices.size(); ++d) {
      for (int l = 0; l < plan_.devices[d].lanes; ++l) {
        auto lane = std::make_unique<Lane>();
        lane->index = lanes_.size();
        lane->device = static_cast<int>(d);
        lane->lane = l;
        lane->threads = plan_.devices[d].threads_per_lane;
        RETURN_IF_ERROR(MakeTasks(lane.get()));
        lanes_.push_back(std::move(lane));
      }
    }
    return absl::OkStatus();
  }

  absl::Status MakeTasks(Lane* lane) {
    absl::flat_hash_map<std::pair<int, int>, BoundProgram*> bound;  // program, arena
    for (const PlanEntry& entry : plan_.order) {
      if (entry.device != lane->device || entry.lane != lane->lane) continue;
      const PlanProgram& program = plan_.programs[entry.program];
      BoundProgram*& known = bound[{entry.program, entry.arena}];
      if (known == nullptr) {
        ASSIGN_OR_RETURN(std::unique_ptr<BoundProgram> made, BindProgram(program, entry.arena));
        known = made.get();
        programs_.push_back(std::move(made));
      }
      Task task{&entry, &program, known, 0, static_cast<int>(program.steps.size()), 0, {}, {}, {}};
      if (entry.segment > 0) task.begin = program.cuts[entry.segment - 1] + 1;
      if (entry.segment < static_cast<int>(program.cuts.size())) {
        task.end = program.cuts[entry.segment];
      }
      if (entry.shard >= 0) task.feed_slot = SlotOfShard(entry.shard);
      AddStores(*lane, &task);
      lane->tasks.push_back(std::move(task));
    }
    return absl::OkStatus();
  }

  void AddStores(const Lane& lane, Task* task) const {
    const PlanEntry& entry = *task->entry;
    if (entry.store < 0) return;
    for (int c = 0; c < static_cast<int>(plan_.crossing.size()); ++c) {
      const TensorType& type = plan_.crossing[c];
      task->stores.emplace_back(Memory(task->program->crossing[c], entry.arena, 0),
                                Partial(lane.device, lane.lane, entry.store, c));
      task->store_bytes.push_back(type.bytes());
      for (const PlanEntry::Fold& f : entry.folds) {
        task->folds.push_back({type.dtype, Partial(lane.device, lane.lane, f.to, c),
                               Partial(lane.device, lane.lane, f.from, c),
                               PaddedElements(type.dims, type.layout)});
      }
    }
  }

  // The last program of each device holds its collectives.
  const PlanProgram& LastProgram(int device) const {
    int last = 0;
    for (const PlanEntry& e : plan_.order) {
      if (e.device == device && e.lane == 0) last = e.program;
    }
    return plan_.programs[last];
  }

  void MakeCollectives() {
    if (plan_.collectives.empty()) return;
    std::vector<std::vector<Collectives::Work>> work(plan_.devices.size());
    for (size_t d = 0; d < work.size(); ++d) {
      const PlanProgram& program = LastProgram(static_cast<int>(d));
      for (size_t i = 0; i < program.steps.size(); ++i) {
        const PlanStep& step = program.steps[i];
        if (step.stream != PlanStep::Stream::kCollective) continue;
        Collectives::Work one;
        one.step = static_cast<int>(i);
        one.wait = step.waits.empty() ? -1 : step.waits[0];
        for (size_t k = 0; k < step.inputs.size(); ++k) {
          one.reductions.push_back(Reduction(step.collective, static_cast<int>(k)));
        }
        work[d].push_back(std::move(one));
      }
    }
    collectives_ = std::make_unique<Collectives>(std::move(work), &stop_);
  }

  // Tensor k of collective `number`, over all devices.
  TreeReduction Reduction(int number, int k) const {
    std::vector<ShardBlock> blocks;
    std::vector<void*> memory;
    std::vector<void*> outputs;
    TensorType type;
    bool scatter = plan_.devices.size() > 1;
    for (int d = 0; d < static_cast<int>(plan_.devices.size()); ++d) {
      for (const PlanStep& step : LastProgram(d).steps) {
        if (step.stream != PlanStep::Stream::kCollective || step.collective != number) continue;
        const PlanBuffer& in = plan_.buffers[step.inputs[k]];
        type = in.type;
        outputs.push_back(Memory(step.outputs[k], 0, 0));
        scatter = scatter && step.scattered[k];
        if (in.space == PlanBuffer::Space::kPartial) {
          for (const ShardBlock& b : plan_.blocks) {
            if (b.device != d) continue;
            blocks.push_back(b);
            memory.push_back(Partial(b.device, b.lane, b.slot, in.index));
          }
        } else {
          blocks.push_back({d, 0, 0, d, 1});
          memory.push_back(Memory(step.inputs[k], 0, 0));
        }
      }
    }
    return TreeReduction(type.dtype, PaddedElements(type.dims, type.layout), blocks, memory,
                         outputs, scatter);
  }

  // The sums between segments, over all shards: every lane works on its slice of each.
  void MakeCrossings() {
    crossings_.resize(plan_.segments - 1);
    for (int segment = 0; segment + 1 < plan_.segments; ++segment) {
      std::vector<const PlanEntry*> entries(plan_.shard_sizes.size());  // by shard
      for (const PlanEntry& e : plan_.order) {
        if (e.shard >= 0 && e.segment == segment) entries[e.shard] = &e;
      }
      const auto step_of = [&](const PlanEntry& e) -> const PlanStep& {
        const PlanProgram& program = plan_.programs[e.program];
        return program.steps[program.cuts[segment]];
      };
      const PlanStep& first = step_of(*entries[0]);
      for (size_t k = 0; k < first.inputs.size(); ++k) {
        std::vector<ShardBlock> blocks;
        std::vector<void*> memory;
        std::vector<void*> outputs;
        for (const PlanEntry* e : entries) {
          blocks.push_back({e->device, e->lane, 0, e->shard, 1});
          memory.push_back(Memory(step_of(*e).inputs[k], e->arena, 0));
          outputs.push_back(Memory(step_of(*e).outputs[k], e->arena, 0));
        }
        const TensorType& type = plan_.buffers[first.inputs[k]].type;
        crossings_[segment].push_back(TreeReduction(
            type.dtype, PaddedElements(type.dims, type.layout), blocks, memory, outputs));
      }
    }
  }

  void StartThreads() {
    int threads = 0;
    for (const auto& lane : lanes_) threads += lane->threads;
    const int devices = static_cast<int>(plan_.devices.size());
    const int cores = CoresOfThisProcess();
    crowded_ = threads > cores;
    if (collectives_ != nullptr && devices > 1) {
      const bool own = options_.collective_threads == CollectiveThreads::kAlways ||
                       (options_.collective_threads == CollectiveThreads::kWhereCoresAreFree &&
                        threads + devices <= cores);
      crowded_ = crowded_ || (own && threads + devices > cores);
      collectives_->SetCrowded(crowded_);
      if (own) collectives_->StartThreads();
    }
    for (auto& lane : lanes_) {
      if (lane->index == 0) continue;  // the caller's
      lane->thread = std::thread([this, l = lane.get()] {
        const TeamSizeScope size(l->threads);
        const FlushDenormals flush;
        for (int32_t g = 1; start_.WaitFor(g, quit_) && !quit_.load(); ++g) {
          RunLane(*l);
          l->finished.Publish(g);
        }
      });
    }
  }

  void Fail(Lane& lane, absl::Status status) {
    lane.status = std::move(status);
    stop_.store(true);
    for (auto& l : lanes_) {
      l->arrived.Wake();
      l->reduced.Wake();
      l->shards_done.Wake();
    }
    if (collectives_ != nullptr) collectives_->Wake();
  }

  void SetTrace(bool on) {
    tracing_ = on;
    for (size_t d = 0; collectives_ != nullptr && d < plan_.devices.size(); ++d) {
      collectives_->SetTrace(static_cast<int>(d), TraceOf(lanes_.size() + d));
    }
  }

  std::vector<TraceEvent>* TraceOf(size_t index) {
    return tracing_ && index < trace_.size() ? &trace_[index] : nullptr;
  }

  void RunLane(Lane& lane) {
    std::vector<TraceEvent>* trace = TraceOf(lane.index);
    size_t next = 0;
    for (int segment = 0; segment < plan_.segments; ++segment) {
      for (; next < lane.tasks.size(); ++next) {
        Task& task = lane.tasks[next];
        if (task.program->tail || task.entry->segment != segment) break;
        if (!RunTask(lane, task, trace)) return;
      }
      if (segment + 1 < plan_.segments && !CrossShards(lane, segment)) return;
    }
    for (; next < lane.tasks.size(); ++next) {
      if (!WaitForShards(lane) || !RunTask(lane, lane.tasks[next], trace)) return;
    }
    lane.shards_done.Publish(1);
  }

  // False where this or another lane has failed.
  bool RunTask(Lane& lane, Task& task, std::vector<TraceEvent>* trace) {
    if (stop_.load(std::memory_order_relaxed)) return false;
    const absl::Status status = RunProgram(lane, task, trace);
    if (!status.ok()) {
      Fail(lane, status);
      return false;
    }
    for (size_t i = 0; i < task.stores.size(); ++i) {
      std::memcpy(task.stores[i].second, task.stores[i].first, task.store_bytes[i]);
    }
    for (const Task::Add& f : task.folds) AddInto(f.dtype, f.to, f.from, f.elements);
    return true;
  }

  // Sums over all shards what they have made in `segment`. False where another lane has
  // failed.
  bool CrossShards(Lane& lane, int segment) {
    lane.arrived.Publish(segment + 1);
    for (auto& other : lanes_) {
      if (!other->arrived.WaitFor(segment + 1, stop_)) return false;
    }
    const int part = static_cast<int>(lane.index);
    for (const TreeReduction& r : crossings_[segment]) {
      r.Run(part, static_cast<int>(lanes_.size()));
    }
    lane.reduced.Publish(segment + 1);
    for (auto& other : lanes_) {
      if (!other->reduced.WaitFor(segment + 1, stop_)) return false;
    }
    return true;
  }

  // Before a tail: every lane of the device has done its shards.
  bool WaitForShards(Lane& lane) {
    for (auto& other : lanes_) {
      if (other->device != lane.device || other.get() == &lane) continue;
      if (!other->shards_done.WaitFor(1, stop_)) return false;
    }
    return true;
  }

  absl::Status RunProgram(Lane& lane, Task& task, std::vector<TraceEvent>* trace) {
    BoundProgram& program = *task.bound;
    const int feed_set = task.feed_slot * options_.feed_sets + set_;
    const bool beside = program.has_collectives && plan_.devices.size() > 1;
    if (beside) collectives_->Arrive(lane.device, -1);
    int alone = 0;  // collectives that the only device has done
    for (int i = task.begin; i < task.end; ++i) {
      BoundStep& step = program.steps[i];
      if (step.collective) {
        if (!beside) collectives_->RunAlone(alone++, task.program->threads);
        continue;
      }
      if (beside && step.wait >= 0 && !collectives_->Finish(lane.device, step.wait)) {
        return absl::OkStatus();  // another lane has failed, and says why
      }
      BoundKernel& kernel =
          *step.kernels[step.kernels.size() == 1 ? 0 : feed_set % step.kernels.size()];
      const int64_t begin = trace != nullptr ? TraceClock() : 0;
      absl::Status status = kernel.Run();
      if (trace != nullptr && trace->size() < trace->capacity()) {
        trace->push_back({lane.device, lane.lane, task.entry->program, i, task.entry->shard, begin,
                          TraceClock()});
      }
      if (!status.ok()) {
        const std::string& source = task.program->steps[i].source;
        const absl::Status told =
            source.empty() ? status : Annotate(status, absl::StrCat("node '", source, "'"));
        // What data can cause is a wrong index or label; the rest is a fault of ours.
        return absl::IsInternal(told) ? told : WithExitCode(told, ExitCode::kData);
      }
      if (!beside) continue;
      if (step.awaited) collectives_->Arrive(lane.device, i);
      collectives_->Poll(lane.device);
    }
    if (beside) collectives_->Finish(lane.device, task.end);
    return absl::OkStatus();
  }

  Plan plan_;
  const KernelTable& kernels_;
  StateStore* states_;
  ExecutorOptions options_;
  std::vector<std::vector<DeviceMemory>> arenas_;                 // device, arena
  std::vector<std::vector<std::vector<DeviceMemory>>> partials_;  // device, lane, slot*crossing
  std::vector<void*> constants_;                                  // read only
  std::vector<DeviceMemory> constant_memory_;
  int64_t constant_bytes_ = 0;
  std::vector<std::vector<void*>> feed_memory_;  // feed, slot*sets
  std::vector<DeviceMemory> own_feeds_;
  std::vector<DeviceMemory> output_memory_;
  std::vector<std::unique_ptr<BoundProgram>> programs_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::atomic<bool> stop_{false};
  std::unique_ptr<Collectives> collectives_;           // null where the plan has none
  std::vector<std::vector<TreeReduction>> crossings_;  // after each segment but the last
  Progress start_;
  int32_t generation_ = 0;
  std::atomic<bool> quit_{false};
  bool crowded_ = false;  // fewer cores than threads: who waits leaves its core to others
  int set_ = 0;
  bool tracing_ = false;
  std::vector<std::vector<TraceEvent>> trace_;  // by lane, then by device that of collectives
};

void ScalarFeed::Set(double number, int set) const {
  for (const Place& place : places_) {
    if (place.set != set) continue;
    switch (place.dtype) {
      case DataType::kFloat32:
        *static_cast<float*>(place.data) = static_cast<float>(number);
        break;
      case DataType::kFloat64:
        *static_cast<double*>(place.data) = number;
        break;
      case DataType::kInt64:
        *static_cast<int64_t*>(place.data) = static_cast<int64_t>(number);
        break;
      default:
        ONWARD_CHECK(place.dtype == DataType::kInt32);
        *static_cast<int32_t*>(place.data) = static_cast<int32_t>(number);
    }
  }
}

Executor::Executor(std::unique_ptr<Machine> machine) : machine_(std::move(machine)) {}
Executor::~Executor() = default;

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(Plan plan, const KernelTable& kernels,
                                                           StateStore* states,
                                                           ExecutorOptions options) {
  auto machine = std::make_unique<Machine>(std::move(plan), kernels, states, std::move(options));
  RETURN_IF_ERROR(machine->Prepare());
  return std::unique_ptr<Executor>(new Executor(std::move(machine)));
}

const Plan& Executor::plan() const { return machine_->plan(); }
int64_t Executor::bytes() const { return machine_->bytes(); }
TensorView Executor::Feed(const std::string& name, int shard, int set) const {
  return machine_->Feed(name, shard, set);
}
ScalarFeed Executor::Scalar(const std::string& name) const {
  ScalarFeed feed;
  machine_->VisitPlaces(name, [&](DataType dtype, int set, void* data) {
    feed.places_.push_back({dtype, set, data});
  });
  return feed;
}
ScalarFeed Executor::ShardScalar(const std::string& name, int shard) const {
  ScalarFeed feed;
  for (int set = 0; set < machine_->feed_sets(); ++set) {
    const TensorView view = machine_->Feed(name, shard, set);
    if (view.data != nullptr) feed.places_.push_back({view.type.dtype, set, view.data});
  }
  return feed;
}
absl::Status Executor::Run(int set) { return machine_->Run(set); }
TensorView Executor::Output(const std::string& name, int device) const {
  return machine_->Output(name, device);
}
void Executor::StartTrace(int64_t most_events) { machine_->StartTrace(most_events); }
std::vector<TraceEvent> Executor::StopTrace() { return machine_->StopTrace(); }

}  // namespace onward
