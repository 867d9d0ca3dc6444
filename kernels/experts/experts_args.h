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

#include "core/graph/route_rule.h"
#include "kernels/common/element.h"
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"

namespace forge {

struct ExpertRoute {
  Element type = Element::f32;
  RouteRule rule;
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
  RouteRule rule;
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

// ---- on a GPU
//
// Results do not depend on timing.

void expert_route_cuda(const ExpertRoute& args, CudaStream stream);
void expert_route_backward_cuda(const ExpertRouteBackward& args, CudaStream stream);
void expert_rows_cuda(const ExpertRows& args, CudaStream stream);
void expert_combine_cuda(const ExpertCombine& args, CudaStream stream);
void expert_combine_backward_cuda(const ExpertCombineBackward& args, CudaStream stream);
void gate_rows_cuda(const GateRows& args, CudaStream stream);
void gate_rows_backward_cuda(const GateRowsBackward& args, CudaStream stream);

inline GpuLaunches launches(const ExpertRoute& a) {
  const double logits = matrix_bytes(a.type, a.tokens, a.experts), chosen = matrix_bytes(Element::f32, a.tokens, a.rule.per_token),
               experts = matrix_bytes(Element::f32, a.experts);
  GpuLaunches list{{"expert_choose", logits + 2 * chosen + (a.probability ? 2 : 1) * experts}};
  if (a.probability) list.push_back({"expert_probability", 2 * logits});
  list.push_back({"expert_sort", 3 * chosen});
  return list;
}
inline GpuLaunches launches(const ExpertRouteBackward& a) {
  return {{"expert_route_backward", 2 * matrix_bytes(a.type, a.tokens, a.experts) +
                                        2 * matrix_bytes(Element::f32, a.tokens, a.rule.per_token) + matrix_bytes(Element::f32, a.experts)}};
}
inline GpuLaunches launches(const ExpertRows& a) {
  return {{"expert_rows", matrix_bytes(a.type, a.tokens, (a.per_token + (a.accumulate ? 2 : 1)) * a.width) +
                              matrix_bytes(Element::f32, a.tokens, a.per_token)}};
}
inline GpuLaunches launches(const ExpertCombine& a) {
  return {{"expert_combine", matrix_bytes(a.type, a.tokens, (a.per_token + 1) * a.width) +
                                 2 * matrix_bytes(Element::f32, a.tokens, a.per_token)}};
}
inline GpuLaunches launches(const ExpertCombineBackward& a) {
  return {{"expert_combine_backward", matrix_bytes(a.type, a.tokens, (2 * a.per_token + 1) * a.width) +
                                          3 * matrix_bytes(Element::f32, a.tokens, a.per_token)}};
}
inline GpuLaunches launches(const GateRows& a) { return {{"gate_rows", matrix_bytes(a.type, a.rows, 2 * a.width + 1)}}; }
inline GpuLaunches launches(const GateRowsBackward& a) {
  return {{"gate_rows_backward", matrix_bytes(a.type, a.rows, 3 * a.width + 2)}};
}

}  // namespace forge
