// Rotary position settings. transformers 5 writes rope_parameters {rope_type, rope_theta, …};
// transformers 4 wrote rope_theta beside rope_scaling {type or rope_type, factor, …}. Names and
// defaults: modeling_rope_utils.py.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/lib/base/text.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"

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
                                  {RopeType::yarn, "yarn"},
                                  {RopeType::longrope, "longrope"},
                                  {RopeType::longrope, "su"},  // name in early Phi-3 files
                                  {RopeType::proportional, "proportional"}};

bool harmless_rope_setting(const std::string& key) { return key == "type" || key == "rope_type"; }
// The frequencies of an image's positions are divided among three axes.
bool harmless_with_axes(const std::string& key) {
  return harmless_rope_setting(key) || key == "mrope_section" || key == "mrope_interleaved";
}

void read_yarn(Settings& rope, RopeSpec& spec, int64_t max_positions) {
  // DeepSeek's files leave the factor out. It is the ratio of the two context lengths.
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

// Reads by how much queries grow (Ministral 3); transformers needs both settings.
void read_query_growth(Settings& rope, ModelSpec& model) {
  model.query_growth = rope.number("llama_4_scaling_beta", 0, 1e6);
  if (model.query_growth == 0) return;
  const bool scaled = model.rope.original_max_position_embeddings > 0;
  model.query_growth_period = scaled ? model.rope.original_max_position_embeddings
                                     : rope.integer("original_max_position_embeddings", 1, kMostPositions);
}

void read_llama3(Settings& rope, RopeSpec& spec) {
  spec.factor = rope.number("factor", 1, 1e6);
  spec.low_freq_factor = rope.number("low_freq_factor", 1e-6, 1e6);
  spec.high_freq_factor = rope.number("high_freq_factor", 1e-6, 1e6);
  if (spec.high_freq_factor <= spec.low_freq_factor)
    rope.broken("high_freq_factor", "is not above low_freq_factor");
}

void read_longrope(Settings& rope, RopeSpec& spec, int64_t max_positions, int64_t rotary_dim) {
  const double ratio =
      static_cast<double>(max_positions) / static_cast<double>(spec.original_max_position_embeddings);
  spec.factor = rope.number("factor", 1e-6, 1e6, ratio);
  spec.attention_factor = rope.number("attention_factor", 0, 1e6, 0);
  spec.short_factors = rope.numbers("short_factor", rotary_dim / 2, 1e-6, 1e6);
  spec.long_factors = rope.numbers("long_factor", rotary_dim / 2, 1e-6, 1e6);
}

// `outer` is original_max_position_embeddings beside rope_parameters (Phi-3's place), 0 when
// absent; it wins.
void read_type(Settings& rope, const Family& family, const ModelSpec& model, RopeSpec& spec, int64_t outer) {
  const int64_t max_positions = model.max_position_embeddings;
  const std::string old_type = rope.text("type", "default");
  const std::string type = rope.text("rope_type", old_type);
  if (rope.has("type") && type != old_type)
    rope.unsupported("type", "is \"" + old_type + "\" and rope_type \"" + type + "\": keep the one that is meant");
  const auto* row = std::find_if(std::begin(kRopeTypes), std::end(kRopeTypes),
                                 [&](const RopeRow& known) { return type == known.name; });
  const bool proportional = row != std::end(kRopeTypes) && row->type == RopeType::proportional;
  if (row == std::end(kRopeTypes) || (proportional && !family.proportional_rope)) {
    rope.unsupported("rope_type",
                     "is \"" + type + "\", forge computes default, linear, dynamic, llama3, yarn and longrope" +
                         (proportional ? " in this family" : ""));
    return;
  }
  spec.type = row->type;
  if (proportional) return static_cast<void>(spec.factor = rope.number("factor", 1, 1e6, 1));
  if (spec.type == RopeType::linear || spec.type == RopeType::dynamic)
    spec.factor = rope.number("factor", 1, 1e6);
  const int64_t inner = rope.integer("original_max_position_embeddings", 1, int64_t{1} << 40, max_positions);
  // transformers' dynamic scaling starts where the configured context ends, whatever else the file
  // says.
  if (spec.type != RopeType::standard && spec.type != RopeType::linear)
    spec.original_max_position_embeddings = spec.type == RopeType::dynamic ? max_positions
                                            : outer > 0                    ? outer
                                                                           : inner;
  if (spec.type == RopeType::llama3) read_llama3(rope, spec);
  if (spec.type == RopeType::yarn) read_yarn(rope, spec, max_positions);
  if (spec.type == RopeType::longrope)
    read_longrope(rope, spec, max_positions, rotary_dim_of(model.head_dim, spec.partial_rotary_factor));
}

// Turns dynamic scaling with an alpha into the base that it amounts to at every length: Hunyuan's
// theta · alpha^(d / (d − 2)) for heads of d features.
void scale_base(Settings& rope, ModelSpec& model) {
  if (model.rope.type != RopeType::dynamic) return;
  const double alpha = rope.number("alpha", 0, 1e9, 0);
  if (alpha == 0) return;
  const auto d = static_cast<double>(model.head_dim);
  if (model.head_dim <= 2) return rope.broken("alpha", "scales heads of more than 2 features");
  model.rope.theta *= std::pow(alpha, d / (d - 2));
  model.rope.type = RopeType::standard;
  model.rope.factor = 1;
  model.rope.original_max_position_embeddings = 0;
}

// Returns null for an empty object, as transformers does.
const Json* filled(Settings& settings, const char* key) {
  const Json* value = settings.find(key);
  return value && value->empty() ? nullptr : value;
}

// Returns the parameters with rope_type alone. transformers 4 called it type. rope_type wins if
// both are present.
std::map<std::string, Json> normal(const Json& parameters) {
  std::map<std::string, Json> members;
  for (const auto& [key, value] : parameters.items()) members.emplace(key, value);
  if (const auto type = members.find("type"); type != members.end()) {
    members.emplace("rope_type", type->second);
    members.erase("type");
  }
  return members;
}

// Refuses a setting with different values in config.json and in a table of it: two readers would
// take one each.
void refuse_two(Settings& settings, const char* key, double beside, const std::string& where, double inside) {
  if (!settings.find(key) || beside == inside) return;
  settings.unsupported(key, "is " + format_number(beside) + " and " + where + " " + format_number(inside) + ": keep the one that is meant");
}

// Reads the tables of a family whose layers with a window have another RoPE base, as transformers 5
// writes them: rope_parameters {full_attention, sliding_attention}. Returns the first, null if it
// is absent.
const Json* read_tables(Settings& settings, const Json& parameters, double& window_theta) {
  for (const auto& [key, value] : parameters.items())
    if (key != "sliding_attention" && key != "full_attention" && !value.is_null())
      settings.unsupported("rope_parameters", "has " + key + " next to full_attention and sliding_attention: move it into the one that is meant");
  const std::string where = "rope_parameters.sliding_attention";
  if (const auto table = parameters.find("sliding_attention"); table != parameters.end()) {
    Settings windows(*table, settings.name() + ": " + where);
    const double beside = window_theta;
    window_theta = windows.number("rope_theta", 1, 1e12, beside);
    refuse_two(settings, "rope_local_base_freq", beside, where + ".rope_theta", window_theta);
    windows.must_be("rope_type", "default", "unscaled positions in layers with a window");
    settings.absorb(windows, where, harmless_rope_setting);
  }
  const auto full = parameters.find("full_attention");
  return full == parameters.end() ? nullptr : &*full;
}

}  // namespace

std::vector<float> llama3_divisors(const RopeSpec& rope, int64_t rotary_dim) {
  std::vector<float> divisors(static_cast<size_t>(rotary_dim / 2), 1);
  if (rope.type != RopeType::llama3) return divisors;
  const auto context = static_cast<double>(rope.original_max_position_embeddings);
  for (size_t i = 0; i < divisors.size(); ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(rotary_dim);
    const double wavelength = 2 * std::numbers::pi * std::pow(rope.theta, exponent);
    if (wavelength < context / rope.high_freq_factor) continue;
    if (wavelength > context / rope.low_freq_factor) {
      divisors[i] = static_cast<float>(rope.factor);
      continue;
    }
    const double smooth = (context / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
    divisors[i] = static_cast<float>(1 / ((1 - smooth) / rope.factor + smooth));
  }
  return divisors;
}

double rope_attention_factor(const RopeSpec& rope) {
  const auto scale = [&](double mscale) { return rope.factor <= 1 ? 1 : 0.1 * mscale * std::log(rope.factor) + 1; };
  if (rope.type != RopeType::yarn && rope.type != RopeType::longrope) return 1;
  if (rope.attention_factor > 0) return rope.attention_factor;
  if (rope.type == RopeType::longrope)
    return rope.factor <= 1 ? 1 : std::sqrt(1 + std::log(rope.factor) / std::log(rope.original_max_position_embeddings));
  if (rope.mscale > 0 && rope.mscale_all_dim > 0) return scale(rope.mscale) / scale(rope.mscale_all_dim);
  return scale(1);
}

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

void read_rope(Settings& settings, const Family& family, ModelSpec& spec) {
  const Json* scaling = filled(settings, "rope_scaling");
  const Json* parameters = filled(settings, "rope_parameters");
  if (scaling && parameters && normal(*scaling) != normal(*parameters))
    settings.unsupported("rope_scaling", "is " + dump_json(*scaling) + " and rope_parameters " + dump_json(*parameters) +
                                             ": transformers reads rope_scaling alone; remove the one that is not meant");
  const double theta = settings.number("rope_theta", 1, 1e12, family.rope_theta);
  const double partial = settings.number("partial_rotary_factor", 0, 1, family.partial_rotary_factor);
  const int64_t outer = settings.integer("original_max_position_embeddings", 0, int64_t{1} << 40, 0);
  if (family.window_rope_theta > 0)
    spec.window_rope_theta = settings.number("rope_local_base_freq", 1, 1e12, family.window_rope_theta);
  const bool tables = spec.window_rope_theta > 0 && parameters &&
                      (parameters->contains("full_attention") || parameters->contains("sliding_attention"));
  if (tables) parameters = read_tables(settings, *parameters, spec.window_rope_theta);
  static const Json none = Json::object();
  const Json& source = scaling ? *scaling : parameters ? *parameters : none;
  const std::string where = scaling ? "rope_scaling" : "rope_parameters";
  Settings rope(source, settings.name() + ": " + where);
  spec.rope.theta = rope.number("rope_theta", 1, 1e12, theta);
  spec.rope.partial_rotary_factor = rope.number("partial_rotary_factor", 0, 1, partial);
  refuse_two(settings, "rope_theta", theta, where + ".rope_theta", spec.rope.theta);
  refuse_two(settings, "partial_rotary_factor", partial, where + ".partial_rotary_factor", spec.rope.partial_rotary_factor);
  if (spec.rope.partial_rotary_factor != 1 && !family.partial_rotary)
    (source.contains("partial_rotary_factor") ? rope : settings).unsupported("partial_rotary_factor", "is " + format_number(spec.rope.partial_rotary_factor) +
                                                  ", this family rotates whole heads");
  read_type(rope, family, spec, spec.rope, outer);
  if (family.query_growth && (scaling || parameters)) read_query_growth(rope, spec);
  if (family.scaled_base) scale_base(rope, spec);
  settings.absorb(rope, where, family.image_axes ? harmless_with_axes : harmless_rope_setting);
}

}  // namespace forge
