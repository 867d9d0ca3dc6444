#include "core/model/graph/check.h"

#include "core/graph/op_record.h"
#include "kernels/lora/gated_op.h"

namespace forge {
namespace {

// Tracks the value that wrote each column of each buffer last.
class Contents {
 public:
  explicit Contents(const Graph& graph) : graph_(graph) {
    for (const Buffer& buffer : graph.buffers)
      columns_.emplace_back(static_cast<size_t>(buffer.width), kNoValue);
  }
  void write(ValueId id) {
    each(id, [&](ValueId& column) { column = id; });
  }
  void forget(ValueId id) {
    each(id, [](ValueId& column) { column = kNoValue; });
  }
  // Returns the fault of reading a value; empty if its columns hold it.
  std::string fault(ValueId id) {
    for (ValueId part : graph_.value(id).of)
      if (std::string found = fault(part); !found.empty()) return found;
    if (!graph_.value(id).of.empty()) return "";
    ValueId other = id;
    each(id, [&](ValueId& column) {
      if (column != id) other = column;
    });
    if (other == id) return "";
    if (other == kNoValue) return graph_.value(id).name + " is read before it is written";
    return graph_.value(id).name + " is overwritten by " + graph_.value(other).name + " before it is read";
  }

 private:
  template <class Visit>
  void each(ValueId id, Visit visit) {
    const Value& value = graph_.value(id);
    std::vector<ValueId>& columns = columns_[static_cast<size_t>(value.buffer)];
    for (int64_t i = value.column; i < value.column + value.width; ++i)
      visit(columns[static_cast<size_t>(i)]);
  }

  const Graph& graph_;
  std::vector<std::vector<ValueId>> columns_;
};

}  // namespace

std::vector<std::string> step_faults(const Graph& graph) {
  std::vector<std::string> faults;
  Contents contents(graph);
  for (size_t t = 0; t < graph.ops.size(); ++t) {
    const Op& op = graph.ops[t];
    const auto where = [&] { return "op " + std::to_string(t) + " (" + name_of(op.kind) + "): "; };
    for (const auto* values : {&op.in, &op.out})
      for (ValueId id : *values) {
        const Value& value = graph.value(id);
        if (value.column < 0 || value.column + value.width > graph.buffer_of(id).width)
          faults.push_back(where() + value.name + " does not lie in its buffer");
      }
    if (!faults.empty()) return faults;
    if (!types_agree(graph, op)) faults.push_back(where() + "no kernel takes the types of its values");
    for (ValueId id : op.in)
      if (std::string fault = contents.fault(id); !fault.empty()) faults.push_back(where() + fault);
    if (op.kind == &ops::glu_adapters_backward && gate_modules(op).reader) contents.forget(op.in[0]);
    for (ValueId id : op.out) contents.write(id);
    for (ValueId id : op.parts) contents.write(id);
  }
  return faults;
}

std::vector<std::string> layout_faults(const Graph& graph, const Layout& layout, const StepSizes& sizes) {
  struct Piece {
    int64_t begin, end;
    int32_t first = INT32_MAX, last = -1;
    std::string name;
  };
  std::vector<Piece> pieces(graph.buffers.size());
  std::vector<std::string> faults;
  for (size_t t = 0; t < graph.ops.size(); ++t)
    for (const auto* values : {&graph.ops[t].in, &graph.ops[t].out})
      for (ValueId id : *values) {
        const Value& value = graph.value(id);
        const Buffer& buffer = graph.buffer_of(id);
        Piece& piece = pieces[static_cast<size_t>(value.buffer)];
        piece.begin = layout.offsets[static_cast<size_t>(value.buffer)];
        piece.end = piece.begin + sizes.rows(buffer.rows) * buffer.width * sizes.element(buffer.type);
        piece.first = std::min(piece.first, static_cast<int32_t>(t));
        piece.last = static_cast<int32_t>(t);
        piece.name = value.name;
      }
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& a = pieces[i];
    if (a.last < 0) continue;
    if (a.begin < 0 || a.end > layout.bytes) faults.push_back(a.name + " does not lie in the arena");
    for (size_t j = 0; j < i; ++j) {
      const Piece& b = pieces[j];
      if (b.last >= 0 && a.first <= b.last && b.first <= a.last && a.begin < b.end && b.begin < a.end)
        faults.push_back(a.name + " and " + b.name + " share memory");
    }
  }
  return faults;
}

}  // namespace forge
