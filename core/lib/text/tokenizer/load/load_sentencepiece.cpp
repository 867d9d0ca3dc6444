// Loads SentencePiece model files, which libsentencepiece reads and runs, with added tokens as in
// Hugging Face tools.
//
// A tokenizer.model alone is run as the file itself says, changed by what the configuration beside
// it states: legacy and add_prefix_space decide where blanks are put, as in transformers 5.17. If
// the configuration is silent, forge keeps what the model was trained with.
//
// transformers 5.17 converts such a file and loses some of it. Mistral's, Mixtral's and Phi-3's
// models go through a class that never puts a blank first; Llama's and Gemma's get no bos unless
// add_bos_token says so (4.x gave one); and ids of added_tokens_decoder past the vocabulary close
// up. A folder with a tokenizer.json has none of these differences.
#include <sentencepiece_processor.h>

#include <algorithm>

#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/lib/text/tokenizer/load/class_rules.h"
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/load/load_tiktoken.h"
#include "core/lib/text/tokenizer/load/parts.h"
#include "core/lib/text/tokenizer/load/tokenizer_config.h"
#include "core/lib/text/tokenizer/models/sentencepiece_unigram.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge {
namespace {

using namespace text;

constexpr int64_t kLargestModel = 64 << 20;

class SentencePiece : public Model {
 public:
  SentencePiece(const std::string& content, const std::string& where) {
    const auto status = processor_.LoadFromSerializedProto(content);
    if (!status.ok()) throw file_fault(where, "not a SentencePiece model: {}", status.ToString());
    for (int id = 0; id < processor_.GetPieceSize(); ++id)
      vocabulary_.add(processor_.IdToPiece(id), id, where);
    SentencePieceVocabulary read = read_sentencepiece(content, where);
    constexpr int64_t kUnigram = 1;
    if (read.model_type != kUnigram ||
        !characters_.LoadFromSerializedProto(character_model(read)).ok())
      return;
    unigram_.emplace(std::move(read));
  }
  const sentencepiece::SentencePieceProcessor& processor() const { return processor_; }

  void encode(std::string_view word, std::vector<WordToken>& tokens) const override {
    if (unigram_) return unigram_->cut(characters_of(word), tokens);
    const auto text = processor_.EncodeAsImmutableProto({word.data(), word.size()});
    for (const auto& piece : text.pieces()) {
      tokens.push_back({static_cast<int32_t>(piece.id()), static_cast<int32_t>(piece.begin()),
                        static_cast<int32_t>(piece.end())});
    }
  }

 private:
  // Returns the characters of a word. One without a piece comes as its bytes: the first has its
  // begin, the last its end.
  std::vector<NormalCharacter> characters_of(std::string_view word) const {
    std::vector<NormalCharacter> characters;
    size_t missing = 0;  // bytes of the last one
    const auto text = characters_.EncodeAsImmutableProto({word.data(), word.size()});
    for (const auto& piece : text.pieces()) {
      const auto begin = static_cast<int32_t>(piece.begin()), end = static_cast<int32_t>(piece.end());
      if (!characters_.IsByte(static_cast<int>(piece.id()))) {
        add_characters(piece.piece(), begin, end, characters);
        continue;
      }
      const char byte = static_cast<char>(std::stoi(piece.piece().substr(3, 2), nullptr, 16));
      if (missing == 0) {
        missing = static_cast<size_t>(utf8_length(static_cast<unsigned char>(byte)));
        characters.push_back({"", begin, end});
      }
      characters.back().text += byte;
      characters.back().end = end;
      --missing;
    }
    return characters;
  }

  // Adds the characters of a piece, which is one or a user-defined symbol. All of a symbol's begin
  // where it does, as in the library, and the last has its end.
  static void add_characters(const std::string& piece, int32_t begin, int32_t end, std::vector<NormalCharacter>& characters) {
    for (size_t at = 0, length; at < piece.size(); at += length) {
      length = static_cast<size_t>(utf8_length(static_cast<unsigned char>(piece[at])));
      characters.push_back({piece.substr(at, length), begin, at + length < piece.size() ? begin : end});
    }
  }

  sentencepiece::SentencePieceProcessor processor_;
  // Both are for a unigram model, whose ties this library decides differently from its later
  // versions.
  sentencepiece::SentencePieceProcessor characters_;
  std::optional<SentencePieceUnigram> unigram_;
};

// True if the model puts a space before a text. Only its protobuf says so, so the model is run to
// find out.
bool adds_prefix(const sentencepiece::SentencePieceProcessor& processor) {
  const std::vector<std::string> probe = processor.EncodeAsPieces("a");
  return !probe.empty() && starts_with(probe[0], "▁");
}

// Returns the model file with a normaliser that puts no space before a text. If a member is twice
// in a protobuf, the later value counts.
std::string without_prefix(const std::string& content) {
  constexpr std::string_view kNormalizerSpec = "\x1a\x02", kNoDummyPrefix{"\x18\x00", 2};
  return content + std::string(kNormalizerSpec) + std::string(kNoDummyPrefix);
}

std::optional<int32_t> valid(int id) { return id < 0 ? std::nullopt : std::optional(id); }

}  // namespace

Tokenizer load_sentencepiece(const std::string& path, const std::string& config_text) {
  const std::string content = read_file(path, kLargestModel, ErrorKind::environment);
  refuse_git_lfs(content, path, ErrorKind::environment);
  if (looks_like_tiktoken(content)) return load_tiktoken(path, content, config_text);
  const TokenizerConfig config(path, config_text);
  auto parts = std::make_shared<TokenizerParts>();
  parts->name = path;
  auto model = std::make_shared<SentencePiece>(content, path);
  const bool prefix = adds_prefix(model->processor());
  const PrefixRule rule = prefix ? config.prefix_rule() : PrefixRule::of_model;
  if (rule != PrefixRule::of_model) {
    model = std::make_shared<SentencePiece>(without_prefix(content), path);
    const char* where = rule == PrefixRule::at_start ? "first" : "never";
    parts->pre_tokenizer =
        make_pre_tokenizer({{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", where}, {"split", false}}, path, false);
  }
  parts->model = model;
  const auto& processor = model->processor();
  parts->decoder = make_decoder(sentencepiece_decoder(prefix && rule != PrefixRule::none), path);
  config.add_tokens(*parts);
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    if ((!processor.IsControl(id) && !processor.IsUnknown(id)) || parts->added.contains(id)) continue;
    parts->add_token(
        {.content = processor.IdToPiece(id), .id = id, .special = true, .normalized = false});
  }
  parts->bos_id = valid(processor.bos_id());
  parts->eos_id = valid(processor.eos_id());
  parts->pad_id = valid(processor.pad_id());
  parts->unk_id = valid(processor.unk_id());
  config.finish(*parts, content);
  return Tokenizer(std::move(parts));
}

}  // namespace forge
