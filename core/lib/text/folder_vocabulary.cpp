#include "core/lib/text/folder_vocabulary.h"

#include <algorithm>
#include <map>

#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/lib/io/json.h"
#include "core/lib/text/sentencepiece_file.h"
#include "core/lib/text/tokenizer/load/gguf_pre.h"
#include "core/lib/text/tokenizer/load/probes.h"
#include "core/lib/text/tokenizer/scanner.h"

namespace forge {
namespace {

constexpr int64_t kLargestFile = int64_t{256} << 20;

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(ErrorKind::environment, where + ": " + what + ", which a GGUF cannot express");
}

struct Source {
  std::string path;
  Json json;
};

Source read_json(const std::string& folder) {
  const std::string path = folder + "/tokenizer.json";
  if (!file_exists(path)) return {path, nullptr};
  return {path, whole_tokenizer_json(read_tokenizer_json(folder))};
}

// Returns the step of type `name` in `steps`, which may be a single step or a Sequence; null if
// there is none.
const Json* find_step(const Json& steps, const std::string& name) {
  if (!steps.is_object()) return nullptr;
  if (steps.value("type", "") == name) return &steps;
  for (const char* list : {"pretokenizers", "normalizers", "decoders"})
    if (steps.contains(list))
      for (const Json& step : steps[list])
        if (const Json* found = find_step(step, name)) return found;
  return nullptr;
}

bool byte_level(const Json& json) {
  return find_step(json.value("pre_tokenizer", Json()), "ByteLevel") || find_step(json.value("decoder", Json()), "ByteLevel");
}

// Adds the patterns of the steps, as gguf_pre.h lists them.
void add_patterns(const Json& step, const std::string& where, std::vector<std::string>& patterns) {
  const std::string type = step.value("type", "");
  if (type == "Sequence") {
    for (const Json& inner : step.at("pretokenizers")) add_patterns(inner, where, patterns);
  } else if (type == "Split") {
    const Json& pattern = step.at("pattern");
    if (!pattern.contains("Regex") || step.value("behavior", "") != "Isolated" || step.value("invert", false))
      refuse(where, "splits words by " + dump_json(step).substr(0, 80));
    patterns.push_back(pattern["Regex"]);
  } else if (type == "Digits") {
    patterns.emplace_back(step.value("individual_digits", false) ? "\\p{N}" : "\\p{N}+");
  } else if (type == "ByteLevel") {
    if (step.value("add_prefix_space", false)) refuse(where, "puts a space before each text (add_prefix_space)");
    if (step.value("use_regex", true)) patterns.emplace_back(text::kGpt2Pattern);
  } else {
    refuse(where, "has the pre-tokenizer " + type);
  }
}

void set_token(GgufVocabulary& vocabulary, int64_t id, const std::string& token, GgufTokenType type) {
  FORGE_CHECK(id >= 0 && id < (int64_t{1} << 24), "token id " << id);
  if (id >= static_cast<int64_t>(vocabulary.tokens.size())) {
    vocabulary.tokens.resize(static_cast<size_t>(id) + 1);
    vocabulary.token_types.resize(static_cast<size_t>(id) + 1, static_cast<int32_t>(GgufTokenType::unused));
  }
  vocabulary.tokens[static_cast<size_t>(id)] = token;
  vocabulary.token_types[static_cast<size_t>(id)] = static_cast<int32_t>(type);
}

std::pair<std::string, std::string> merge_pair(const Json& merge) {
  if (merge.is_array()) return {merge.at(0), merge.at(1)};
  const std::string text = merge;
  const size_t space = text.find(' ', 1);
  return {text.substr(0, space), text.substr(space + 1)};
}

void add_added_tokens(const Json& json, GgufVocabulary& vocabulary) {
  for (const Json& token : json.value("added_tokens", Json::array()))
    set_token(vocabulary, token.at("id").get<int64_t>(), token.at("content"),
              token.value("special", false) ? GgufTokenType::control : GgufTokenType::user_defined);
}

GgufVocabulary byte_level_bpe(const Source& source) {
  const Json& model = source.json.at("model");
  GgufVocabulary vocabulary{.name = source.path, .model = "gpt2"};
  std::vector<std::string> patterns;
  add_patterns(source.json.value("pre_tokenizer", Json::object()), source.path, patterns);
  vocabulary.pre = text::gguf_pre_name(patterns, model.value("ignore_merges", false));
  if (vocabulary.pre.empty()) refuse(source.path, "splits words in a way that no pre-tokenizer of llama.cpp does");
  for (const auto& [token, id] : model.at("vocab").items()) set_token(vocabulary, id, token, GgufTokenType::normal);
  for (const Json& merge : model.at("merges")) {
    const auto [left, right] = merge_pair(merge);
    vocabulary.merges.push_back(left + " " + right);
  }
  add_added_tokens(source.json, vocabulary);
  return vocabulary;
}

bool is_byte_token(const std::string& token) {
  return token.size() == 6 && starts_with(token, "<0x") && token.back() == '>';
}

// Returns a vocabulary whose scores make llama.cpp merge in the order of the merges.
GgufVocabulary sentencepiece_of_json(const Source& source) {
  const Json& model = source.json.at("model");
  GgufVocabulary vocabulary{.name = source.path, .model = "llama", .pre = "default"};
  const std::string unknown = model.value("unk_token", Json()).is_string() ? model["unk_token"].get<std::string>() : "";
  std::map<std::string, int64_t> ids;
  for (const auto& [token, id] : model.at("vocab").items()) {
    ids[token] = id;
    set_token(vocabulary, id, token,
              token == unknown       ? GgufTokenType::unknown
              : is_byte_token(token) ? GgufTokenType::byte
                                     : GgufTokenType::normal);
  }
  add_added_tokens(source.json, vocabulary);
  if (const auto found = ids.find(unknown); found != ids.end())
    vocabulary.token_types[static_cast<size_t>(found->second)] = static_cast<int32_t>(GgufTokenType::unknown);
  const auto least = -static_cast<float>(model.at("merges").size()) - 1;
  vocabulary.scores.assign(vocabulary.tokens.size(), least);
  float score = 0;
  for (const Json& merge : model.at("merges")) {
    const auto [left, right] = merge_pair(merge);
    const auto merged = ids.find(left + right);
    if (merged != ids.end() && vocabulary.scores[static_cast<size_t>(merged->second)] == least)
      vocabulary.scores[static_cast<size_t>(merged->second)] = score;
    score -= 1;
  }
  return vocabulary;
}

GgufVocabulary sentencepiece_of_model(const std::string& path, const Source& source) {
  const SentencePieceVocabulary pieces = read_sentencepiece(read_file(path, kLargestFile, ErrorKind::environment), path);
  if (pieces.model_type != 2) refuse(path, "is a SentencePiece model that is not BPE");
  GgufVocabulary vocabulary{.name = path, .model = "llama", .pre = "default", .tokens = pieces.pieces, .scores = pieces.scores,
                            .token_types = pieces.types};
  if (!source.json.is_null()) add_added_tokens(source.json, vocabulary);
  vocabulary.scores.resize(vocabulary.tokens.size(), -1000);
  return vocabulary;
}

// Records what the tokenizer adds before and after each text: one token or none. That token becomes
// the begin or end of text, whatever tokenizer_config.json names.
void take_added_ends(const Tokenizer& tokenizer, GgufVocabulary& vocabulary) {
  std::vector<int32_t> bare, whole;
  tokenizer.encode_ids("a", bare);
  tokenizer.encode_ids("a", whole, {.add_special_tokens = true});
  const auto found = std::search(whole.begin(), whole.end(), bare.begin(), bare.end());
  const auto before = found - whole.begin();
  const auto behind = static_cast<std::ptrdiff_t>(whole.size()) - before - static_cast<std::ptrdiff_t>(bare.size());
  if (before > 1 || behind > 1) refuse(vocabulary.name, "adds several tokens to each text");
  vocabulary.add_bos = before == 1;
  vocabulary.add_eos = behind == 1;
  if (before == 1) vocabulary.bos_id = whole.front();
  if (behind == 1) vocabulary.eos_id = whole.back();
}

std::string unused_token(int64_t id) { return "[PAD" + std::to_string(id) + "]"; }

// Leaves out added tokens without a row, such as <image_soft_token> in Gemma 3's text models, as
// llama.cpp's converter does; the model cannot read them. Names ids that no token has.
void fit(GgufVocabulary& vocabulary, int64_t size) {
  for (auto id = static_cast<size_t>(size); id < vocabulary.tokens.size(); ++id) {
    const auto type = static_cast<GgufTokenType>(vocabulary.token_types[id]);
    const bool added = type == GgufTokenType::control || type == GgufTokenType::user_defined || type == GgufTokenType::unused;
    if (!added)
      throw Error(ErrorKind::environment, vocabulary.name + ": has the token " + dump_json(vocabulary.tokens[id]) + " with id " +
                                              std::to_string(id) + ", the model's embedding " + std::to_string(size) + " rows");
  }
  if (static_cast<int64_t>(vocabulary.tokens.size()) > size) {
    vocabulary.tokens.resize(static_cast<size_t>(size));
    vocabulary.token_types.resize(static_cast<size_t>(size));
  }
  for (const auto& [name, id] : {std::pair{"begin", vocabulary.bos_id}, std::pair{"end", vocabulary.eos_id}})
    if (id && *id >= size)
      throw Error(ErrorKind::environment, vocabulary.name + ": the token that is the " + name + " of a text has id " + std::to_string(*id) +
                                              ", the model's embedding " + std::to_string(size) + " rows");
  for (auto* id : {&vocabulary.pad_id, &vocabulary.unk_id})
    if (*id && **id >= size) id->reset();
  for (int64_t id = 0; id < static_cast<int64_t>(vocabulary.tokens.size()); ++id)
    if (vocabulary.tokens[static_cast<size_t>(id)].empty()) set_token(vocabulary, id, unused_token(id), GgufTokenType::unused);
  if (!vocabulary.scores.empty()) vocabulary.scores.resize(vocabulary.tokens.size(), -1000);
}

// True if the tokenizer puts a blank before a text.
bool puts_blank(const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  tokenizer.encode_ids("a", ids);
  return !ids.empty() && starts_with(tokenizer.token_of(ids.front()).value_or(""), "▁");
}

// llama.cpp puts a blank also before a text that begins with one, LlamaTokenizer of transformers 5
// does not: a SentencePiece vocabulary is compared on texts that do not.
std::string_view compared(const char* probe, const GgufVocabulary& vocabulary) {
  std::string_view text = probe;
  if (vocabulary.model == "llama") text.remove_prefix(text.find_first_not_of(' '));
  return text;
}

void require_same_ids(const GgufVocabulary& vocabulary, const Tokenizer& tokenizer) {
  const Tokenizer written = load_gguf_tokenizer(vocabulary);
  for (const char* probe : text::kTokenizerProbes) {
    std::vector<int32_t> expected, got;
    const std::string_view text = compared(probe, vocabulary);
    tokenizer.encode_ids(text, expected, {.add_special_tokens = true});
    written.encode_ids(text, got, {.add_special_tokens = true});
    if (expected == got) continue;
    throw Error(ErrorKind::environment, vocabulary.name + ": as a GGUF's vocabulary it would give other tokens for " +
                                            dump_json(std::string(text)))
        .hint("convert the merged model (forge merge) with llama.cpp's convert_hf_to_gguf.py");
  }
}

}  // namespace

GgufVocabulary vocabulary_of_folder(const std::string& folder, const Tokenizer& tokenizer, int64_t size) {
  const Source source = read_json(folder);
  const std::string pieces = folder + "/tokenizer.model";
  const bool bytes = !source.json.is_null() && byte_level(source.json);
  if (!bytes && !file_exists(pieces) && source.json.is_null())
    throw Error(ErrorKind::environment, folder + ": holds neither tokenizer.json nor tokenizer.model");
  if (!source.json.is_null() && source.json.value("/model/type"_json_pointer, "BPE") != "BPE")
    refuse(source.path, "is a " + source.json.value("/model/type"_json_pointer, "") + " tokenizer");
  GgufVocabulary vocabulary = bytes                 ? byte_level_bpe(source)
                              : file_exists(pieces) ? sentencepiece_of_model(pieces, source)
                                                    : sentencepiece_of_json(source);
  vocabulary.name = folder;
  if (vocabulary.model == "llama") vocabulary.add_space_prefix = puts_blank(tokenizer);
  vocabulary.bos_id = tokenizer.bos_id();
  vocabulary.eos_id = tokenizer.eos_id();
  vocabulary.pad_id = tokenizer.pad_id();
  vocabulary.unk_id = tokenizer.unk_id();
  take_added_ends(tokenizer, vocabulary);
  fit(vocabulary, size);
  require_same_ids(vocabulary, tokenizer);
  return vocabulary;
}

void add_unused_tokens(GgufVocabulary& vocabulary, int64_t size) {
  for (auto id = static_cast<int64_t>(vocabulary.tokens.size()); id < size; ++id)
    set_token(vocabulary, id, unused_token(id), GgufTokenType::unused);
  if (!vocabulary.scores.empty()) vocabulary.scores.resize(vocabulary.tokens.size(), -1000);
}

}  // namespace forge
