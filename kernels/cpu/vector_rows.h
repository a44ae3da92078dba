// Rows of vector kernels. Their code is compiled once per instruction set and the
// best that the processor has is chosen at run time (Highway's dispatch). Every
// function appends its rows, which go ahead of the reference rows.
#ifndef ONWARD_KERNELS_CPU_VECTOR_ROWS_H_
#define ONWARD_KERNELS_CPU_VECTOR_ROWS_H_

#include "kernels/kernel.h"

namespace onward {

void AddLossVector(KernelTable& table);
void AddRandomVector(KernelTable& table);
void AddOptimizerVector(KernelTable& table);

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_VECTOR_ROWS_H_
