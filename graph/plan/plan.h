// The second artefact: a step of training as steps over buffers.
//
// A Plan is data. It holds programs (straight-line lists of steps on one device),
// and the order in which the lanes of each device run them. A lane is a share of
// a device's threads with an arena of its own. Where every device runs one shard
// of the batch, a device has one program. Where it runs several (accumulation,
// --shards), it has a program per shard size that ends at the values which cross
// shards, and a tail that begins with their sums. Where values cross in the middle of
// a step (synchronised normalisation), such a program is cut into segments: all
// shards run one before any runs the next, and each shard has an arena of its own.
//
// Every pointer that an executor needs is a buffer here: nothing is decided while
// a step runs.
#ifndef ONWARD_GRAPH_PLAN_PLAN_H_
#define ONWARD_GRAPH_PLAN_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/base/attribute.h"
#include "graph/base/device.h"
#include "graph/base/tensor.h"
#include "graph/ir/graph.h"

namespace onward {

// Memory of one tensor.
struct PlanBuffer {
  enum class Space {
    kArena,     // of the entry that runs the program, at `offset`
    kState,     // memory of state `index` on `device`, kept between steps
    kConstant,  // constant `index`, shared by the devices of a kind
    kFeed,      // feed `index`: filled before the step, once per shard
    kOutput,    // output `index`: read after the step
    kPartial,   // sums of shards that cross programs: `index` is the crossing value
  };
  Space space = Space::kArena;
  int device = 0;  // index into Plan::devices
  int index = -1;
  int64_t offset = 0;  // kArena, in bytes
  TensorType type;
  std::string name;  // of the value, for people
};

// One launch.
struct PlanStep {
  enum class Stream { kCompute, kCollective };
  std::string op;      // operator id
  std::string kernel;  // row of the kernel table; empty for collectives
  bool reference = false;
  Attributes attributes;
  std::vector<int> inputs;  // buffers; -1 where absent
  std::vector<int> outputs;
  std::vector<const Tensor*> constants;  // values of inputs known here; null elsewhere
  int64_t scratch_offset = 0;            // in the lane's arena
  int64_t scratch_bytes = 0;
  double operations = 0;  // multiplications and additions, whichever kernel does them
  Phase phase = Phase::kForward;
  std::string source;  // node of the file, for messages
  Stream stream = Stream::kCompute;
  int collective = -1;  // number in the chain of collectives
  // Steps of this program on the other stream that must be done before.
  std::vector<int> waits;
  // Of a step that does part `part` of `parts` of the elements (PartOfElements) of its
  // first `range_inputs` inputs and all its outputs, the devices doing one part each.
  int part = 0;
  int parts = 1;
  int range_inputs = 0;
  // Of a collective, by output: this device reads its own part of the sum alone.
  std::vector<bool> scattered;
};

struct PlanProgram {
  int device = 0;
  int64_t shard_size = -1;  // samples of the shard that it runs; -1 for a tail
  bool tail = false;
  // On which its kernels run: those of a lane; for a tail, when no other lane has
  // anything to do, all of the device's.
  int threads = 1;
  std::vector<PlanStep> steps;
  // Buffers that hold the values which cross shards when the program ends, by index.
  std::vector<int> crossing;
  // Collective steps in the middle of a shard's program, in order: segment k ends at the
  // k-th, the last one with the program. The same number in all programs of a plan that
  // are no tails.
  std::vector<int> cuts;
  int64_t arena_bytes = 0;
};

// One all-reduce: the same on every device that takes part.
struct PlanCollective {
  std::string name;
  int64_t bytes = 0;  // per replica
  int tensors = 0;
};

// A partial sum of consecutive shards, which a lane holds.
struct ShardBlock {
  int device = 0;
  int lane = 0;
  int slot = 0;  // of the lane's partial memory
  int first_shard = 0;
  int shards = 1;
};

// What a lane does next: run a segment of `program` for a shard, then fold its partial
// sums. Before a lane's first entry of a segment k > 0, every lane of every device has
// done its entries of segment k - 1, and what they give to the collective that stands
// between is summed over all shards.
struct PlanEntry {
  int program = 0;
  int device = 0;
  int lane = 0;
  int shard = -1;  // -1: a tail
  int segment = 0;
  int arena = 0;  // of the device
  // After the program: its crossing values are stored to slot `store`; then slots
  // are added, in order: slot[to] += slot[from]. store < 0: nothing crosses.
  int store = -1;
  struct Fold {
    int to;
    int from;
  };
  std::vector<Fold> folds;
};

struct PlanDevice {
  Device device;
  int lanes = 1;
  int threads_per_lane = 1;
  int slots = 0;            // partial sums that a lane may hold at once
  int arenas = 1;           // one per lane, or per shard where programs have segments
  int64_t arena_bytes = 0;  // of one
};

struct PlanState {
  State::Kind kind = State::Kind::kParameter;
  std::string name;
  TensorType type;  // with the layout in which it is kept
  std::shared_ptr<const Tensor> initial;
  double fill = 0;
  // One copy for all devices, which share memory, each updating its part of it
  // (graph/plan/shared_states.h); else one per device.
  bool shared = false;
  // Does a step of this plan write it? What only reads takes either kind of copy.
  bool written = false;
};

struct PlanFeed {
  std::string name;
  TensorType type;
  int device = 0;
  // Filled once per shard of this size on the device; -1: once per step (tails).
  int64_t shard_size = -1;
};

struct PlanOutput {
  std::string name;
  int device = 0;
  int buffer = -1;
};

struct Plan {
  std::vector<PlanDevice> devices;
  std::vector<PlanBuffer> buffers;
  std::vector<PlanState> states;
  std::vector<std::shared_ptr<const Tensor>> constants;
  std::vector<TensorType> constant_types;  // with layout
  std::vector<bool> constant_in_file;      // an initializer of the model's
  std::vector<PlanFeed> feeds;
  std::vector<PlanOutput> outputs;
  std::vector<PlanProgram> programs;
  std::vector<PlanEntry> order;  // per lane in the order in which they stand
  std::vector<PlanCollective> collectives;
  int segments = 1;                  // of the programs that are no tails
  std::vector<int64_t> shard_sizes;  // of the global batch, by shard
  // Crossing values (kPartial buffers): bytes of one slot for each.
  std::vector<TensorType> crossing;
  // Blocks that the lanes hold when the tails begin, in shard order.
  std::vector<ShardBlock> blocks;

  // Memory that the plan takes on device `d`, in bytes, exact: arenas of all
  // lanes, states, partial sums, and feeds and outputs.
  int64_t ArenaBytes(int d) const;
  // States of one device; those that all share are counted with the first.
  int64_t StateBytes(int d) const;
  int64_t PartialBytes(int d) const;
  // Of one of the two sets of feeds.
  int64_t FeedBytes(int d) const;
  int64_t OutputBytes(int d) const;
  // Of all constants, or of one: 0 for one of the file's that is read where it is.
  int64_t ConstantBytes() const;
  int64_t ConstantBytes(int c) const;
};

// For people and golden tests: programs with steps, buffers and offsets.
// Deterministic: the same graph and options give the same text.
std::string ToText(const Plan& plan);

// A hash of states, collectives and their order: what must be equal on every
// process of a job. Kernels and layouts of a device are not in it.
uint64_t Fingerprint(const Plan& plan);

}  // namespace onward

#endif  // ONWARD_GRAPH_PLAN_PLAN_H_
