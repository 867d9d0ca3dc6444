#include "core/lib/text/tokenizer/load/parts.h"

#include <algorithm>

#include "core/lib/text/tokenizer/load/json_fields.h"

namespace forge {

void TokenizerParts::add_token(const text::AddedToken& token) {
  if (token.content.empty()) return;
  if (token.id < 0 || token.id > text::kMaxTokenId)
    throw text::file_fault(name, "the added token \"{}\" has the id {}, expected 0 to {}",
                           token.content.substr(0, 80), token.id, text::kMaxTokenId);
  std::string pattern = token.content;
  if (token.normalized && normalizer) {
    const text::Growth growth(name, token.content.size());
    text::AlignedText content{token.content, std::vector<text::Origin>(token.content.size()), &growth};
    normalizer.apply(content);
    pattern = content.text;
    if (pattern != token.content) added_normalized[token.id] = pattern;
  }
  added_ids[token.content] = token.id;
  added[token.id] = token;
  if (token.special) special_contents.insert(token.content);
  (token.normalized ? normalized_tokens : raw_tokens).add(pattern, token, name);
}

void TokenizerParts::finish() {
  for (const text::PostStep& step : post_processor) {
    before.insert(before.begin(), step.before.begin(), step.before.end());
    behind.insert(behind.end(), step.behind.begin(), step.behind.end());
  }
}

void TokenizerParts::finish_with(bool adds_bos, bool adds_eos) {
  text::PostStep step;
  if (adds_bos && bos_id) step.before = {*bos_id};
  if (adds_eos && eos_id) step.behind = {*eos_id};
  post_processor = {step};
  finish();
}

std::optional<int32_t> TokenizerParts::id_of(std::string_view token) const {
  const auto found = added_ids.find(token);
  return found != added_ids.end() ? std::optional(found->second) : model->vocabulary().id_of(token);
}

const std::string* TokenizerParts::decoded_token(int32_t id) const {
  if (const auto form = added_normalized.find(id); form != added_normalized.end()) return &form->second;
  if (const auto token = added.find(id); token != added.end()) return &token->second.content;
  return model->vocabulary().token_of(id);
}

int64_t TokenizerParts::max_id() const {
  int64_t largest = model->vocabulary().max_id();
  for (const auto& [id, token] : added) largest = std::max<int64_t>(largest, id);
  return largest;
}

}  // namespace forge
