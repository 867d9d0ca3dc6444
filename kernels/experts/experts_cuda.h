#pragma once
// Mixtures of experts on a GPU; formulas and shapes as in experts_args.h. Results do not depend on
// timing.
#include "kernels/device/launch.h"
#include "kernels/experts/experts_args.h"

namespace forge {

void expert_route_cuda(const ExpertRoute& args, CudaStream stream);
void expert_route_backward_cuda(const ExpertRouteBackward& args, CudaStream stream);
void expert_rows_cuda(const ExpertRows& args, CudaStream stream);
void expert_combine_cuda(const ExpertCombine& args, CudaStream stream);
void expert_combine_backward_cuda(const ExpertCombineBackward& args, CudaStream stream);
void gate_rows_cuda(const GateRows& args, CudaStream stream);
void gate_rows_backward_cuda(const GateRowsBackward& args, CudaStream stream);

}  // namespace forge
