#pragma once
// Proves a step and its layout: every value is written before it is read and not overwritten in
// between, types are those that kernels take, and no two buffers that live at the same time share
// memory.
#include <string>
#include <vector>

#include "core/graph/layout.h"

namespace forge {

// Return what is wrong, a sentence each; empty for a sound step or layout.
std::vector<std::string> step_faults(const Graph& graph);
std::vector<std::string> layout_faults(const Graph& graph, const Layout& layout, const StepSizes& sizes);

}  // namespace forge
