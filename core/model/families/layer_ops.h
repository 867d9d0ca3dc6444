#pragma once
// The ops that a described layer may use (layer_steps.h): one row each, with the form of its line,
// what it does to the values that it reads, its widths, and the call of the recorder that it
// stands for.
#include <array>
#include <span>
#include <string>
#include <vector>

#include "core/model/families/layer_steps.h"

namespace forge {

// A line of a layer with what it works on.
struct StepCall {
  Recorder& g;
  const ModelSpec& m;
  int64_t layer;
  const LayerStep& step;
  std::span<const ValueId> in;
  std::span<ValueId> out;
};
struct StepWidths {
  const ModelSpec& m;
  const LayerStep& step;
  std::span<const int64_t> in;
  std::span<int64_t> out;
};

// Use that an op makes of a value. Only a shared one may have other readers; a stream may be fp32
// beside the compute type.
enum class StepReads { alone, shared, stream };

// Kinds of arguments after the values.
enum class Rest { none, module, linears, sizes, word, factor, experts };

struct LayerOp {
  const char* name;
  const char* form;  // as messages show it
  size_t inputs = 1;  // values that it reads
  std::array<StepReads, 3> reads = {};
  size_t least_out = 1, most_out = 1;
  Rest rest = Rest::none;
  bool sums = false;        // its result is the stream if its first input is
  std::array<const char*, 3> words = {};  // one of them is its argument
  void (*record)(const StepCall& call);
  // Sets the widths of the results; returns what is wrong with those of the inputs, or nothing.
  std::string (*widths)(const StepWidths& w);
};

// Returns the op of that name; null for an unknown one.
const LayerOp* find_layer_op(const std::string& name);
std::vector<std::string> layer_op_names();

}  // namespace forge
