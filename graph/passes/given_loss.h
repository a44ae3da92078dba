// Taking a loss that a graph computes apart into a numerator and a denominator.
#ifndef ONWARD_GRAPH_PASSES_GIVEN_LOSS_H_
#define ONWARD_GRAPH_PASSES_GIVEN_LOSS_H_

#include "absl/status/statusor.h"
#include "graph/ir/builder.h"
#include "graph/ir/graph.h"
#include "graph/passes/loss_terms.h"

namespace onward {

// The terms of `loss`, which is one number for each sample (or several: their mean is
// the loss), or one for the whole batch. The latter is taken apart where it ends in a
// mean or a sum over everything, in SoftmaxCrossEntropyLoss or in
// NegativeLogLikelihoodLoss, times constants: then it can be summed over shards. A sum
// stays a sum over the whole batch. Any other is a numerator over 1, which
// CheckSplittable refuses for more than one shard.
// InvalidArgument (kUsage) where it is not floating.
absl::StatusOr<LossTerms> TermsOfLoss(Builder* builder, Value* loss);

}  // namespace onward

#endif  // ONWARD_GRAPH_PASSES_GIVEN_LOSS_H_
