// Tests vocabularies of model folders in GGUF's terms. The tokenizers are cut-down real ones
// (goldens/*.tokenizer.json).
#include "core/lib/base/file.h"
#include "core/lib/text/folder_vocabulary.h"
#include "core/lib/text/sentencepiece_file.h"
#include "tests/test.h"

using namespace forge;

namespace {

std::string golden(const std::string& name) {
  return read_file(std::string(FORGE_SOURCE_DIR) + "/tests/text/goldens/" + name + ".tokenizer.json", 64 << 20,
                   ErrorKind::environment);
}

GgufVocabulary vocabulary_of(const TemporaryFolder& folder, const std::string& json) {
  folder.write("tokenizer.json", json);
  const Tokenizer tokenizer = open_tokenizer(folder.path());
  GgufVocabulary vocabulary = vocabulary_of_folder(folder.path(), tokenizer, tokenizer.vocab_size() + 3);
  CHECK(static_cast<int64_t>(vocabulary.tokens.size()) == tokenizer.vocab_size());
  add_unused_tokens(vocabulary, tokenizer.vocab_size() + 3);
  CHECK(static_cast<int64_t>(vocabulary.tokens.size()) == tokenizer.vocab_size() + 3);
  return vocabulary;
}

}  // namespace

TEST_CASE("byte-level vocabularies name the pre-tokenizer that splits like them") {
  const std::pair<const char*, const char*> cases[] = {
      {"gpt2", "gpt-2"}, {"smollm", "smollm"}, {"llama3", "llama-bpe"}, {"qwen2", "qwen2"}, {"gpt4o", "gpt-4o"}};
  for (const auto& [name, pre] : cases) {
    INFO(name);
    TemporaryFolder folder;
    const GgufVocabulary vocabulary = vocabulary_of(folder, golden(name));
    CHECK(vocabulary.model == "gpt2");
    CHECK(vocabulary.pre == pre);
    CHECK(vocabulary.tokens.size() == vocabulary.token_types.size());
    CHECK(vocabulary.token_types.back() == static_cast<int32_t>(GgufTokenType::unused));
    CHECK(vocabulary.tokens.back() == "[PAD" + std::to_string(vocabulary.tokens.size() - 1) + "]");
  }
}

TEST_CASE("SentencePiece vocabularies get scores in the order of their merges") {
  for (const char* name : {"llama2", "gemma"}) {
    INFO(name);
    TemporaryFolder folder;
    const GgufVocabulary vocabulary = vocabulary_of(folder, golden(name));
    CHECK(vocabulary.model == "llama");
    CHECK(vocabulary.scores.size() == vocabulary.tokens.size());
    CHECK(vocabulary.add_space_prefix == (std::string(name) == "llama2"));
  }
}

TEST_CASE("added tokens without a row of the embedding are left out") {
  for (const char* name : {"gemma", "gpt2"}) {
    INFO(name);
    TemporaryFolder folder;
    Json json = parse_json(golden(name), name, ErrorKind::environment);
    folder.write("tokenizer.json", dump_json(json));
    const int64_t rows = open_tokenizer(folder.path()).vocab_size();
    json["added_tokens"].push_back({{"id", rows}, {"content", "<image_soft_token>"}, {"single_word", false}, {"lstrip", false},
                                    {"rstrip", false}, {"normalized", false}, {"special", true}});
    folder.write("tokenizer.json", dump_json(json));
    const Tokenizer tokenizer = open_tokenizer(folder.path());
    REQUIRE(tokenizer.vocab_size() == rows + 1);
    const GgufVocabulary vocabulary = vocabulary_of_folder(folder.path(), tokenizer, rows);
    CHECK(static_cast<int64_t>(vocabulary.tokens.size()) == rows);
    CHECK(vocabulary.token_types.size() == vocabulary.tokens.size());
    CHECK((vocabulary.scores.empty() || vocabulary.scores.size() == vocabulary.tokens.size()));
    // A token of the vocabulary itself cannot be moved.
    CHECK(error_of([&] { vocabulary_of_folder(folder.path(), tokenizer, 300); }).find("the model's embedding 300 rows") != std::string::npos);
  }
}

TEST_CASE("what a GGUF cannot say of a vocabulary is refused") {
  for (const char* name : {"bert", "unigram_bytes", "t5"}) {
    INFO(name);
    TemporaryFolder folder;
    CHECK(error_of([&] { vocabulary_of(folder, golden(name)); }).find("cannot express") != std::string::npos);
  }
  TemporaryFolder folder;
  CHECK(error_of([&] { vocabulary_of(folder, golden("split_removed")); }) != "no error");
  CHECK(error_of([&] { read_sentencepiece("not a model", "x"); }).find("SentencePiece") != std::string::npos);
  CHECK(error_of([&] { read_sentencepiece("", "x"); }).find("SentencePiece") != std::string::npos);
}

TEST_CASE("a SentencePiece file is read field by field") {
  // pieces {"<unk>" 0 unknown}, {"a" -1.5}; trainer_spec {model_type 2}; normalizer_spec
  // {add_dummy_prefix 0}
  std::string bytes = std::string("\x0a\x09\x0a\x05<unk>\x18\x02", 11);
  bytes += std::string("\x0a\x08\x0a\x01" "a", 5) + std::string("\x15\x00\x00\xc0\xbf", 5);
  bytes += std::string("\x12\x02\x18\x02", 4) + std::string("\x1a\x02\x18\x00", 4);
  const SentencePieceVocabulary vocabulary = read_sentencepiece(bytes, "x");
  CHECK(vocabulary.pieces == std::vector<std::string>{"<unk>", "a"});
  CHECK(vocabulary.scores == std::vector<float>{0, -1.5f});
  CHECK(vocabulary.types == std::vector<int32_t>{2, 1});
  CHECK(vocabulary.model_type == 2);
  CHECK(vocabulary.normalizer == std::string("\x18\x00", 2));
}
