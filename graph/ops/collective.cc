// Operators that talk to other replicas.
#include "graph/ir/builder.h"
#include "graph/ops/operators.h"

namespace onward {

void AddCollectiveOperators(OperatorFamily& list) {
  // y[r][k] = sum over replicas q of x[q][k]
  // dx[q][k] = sum over replicas r of dy[r][k]: the loss is the sum of the replicas'
  //
  // Inputs and outputs are replica-major: k tensors of replica 0, then of replica
  // 1, ... A replica that lives in another process has no inputs here; the group is
  // the whole job. In the graph of a single replica it stands, with its own k tensors
  // only, where values cross shards. `number` is its place in the one chain of
  // collectives that every schedule keeps.
  list.push_back(
      Operator(kOnward, "AllReduce")
          .Collective()
          .Gradient([](GradientContext& g) {
            for (int i = 0; i < g.node().num_inputs(); ++i) {
              if (!g.dy(i)) continue;
              g.dx(i, g.b().Op("onward.AllReduce", {g.dy(i)}, {{"replicas", int64_t{1}}}));
            }
            return absl::OkStatus();
          })
          .Infer([](InferContext& c) {
            for (int i = 0; i < c.num_outputs(); ++i) {
              c.SetOutput(i, c.input(i).dtype, c.input(i).dims);
            }
            return absl::OkStatus();
          })
          .Samples(
              [](const Node&, absl::Span<const SampleAxis>, int) { return SampleAxis::None(); }));
}

}  // namespace onward
