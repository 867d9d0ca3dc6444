#include "providers/layer_table.h"

#include <algorithm>
#include <string>

#include "core/base/text.h"
#include "core/families/modules.h"

namespace forge {
namespace {

RehearsedLinear* find_linear(RehearsedLayer& layer, const std::string& module) {
  struct Row {
    const char* name;
    RehearsedLinear RehearsedLayer::*member;
  };
  constexpr Row kRows[] = {{"q_proj", &RehearsedLayer::q},       {"k_proj", &RehearsedLayer::k},
                           {"v_proj", &RehearsedLayer::v},       {"o_proj", &RehearsedLayer::o},
                           {"gate_proj", &RehearsedLayer::gate}, {"up_proj", &RehearsedLayer::up},
                           {"down_proj", &RehearsedLayer::down}};
  for (const Row& row : kRows)
    if (ends_with(module, row.name)) return &(layer.*row.member);
  return nullptr;
}

void mark_trained(LayerTable& table, const Module& module) {
  if (module.layer < 0) {
    if (module.role == Role::embedding) table.embedding = true;
    if (module.role == Role::norm) table.final_norm = true;
    if (module.role == Role::head) table.head = true;
    return;
  }
  table.lowest = std::min(table.lowest, module.layer);
  RehearsedLayer& layer = table.layers[static_cast<size_t>(module.layer)];
  if (RehearsedLinear* linear = find_linear(layer, module.path))
    linear->trained = true;
  else
    (ends_with(module.path, "input_layernorm") ? layer.input_norm : layer.post_norm) = true;
}

}  // namespace

LayerTable layer_table(const ActivationShape& shape) {
  const ModelSpec& s = shape.spec;
  const int64_t q = s.num_heads * s.head_dim, kv = s.num_kv_heads * s.head_dim;
  RehearsedLayer plain;
  plain.q = {s.hidden_size, q};
  plain.k = plain.v = {s.hidden_size, kv};
  plain.o = {q, s.hidden_size};
  plain.gate = plain.up = {s.hidden_size, s.intermediate_size};
  plain.down = {s.intermediate_size, s.hidden_size};
  LayerTable table{std::vector<RehearsedLayer>(static_cast<size_t>(s.num_layers), plain), s.num_layers};
  for (const AdapterSite& site : shape.sites) {
    if (site.layer < 0) continue;
    table.lowest = std::min(table.lowest, site.layer);
    if (RehearsedLinear* linear = find_linear(table.layers[static_cast<size_t>(site.layer)], site.module))
      linear->rank = site.rank;
  }
  for (const Module& module : shape.trains_base ? modules_of(s) : saved_modules(s, shape.adapter))
    mark_trained(table, module);
  if (table.embedding) table.lowest = -1;
  return table;
}

}  // namespace forge
