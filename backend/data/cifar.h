// CIFAR-10 and CIFAR-100, in both forms that they are published in.
#ifndef ONWARD_BACKEND_DATA_CIFAR_H_
#define ONWARD_BACKEND_DATA_CIFAR_H_

#include <vector>

#include "absl/status/statusor.h"
#include "backend/data/dataset.h"

namespace onward {

// Both give a column "images" (uint8, 3x32x32, red, green and blue planes) and,
// for CIFAR-10, "labels"; for CIFAR-100 "fine_labels" and "coarse_labels"
// (uint8). All are in memory.

// The binary form: records of 3073 bytes (a label, an image) or of 3074 (coarse
// label, fine label, image). The file has no header: its length and the labels'
// range tell which it is.
absl::StatusOr<std::vector<Column>> ReadCifarBinary(ByteReader& reader, const ReadOptions& options);

// The Python form: a pickled dictionary with the keys data (n x 3072 uint8) and
// labels, or fine_labels and coarse_labels. Only what such files hold is
// understood (protocols 2 to 5: numbers, texts, lists, tuples, dictionaries,
// NumPy arrays); nothing is ever executed, and all else is refused by name.
bool LooksLikePickle(absl::string_view first_bytes);
absl::StatusOr<std::vector<Column>> ReadCifarPickle(ByteReader& reader, const ReadOptions& options);

}  // namespace onward

#endif  // ONWARD_BACKEND_DATA_CIFAR_H_
