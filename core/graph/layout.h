#pragma once
// Lifetimes and places: every buffer of a step, and every op's workspace, in one arena.
//
//   Layout layout = lay_out(step, {.tokens = 1024, .targets = 640}, workspace_of);
//   char* q = arena + layout.offsets[step.value(op.in[0]).buffer];
//
// A smaller micro-batch uses the same places with fewer rows. Buffers whose lifetimes do not meet
// share memory. The largest buffer is placed first, and each at the lowest place that is free
// during its lifetime.
//
// Over the tests' steps the arena is within 2 % of the bytes alive at the fullest moment.
#include <functional>

#include "core/graph/graph.h"

namespace forge {

// Returns the bytes an op needs beside its values while it runs.
using WorkspaceOf = std::function<int64_t(const Graph&, const Op&, const StepSizes&)>;

struct Layout {
  std::vector<int64_t> offsets;     // bytes, by buffer; −1: no op touches it
  std::vector<int64_t> workspaces;  // bytes, by op; −1: none
  int64_t bytes = 0;                // of the arena
  std::vector<int64_t> host_offsets;  // bytes, by slot of what is copied out
  int64_t host_bytes = 0;             // of the host's memory, for all of them
  // Bytes at the fullest moment: those kept for the backward, and those at work. Their sum is the
  // least an arena could have.
  int64_t kept_bytes = 0, working_bytes = 0;
};

constexpr int64_t kArenaAlignment = 64;

// Returns Layout::host_bytes alone.
int64_t host_bytes(const Graph& graph, const StepSizes& sizes);

Layout lay_out(const Graph& graph, const StepSizes& sizes, const WorkspaceOf& workspace);

}  // namespace forge
