#include "kernels/cpu/copy.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/quantize.h"
#include "kernels/cpu/reduce.h"
#include "kernels/cpu/reference.h"
#include "kernels/cpu/vector_rows.h"
#include "kernels/kernel.h"
#include "kernels/onednn/onednn.h"

namespace onward {

const KernelTable& CpuKernels() {
  static const KernelTable* const table = [] {
    auto* rows = new KernelTable;
    // Rows are tried in this order: libraries first, reference loops last.
    onednn::AddMatMulRows(*rows);
    onednn::AddConvRows(*rows);
    onednn::AddPoolRows(*rows);
    onednn::AddNormRows(*rows);
    onednn::AddSoftmaxRows(*rows);
    onednn::AddReorderRows(*rows);
    AddElementwiseKernels(*rows);
    AddPoolKernels(*rows);
    AddLossVector(*rows);
    AddRandomVector(*rows);
    AddOptimizerVector(*rows);
    AddReduceKernels(*rows);
    AddCopyKernels(*rows);
    AddQuantizeKernels(*rows);
    AddElementwiseReference(*rows);
    AddCastReference(*rows);
    AddTextReference(*rows);
    AddClassicalReference(*rows);
    AddLinearReference(*rows);
    AddShapeReference(*rows);
    AddIndexReference(*rows);
    AddReduceReference(*rows);
    AddConvReference(*rows);
    AddPoolReference(*rows);
    AddNormReference(*rows);
    AddSoftmaxReference(*rows);
    AddLossReference(*rows);
    AddRandomReference(*rows);
    AddOptimizerReference(*rows);
    AddLayoutReference(*rows);
    return rows;
  }();
  return *table;
}

}  // namespace onward
