#pragma once
// Mixtures of experts on a GPU; formulas and shapes as in experts_args.h. Results do not depend on
// timing.
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"
#include "kernels/experts/experts_args.h"

namespace forge {

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
