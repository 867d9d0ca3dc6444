#include "core/run/export/adapter_check.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/run/export/gguf_metadata.h"
#include "core/model/families/pattern.h"
#include "core/lib/io/python_json.h"
#include "core/model/families/parameters.h"
#include "core/model/families/adapter_folder.h"

namespace forge {
namespace {

constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight", kPeft = "base_model.model.";

// The shapes of one module's low-rank factors in the file.
struct Factors {
  std::vector<int64_t> a, b;
  bool zero_b = false;
};

struct Contents {
  std::map<std::string, Factors> factors;  // by module, with PEFT's prefix
  std::vector<std::string> others;         // tensors that are neither A nor B
};

void look_at(const TensorFile& weights, AdapterCheck& check, Contents& contents) {
  std::vector<float> values;
  for (size_t i = 0; i < weights.tensors().size(); ++i) {
    const TensorInfo& tensor = weights.tensors()[i];
    check.tensors += 1;
    check.parameters += tensor.count();
    values.resize(static_cast<size_t>(tensor.count()));
    weights.read_f32(i, values.data());
    weights.release(i);
    if (!starts_with(tensor.name, kPeft)) check.faults.push_back(tensor.name + ": does not begin with " + std::string(kPeft));
    if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }))
      check.faults.push_back(tensor.name + ": holds values that are not finite");
    if (ends_with(tensor.name, kA)) {
      contents.factors[tensor.name.substr(0, tensor.name.size() - kA.size())].a = tensor.shape;
    } else if (ends_with(tensor.name, kB)) {
      Factors& factors = contents.factors[tensor.name.substr(0, tensor.name.size() - kB.size())];
      factors.b = tensor.shape;
      factors.zero_b = std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
    } else {
      contents.others.push_back(tensor.name);
    }
  }
}

void judge_factors(const Contents& contents, AdapterCheck& check) {
  int64_t zero = 0;
  for (const auto& [module, factors] : contents.factors) {
    if (factors.a.size() != 2 || factors.b.size() != 2) {
      check.faults.push_back(module + ": expected two matrices, lora_A and lora_B");
      continue;
    }
    if (factors.a[0] != factors.b[1]) {
      check.faults.push_back(module + ": lora_A is " + format_shape(factors.a) + " and lora_B " + format_shape(factors.b) +
                             ", of different ranks");
      continue;
    }
    check.modules += 1;
    check.least_rank = check.modules == 1 ? factors.a[0] : std::min(check.least_rank, factors.a[0]);
    check.most_rank = std::max(check.most_rank, factors.a[0]);
    zero += factors.zero_b;
  }
  if (zero > 0)
    check.warnings.push_back(format_count(zero) + " of " + format_count(check.modules) +
                             " factors lora_B are zero: there the adapter changes nothing, as before training");
}

// Returns the reader's own error message; empty if there is none.
template <class Attempt>
std::string refusal_of(const Attempt& attempt) {
  try {
    attempt();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// Returns the module of factors outside the layers; empty if there is none.
std::string adapted_head(const Contents& contents) {
  for (const auto& [module, factors] : contents.factors)
    for (const char* head : {"lm_head", "embed_out"})
      if (module == std::string(kPeft) + head) return head;
  return "";
}

bool is_lora(const Json& config) { return config.value("peft_type", Json("LORA")) == "LORA"; }

bool is_set(const Json& config, const char* key) {
  const auto value = config.find(key);
  return value != config.end() && !value->is_null() && !value->empty();
}

// Returns the rank of each module by adapter_config.json: from the model's modules, or r for all
// where the model is not known and the settings state no other. Empty if the ranks cannot be told.
std::map<std::string, int64_t> stated_ranks(const std::string& folder, const Json& config, const Contents& contents,
                                            const std::optional<ModelSpec>& base) {
  std::map<std::string, int64_t> ranks;
  if (base) {
    refusal_of([&] {
      for (const AdapterSite& site : sites_of(read_adapter_config(folder), *base))
        ranks[std::string(kPeft) + site.adapter] = site.rank * std::max<int64_t>(1, site.experts);
    });
  } else if (!is_set(config, "rank_pattern") && !is_set(config, "target_parameters")) {
    for (const auto& [module, factors] : contents.factors) ranks[module] = config.value("r", int64_t{8});
  }
  return ranks;
}

// Checks the ranks. Tried with PEFT 0.21: it refuses a rank below 1 and factors of another shape.
void judge_ranks(const std::string& folder, const Json& config, const Contents& contents, const std::optional<ModelSpec>& base,
                 AdapterCheck& check) {
  const Json r = config.value("r", Json(8));
  if (!r.is_number_integer() || r < 1) {
    check.faults.push_back("adapter_config.json: r is " + dump_json(r).substr(0, 60) +
                           ", expected a whole number from 1: forge and PEFT refuse it");
    return;
  }
  int64_t differ = 0;
  std::string first;
  for (const auto& [module, rank] : stated_ranks(folder, config, contents, base)) {
    const auto found = contents.factors.find(module);
    if (found == contents.factors.end() || found->second.a.empty() || found->second.a[0] == rank) continue;
    if (++differ == 1)
      first = module + " has rank " + std::to_string(found->second.a[0]) + ", adapter_config.json says " + std::to_string(rank);
  }
  if (differ > 0)
    check.faults.push_back(first + (differ > 1 ? " (and " + format_count(differ - 1) + " more)" : "") +
                           ": forge and PEFT refuse it, and others scale the update by the wrong rank");
}

// Checks the saved modules. Tried with PEFT 0.21: it refuses a saved module without its weight, if
// the model has that module. The head of a model with scores is listed under both names that
// transformers has for it.
void judge_saved_modules(const Json& config, const Contents& contents, const std::optional<ModelSpec>& base, AdapterCheck& check) {
  if (!is_set(config, "modules_to_save") || !config["modules_to_save"].is_array()) return;
  for (const Json& item : config["modules_to_save"]) {
    const std::string name = item.is_string() ? item.get<std::string>() : "";
    const auto belongs = [&](const std::string& tensor) { return ("." + tensor).find("." + name + ".") != std::string::npos; };
    const bool head_of_scores = config.value("task_type", Json()) == "SEQ_CLS" && (name == "score" || name == "classifier");
    if (name.empty() || head_of_scores || std::any_of(contents.others.begin(), contents.others.end(), belongs)) continue;
    const std::string missing = "adapter_config.json: modules_to_save names " + name + ", and no tensor here is its weight";
    if (!base) {
      check.warnings.push_back(missing + ": PEFT refuses it if the model has such a module");
      continue;
    }
    const std::vector<Parameter> all = run_parameters(*base, {}, Quantization::none);
    if (std::any_of(all.begin(), all.end(), [&](const Parameter& parameter) { return belongs(parameter.name); }))
      check.faults.push_back(missing + ": forge, PEFT and vLLM refuse it");
  }
}

// Returns the name that PEFT saves a factor under, for a factor whose name also contains the
// adapter's own name ("lora_A.default.weight"). PEFT inserts that name on loading and so does not
// find the tensor. Empty for any other tensor.
std::string saved_name(const std::string& tensor) {
  for (const std::string_view factor : {".lora_A.", ".lora_B."}) {
    const size_t at = tensor.rfind(factor);
    if (at == std::string::npos || tensor.substr(at + factor.size()) == "bias") continue;
    return tensor.substr(0, at + factor.size()) + "weight";
  }
  return "";
}

// Checks the names of tensors. Tried with PEFT 0.21: it initialises tensors anew that it does not
// find by their names, and says so in a warning.
void judge_names(const Json& config, const Contents& contents, AdapterCheck& check) {
  int64_t named = 0;
  for (const std::string& tensor : contents.others)
    if (const std::string saved = saved_name(tensor); !saved.empty() && ++named == 1)
      check.faults.push_back(tensor + ": forge and PEFT look for " + saved + ", and PEFT initialises it again; rename the tensors");
  if (config.value("use_dora", Json()) != true) return;
  int64_t missing = 0;
  std::string first;
  for (const auto& [module, factors] : contents.factors) {
    const std::string magnitude = module + ".lora_magnitude_vector";
    if (std::find(contents.others.begin(), contents.others.end(), magnitude) == contents.others.end() && ++missing == 1) first = magnitude;
  }
  if (missing > 0)
    check.faults.push_back("adapter_config.json: use_dora is set, and no tensor is " + first +
                           (missing > 1 ? " (and " + format_count(missing - 1) + " more)" : "") + ": forge refuses it, and PEFT initialises it again");
}

// Compares adapter_config.json with the tensors.
void judge_settings(const std::string& folder, const Json& config, const Contents& contents, const std::optional<ModelSpec>& base,
                    AdapterCheck& check) {
  if (!is_lora(config)) {
    if (!contents.factors.empty())
      check.faults.push_back("adapter_config.json: peft_type is " + dump_json(config["peft_type"]).substr(0, 60) +
                             ", and the tensors are LoRA's: forge refuses it, and PEFT passes the tensors over");
    return;
  }
  judge_names(config, contents, check);
  judge_ranks(folder, config, contents, base, check);
  judge_saved_modules(config, contents, base, check);
}

// True for values that Python takes for false.
bool is_false(const Json& value) {
  return value.is_null() || value == false || (value.is_number() && value == 0) || (value.is_string() && value.get<std::string>().empty()) ||
         (value.is_structured() && value.empty());
}

bool is_expression(const Json& value) {
  return value.is_string() && refusal_of([&] { Pattern(value.get<std::string>(), ""); }).empty();
}

bool is_list_of_texts(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_string(); });
}

// True for a map of ranks or alphas by expressions. PEFT does not look at values of expressions
// that match no module; this check cannot tell those.
bool is_pattern_map(const Json& value, bool ranks) {
  if (!value.is_object()) return false;
  for (const auto& [key, number] : value.items())
    if (!is_expression(key) || !number.is_number() || (ranks && (!number.is_number_integer() || number < 1))) return false;
  return true;
}

bool is_number_or_flag(const Json& value) { return value.is_number() || value.is_boolean(); }

bool is_known_start(const Json& value) {
  if (!value.is_string() || is_false(value)) return is_false(value) || value == true;
  const std::string start = lower(value.get<std::string>());
  if (start.starts_with("pissa_niter_")) return start.size() > 12 && start.find_first_not_of("0123456789", 12) == std::string::npos;
  constexpr std::string_view kKnown[] = {"gaussian",   "pissa", "olora",
                                         "orthogonal", "eva",   "lora_ga"};
  return std::ranges::count(kKnown, start) > 0;
}

bool is_task(const Json& value) {
  for (const char* known : {"CAUSAL_LM", "SEQ_2_SEQ_LM", "SEQ_CLS", "TOKEN_CLS", "QUESTION_ANS", "FEATURE_EXTRACTION"})
    if (value == known) return true;
  return value.is_null();
}

bool is_list_of_integers(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_number_integer(); });
}

// True for a list of tokens whose rows are trained: those of the embedding, or lists by module.
bool are_tokens(const Json& value) {
  if (value.is_object()) return std::all_of(value.begin(), value.end(), is_list_of_integers);
  return value.is_null() || (is_list_of_integers(value) && !value.empty());
}

bool is_null_or_object(const Json& value) { return value.is_null() || value.is_object(); }

// A key of adapter_config.json with the values that PEFT 0.21 loads a LoRA adapter with
// (tests/export/goldens/adapter-edits.json). A key that is absent has its default, which is one of
// them.
struct PeftKey {
  const char* key;
  bool (*loads)(const Json& value);
  const char* expected;
};
constexpr PeftKey kPeftKeys[] = {
    {"alpha_pattern", [](const Json& value) { return is_pattern_map(value, false); }, "expressions with numbers"},
    {"rank_pattern", [](const Json& value) { return is_pattern_map(value, true); }, "expressions with ranks"},
    {"alora_invocation_tokens", [](const Json& value) { return is_false(value) || is_list_of_integers(value); }, "tokens"},
    {"arrow_config", [](const Json& value) { return value.is_null(); }, "null"},
    {"use_bdlora", [](const Json& value) { return value.is_null(); }, "null"},
    {"bias", [](const Json& value) { return value == "none" || value == "all" || value == "lora_only"; }, "none, all or lora_only"},
    {"corda_config", is_null_or_object, "null or an object"},
    {"eva_config", is_null_or_object, "null or an object"},
    {"lora_ga_config", is_null_or_object, "null or an object"},
    {"kasa_config", [](const Json& value) { return value.is_null(); }, "null"},
    {"velora_config", [](const Json& value) { return value.is_null(); }, "null"},
    {"monteclora_config", [](const Json& value) { return is_false(value) && !value.is_object(); }, "nothing"},
    {"exclude_modules", [](const Json& value) { return is_false(value) || is_expression(value) || value.is_array(); },
     "names or an expression"},
    {"init_lora_weights", is_known_start, "true or a known start"},
    {"layer_replication", is_false, "nothing"},
    {"layers_to_transform", [](const Json& value) {
       return value.is_null() || value.is_number_integer() || is_list_of_integers(value);
     }, "numbers of layers"},
    {"lora_alpha", is_number_or_flag, "a number"},
    {"lora_bias", is_false, "false"},
    {"lora_dropout", [](const Json& value) { return value.is_boolean() || (value.is_number() && value <= 1); }, "at most 1"},
    {"megatron_config", is_false, "nothing"},
    {"modules_to_save", [](const Json& value) { return is_false(value) || is_list_of_texts(value); }, "names"},
    {"target_modules", [](const Json& value) { return is_expression(value) || is_list_of_texts(value) || value.is_null(); },
     "names or an expression"},
    {"target_parameters", [](const Json& value) { return is_false(value) ? !value.is_string() : value.is_structured(); }, "names"},
    {"task_type", is_task, "a task of PEFT's"},
    {"trainable_token_indices", are_tokens, "tokens"},
    {"use_dora", [](const Json& value) { return value == true || is_false(value); }, "true or false"},
};

// Returns the first setting that PEFT refuses, or reads as another kind of adapter than the tensors
// are.
std::string peft_refusal(const Json& config) {
  if (!config.contains("peft_type")) return "adapter_config.json names no peft_type";
  for (const PeftKey& known : kPeftKeys) {
    const auto found = config.find(known.key);
    if (found != config.end() && !known.loads(*found))
      return std::string(known.key) + " is " + dump_json(*found).substr(0, 60) + ", expected " + known.expected;
  }
  const Json pattern = config.value("layers_pattern", Json());
  const Json layers = config.value("layers_to_transform", Json());
  const bool expression = config.value("target_modules", Json()).is_string();
  if (!is_false(pattern) && (layers.is_null() || expression)) return "layers_pattern is set without layers_to_transform and names of modules";
  if (!layers.is_null() && expression) return "layers_to_transform is set together with an expression of modules";
  return "";
}

// True if a key of a pattern, as PEFT matches it, names a module of the adapter.
bool concerns(const Json& pattern, const Contents& contents) {
  if (!pattern.is_object()) return true;
  for (const auto& item : pattern.items()) {
    bool matches = true;  // what is no regular expression is refused elsewhere
    refusal_of([&] {
      const Pattern key("(.*\\.)?(" + item.key() + ")", "adapter_config.json");
      matches = std::any_of(contents.factors.begin(), contents.factors.end(), [&](const auto& one) { return key.matches(one.first); });
    });
    if (matches) return true;
  }
  return false;
}

std::string vllm_refusal(const Json& config, const AdapterCheck& check, const Contents& contents) {
  if (!is_lora(config)) return "it reads LoRA only";
  if (const Json base = config.value("base_model_name_or_path", Json()); base.is_string() && ends_with(lower(base.get<std::string>()), ".gguf"))
    return "it loads no adapters for a GGUF (forge merge)";
  if (config.value("task_type", Json()) == "SEQ_2_SEQ_LM") return "it loads adapters for decoders only";
  if (config.value("use_dora", Json(false)) == true) return "it does not read DoRA";
  if (is_set(config, "modules_to_save")) return "it refuses modules_to_save";
  if (config.value("bias", Json("none")) != "none") return "it does not read trained biases";
  if (!contents.others.empty()) return "it reads low-rank factors only, and there is " + contents.others[0];
  if (const std::string head = adapted_head(contents); !head.empty()) return "it reads no factors of " + head;
  for (const char* pattern : {"alpha_pattern", "rank_pattern"})  // PEFTHelper knows one alpha and one rank
    if (is_set(config, pattern) && concerns(config.at(pattern), contents)) return std::string("it does not read ") + pattern + ", and would scale by lora_alpha and r alone";
  if (check.most_rank > 512) return "it serves ranks up to 512, this has " + std::to_string(check.most_rank);
  return "";
}

std::string llama_cpp_refusal(const Json& config, const Contents& contents, const std::optional<ModelSpec>& base) {
  if (!is_lora(config)) return "its GGUF adapters are LoRA's";
  if (config.value("task_type", Json()) == "SEQ_CLS")
    return "forge writes no GGUF of a model that gives scores (forge score asks it)";
  if (config.value("use_dora", Json(false)) == true) return "a LoRA GGUF has no place for DoRA's magnitudes (forge export --gguf merges)";
  if (!contents.others.empty())
    return "a LoRA GGUF has no place for " + contents.others[0] + " (forge export --gguf merges)";
  if (const std::string head = adapted_head(contents); !head.empty()) return "forge writes no LoRA GGUF with factors of " + head + " (forge export --gguf merges)";
  if (!base) return "";
  return refusal_of([&] { gguf_architecture_of(*base); });
}

}  // namespace

AdapterCheck check_adapter(const std::string& folder, const std::optional<ModelSpec>& base) {
  AdapterCheck check;
  Contents contents;
  Json config = Json::object();
  const std::string config_fault = refusal_of([&] {
    const std::string path = folder + "/adapter_config.json";
    config = parse_python_json(read_file(path, 1 << 20, ErrorKind::environment), path);
    if (!config.is_object()) throw Error(ErrorKind::environment, path + ": expected an object");
  });
  if (!config_fault.empty()) check.faults.push_back(config_fault);
  const std::string weights_fault = refusal_of([&] {
    const std::unique_ptr<TensorFile> weights = open_adapter_weights(folder, base.value_or(ModelSpec()));
    check.bytes = weights->file_bytes();
    look_at(*weights, check, contents);
  });
  if (!weights_fault.empty()) check.faults.push_back(weights_fault);
  judge_factors(contents, check);
  const bool whole = config_fault.empty() && weights_fault.empty();
  if (whole) judge_settings(folder, config, contents, base, check);
  const std::string unread = !whole ? "" : refusal_of([&] { read_adapter_config(folder); });
  const std::string misfit = !whole || !base || !unread.empty() ? "" : refusal_of([&] {
    const AdapterFile file = read_adapter_config(folder);
    check_adapter_weights(*open_adapter_weights(folder, *base), folder, trained_by(file, spec_for(file, *base)));
  });
  if (!base) check.warnings.emplace_back("its base model is not on this machine, so the fit was not checked");
  if (!whole || !check.faults.empty()) return check;
  // Tried with PEFT 0.21: it refuses targets and shapes that the model does not have, and
  // initialises tensors anew that the file lacks.
  const auto unless_misfit = [&](const std::string& refusal) { return misfit.empty() ? refusal : "tensors, settings and model do not fit each other"; };
  check.loaders = {{"forge", unread + misfit},
                   {"PEFT", unless_misfit(peft_refusal(config))},
                   {"vLLM", unless_misfit(vllm_refusal(config, check, contents))},
                   {"llama.cpp", unless_misfit(!unread.empty() ? "forge writes the LoRA GGUF, and does not read this adapter"
                                                               : llama_cpp_refusal(config, contents, base))}};
  return check;
}

Json to_json(const AdapterCheck& check) {
  Json loaders = Json::object();
  for (const Loader& loader : check.loaders) loaders[loader.program] = loader.refusal.empty() ? Json(true) : Json(loader.refusal);
  return {{"tensors", check.tensors},       {"parameters", check.parameters}, {"bytes", check.bytes},
          {"modules", check.modules},       {"ranks", {check.least_rank, check.most_rank}},
          {"faults", check.faults},         {"warnings", check.warnings},     {"loads", loaders}};
}

}  // namespace forge
