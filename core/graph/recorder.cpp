#include "core/graph/recorder.h"

namespace forge {

void Recorder::enter_layer(int64_t layer, const std::string& prefix) {
  layer_ = layer;
  prefix_ = prefix;
}

int32_t Recorder::module_at(const std::string& name, ModuleKind kind, int64_t in, int64_t out, bool bias) {
  const std::string path = prefix_ + name;
  auto [found, is_new] = index_.try_emplace(path, static_cast<int32_t>(graph.modules.size()));
  if (!is_new) return found->second;
  ModuleUse use{.path = path, .kind = kind, .layer = layer_, .in = in, .out = out, .bias = bias};
  use.trained = training.all || training.whole.count(path) > 0;
  if (auto adapter = training.adapters.find(path); adapter != training.adapters.end()) {
    use.rank = adapter->second.rank, use.adapter = adapter->second.name, use.dropout = training.dropout, use.dora = training.dora;
    use.bias_trained = training.biases != TrainedBiases::none && bias;
  }
  if (training.biases == TrainedBiases::all) use.bias_trained = bias;
  graph.modules.push_back(std::move(use));
  return found->second;
}

std::vector<int32_t> Recorder::experts_at(const std::string& before, const std::string& after,
                                          int64_t experts, int64_t in, int64_t out) {
  const auto at = [&](int64_t expert) {
    return module_at(before + std::to_string(expert) + after, ModuleKind::linear, in, out);
  };
  if (training.experts == Experts::in_rows &&
      training.apart.count(prefix_ + before + "0" + after) == 0) {
    const int32_t row = at(0);
    use_at(row).copies = experts, use_at(row).number = prefix_.size() + before.size();
    return {row};
  }
  std::vector<int32_t> modules;
  for (int64_t expert = 0; expert < experts; ++expert) modules.push_back(at(expert));
  return modules;
}

std::string Recorder::name(const std::string& part) const {
  return layer_ < 0 ? part : "layers." + std::to_string(layer_) + "." + part;
}

ValueId Recorder::like(const std::string& part, ValueId other, int64_t width, ValueType type) {
  return graph.new_value(name(part), graph.buffer_of(other).rows, width, type);
}

ValueId Recorder::over(const std::string& name, ValueId other) {
  const Value in_place = graph.value(other);
  return graph.add_value(name, in_place.buffer, in_place.column, in_place.width);
}

Op& Recorder::push(OpKind kind, std::vector<ValueId> in, std::vector<ValueId> out,
                   std::vector<int32_t> modules) {
  for (ValueId value : out)
    graph.producers[static_cast<size_t>(value)] = static_cast<int32_t>(graph.ops.size());
  graph.ops.push_back({kind, layer_, std::move(in), std::move(out), std::move(modules), {}});
  graph.forward_ops = graph.ops.size();
  return graph.ops.back();
}

std::vector<ValueId> Recorder::split(ValueId x, const std::vector<int64_t>& widths) {
  std::vector<ValueId> parts;
  int64_t column = graph.value(x).column;
  for (int64_t width : widths) {
    parts.push_back(graph.add_value(graph.value(x).name + "[" + std::to_string(parts.size()) + "]",
                                     graph.value(x).buffer, column, width));
    graph.producers[static_cast<size_t>(parts.back())] = graph.producers[static_cast<size_t>(x)];
    column += width;
  }
  graph.ops[static_cast<size_t>(graph.producers[static_cast<size_t>(x)])].parts = parts;
  return parts;
}

std::vector<ValueId> Recorder::columns(ValueId whole, const std::vector<int32_t>& modules,
                                       const std::string& suffix) {
  const auto op = static_cast<int32_t>(graph.ops.size() - 1);
  std::vector<ValueId> parts;
  int64_t column = 0;
  for (int32_t at : modules) {
    const ModuleUse module = graph.modules[static_cast<size_t>(at)];
    parts.push_back(modules.size() == 1 ? whole
                                        : graph.add_value(name(last_part(module.path) + suffix),
                                                           graph.value(whole).buffer, column, module.out));
    graph.producers[static_cast<size_t>(parts.back())] = op;
    column += module.out;
  }
  graph.ops.back().parts = parts;
  if (modules.size() > 1) graph.values[static_cast<size_t>(whole)].of = parts;
  return parts;
}

}  // namespace forge
