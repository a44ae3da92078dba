// Which random numbers the elements of a tensor get: shared by the reference and
// the vector kernels of random operators.
#ifndef ONWARD_KERNELS_CPU_RANDOM_ELEMENTS_H_
#define ONWARD_KERNELS_CPU_RANDOM_ELEMENTS_H_

#include <cstdint>
#include <utility>

#include "graph/base/shape.h"
#include "kernels/kernel.h"
#include "kernels/philox.h"

namespace onward {

// The elements of a plain tensor [outer, samples, inner] and their indices in the
// global tensor, whose samples come first: element (o, s, i) has index
// (offset + s) * outer * inner + o * inner + i. Without a sample axis the whole
// tensor is one sample.
struct RandomElements {
  int64_t outer = 1;
  int64_t samples = 1;
  int64_t inner = 1;
  int64_t offset = 0;

  RandomElements(absl::Span<const int64_t> dims, int64_t axis, int64_t sample_offset) {
    for (int64_t i = 0; i < static_cast<int64_t>(dims.size()); ++i) {
      (i < axis ? outer : i == axis ? samples : inner) *= dims[i];
    }
    if (axis >= 0) offset = sample_offset;
  }

  // Elements in memory whose indices follow one another, as long as can be: a
  // tensor has Runs() of them, each of RunLength() elements.
  int64_t Runs() const { return outer == 1 ? 1 : outer * samples; }
  int64_t RunLength() const { return outer == 1 ? samples * inner : inner; }
  // The global index of the first element of a run; its place in memory is
  // run * RunLength().
  uint64_t RunIndex(int64_t run) const {
    if (outer == 1) return static_cast<uint64_t>(offset) * inner;
    const uint64_t o = run / samples, s = run % samples;
    return (static_cast<uint64_t>(offset) + s) * outer * inner + o * inner;
  }

  // Calls visit(place in memory, global index) for every element.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t s = 0; s < samples; ++s) {
        for (int64_t i = 0; i < inner; ++i) {
          visit((o * samples + s) * inner + i,
                (static_cast<uint64_t>(offset) + s) * outer * inner + o * inner + i);
        }
      }
    }
  }
};

// Where a random operator's call has its numbers: inputs `first` to first + 2 are seed,
// step and sample offset, attributes `key` and `axis`.
struct RandomSource {
  const int64_t* seed;
  const int64_t* step;
  const int64_t* sample_offset;
  int64_t key;
  int64_t axis;
  Dims dims;

  RandomSource(const KernelCall& call, const KernelMemory& memory, int first, Dims of)
      : seed(memory.inputs[first].as<int64_t>()),
        step(memory.inputs[first + 1].as<int64_t>()),
        sample_offset(memory.inputs[first + 2].as<int64_t>()),
        key(call.attributes->Int("key", 0)),
        axis(call.attributes->Int("axis", -1)),
        dims(std::move(of)) {}
};

// What they are in one step.
struct RandomCall {
  RandomStream stream;
  RandomElements elements;

  explicit RandomCall(const RandomSource& source)
      : stream(*source.seed, *source.step, source.key),
        elements(source.dims, source.axis, *source.sample_offset) {}
};

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_RANDOM_ELEMENTS_H_
