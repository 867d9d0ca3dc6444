#pragma once
// Lifetimes and places: every buffer of a step, and every op's workspace, in one arena.
//
//   Layout layout = lay_out(step, {.tokens = 1024, .targets = 640}, workspace_of);
//   char* q = arena + layout.offsets[step.value(op.in[0]).buffer];
//
// A smaller micro-batch uses the same places with fewer rows. Buffers whose lifetimes do not meet share memory: the largest is
// placed first, each at the lowest place where nothing that lives with it lies.
#include <functional>

#include "core/graph/graph.h"

namespace forge {

// The bytes an op needs beside its values while it runs.
using WorkspaceOf = std::function<int64_t(const Graph&, const Op&, const StepSizes&)>;

struct Layout {
  std::vector<int64_t> offsets;     // bytes, by buffer; −1: no op touches it
  std::vector<int64_t> workspaces;  // bytes, by op; −1: none
  int64_t bytes = 0;                // of the arena
  std::vector<int64_t> host_offsets;  // bytes, by slot of what is copied out
  int64_t host_bytes = 0;             // of the host's memory, for all of them
  // At the fullest moment: what is kept for the backward, and what is at work. Their sum is the least an arena could have.
  int64_t kept_bytes = 0, working_bytes = 0;
};

constexpr int64_t kArenaAlignment = 64;

// Layout::host_bytes alone.
int64_t host_bytes(const Graph& graph, const StepSizes& sizes);

Layout lay_out(const Graph& graph, const StepSizes& sizes, const WorkspaceOf& workspace);

}  // namespace forge
