#pragma once
// Experts of each token in a list. `order` says where their rows lie, expert by expert; each
// provider has its own form of it.
#include "core/graph/op_record.h"
#include "core/graph/recorder.h"

namespace forge {

namespace ops {
// logits → weights, order, ends[, probability].
extern const OpRecord route;
// d weights, logits, order, ends → d logits.
extern const OpRecord route_backward;
// weights, order, ends → weights, each times the number of its expert.
extern const OpRecord scale_weights;
// d weights, weights, order, ends → d weights, and into the gradient of the numbers.
extern const OpRecord scale_weights_backward;
// x, order → rows: one for each expert of a token, [tokens, experts per token · width].
extern const OpRecord dispatch;
// d rows, order[, d x] → d x.
extern const OpRecord dispatch_backward;
// rows, order, weights → y: the weighted sum of a token's rows.
extern const OpRecord combine;
// d y, rows, order, weights → d rows, d weights.
extern const OpRecord combine_backward;
// rows, order → y: the sum of a token's rows.
extern const OpRecord collect;
// x, gate [·, 1] → sigmoid(gate) · x.
extern const OpRecord gate_rows;
// d y, x, gate → d x, d gate.
extern const OpRecord gate_rows_backward;
// x, weight [·, 1] → weight · x.
extern const OpRecord weigh_rows;
// d y, x, weight → d x, d weight.
extern const OpRecord weigh_rows_backward;
}  // namespace ops

// Experts of each token. Rows of experts are [tokens, per_token · width]: the tokens' rows one
// after the other, sorted by expert.
struct Routing {
  ValueId weights = kNoValue, order = kNoValue, ends = kNoValue;
  int64_t experts = 0;
  RouteRule rule;
};
// `correction`: a constant vector [experts] that is added to the scores where experts are chosen;
// "": none. If `correction_rows` is 1, its tensor is a matrix of one row.
Routing route(Recorder& g, ValueId logits, const RouteRule& rule, const char* correction = "",
              int64_t correction_rows = 0);
// Multiplies the weights of a token's experts by the numbers in `module`, a vector [experts].
Routing scale_weights(Recorder& g, Routing routing, const std::string& module);
ValueId dispatch(Recorder& g, ValueId x, const Routing& routing);
ValueId combine(Recorder& g, ValueId rows, const Routing& routing);
// Like combine(), with weights of one.
ValueId collect(Recorder& g, ValueId rows, const Routing& routing);
// Returns weight · x, one weight [·, 1] for a whole row.
ValueId weigh_rows(Recorder& g, ValueId x, ValueId weight);
// Returns sigmoid(gate) · x, one gate [·, 1] for a whole row.
ValueId gate_rows(Recorder& g, ValueId x, ValueId gate);

}  // namespace forge
