// Regions: what is left of control flow when a model has been read.
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

// The types of the results stand in the attributes type0, dims0, type1, ...
absl::Status InferRegion(InferContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) {
    const std::vector<int64_t> dims = c.attributes().Ints(absl::StrCat("dims", i));
    const int64_t type = c.attributes().Int(absl::StrCat("type", i), 0);
    if (type == 0 || !c.attributes().Has("body")) {
      return absl::InvalidArgumentError("a region without a body or types");
    }
    c.SetOutput(i, static_cast<DataType>(type), Dims(dims.begin(), dims.end()));
  }
  return absl::OkStatus();
}

// The gradients of the inputs whose numbers are in `wanted`, from all inputs, then dy of the
// outputs in `given`.
absl::Status InferRegionGradient(InferContext& c) {
  const std::vector<int64_t> wanted = c.attributes().Ints("wanted");
  if (static_cast<int>(wanted.size()) != c.num_outputs()) {
    return absl::InvalidArgumentError("as many outputs as are wanted are expected");
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    if (!c.has(static_cast<int>(wanted[i]))) {
      return absl::InvalidArgumentError("an input that is wanted is absent");
    }
    const TensorType& x = c.input(static_cast<int>(wanted[i]));
    c.SetOutput(i, x.dtype, x.dims);
  }
  return absl::OkStatus();
}

absl::Status RegionGradient(GradientContext& g) {
  std::vector<Expr> inputs;
  std::vector<int64_t> wanted, given;
  for (int i = 0; i < g.num_inputs(); ++i) {
    inputs.push_back(g.x(i));
    if (g.wants(i)) wanted.push_back(i);
  }
  for (int i = 0; i < g.node().num_outputs(); ++i) {
    if (!g.dy(i)) continue;
    given.push_back(i);
    inputs.push_back(g.dy(i));
  }
  const std::vector<Expr> dx =
      g.b().Ops("onward.RegionGradient", inputs,
                {{"body", g.attributes().String("body", "")}, {"wanted", wanted}, {"given", given}},
                static_cast<int>(wanted.size()));
  for (size_t i = 0; i < wanted.size(); ++i) g.dx(static_cast<int>(wanted[i]), dx[i]);
  return absl::OkStatus();
}

}  // namespace

void AddControlOperators(OperatorFamily& list) {
  // A part of the model in which data decides shapes, branches or numbers of iterations
  // (graph/onnx/region.h): read and computed in every step, with memory of its own. Its
  // gradient reads it once more, as a graph without control flow, and differentiates that.
  list.push_back(Operator(kOnward, "Region")
                     .Infer(InferRegion)
                     .Gradient(RegionGradient)
                     .Samples(SamplesMixed));
  list.push_back(Operator(kOnward, "RegionGradient")
                     .Infer(InferRegionGradient)
                     .NotDifferentiable("regions have no second derivatives")
                     .Samples(SamplesMixed));
}

}  // namespace onward
