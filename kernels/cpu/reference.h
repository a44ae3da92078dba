// The reference loops: short, plain, right; the oracle of every other kernel.
// One file per family, as in graph/ops/. Every function appends its rows.
#ifndef ONWARD_KERNELS_CPU_REFERENCE_H_
#define ONWARD_KERNELS_CPU_REFERENCE_H_

#include "kernels/kernel.h"

namespace onward {

void AddElementwiseReference(KernelTable& table);
void AddCastReference(KernelTable& table);
void AddLinearReference(KernelTable& table);
void AddShapeReference(KernelTable& table);
void AddIndexReference(KernelTable& table);
void AddReduceReference(KernelTable& table);
void AddConvReference(KernelTable& table);
void AddPoolReference(KernelTable& table);
void AddNormReference(KernelTable& table);
void AddSoftmaxReference(KernelTable& table);
void AddLossReference(KernelTable& table);
void AddRandomReference(KernelTable& table);
void AddOptimizerReference(KernelTable& table);
void AddTextReference(KernelTable& table);
void AddClassicalReference(KernelTable& table);
void AddLayoutReference(KernelTable& table);

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_REFERENCE_H_
