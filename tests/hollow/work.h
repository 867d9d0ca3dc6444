#pragma once
// Streams, events and graphs of the hollow runtime, with CUDA's rules of capture.
//
// Work runs when it is queued. On a stream that takes part in a capture it is recorded instead, and
// runs when the graph does.
#include <cuda_runtime_api.h>

#include <functional>
#include <string>

namespace forge::hollow {

enum class Work { kernel, product, copy };

// Gives `run`, which may be null, to the stream. `name` is for the report.
cudaError_t give(cudaStream_t stream, Work work, const std::string& name,
                 std::function<void()> run);

// Remembers the error for cudaGetLastError and reports a broken rule.
cudaError_t broken(cudaError_t error, const std::string& rule);
// Like broken(), without a report: for errors that a correct program may meet, such as no memory.
cudaError_t fails(cudaError_t error);

// True, with a report, if the calling thread may not make this call, because it would break a
// capture.
bool forbidden_in_capture(const char* call);
bool is_captured(cudaStream_t stream);

int current_card();

}  // namespace forge::hollow
