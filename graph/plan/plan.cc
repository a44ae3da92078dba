#include "graph/plan/plan.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/base/memory.h"

namespace onward {
namespace {

std::string Where(const Plan& plan, int b) {
  if (b < 0) return "-";
  const PlanBuffer& buffer = plan.buffers[b];
  std::string place;
  switch (buffer.space) {
    case PlanBuffer::Space::kArena:
      place = absl::StrCat("@", buffer.offset);
      break;
    case PlanBuffer::Space::kState:
      place = absl::StrCat("state ", buffer.index);
      break;
    case PlanBuffer::Space::kConstant:
      place = absl::StrCat("constant ", buffer.index);
      break;
    case PlanBuffer::Space::kFeed:
      place = absl::StrCat("feed ", buffer.index);
      break;
    case PlanBuffer::Space::kOutput:
      place = absl::StrCat("output ", buffer.index);
      break;
    case PlanBuffer::Space::kPartial:
      place = absl::StrCat("partial ", buffer.index);
      break;
  }
  return absl::StrCat(buffer.name, " ", ToString(buffer.type), " ", place);
}

void AppendStep(const Plan& plan, const PlanStep& step, int number, std::string* out) {
  absl::StrAppendFormat(out, "  %3d %-8s %s", number, Name(step.phase), step.op);
  if (step.stream == PlanStep::Stream::kCollective) {
    absl::StrAppend(out, " #", step.collective);
  } else {
    absl::StrAppend(out, " by ", step.kernel);
    if (step.parts > 1) absl::StrAppend(out, " part ", step.part + 1, " of ", step.parts);
  }
  const std::string attributes = ToString(step.attributes);
  if (!attributes.empty()) absl::StrAppend(out, " {", attributes, "}");
  if (!step.waits.empty()) absl::StrAppend(out, " after ", step.waits[0]);
  absl::StrAppend(out, "\n");
  for (int b : step.inputs) absl::StrAppend(out, "        < ", Where(plan, b), "\n");
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    const bool scattered = i < step.scattered.size() && step.scattered[i];
    absl::StrAppend(out, "        > ", Where(plan, step.outputs[i]), scattered ? " part\n" : "\n");
  }
  if (step.scratch_bytes > 0) {
    absl::StrAppend(out, "        scratch ", step.scratch_bytes, " bytes @", step.scratch_offset,
                    "\n");
  }
}

}  // namespace

int64_t Plan::ArenaBytes(int d) const { return devices[d].arena_bytes * devices[d].arenas; }

int64_t Plan::StateBytes(int d) const {
  int64_t bytes = 0;
  for (const PlanState& s : states) bytes += s.shared && d > 0 ? 0 : AlignedBytes(s.type.bytes());
  return bytes;
}

int64_t Plan::PartialBytes(int d) const {
  int64_t slot = 0;
  for (const TensorType& t : crossing) slot += AlignedBytes(t.bytes());
  return slot * devices[d].slots * devices[d].lanes;
}

int64_t Plan::FeedBytes(int d) const {
  int64_t bytes = 0;
  for (const PlanFeed& feed : feeds) {
    if (feed.device != d) continue;
    int64_t sets = 1;
    if (feed.shard_size >= 0) {
      sets = 0;
      for (const PlanEntry& e : order) {
        sets += e.device == d && e.shard >= 0 && e.segment == 0 &&
                programs[e.program].shard_size == feed.shard_size;
      }
    }
    bytes += AlignedBytes(feed.type.bytes()) * sets;
  }
  return bytes;
}

int64_t Plan::OutputBytes(int d) const {
  int64_t bytes = 0;
  for (const PlanOutput& o : outputs) {
    if (o.device == d) bytes += AlignedBytes(buffers[o.buffer].type.bytes());
  }
  return bytes;
}

int64_t Plan::ConstantBytes() const {
  int64_t bytes = 0;
  for (size_t c = 0; c < constants.size(); ++c) bytes += ConstantBytes(static_cast<int>(c));
  return bytes;
}

int64_t Plan::ConstantBytes(int c) const {
  const bool as_it_is = constants[c]->type() == constant_types[c];
  return as_it_is && constant_in_file[c] ? 0 : AlignedBytes(constant_types[c].bytes());
}

std::string ToText(const Plan& plan) {
  std::string out;
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    const PlanDevice& device = plan.devices[d];
    absl::StrAppend(&out, "device ", ToString(device.device), ": ", device.lanes, " lanes of ",
                    device.threads_per_lane, " threads, arena ", device.arena_bytes, " bytes",
                    device.arenas > device.lanes ? " a shard\n" : " a lane\n");
  }
  for (size_t i = 0; i < plan.states.size(); ++i) {
    absl::StrAppend(&out, "state ", i, " ", plan.states[i].name, " ", ToString(plan.states[i].type),
                    plan.states[i].shared ? " shared\n" : "\n");
  }
  for (const PlanCollective& c : plan.collectives) {
    absl::StrAppend(&out, "collective ", c.name, ": ", c.tensors, " tensors, ", c.bytes,
                    " bytes\n");
  }
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    const PlanProgram& program = plan.programs[p];
    absl::StrAppend(&out, "program ", p, " on ", ToString(plan.devices[program.device].device),
                    program.tail ? ", tail" : absl::StrCat(", shards of ", program.shard_size),
                    ", ", program.threads, " threads, arena ", program.arena_bytes, " bytes\n");
    for (size_t i = 0; i < program.steps.size(); ++i) {
      AppendStep(plan, program.steps[i], static_cast<int>(i), &out);
    }
  }
  for (const PlanEntry& e : plan.order) {
    absl::StrAppend(&out, "run program ", e.program, " on ",
                    ToString(plan.devices[e.device].device), " lane ", e.lane);
    if (e.shard >= 0) absl::StrAppend(&out, " shard ", e.shard);
    if (plan.segments > 1 && e.shard >= 0) absl::StrAppend(&out, " segment ", e.segment);
    if (e.store >= 0) absl::StrAppend(&out, " store ", e.store);
    for (const PlanEntry::Fold& f : e.folds) absl::StrAppend(&out, " fold ", f.to, "+", f.from);
    absl::StrAppend(&out, "\n");
  }
  return out;
}

uint64_t Fingerprint(const Plan& plan) {
  std::string text;
  for (const PlanState& s : plan.states) {
    absl::StrAppend(&text, s.name, " ", Name(s.type.dtype), ToString(s.type.dims), " ",
                    static_cast<int>(s.kind), "\n");
  }
  for (const PlanCollective& c : plan.collectives) {
    absl::StrAppend(&text, c.name, " ", c.tensors, " ", c.bytes, "\n");
  }
  for (int64_t size : plan.shard_sizes) absl::StrAppend(&text, size, ",");
  return XXH64(text.data(), text.size(), 0);
}

}  // namespace onward
