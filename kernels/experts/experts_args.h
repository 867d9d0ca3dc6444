#pragma once
// Mixture of experts on plain memory, forward and backward; kernels/experts/experts.h has the
// formulas on tensors.
//
//   ExpertRoute            weights_tj, of the expert in slot j of token t; places_tj, its row when
//                          rows are sorted by expert; ends_e, the row after the last one of
//                          expert e; probability_e = Σ_t softmax(logits_t)_e
//   ExpertRouteBackward    d logits of d weights and d probability
//   ExpertRows             rows[places_tj] = x_t; or back: x_t (+)= Σ_j rows[places_tj]
//   ExpertCombine          y_t = Σ_j weights_tj rows[places_tj]
//   ExpertCombineBackward  d rows[places_tj] = weights_tj d y_t;
//                          d weights_tj = d y_t · rows[places_tj]
//   GateRows               y = σ(gate) x, one gate a row
//   GateRowsBackward       d x = σ d y, d gate = σ (1 − σ) d y · x
//
// Rows of experts have no gaps, [tokens · per_token, width]. Weights and all arithmetic are in
// fp32, results are rounded once. Among equal scores the expert with the lower number is chosen.
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/experts/router_rule.h"

namespace forge {

struct ExpertRoute {
  Element type = Element::f32;
  RouterRule rule;
  int64_t tokens = 0, experts = 0;
  const void* logits = nullptr;  // [tokens, experts]
  int64_t logits_stride = 0;
  const void* correction =
      nullptr;                // [experts] of `type`, added to the scores that experts are chosen by; or null
  float* weights = nullptr;   // [tokens, per_token]
  int32_t* places = nullptr;  // [tokens, per_token]
  int32_t* ends = nullptr;    // [experts]
  float* probability = nullptr;  // [experts], or null
};

struct ExpertRouteBackward {
  Element type = Element::f32;
  RouterRule rule;
  int64_t tokens = 0, experts = 0;
  const void* logits = nullptr;
  int64_t logits_stride = 0;
  const float* d_weights = nullptr;
  const int32_t *places = nullptr, *ends = nullptr;
  const float* slope = nullptr;  // [experts]: d probability, the same for every token; or null
  void* d_logits = nullptr;
  int64_t d_logits_stride = 0;
};

struct ExpertRows {
  Element type = Element::f32;
  int64_t tokens = 0, per_token = 0, width = 0;
  const int32_t* places = nullptr;
  void* x = nullptr;
  int64_t x_stride = 0;
  void* rows = nullptr;
  bool back = false, accumulate = false;
};

struct ExpertCombine {
  Element type = Element::f32;
  int64_t tokens = 0, per_token = 0, width = 0;
  const int32_t* places = nullptr;
  const float* weights = nullptr;
  const void* rows = nullptr;
  void* y = nullptr;
  int64_t y_stride = 0;
};

struct ExpertCombineBackward {
  Element type = Element::f32;
  int64_t tokens = 0, per_token = 0, width = 0;
  const int32_t* places = nullptr;
  const float* weights = nullptr;
  const void* rows = nullptr;
  const void* d_y = nullptr;
  int64_t d_y_stride = 0;
  void* d_rows = nullptr;  // may not be rows
  float* d_weights = nullptr;
};

struct GateRows {
  Element type = Element::f32;
  int64_t rows = 0, width = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;
  const void* gate = nullptr;
  int64_t gate_stride = 0;
  void* y = nullptr;
  int64_t y_stride = 0;
};

struct GateRowsBackward {
  Element type = Element::f32;
  int64_t rows = 0, width = 0;
  const void* d_y = nullptr;
  int64_t d_y_stride = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;
  const void* gate = nullptr;
  int64_t gate_stride = 0;
  void* d_x = nullptr;  // may be neither of the others
  int64_t d_x_stride = 0;
  void* d_gate = nullptr;
  int64_t d_gate_stride = 0;
};

void expert_route_cpu(const ExpertRoute& args);
void expert_route_backward_cpu(const ExpertRouteBackward& args);
void expert_rows_cpu(const ExpertRows& args);
void expert_combine_cpu(const ExpertCombine& args);
void expert_combine_backward_cpu(const ExpertCombineBackward& args);
void gate_rows_cpu(const GateRows& args);
void gate_rows_backward_cpu(const GateRowsBackward& args);

}  // namespace forge
