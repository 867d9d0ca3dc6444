// Rotary position settings. transformers 5 writes rope_parameters {rope_type, rope_theta, …}; transformers 4
// wrote rope_theta beside rope_scaling {type or rope_type, factor, …}. Names and defaults:
// modeling_rope_utils.py.
#include <algorithm>

#include "core/base/text.h"
#include "core/families/config_spec.h"

namespace forge {
namespace {

struct RopeRow {
  RopeType type;
  const char* name;
};
constexpr RopeRow kRopeTypes[] = {{RopeType::standard, "default"},
                                  {RopeType::linear, "linear"},
                                  {RopeType::dynamic, "dynamic"},
                                  {RopeType::llama3, "llama3"},
                                  {RopeType::yarn, "yarn"}};

bool harmless_rope_setting(const std::string& key) { return key == "type" || key == "rope_type"; }

void read_yarn(Settings& rope, RopeSpec& spec, int64_t max_positions) {
  // DeepSeek's files leave the factor out: the ratio of the two context lengths.
  const double ratio =
      static_cast<double>(max_positions) / static_cast<double>(spec.original_max_position_embeddings);
  spec.factor = rope.number("factor", 1, 1e6, std::max(1.0, ratio));
  spec.beta_fast = rope.number("beta_fast", 1e-6, 1e6, 32);
  spec.beta_slow = rope.number("beta_slow", 1e-6, 1e6, 1);
  spec.attention_factor = rope.number("attention_factor", 0, 1e6, 0);
  spec.mscale = rope.number("mscale", 0, 1e6, 0);
  spec.mscale_all_dim = rope.number("mscale_all_dim", 0, 1e6, 0);
  spec.truncate = rope.flag("truncate", true);
}

void read_llama3(Settings& rope, RopeSpec& spec) {
  spec.factor = rope.number("factor", 1, 1e6);
  spec.low_freq_factor = rope.number("low_freq_factor", 1e-6, 1e6);
  spec.high_freq_factor = rope.number("high_freq_factor", 1e-6, 1e6);
  if (spec.high_freq_factor <= spec.low_freq_factor)
    rope.broken("high_freq_factor", "is not above low_freq_factor");
}

// `outer` is original_max_position_embeddings beside rope_parameters (Phi-3's place), 0 when absent; it wins.
void read_type(Settings& rope, RopeSpec& spec, int64_t max_positions, int64_t outer) {
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  const auto* row = std::find_if(std::begin(kRopeTypes), std::end(kRopeTypes),
                                 [&](const RopeRow& known) { return type == known.name; });
  if (row == std::end(kRopeTypes)) {
    rope.unsupported("rope_type",
                     "is \"" + type + "\", forge computes default, linear, dynamic, llama3 and yarn");
    return;
  }
  spec.type = row->type;
  if (spec.type == RopeType::linear || spec.type == RopeType::dynamic)
    spec.factor = rope.number("factor", 1, 1e6);
  const int64_t inner = rope.integer("original_max_position_embeddings", 1, int64_t{1} << 40, max_positions);
  // transformers' dynamic scaling starts where the configured context ends, whatever the file says beside it.
  if (spec.type != RopeType::standard && spec.type != RopeType::linear)
    spec.original_max_position_embeddings = spec.type == RopeType::dynamic ? max_positions
                                            : outer > 0                    ? outer
                                                                           : inner;
  if (spec.type == RopeType::llama3) read_llama3(rope, spec);
  if (spec.type == RopeType::yarn) read_yarn(rope, spec, max_positions);
}

}  // namespace

const char* name_of(RopeType type) {
  for (const RopeRow& row : kRopeTypes)
    if (row.type == type) return row.name;
  return "default";
}

RopeType rope_type_of(const std::string& name) {
  for (const RopeRow& row : kRopeTypes)
    if (name == row.name) return row.type;
  throw Error(ErrorKind::environment, "unknown rope type \"" + name + "\"");
}

RopeSpec rope_from_config(Settings& settings, int64_t max_position_embeddings) {
  RopeSpec spec;
  const Json* scaling = settings.find("rope_scaling");
  const Json* parameters = settings.find("rope_parameters");
  const double theta = settings.number("rope_theta", 1, 1e12, 10000.0);
  const double partial = settings.number("partial_rotary_factor", 0, 1, 1);
  const int64_t outer = settings.integer("original_max_position_embeddings", 0, int64_t{1} << 40, 0);
  static const Json none = Json::object();
  const Json& source = scaling ? *scaling : parameters ? *parameters : none;
  Settings rope(source, settings.name() + ": " + (scaling ? "rope_scaling" : "rope_parameters"));
  spec.theta = rope.number("rope_theta", 1, 1e12, theta);
  spec.partial_rotary_factor = rope.number("partial_rotary_factor", 0, 1, partial);
  if (spec.partial_rotary_factor != 1)
    rope.unsupported("partial_rotary_factor",
                     "is " + format_number(spec.partial_rotary_factor) + ", this family rotates whole heads");
  read_type(rope, spec, max_position_embeddings, outer);
  settings.absorb(rope, harmless_rope_setting);
  return spec;
}

}  // namespace forge
