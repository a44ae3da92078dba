// The rows of oneDNN, one file per family of primitives. Every function appends.
#ifndef ONWARD_KERNELS_ONEDNN_ONEDNN_H_
#define ONWARD_KERNELS_ONEDNN_ONEDNN_H_

#include "kernels/kernel.h"

namespace onward::onednn {

void AddMatMulRows(KernelTable& table);
void AddConvRows(KernelTable& table);
void AddPoolRows(KernelTable& table);
void AddNormRows(KernelTable& table);
void AddSoftmaxRows(KernelTable& table);
void AddReorderRows(KernelTable& table);

}  // namespace onward::onednn

#endif  // ONWARD_KERNELS_ONEDNN_ONEDNN_H_
