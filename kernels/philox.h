// Philox4x32-10, the counter-based generator of Onward's random numbers (Salmon,
// Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011).
//
// A number is a function of where it is used and of nothing else: the seed, the
// step, the node's key and the element's index in the global tensor. So masks do
// not depend on the device, the shard, the batch size of a replica or the order of
// work, and a step that is run again gives the same ones. Header only, for hosts
// and for CUDA; vector code restates the rounds and must give the same words.
#ifndef ONWARD_KERNELS_PHILOX_H_
#define ONWARD_KERNELS_PHILOX_H_

#include <cstdint>

#if defined(__CUDACC__)
#define ONWARD_HOST_DEVICE __host__ __device__
#else
#define ONWARD_HOST_DEVICE
#endif

namespace onward {

inline constexpr int kPhiloxRounds = 10;
inline constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53;
inline constexpr uint32_t kPhiloxMultiplier1 = 0xCD9E8D57;
inline constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9;
inline constexpr uint32_t kPhiloxWeyl1 = 0xBB67AE85;

struct PhiloxBlock {
  uint32_t word[4];
};

// The four words of one counter under one key.
ONWARD_HOST_DEVICE inline PhiloxBlock Philox4x32(PhiloxBlock counter, uint32_t key0,
                                                 uint32_t key1) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(kPhiloxMultiplier0) * counter.word[0];
    const uint64_t product1 = static_cast<uint64_t>(kPhiloxMultiplier1) * counter.word[2];
    const PhiloxBlock next = {{static_cast<uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
                               static_cast<uint32_t>(product1),
                               static_cast<uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
                               static_cast<uint32_t>(product0)}};
    counter = next;
    key0 += kPhiloxWeyl0;
    key1 += kPhiloxWeyl1;
  }
  return counter;
}

// The random words of one node in one step. The key is the seed (the upper half of
// the step mixed in); the counter is the index of a block of four elements, the
// lower half of the step, and the node's key.
struct RandomStream {
  uint32_t key0 = 0;
  uint32_t key1 = 0;
  uint32_t step = 0;
  uint32_t node = 0;

  ONWARD_HOST_DEVICE RandomStream(int64_t seed, int64_t step_number, int64_t node_key)
      : key0(static_cast<uint32_t>(seed)),
        key1(static_cast<uint32_t>(static_cast<uint64_t>(seed) >> 32) ^
             static_cast<uint32_t>(static_cast<uint64_t>(step_number) >> 32)),
        step(static_cast<uint32_t>(step_number)),
        node(static_cast<uint32_t>(node_key)) {}

  // Words of elements 4 * block to 4 * block + 3.
  ONWARD_HOST_DEVICE PhiloxBlock Block(uint64_t block) const {
    return Philox4x32(
        {{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), step, node}}, key0,
        key1);
  }
  // The word of one element.
  ONWARD_HOST_DEVICE uint32_t Word(uint64_t element) const {
    return Block(element / 4).word[element % 4];
  }

  // Dropout's number of one element costs half a word. Its upper half is the
  // element's half word: block element / 8, whose words are halved from the lower
  // half on. Its lower half decides only where the upper half alone does not, one
  // time in 65,536, and is the upper half of the element's word in a second stream.
  ONWARD_HOST_DEVICE uint32_t Half(uint64_t element) const {
    return (Block(element / 8).word[element % 8 / 2] >> (16 * (element % 2))) & 0xffff;
  }
  ONWARD_HOST_DEVICE uint32_t LowerHalf(uint64_t element) const {
    RandomStream second = *this;
    second.node ^= 0x40000000;
    return second.Word(element) >> 16;
  }
  ONWARD_HOST_DEVICE uint32_t NumberOfHalves(uint64_t element) const {
    return Half(element) << 16 | LowerHalf(element);
  }
};

}  // namespace onward

#endif  // ONWARD_KERNELS_PHILOX_H_
