#include "core/plan/files/added_tokens.h"

#include <algorithm>

#include "core/graph/recorder.h"
#include "core/lib/base/key_error.h"
#include "core/model/families/modules.h"

namespace forge {
namespace {

std::string module_of(const std::string& weight) { return weight.substr(0, weight.rfind('.')); }

bool saved_whole(const ModelSpec& spec, const AdapterConfig& adapter, const std::string& module) {
  return std::ranges::any_of(saved_modules(spec, adapter, Experts::in_rows),
                             [&](const ModuleUse& other) { return other.path == module; });
}

// Adds the added ids to those that the adapter trains of one module, which PEFT's configurations
// name by its last part: "embed_tokens" for "model.embed_tokens".
void train_rows(AdapterConfig& adapter, const std::string& module, const std::vector<int64_t>& ids) {
  auto& lists = adapter.trainable_token_indices;
  std::vector<int64_t>& own = lists[last_part(module)];
  for (const auto& [name, given] : lists)
    if (name == module && module != last_part(module)) own = given;
  lists.erase(module == last_part(module) ? "" : module);
  for (const int64_t id : ids)
    if (std::find(own.begin(), own.end(), id) == own.end()) own.push_back(id);
}

void train_added(LoadedJob& loaded, const ModelSpec& spec, const std::vector<int64_t>& ids) {
  AdapterConfig& adapter = loaded.job.adapter;
  if (adapter.type == AdapterType::none) return;
  const std::string embedding = module_of(embedding_name(spec)), head = module_of(logits_head_name(spec));
  if (const auto plain = adapter.trainable_token_indices.find("");
      plain != adapter.trainable_token_indices.end()) {
    adapter.trainable_token_indices[last_part(embedding)] = plain->second;
    adapter.trainable_token_indices.erase("");
  }
  if (!saved_whole(spec, adapter, embedding)) train_rows(adapter, embedding, ids);
  if (!spec.tie_word_embeddings && !spec.score_head && !saved_whole(spec, adapter, head))
    train_rows(adapter, head, ids);
  Origin& origin = loaded.origins["adapter.trainable_token_indices"];
  if (origin.kind == OriginKind::unset) origin = {OriginKind::derived, {}, "the tokens of model.add_tokens"};
}

}  // namespace

void add_tokens(LoadedJob& loaded, const Tokenizer& base, const Tokenizer& with, ModelSpec& spec) {
  const ModelConfig& model = loaded.job.model;
  std::vector<KeyFault> faults;
  std::vector<int64_t> ids;
  if (spec.layer_input_size > 0)
    throw KeyError(ErrorKind::job, "model.add_tokens", "adds tokens to a model whose layers have embeddings of their own, for which forge makes no rows",
                   "use tokens that the model's tokenizer reserves");
  spec.base_vocab_size = spec.vocab_size;
  for (const std::string& token : model.add_tokens) {
    if (base.id_of(token)) {
      faults.push_back({"model.add_tokens", "\"" + token + "\" is already a token of the model"});
      continue;
    }
    AddedRow row{.id = with.id_of(token).value()};
    ids.push_back(row.id);
    if (const auto text = model.add_tokens_from.find(token); text != model.add_tokens_from.end()) {
      std::vector<int32_t> from;
      base.encode_ids(text->second, from, {.add_special_tokens = false});
      row.from.assign(from.begin(), from.end());
      if (from.empty()) faults.push_back({"model.add_tokens_from", "\"" + text->second + "\" has no tokens"});
    }
    spec.vocab_size = std::max(spec.vocab_size, row.id + 1);
    spec.added_rows.push_back(std::move(row));
  }
  for (const auto& [token, text] : model.add_tokens_from)
    if (std::find(model.add_tokens.begin(), model.add_tokens.end(), token) == model.add_tokens.end())
      faults.push_back({"model.add_tokens_from", "\"" + token + "\" is not among model.add_tokens"});
  if (!faults.empty()) throw KeyError(ErrorKind::job, std::move(faults));
  train_added(loaded, spec, ids);
}

}  // namespace forge
