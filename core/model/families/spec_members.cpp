#include "core/model/families/spec_members.h"

#include <algorithm>

#include "core/model/families/config_spec.h"

namespace forge {
namespace {

const SpecMember kMembers[] = {
    {"qkv_bias", &ModelSpec::qkv_bias},
    {"o_bias", &ModelSpec::o_bias},
    {"mlp_bias", &ModelSpec::mlp_bias},
    {"qk_norm", &ModelSpec::qk_norm},
    {"parallel_residual", &ModelSpec::parallel_residual},
    {"layer_norm", &ModelSpec::layer_norm},
    {"norm_bias", &ModelSpec::norm_bias},
    {"tanh_gelu", &ModelSpec::tanh_gelu},
    {"normalise_experts", &ModelSpec::normalise_experts},
    {"norm_offset", &ModelSpec::norm_offset, 0, 1},
    {"embedding_scale", &ModelSpec::embedding_scale, 1e-9, 1e6},
    {"residual_scale", &ModelSpec::residual_scale, 1e-9, 1e6},
    {"logit_scale", &ModelSpec::logit_scale, 1e-9, 1e6},
    {"attention_scale", &ModelSpec::attention_scale, 0, 1e6},
    {"attention_softcap", &ModelSpec::attention_softcap, 0, 1e9},
    {"logit_softcap", &ModelSpec::logit_softcap, 0, 1e9},
    {"expert_scale", &ModelSpec::expert_scale, 1e-9, 1e9},
    {"num_experts", &ModelSpec::num_experts, 1, kMostExperts},
    {"experts_per_token", &ModelSpec::experts_per_token, 1, kMostExperts},
    {"expert_size", &ModelSpec::expert_size, 1, kMostIntermediate},
    {"shared_expert_size", &ModelSpec::shared_expert_size, 1, kMostIntermediate},
    {"position_offset", &ModelSpec::position_offset, 0, 1 << 20},
};

struct Size {
  const char* name;
  int64_t (*of)(const ModelSpec& spec);
};
constexpr Size kSizes[] = {
    {"hidden", [](const ModelSpec& m) { return m.hidden_size; }},
    {"intermediate", [](const ModelSpec& m) { return m.intermediate_size; }},
    {"q_width", [](const ModelSpec& m) { return m.num_heads * m.head_dim; }},
    {"kv_width", [](const ModelSpec& m) { return m.num_kv_heads * m.head_dim; }},
    {"heads", [](const ModelSpec& m) { return m.num_heads; }},
    {"head_dim", [](const ModelSpec& m) { return m.head_dim; }},
    {"expert_size", [](const ModelSpec& m) { return m.expert_size; }},
    {"shared_expert_size", [](const ModelSpec& m) { return m.shared_expert_size; }},
};

const std::vector<LayerFlag>& flags() {
  static const std::vector<LayerFlag> all = [] {
    std::vector<LayerFlag> made;
    for (const SpecMember& member : kMembers)
      if (member.is_flag())
        made.push_back({member.name, std::get<bool ModelSpec::*>(member.member)});
    made.push_back({.name = "windowed", .property = &ModelSpec::windowed});
    return made;
  }();
  return all;
}

template <class Items>
auto found_in(const Items& items, const std::string& name) {
  const auto at = std::find_if(std::begin(items), std::end(items),
                               [&](const auto& item) { return name == item.name; });
  return at == std::end(items) ? nullptr : &*at;
}

template <class Items>
std::vector<std::string> names_in(const Items& items) {
  std::vector<std::string> names;
  for (const auto& item : items) names.push_back(item.name);
  return names;
}

}  // namespace

const SpecMember* find_member(const std::string& name) { return found_in(kMembers, name); }

std::vector<std::string> member_names() { return names_in(kMembers); }

void set_member(ModelSpec& spec, const SpecMember& member, const Json& value) {
  std::visit([&]<class T>(T ModelSpec::*of) { spec.*of = value.get<T>(); }, member.member);
}

Json value_of_member(const ModelSpec& spec, const SpecMember& member) {
  return std::visit([&](auto of) { return Json(spec.*of); }, member.member);
}

const LayerFlag* find_flag(const std::string& name) { return found_in(flags(), name); }

std::vector<std::string> flag_names() { return names_in(flags()); }

int64_t width_of(const SizeSum& sum, const ModelSpec& spec) {
  int64_t width = 0;
  for (const SizeTerm& term : sum) {
    const int64_t size = term.size ? term.size(spec) : 1;
    if (size > kMostWidth / term.factor) return kMostWidth + 1;
    width = std::min(width + size * term.factor, kMostWidth + 1);
  }
  return width;
}

int64_t (*find_size(const std::string& name))(const ModelSpec& spec) {
  const Size* size = found_in(kSizes, name);
  return size ? size->of : nullptr;
}

std::vector<std::string> size_names() { return names_in(kSizes); }

}  // namespace forge
