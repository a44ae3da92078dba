// Writes stages of the walk to files.
#ifndef ONWARD_TOOLS_ONWARD_DUMP_H_
#define ONWARD_TOOLS_ONWARD_DUMP_H_

#include "backend/training/config.h"
#include "backend/training/walk.h"

namespace onward {

// Writes each stage that config.dump names ("all": every one) to
// config.dump_dir/STAGE.onnx and STAGE.txt, once; of the plan the text alone. Empty where
// nothing is asked for.
StageObserver DumpStages(const RunConfig& config);

}  // namespace onward

#endif  // ONWARD_TOOLS_ONWARD_DUMP_H_
