#pragma once
// What a model family is, in its own file: the settings that only it has, its decoder layer, and what transformers' and
// llama.cpp's files call it. families.cpp lists them.
#include <functional>
#include <string>
#include <vector>

#include "core/families/gguf_spec.h"
#include "core/families/model_spec.h"
#include "core/families/settings.h"
#include "core/graph/recorder.h"

namespace forge {

struct Family {
  std::string name;               // ModelSpec::family
  std::string architecture;       // config.json: architectures[0]
  std::string gguf_architecture;  // general.architecture; empty: its GGUF files say another family's
  // What the architecture's configuration class in transformers assumes when config.json is silent.
  int64_t max_position_embeddings = 0, num_kv_heads = 0;  // 0: as many as heads
  const char* activation = "silu";                        // hidden_act
  // Reads the settings that only this family has, and refuses those that it would have to ignore.
  void (*read)(Settings& settings, ModelSpec& spec) = nullptr;
  // Writes the same settings.
  void (*write)(const ModelSpec& spec, Json& config) = nullptr;
  // The same of a GGUF's metadata, after its sizes, biases and window are read; null: nothing more.
  void (*read_gguf)(GgufSettings& settings, ModelSpec& spec) = nullptr;
  // Layer number `layer`: h [tokens, hidden] → [tokens, hidden].
  ValueId (*layer)(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) = nullptr;
};

// One file each.
Family llama_family();
Family mistral_family();
Family qwen2_family();
Family qwen3_family();
Family phi3_family();
Family gemma2_family();

const std::vector<Family>& families();

// Rows by the name a file uses. Throw Error(job) "unknown architecture X; forge knows …".
const Family& family_of_architecture(const std::string& architecture, const std::string& where);
const Family& family_of_gguf(const std::string& architecture, const std::string& where);
// By ModelSpec::family.
const Family& family_of(const ModelSpec& spec);

// ---- what families share ----

ValueId llama_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h);
Recorder::Heads heads_of(const ModelSpec& m);
Recorder::AttentionOptions attention_of(const ModelSpec& m, int64_t layer);

// sliding_window: `absent` where the key is missing, 0 for null.
int64_t window_setting(Settings& settings, int64_t absent);
// null for no window.
Json window_json(const ModelSpec& spec);
Json layer_types_json(const ModelSpec& spec);
// Of a GGUF that does not say which layers a window is for.
void refuse_window(GgufSettings& settings, ModelSpec& spec);
// Which layers have spec.sliding_window: those that layer_types says, else those that are not `full`.
void read_layer_types(Settings& settings, ModelSpec& spec, const std::function<bool(int64_t layer)>& full);

}  // namespace forge
