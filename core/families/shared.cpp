// What several families read and write alike.
#include <algorithm>
#include <cmath>

#include "core/families/family.h"

namespace forge {

Recorder::Heads heads_of(const ModelSpec& m) { return {m.num_heads, m.num_kv_heads, m.head_dim}; }

Recorder::AttentionOptions attention_of(const ModelSpec& m, int64_t layer) {
  const double scale =
      m.attention_scale > 0 ? m.attention_scale : 1 / std::sqrt(static_cast<double>(m.head_dim));
  return {.scale = scale, .softcap = m.attention_softcap, .window = m.window(layer)};
}

int64_t window_setting(Settings& settings, int64_t absent) {
  if (!settings.find("sliding_window")) return settings.has("sliding_window") ? 0 : absent;
  return settings.integer("sliding_window", 0, int64_t{1} << 40);
}

Json window_json(const ModelSpec& spec) {
  return spec.sliding_window > 0 ? Json(spec.sliding_window) : Json(nullptr);
}

Json layer_types_json(const ModelSpec& spec) {
  Json types = Json::array();
  for (int64_t layer = 0; layer < spec.num_layers; ++layer)
    types.push_back(spec.window(layer) > 0 ? "sliding_attention" : "full_attention");
  return types;
}

void refuse_window(GgufSettings& settings, ModelSpec&) {
  settings.must_be("attention.sliding_window", 0, "full attention");
}

void read_layer_types(Settings& settings, ModelSpec& spec, const std::function<bool(int64_t layer)>& full) {
  const Json* types = settings.find("layer_types");
  if (types && (!types->is_array() || static_cast<int64_t>(types->size()) != spec.num_layers)) {
    settings.broken("layer_types", "is not a list of num_hidden_layers names");
    return;
  }
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    bool all = spec.sliding_window == 0 || full(layer);
    if (types) {
      const Json& type = (*types)[static_cast<size_t>(layer)];
      all = type == "full_attention";
      if (!all && (type != "sliding_attention" || spec.sliding_window == 0)) {
        settings.unsupported("layer_types",
                             "has " + dump_json(type) + ", forge computes full_attention" +
                                 (spec.sliding_window > 0 ? " and sliding_attention" : " here"));
        return;
      }
    }
    if (all) spec.full_layers.push_back(layer);
  }
  if (static_cast<int64_t>(spec.full_layers.size()) == spec.num_layers) spec.sliding_window = 0;
  if (spec.sliding_window == 0) spec.full_layers.clear();
}

}  // namespace forge
