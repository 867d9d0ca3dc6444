#pragma once
// Reads a PEFT adapter folder without its weights: adapter_config.json as PEFT 0.21 writes it, and
// the header of adapter_model.safetensors. Everything that the engine will load is checked here,
// before anything is started.
//
//   inherit_adapter(loaded);                              // rank, alpha, … of adapter.init_from
//   check_start_adapter(loaded.job, read_model_spec(loaded.job.model.path));
#include <memory>
#include <string>
#include <vector>

#include "core/job/load.h"
#include "core/model/families/adapter_sites.h"
#include "core/lib/io/tensor_file.h"
#include "core/model/families/parameters.h"

namespace forge {

struct AdapterFile {
  AdapterConfig config;  // rank, alpha, patterns, use_rslora, use_dora, targets as the file has them
  bool scores = false;   // of a reward model: its score head is among modules_to_save
  bool ties_weights = false;                // ensure_weight_tying
  bool saves_vocabulary = false;            // modules_to_save itself names the embedding or the head
  std::vector<std::string> layers_pattern;  // what the list of layers may be called where layers_to_transform numbers them
  std::string folder;
};

// Reads adapter_config.json. Throws Error(environment) for a folder without it, another method than
// LoRA, an adapter of a changed base (init_lora_weights: pissa, olora …), or a setting that forge
// would have to ignore (lora_bias …).
AdapterFile read_adapter_config(const std::string& folder);

// Returns the spec of the model that the adapter was made for: `spec`, or `spec` with a score head,
// or with more tokens, whose rows the file has.
ModelSpec spec_for(const AdapterFile& file, const ModelSpec& spec);

// Returns base_model_name_or_path of adapter_config.json, also if the rest of it cannot be used;
// empty if it names none.
std::string base_model_of(const std::string& folder);

// Returns the parts of the vocabulary's matrices that the file changes.
std::vector<VocabularySite> vocabulary_sites_of(const AdapterFile& file, const ModelSpec& spec);

// Returns the modules of the model that the file changes. Throws Error(environment) if it names
// others.
std::vector<AdapterSite> sites_of(const AdapterFile& file, const ModelSpec& spec);

// Takes from the adapter what adapter.init_from decides and the job leaves open (rank, alpha,
// patterns, targets …), and writes so as its origin. Does nothing without adapter.init_from, or
// while its folder has no adapter_config.json.
void inherit_adapter(LoadedJob& loaded);

// Lets a reward model's head be trained whole, like PEFT's task SEQ_CLS.
void train_score_head(LoadedJob& loaded);

// Checks that a run can start from adapter.init_from: the folder is whole, fits the model, and the
// job's adapter is the same as the folder's. Throws Error(environment) for the folder's faults,
// Error(job) naming the keys that differ. Does nothing without adapter.init_from.
void check_start_adapter(const Job& job, const ModelSpec& spec, Data data = Data::required);

// Returns the parameters that the file holds, of a model that was made for it (spec_for). Throws
// Error(environment) if it does not fit.
std::vector<Parameter> trained_by(const AdapterFile& file, const ModelSpec& spec);

// Opens adapter_model.safetensors of an adapter of `spec`. Names of models with towers are
// transformers 5's (wrapper.h), whichever version wrote them. Throws Error(environment) for a
// folder without the file, for pickles, and for links that leave the folder.
std::unique_ptr<TensorFile> open_adapter_weights(const std::string& folder, const ModelSpec& spec, Data data = Data::required);

// Throws Error(environment) naming every tensor that is missing, extra or of another shape than
// `trained` asks for. `widen` is how many times its rank an adapter was saved with.
void check_adapter_weights(const TensorFile& weights, const std::string& folder,
                           const std::vector<Parameter>& trained, int64_t widen = 1);

// Returns a parameter's name in PEFT's files:
// "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight".
std::string peft_name(const std::string& parameter);

}  // namespace forge
