#include "core/model/families/stored_config.h"

#include <algorithm>
#include <memory>

#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/model/families/model_spec.h"

namespace forge {
namespace {

constexpr const char* kKey = "quantization_config";
constexpr int64_t kMostSide = 1 << 20;

// Returns a list of texts; empty for none.
std::vector<std::string> texts(Settings& settings, const char* key) {
  std::vector<std::string> list;
  const Json* value = settings.find(key);
  if (!value) return list;
  for (const Json& entry : value->is_array() ? *value : Json::array({*value})) {
    if (entry.is_string())
      list.push_back(entry.get<std::string>());
    else
      settings.broken(key, "is " + dump_json(*value).substr(0, 80) + ", expected a list of texts");
  }
  return list;
}

bool nothing_harmless(const std::string&) { return false; }

// Marks keys as read that do not change what the stored numbers stand for.
void pass(Settings& settings, const std::vector<const char*>& keys) {
  for (const char* key : keys) settings.find(key);
}

// Returns two sizes; empty without the key.
std::vector<int64_t> sides(Settings& settings, const char* key) {
  const Json* value = settings.find(key);
  if (!value) return {};
  std::vector<int64_t> sizes;
  for (const Json& size : value->is_array() ? *value : Json::array())
    if (size.is_number_integer() && size > 0 && size <= kMostSide)
      sizes.push_back(size.get<int64_t>());
  if (sizes.size() == 2 && value->size() == 2) return sizes;
  settings.broken(
      key, "is " + dump_json(*value).substr(0, 80) + ", expected the rows and columns of a block");
  return {};
}

void read_mxfp4(Settings& q, StoredScheme& scheme) {
  scheme.method = StoredMethod::mxfp4;
  pass(q, {"modules_to_not_convert", "dequantize"});
}

void read_fp8(Settings& q, StoredScheme& scheme) {
  scheme.method = StoredMethod::fp8;
  scheme.block = sides(q, "weight_block_size");
  if (q.text("fmt", "e4m3") != "float8_e4m3fn")  // MiniMax's word for it
    q.must_be("fmt", "e4m3", "the type that fp8 checkpoints hold");
  pass(q, {"activation_scheme", "scale_fmt", "modules_to_not_convert", "ignored_layers",
           "modules_to_convert", "dequantize"});
}

void read_bitsandbytes(Settings& q, StoredScheme& scheme) {
  scheme.method = StoredMethod::bitsandbytes;
  q.text("bnb_4bit_quant_type", "fp4");
  q.flag("load_in_4bit", false), q.flag("load_in_8bit", false);
  pass(q, {"bnb_4bit_compute_dtype", "bnb_4bit_use_double_quant", "bnb_4bit_quant_storage",
           "llm_int8_enable_fp32_cpu_offload", "llm_int8_has_fp16_weight", "llm_int8_threshold"});
  scheme.kept = texts(q, "llm_int8_skip_modules");
}

// FBGEMM's fp8 has a scale for each row.
void read_fbgemm(Settings& q, StoredScheme& scheme) {
  scheme.method = StoredMethod::fp8;
  pass(q, {"activation_scale_ub", "modules_to_not_convert"});
}

// Settings of GPTQ and AWQ that quantised the weights, or choose a kernel for them.
const std::vector<const char*> kQuantiser{"desc_act",
                                          "sym",
                                          "damp_percent",
                                          "damp_auto_increment",
                                          "static_groups",
                                          "true_sequential",
                                          "model_name_or_path",
                                          "model_file_base_name",
                                          "meta",
                                          "tokenizer",
                                          "dataset",
                                          "backend",
                                          "mse",
                                          "use_exllama",
                                          "exllama_config",
                                          "disable_exllama",
                                          "max_input_length",
                                          "batch_size",
                                          "cache_block_outputs",
                                          "block_name_to_quantize",
                                          "module_name_preceding_first_block",
                                          "modules_in_block_to_quantize",
                                          "pad_token_id",
                                          "use_cuda_fp16",
                                          "model_seqlen",
                                          "hyb_act",
                                          "act_group_aware",
                                          "zero_point",
                                          "modules_to_not_convert",
                                          "do_fuse",
                                          "fuse_max_seq_len",
                                          "modules_to_fuse",
                                          "fusing",
                                          "lm_head",
                                          "quantizer",
                                          "uri",
                                          "offload_to_disk"};

void refuse_unless(Settings& q, const char* key, const std::string& value,
                   const std::vector<std::string>& known, const std::string& what) {
  if (std::count(known.begin(), known.end(), value) > 0) return;
  q.unsupported(key, "is " + value + ", and forge reads " + what + " as " + join(known, " or "));
}

void read_packed(Settings& q, StoredScheme& scheme) {
  scheme.bits = q.integer("bits", 1, 64,
                          q.has("w_bit") ? q.integer("w_bit", 1, 64) : std::optional<int64_t>());
  const bool older = q.has("q_group_size");
  scheme.group = q.integer("group_size", -1, kMostSide,
                           older ? q.integer("q_group_size", -1, kMostSide) : 128);
  pass(q, kQuantiser);
  if (scheme.group == 0)
    q.broken("group_size", "is 0, expected the inputs of a group, or -1 for all");
  if (const Json* dynamic = q.find("dynamic"); dynamic && !dynamic->empty())
    q.unsupported("dynamic", "gives modules bits of their own");
  refuse_unless(q, "pack_dtype", q.text("pack_dtype", "int32"), {"int32"}, "words");
}

void read_gptq(Settings& q, StoredScheme& scheme) {
  scheme.method = StoredMethod::gptq;
  read_packed(q, scheme);
  const std::string format = lower(q.text("checkpoint_format", q.text("format", "gptq")));
  q.find("format");
  refuse_unless(q, "checkpoint_format", format, {"gptq", "gptq_v2"}, "GPTQ");
  refuse_unless(q, "bits", std::to_string(scheme.bits), {"2", "3", "4", "8"}, "codes of GPTQ");
  if (q.flag("is_marlin_format", false))
    q.unsupported("is_marlin_format", "is true: the codes are in the order of a card's kernel");
  scheme.zeros_plus_one = format == "gptq";
  scheme.ordered = scheme.group > 0 && q.flag("desc_act", false);
}

void read_awq(Settings& q, StoredScheme& scheme) {
  scheme.method = StoredMethod::awq;
  read_packed(q, scheme);
  const std::string version = lower(q.text("version", q.text("format", "gemm")));
  q.find("format"), q.find("checkpoint_format");
  refuse_unless(q, "version", version, {"gemm"}, "AWQ");
  refuse_unless(q, "bits", std::to_string(scheme.bits), {"4"}, "codes of AWQ");
}

const std::vector<std::string> kCompressedFormats{"pack-quantized",  "int-quantized",
                                                  "float-quantized", "naive-quantized",
                                                  "mixed-precision", "dense", "nvfp4-pack-quantized"};

// Names of modules, or expressions after "re:", by compressed-tensors' rule: an expression matches
// a module whose path begins with it; "Linear" is every linear layer.
class QuantisedModules {
 public:
  explicit QuantisedModules(const std::vector<std::string>& entries) {
    constexpr std::string_view kExpression = "re:";
    for (const std::string& entry : entries)
      starts_with(entry, kExpression)
          ? void(expressions_.emplace_back("(?s)(?:" + entry.substr(kExpression.size()) + ").*",
                                           "model.path"))
          : names_.push_back(entry);
  }
  bool name(const std::string& module) const {
    const auto matches = [&](const Pattern& pattern) { return pattern.matches(module); };
    return std::count(names_.begin(), names_.end(), module) > 0 ||
           std::any_of(expressions_.begin(), expressions_.end(), matches);
  }
  bool all_linear() const { return std::count(names_.begin(), names_.end(), "Linear") > 0; }

 private:
  std::vector<std::string> names_;
  std::vector<Pattern> expressions_;
};

using Groups = std::vector<std::pair<QuantisedModules, StoredGroup>>;

// Returns the group that names the module, or else the group of all linear layers.
std::optional<StoredGroup> group_in(const Groups& groups, const std::string& module) {
  for (const auto& [targets, group] : groups)
    if (targets.name(module)) return group;
  for (const auto& [targets, group] : groups)
    if (targets.all_linear()) return group;
  return {};
}

// Reads how a group holds its weights.
StoredGroup read_group_weights(Settings& w) {
  StoredGroup group{.bits = w.integer("num_bits", 1, 64, 8)};
  const std::string type = w.text("type", "int");
  refuse_unless(w, "type", type, {"int", "float"}, "compressed-tensors");
  group.whole_numbers = type == "int";
  if (group.bits > 8 || (!group.whole_numbers && group.bits != 8 && group.bits != 4))
    w.unsupported("num_bits", "is " + std::to_string(group.bits) + " of type " + type +
                                  ", and forge reads int of 1 to 8 bits and float of 4 and 8");
  group.block = sides(w, "block_structure");
  group.symmetric = w.flag("symmetric", true);
  const Json* order = w.find("actorder");
  group.ordered = order && (*order == "group" || *order == "dynamic" || *order == true);
  w.text("strategy", "tensor");
  group.group = std::max<int64_t>(0, w.integer("group_size", -1, kMostSide, 0));
  if (!group.whole_numbers && group.bits == 4 && group.group != 16)
    w.unsupported("group_size", "is " + std::to_string(group.group) + " of floats of 4 bits, and forge reads nvfp4, 16");
  pass(w, {"dynamic", "observer", "observer_kwargs", "scale_dtype", "zp_dtype"});
  return group;
}

void read_group(Settings& g, Groups& groups) {
  const std::vector<std::string> targets = texts(g, "targets");
  pass(g, {"input_activations", "output_activations"});
  if (g.find("format"))
    refuse_unless(g, "format", g.text("format", ""), kCompressedFormats, "compressed-tensors");
  const Json* weights = g.find("weights");
  if (!weights) return;
  if (!weights->is_object())
    return g.broken("weights", "is " + dump_json(*weights).substr(0, 80) + ", expected an object");
  Settings w(*weights, g.name() + ".weights");
  groups.emplace_back(QuantisedModules(targets), read_group_weights(w));
  g.absorb(w, "weights", nothing_harmless);
}

void read_compressed(Settings& q, StoredScheme& scheme) {
  scheme.method = StoredMethod::compressed_tensors;
  refuse_unless(q, "format", q.text("format", "dense"), kCompressedFormats, "compressed-tensors");
  refuse_unless(q, "quantization_status", q.text("quantization_status", "compressed"),
                {"compressed"}, "compressed-tensors whose quantization_status is");
  const auto ignored = std::make_shared<QuantisedModules>(texts(q, "ignore"));
  scheme.ignores = [ignored](const std::string& module) { return ignored->name(module); };
  pass(q, {"kv_cache_scheme", "global_compression_ratio", "version", "run_compressed", "dequantize",
           "use_optimized_inference"});
  if (const Json* sparse = q.find("sparsity_config");
      sparse && sparse->is_object() && sparse->value("format", Json("dense")) != "dense")
    q.unsupported("sparsity_config", "leaves zeros out of the file");
  if (const Json* turned = q.find("transform_config");
      turned && turned->is_object() && !turned->value("config_groups", Json::object()).empty())
    q.unsupported("transform_config", "turns activations before they are multiplied");
  const Json* stated = q.find("config_groups");
  const auto groups = std::make_shared<Groups>();
  const Json none = Json::object();
  for (const auto& [name, group] : (stated && stated->is_object() ? *stated : none).items()) {
    if (!group.is_object()) {
      q.unsupported("config_groups", "names the preset " + name + " without its settings");
      continue;
    }
    Settings g(group, q.name() + ".config_groups." + name);
    read_group(g, *groups);
    q.absorb(g, "config_groups." + name, nothing_harmless);
  }
  scheme.group_of = [groups](const std::string& module) { return group_in(*groups, module); };
}

// Reads what NVIDIA's Model Optimizer writes: the tensors say all of a matrix.
void read_modelopt(Settings& q, StoredScheme& scheme) {
  scheme.method = StoredMethod::modelopt;
  const std::string algorithm = q.text("quant_algo", "");
  if (algorithm != "NVFP4" && algorithm != "FP8")
    q.unsupported("quant_algo", "is \"" + algorithm + "\", forge reads NVFP4 and FP8");
  pass(q, {"config_groups", "ignore", "exclude_modules", "kv_cache_scheme", "kv_cache_quant_algo", "producer", "group_size"});
}

bool harmless(const std::string& key) { return key == "quant_method" || starts_with(key, "_"); }

// Returns the method's name; bitsandbytes' older files state only what they load.
std::string method_of(const Json& config) {
  if (!config.is_object()) return "";
  const Json method = config.value("quant_method", Json());
  if (method.is_string()) return method.get<std::string>();
  const auto says = [&](const char* key) { return config.value(key, Json()) == true; };
  return says("load_in_4bit") || says("load_in_8bit") ? "bitsandbytes" : "";
}

struct Method {
  const char* name;
  void (*read)(Settings& q, StoredScheme& scheme);
};
constexpr Method kMethods[] = {{"mxfp4", read_mxfp4},
                               {"fp8", read_fp8},
                               {"bitsandbytes", read_bitsandbytes},
                               {"fbgemm_fp8", read_fbgemm},
                               {"compressed-tensors", read_compressed},
                               {"gptq", read_gptq},
                               {"awq", read_awq},
                               {"modelopt", read_modelopt}};

}  // namespace

StoredScheme read_stored_scheme(Settings& settings) {
  StoredScheme scheme;
  const Json* config = settings.find(kKey);
  if (!config) return scheme;
  const std::string name = method_of(*config);
  const auto method = std::find_if(std::begin(kMethods), std::end(kMethods),
                                   [&](const Method& row) { return row.name == name; });
  if (method == std::end(kMethods)) {
    std::vector<std::string> names;
    for (const Method& row : kMethods) names.emplace_back(row.name);
    settings.unsupported(
        kKey, "says that the weights are already quantised, in a way that forge does not read (" +
                  (name.empty() ? "no quant_method" : name) + "; it reads " + join(names, ", ") +
                  "); use the original weights and set model.quantization");
    return scheme;
  }
  Settings q(*config, settings.name() + ": " + kKey);
  method->read(q, scheme);
  settings.absorb(q, kKey, harmless);
  return scheme;
}

StoredScheme stored_scheme_of(const Json& config) {
  const Json* holder = &config;
  if (!config.contains(kKey) && config.contains("text_config")) holder = &config["text_config"];
  if (!holder->is_object()) return {};
  Settings settings(*holder, "config.json");
  return read_stored_scheme(settings);
}

StoredScheme stored_scheme_in(const std::string& folder) {
  return file_exists(folder + "/config.json") ? stored_scheme_of(model_config({.path = folder}))
                                              : StoredScheme();
}

std::string stored_as(const Json& config) {
  const StoredScheme scheme = stored_scheme_of(config);
  const Json q = config.value(kKey, Json::object());
  const auto text = [&](const char* key, const char* otherwise) {
    const Json value = q.value(key, Json());
    return value.is_string() ? value.get<std::string>() : otherwise;
  };
  const std::string bits = std::to_string(scheme.bits) + " bits (";
  switch (scheme.method) {
    case StoredMethod::bitsandbytes:
      return (q.value("load_in_8bit", Json()) == true ? "int8"
                                                      : text("bnb_4bit_quant_type", "fp4")) +
             " (bitsandbytes)";
    case StoredMethod::compressed_tensors:
      return text("format", "dense") + " (compressed-tensors)";
    case StoredMethod::gptq:
      return bits + "GPTQ)";
    case StoredMethod::awq:
      return bits + "AWQ)";
    case StoredMethod::modelopt:
      return text("quant_algo", "codes") + " (ModelOpt)";
    case StoredMethod::fp8:
      return scheme.block.empty() ? "fp8" : "";
    default:
      return "";
  }
}

KeptModules::KeptModules(const std::vector<std::string>& entries) : endings_(entries) {
  for (const std::string& entry : entries)
    beginnings_.emplace_back("(?s)(?:" + entry + ").*", "model.path");
}

bool KeptModules::has(const std::string& module) const {
  const auto ends = [&](const std::string& entry) { return ends_with(module, entry); };
  if (std::any_of(endings_.begin(), endings_.end(), ends)) return true;
  const auto begins = [&](const Pattern& pattern) { return pattern.matches(module); };
  return std::any_of(beginnings_.begin(), beginnings_.end(), begins);
}

}  // namespace forge
