// Reads config.json of a Hugging Face folder as a ModelSpec, with the defaults of transformers'
// configuration classes.
#include "core/model/families/config_spec.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/lib/base/text.h"
#include "core/model/families/config_keys.h"
#include "core/model/families/described_family.h"
#include "core/model/families/family.h"
#include "core/model/families/stored_config.h"
#include "core/model/families/wrapper.h"

namespace forge {
namespace {

// Returns the number of layers of a config.json that lists them by type, as classes do that do not
// read num_hidden_layers.
std::optional<int64_t> listed_layers(Settings& settings) {
  if (const Json* names = settings.find("layers_block_type"); names && names->is_array() && !names->empty()) return names->size();
  const Json* letters = settings.find("hybrid_override_pattern");
  if (!letters || !letters->is_string() || letters->get_ref<const std::string&>().empty()) return {};
  return letters->get_ref<const std::string&>().size();
}

void read_sizes(Settings& settings, const Family& family, ModelSpec& spec) {
  spec.vocab_size = settings.integer("vocab_size", 1, kMostVocab);
  spec.hidden_size = settings.integer("hidden_size", 1, kMostHidden);
  const int64_t assumed = family.mlp_ratio > 0 ? family.mlp_ratio * spec.hidden_size : family.mlp_size;
  const auto absent = assumed > 0 ? std::optional(assumed) : std::nullopt;
  spec.intermediate_size = settings.integer("intermediate_size", 1, kMostIntermediate, absent);
  spec.num_layers = settings.integer("num_hidden_layers", 1, kMostLayers, listed_layers(settings));
  spec.num_heads = settings.integer("num_attention_heads", 1, kMostHeads);
  // null means one for each head; a missing key means the family's default.
  const bool grouped = family.num_kv_heads > 0 && !settings.has("num_key_value_heads");
  spec.num_kv_heads =
      settings.integer("num_key_value_heads", 1, kMostHeads, grouped ? family.num_kv_heads : spec.num_heads);
  spec.head_dim = settings.integer("head_dim", 1, kMostHeadDim, spec.hidden_size / spec.num_heads);
  spec.max_position_embeddings =
      settings.integer("max_position_embeddings", 1, kMostPositions, family.max_position_embeddings);
}

void read_tokens(Settings& settings, ModelSpec& spec) {
  spec.eos_token_ids = settings.ids("eos_token_id");
  const auto first = [](const std::vector<int64_t>& ids) { return ids.empty() ? int64_t{-1} : ids.front(); };
  spec.bos_token_id = first(settings.ids("bos_token_id"));
  spec.pad_token_id = first(settings.ids("pad_token_id"));
}

// transformers counts labels by their names. Without names it assumes two.
void read_score_head(Settings& settings, ModelSpec& spec) {
  const Json* names = settings.find("id2label");
  settings.find("label2id");
  settings.find("problem_type");
  const int64_t labels = names && names->is_object() ? static_cast<int64_t>(names->size()) : 2;
  if (settings.integer("num_labels", 1, 1 << 20, labels) != 1)
    settings.unsupported("num_labels", "is not 1: forge trains and reads models that give one score");
  spec = with_score_head(spec);
}

// Refuses settings that differ from what every family here shares. They would need another decoder.
void refuse_other_decoders(Settings& settings, const Family& family) {
  const std::string activation = settings.text("hidden_act", family.activation);
  if (std::count(family.same_activations.begin(), family.same_activations.end(), activation) == 0)
    settings.must_be("hidden_act", family.activation, "the activation of this family");
  if (!family.stacks) settings.must_be("is_causal", true, "causal attention");
}

// Reads how the checkpoint holds its matrices.
void read_stored(Settings& settings, const Family& family, const Json& config, ReadConfig& read) {
  const StoredScheme scheme = read_stored_scheme(settings);
  if (scheme.method == StoredMethod::none) return;
  if (family.transposed_linears)
    settings.unsupported(
        "quantization_config",
        "quantises a " + family.architecture +
            ", whose linear layers quantisers store turned; use the original weights");
  read.spec.kept_modules = scheme.kept;
  read.notes.stored = stored_as(config);
}

// Returns "LlamaForCausalLM" for "LlamaForSequenceClassification".
std::string decoder_that_scores(const std::string& architecture) {
  const std::string stem = architecture.substr(0, architecture.size() - kScoringSuffix.size());
  for (const Family& family : families())
    if (family.architecture == stem + "LMHeadModel") return family.architecture;
  return stem + "ForCausalLM";
}

// Returns the dropouts of the base model that its class computes in training.
std::vector<std::string> read_dropouts(Settings& settings, const Json& config, const ConfigKeys* keys) {
  std::vector<std::string> dropouts;
  for (const auto& [key, value] : config.items()) {
    if (keys ? !keys->is_dropout(key) : key.find("drop") == key.npos || !value.is_number()) continue;
    const double share = settings.number(key, 0, 1, 0);
    if (share > 0) dropouts.push_back(key + " " + format_number(share));
  }
  return dropouts;
}

// Returns the first entry of `architectures`; empty if there is none.
std::string stated_architecture(Settings& settings) {
  const Json* all = settings.find("architectures");
  const bool stated = all && all->is_array() && !all->empty() && all->front().is_string();
  return stated ? all->front().get<std::string>() : "";
}

// Returns the family that transformers' Auto classes build, which is that of model_type. If forge
// does not know the type, as with code that a repository brings along, returns the family of the
// class `named`.
const Family& family_that_is_built(Settings& settings, const std::string& named, bool scores) {
  const std::string decoder = scores ? decoder_that_scores(named) : named;
  const Json* type = settings.find("model_type");
  const Family* family = type ? find_family(*type) : nullptr;
  if (!family || (scores && family->stacks)) return family_of_architecture(decoder, settings.name());
  return *family;
}

// Returns a sentence if the class is not the one that config.json names, else an empty text. `own`
// is the class of the model_type `known`.
std::string built_instead(Settings& settings, const std::string& known, const std::string& own, const std::string& named,
                          const std::string& built) {
  const Json* type = settings.find("model_type");
  if (!type) return "config.json has no model_type, without which transformers refuses it: built as " + built + ", which architectures names";
  if (*type != known && find_family(*type))
    return "config.json's model_type " + dump_json(*type) + " is that of its text_config: built as " + built + ", which architectures names";
  if (*type != known)
    return "config.json's model_type " + dump_json(*type) + " is unknown here: built as " + built + ", which architectures names";
  const std::string stem = own.substr(0, std::min(own.find("For"), own.find("LMHead")));
  const bool base = named == stem + "Model" || named.empty();
  if (base || named == built) return "";
  return "config.json names " + named + " together with model_type " + known + ": built as " + built + ", as transformers does";
}

// Keys of transformers' PreTrainedConfig and of tools that write into config.json.
const std::set<std::string> kHarmless{
    // provenance and storage
    "architectures", "model_type", "torch_dtype", "dtype", "transformers_version", "name_or_path",
    "auto_map", "is_llama_config", "unsloth_fixed", "unsloth_version", "model_name", "license",
    "trust_remote_code", "transformers.js_config", "finetuning_task", "torchscript", "use_bfloat16",
    "tf_legacy_loss", "max_sequence_length",
    // initialisation, caching, outputs, distribution: nothing a loaded decoder computes in
    // training
    "use_cache", "output_attentions", "output_hidden_states", "return_dict",
    "return_dict_in_generate", "output_scores", "use_return_dict", "base_model_tp_plan",
    "base_model_pp_plan", "attn_implementation", "keys_to_ignore_at_inference", "tokenizer_class", "prefix",
    "problem_type", "id2label", "label2id", "num_labels", "task_specific_params", "gradient_checkpointing",
    "cache_implementation",
    // generation, which forge takes from the command line
    "max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
    "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty",
    "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids",
    "num_return_sequences", "remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens",
    "begin_suppress_tokens", "forced_bos_token_id", "forced_eos_token_id", "sep_token_id",
    "decoder_start_token_id", "max_new_tokens", "unk_token_id", "chat_template"};

// True for a setting of config.json that never changes what the decoder computes.
bool harmless_setting(const std::string& key) {
  return starts_with(key, "_") || kHarmless.count(key) > 0;
}

// Sets the sections of rotary positions, and the layers that images are added to. A text needs
// neither; files of the model for other programs do.
void read_image_positions(const WrapperSettings& config, Settings& settings, ModelSpec& spec) {
  spec.rope_sections = config.sections;
  const int64_t frequencies = spec.rotary_dim() / 2, sum = std::accumulate(config.sections.begin(), config.sections.end(), int64_t{0});
  if (config.type->whole_sections && sum != frequencies)
    settings.broken("", "mrope_section divides " + std::to_string(sum) + " frequencies, expected " + std::to_string(frequencies) +
                            " (half of a head's features)");
  const Json vision = config.outside.value("vision_config", Json());
  const Json layers = vision.is_object() ? vision.value("deepstack_visual_indexes", Json()) : Json();
  spec.image_layers = layers.is_array() ? static_cast<int64_t>(layers.size()) : config.type->image_layers;
  if (spec.image_layers > kMostLayers) settings.broken("vision_config", "has deepstack_visual_indexes of more layers than a model has");
}

// Refuses a config.json that is not of the family that a family file describes.
void refuse_another_type(Settings& settings, const Described& described) {
  const Json* type = settings.find("model_type");
  if (type && *type != described.family.name)
    settings.unsupported("model_type", "is " + dump_json(*type) + ", and " + described.file + " describes " + described.family.name);
}

// Reads the language model of a class with towers.
ReadConfig read_wrapped(const Wrapper& wrapper, const Json& config, const std::string& name, const std::string& named) {
  const WrapperSettings parts = wrapper_settings(wrapper, config, name);
  ReadConfig read = read_config(parts.text, parts.flat ? name : name + ": text_config");
  Settings settings(parts.outside, name);
  read.spec.wrapper = wrapper.name;
  read.spec.joined_experts |= parts.type->joined_experts;
  read.spec.architecture = read.notes.architecture = wrapper.architecture;
  for (std::string& kept : read.spec.kept_modules) {
    kept = current_name(read.spec, kept + ".");
    kept.pop_back();
  }
  settings.use(config_keys_of(wrapper.name));
  read.notes.built = built_instead(settings, wrapper.name, wrapper.architecture, named, wrapper.architecture);
  if (ends_with(named, kScoringSuffix))
    settings.unsupported("architectures", "names " + named + ": for models with towers forge computes only logits");
  for (const char* key : {"architectures", "text_config", "quantization_config", "tie_word_embeddings", "eos_token_id", "bos_token_id",
                          "pad_token_id", "initializer_range"})
    settings.find(key);
  for (const std::string& key : wrapper.image_settings) settings.find(key);
  read_image_positions(parts, settings, read.spec);
  settings.finish(harmless_setting);
  const std::string inside = parts.flat ? "" : "text_config.";
  for (std::string& key : read.notes.ignored) key.insert(0, inside);
  read.notes.ignored.insert(read.notes.ignored.begin(), settings.ignored().begin(), settings.ignored().end());
  for (const auto& [key, value] : parts.unread.items()) read.notes.ignored.push_back(inside + key + " (" + dump_json(value) + ")");
  return read;
}

}  // namespace

ModelSpec model_spec_from_config(const Json& config, const std::string& name, const Described* described) {
  return read_config(config, name, described).spec;
}

ReadConfig read_config(const Json& config, const std::string& name, const Described* described) {
  Settings settings(config, name);
  ReadConfig read;
  ModelSpec& spec = read.spec;
  const std::string named = stated_architecture(settings);
  const Wrapper* wrapper = described ? nullptr : find_wrapper(config, named);
  if (wrapper) return read_wrapped(*wrapper, config, name, named);
  const bool scores = ends_with(named, kScoringSuffix);
  const Family& family = described ? described->family : family_that_is_built(settings, named, scores);
  const ConfigKeys* keys = described ? find_config_keys(family.name) : &config_keys_of(family.name);
  spec.family = family.name;
  if (described) spec.described = described->text, refuse_another_type(settings, *described);
  spec.architecture = scores ? scoring_architecture(spec) : family.architecture;
  if (!described) read.notes.built = built_instead(settings, family.name, family.architecture, named, spec.architecture);
  read.notes.architecture = spec.architecture;
  settings.remark(read.notes.built);
  if (keys) settings.use(*keys);
  settings.also(family.own_keys);
  settings.spell(family.spelling);
  read_sizes(settings, family, spec);
  spec.rms_norm_eps = settings.number("rms_norm_eps", 0, 1, family.norm_eps);
  spec.tie_word_embeddings = settings.flag("tie_word_embeddings", family.tied);
  if (scores) read_score_head(settings, spec);
  spec.initializer_range = settings.number("initializer_range", 0, 100, 0.02);
  if (keys ? keys->reads.count("rope_parameters") > 0 : describes_rope(*described)) read_rope(settings, family, spec);
  read_tokens(settings, spec);
  for (const FlagSetting& flag : family.flags) {
    const bool value = settings.flag(flag.key, flag.absent);
    for (bool ModelSpec::*member : flag.members)
      if (member) spec.*member = value;
  }
  if (family.read) family.read(settings, spec);
  refuse_other_decoders(settings, family);
  read_stored(settings, family, config, read);
  read.notes.dropouts = read_dropouts(settings, config, keys);
  for (const std::string& fault : spec_faults(spec)) settings.broken("", fault);
  settings.finish(harmless_setting);
  read.notes.ignored = settings.ignored();
  if (family.described) check_described(*family.described, spec);
  return read;
}

std::vector<std::string> spec_faults(const ModelSpec& spec) {
  std::vector<std::string> faults;
  if (spec.num_kv_heads < 1 || spec.num_heads % spec.num_kv_heads != 0)
    faults.push_back("num_attention_heads " + std::to_string(spec.num_heads) +
                     " is not a multiple of num_key_value_heads " + std::to_string(spec.num_kv_heads));
  if (spec.full_kv_heads > 0 && spec.num_heads % spec.full_kv_heads != 0)
    faults.push_back("num_attention_heads " + std::to_string(spec.num_heads) +
                     " is not a multiple of num_global_key_value_heads " + std::to_string(spec.full_kv_heads));
  if (spec.head_dim < 2 || spec.head_dim % 2 != 0)
    faults.push_back("head_dim " + std::to_string(spec.head_dim) + " is not an even number");
  if (spec.full_head_dim % 2 != 0)
    faults.push_back("global_head_dim " + std::to_string(spec.full_head_dim) + " is not an even number");
  if (spec.rotary_dim() % 2 != 0)
    faults.push_back("partial_rotary_factor " + format_number(spec.rope.partial_rotary_factor) + " rotates " +
                     std::to_string(spec.rotary_dim()) + " features of a head, not an even number");
  if (spec.query_growth > 0 && spec.query_growth_period < 1) faults.push_back("queries grow, and no period is given after which they do");
  const auto half = static_cast<size_t>(spec.rotary_dim() / 2);
  if (spec.rope.type == RopeType::longrope &&
      (spec.rope.short_factors.size() != half || spec.rope.long_factors.size() != half))
    faults.push_back("longrope does not have one factor for each of " + std::to_string(half) + " frequencies");
  const bool has_vocabulary = spec.vocab_size > 1;  // else its size is a fault of its own
  if (spec.reads_source() && (spec.decoder_start_id < 0 || spec.decoder_start_id >= spec.vocab_size))
    faults.push_back("decoder_start_token_id " + std::to_string(spec.decoder_start_id) + " is not a token, expected one from 0 to " +
                     std::to_string(spec.vocab_size - 1));
  for (int64_t id : spec.eos_token_ids)
    if (has_vocabulary && (id < 0 || id >= spec.vocab_size))
      faults.push_back("eos_token_id " + std::to_string(id) + " is outside the vocabulary of " +
                       std::to_string(spec.vocab_size) + " tokens");
  return faults;
}

}  // namespace forge
