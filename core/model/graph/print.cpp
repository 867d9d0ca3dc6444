#include "core/model/graph/print.h"

#include <algorithm>

#include "core/lib/base/text.h"
#include "core/graph/op_record.h"

namespace forge {
namespace {

constexpr size_t kPlace = 5;  // the column that differs between layers

enum class Phase { forward, backward, update };

struct Line {
  int64_t layer = -1;
  Phase phase = Phase::forward;
  std::vector<std::string> cells;  // number, op, values, FLOPs, bytes, place
};

bool same(const Line& a, const Line& b) {
  return a.cells.size() == b.cells.size() &&
         std::equal(a.cells.begin() + 1, a.cells.begin() + kPlace, b.cells.begin() + 1);
}

// Returns a name relative to a layer: "layers.3.q_proj" in layer 3 → "q_proj", in layer 4 → "below
// q_proj".
std::string relative(const std::string& name, int64_t layer) {
  const auto found = name.find("layers.");
  if (found == std::string::npos || layer < 0) return name;
  const size_t number = found + 7, dot = name.find('.', number);
  const int64_t its = std::stoll(name.substr(number, dot - number));
  const char* where = its == layer ? "" : its + 1 == layer ? "below " : its - 1 == layer ? "above " : nullptr;
  return where ? where + name.substr(0, found) + name.substr(dot + 1) : name;
}

std::string shape_of(const Graph& graph, ValueId id) {
  const Buffer& buffer = graph.buffer_of(id);
  return std::string(" [") +
         (buffer.rows == Rows::tokens    ? "tokens, "
          : buffer.rows == Rows::targets ? "targets, "
          : buffer.rows == Rows::source  ? "source, "
                                         : "1, ") +
         std::to_string(graph.value(id).width) + (buffer.type == ValueType::fp32 ? "] fp32" : "]");
}

std::string values_of(const Graph& graph, const Op& op) {
  std::vector<std::string> in, out;
  for (ValueId id : op.in) in.push_back(relative(graph.value(id).name, op.layer));
  for (ValueId id : op.out) out.push_back(relative(graph.value(id).name, op.layer) + shape_of(graph, id));
  if (out.empty())
    for (size_t i = 0; i < op.modules.size(); ++i)
      for (int64_t copy = 0; copy < graph.module(op, i).copies; ++copy)
        out.push_back(relative(graph.module(op, i).path_of(copy), -1));
  if (op.attributes.elements > 0) return "all " + format_count(op.attributes.elements) + " trained numbers";
  return join(in, ", ") + (in.empty() ? "→ " : " → ") + join(out, ", ");
}

std::string flops_text(double flops) {
  constexpr const char* kUnits[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  size_t unit = 0;
  while (flops >= 1000 && unit + 1 < std::size(kUnits)) flops /= 1000, ++unit;
  const auto tenths = static_cast<int64_t>(flops * 10 + 0.5);
  return flops == 0 ? ""
                    : std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " " + kUnits[unit];
}

// Ops that follow each other in one layer.
using Block = std::vector<Line>;

std::vector<Block> blocks_of(std::vector<Line> lines) {
  std::vector<Block> blocks;
  for (Line& line : lines) {
    if (blocks.empty() || blocks.back()[0].layer != line.layer || blocks.back()[0].phase != line.phase)
      blocks.emplace_back();
    blocks.back().push_back(std::move(line));
  }
  return blocks;
}

bool same(const Block& a, const Block& b) {
  return a[0].layer >= 0 && b[0].layer >= 0 && a[0].phase == b[0].phase && a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const Line& x, const Line& y) { return same(x, y); });
}

std::string title(int64_t first, int64_t last, Phase phase) {
  std::string text = first == last ? "layer " + std::to_string(first)
                                   : "layers " + std::to_string(first) + " to " + std::to_string(last) +
                                         ", each like the first";
  return text + (phase == Phase::backward ? ", backward" : "");
}

}  // namespace

std::string print(const Graph& graph, const StepSizes& sizes, double mean_length, const Layout* layout) {
  std::vector<Line> lines;
  for (size_t t = 0; t < graph.ops.size(); ++t) {
    const Op& op = graph.ops[t];
    const Cost cost = cost_of(graph, op, sizes, mean_length);
    const int64_t place =
        layout && !op.out.empty() ? layout->offsets[static_cast<size_t>(graph.value(op.out[0]).buffer)] : -1;
    lines.push_back(
        {op.layer,
         t < graph.forward_ops       ? Phase::forward
         : t < graph.micro_batch_ops ? Phase::backward
                                     : Phase::update,
         {std::to_string(t), name_of(op.kind), values_of(graph, op), flops_text(cost.flops),
          format_bytes(static_cast<int64_t>(cost.bytes)), place < 0 ? "" : "at " + format_bytes(place)}});
  }
  const std::vector<Block> blocks = blocks_of(std::move(lines));
  std::string text;
  for (size_t i = 0; i < blocks.size();) {
    size_t end = i + 1;
    while (end < blocks.size() && same(blocks[i], blocks[end])) ++end;
    const Line& first = blocks[i][0];
    if (first.layer >= 0) text += title(first.layer, blocks[end - 1][0].layer, first.phase) + "\n";
    if (first.phase == Phase::update) text += "once a step\n";
    std::vector<std::vector<std::string>> rows;
    for (const Line& line : blocks[i]) rows.push_back(line.cells);
    text += format_table(rows);
    i = end;
  }
  return text;
}

}  // namespace forge
