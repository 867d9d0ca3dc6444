// Compares tokenizers of every style with the results of the `tokenizers` package for the same
// texts (tests/parity/make_tokenizer_goldens.py).
#include "core/lib/base/file.h"
#include "core/lib/io/json.h"
#include "core/lib/text/tokenizer.h"
#include "tests/test.h"

namespace forge {
namespace {

std::string golden_file(const std::string& name) {
  return read_file(std::string(FORGE_SOURCE_DIR) + "/tests/text/goldens/" + name, 1 << 28,
                   ErrorKind::internal);
}

Json golden_json(const std::string& name) { return parse_json(golden_file(name), name, ErrorKind::internal); }

Tokenizer fixture(const std::string& name) {
  return load_tokenizer_json({name, golden_file(name + ".tokenizer.json"), {}, {}});
}

void append(std::string& text, uint32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
  } else if (code < 0x10000) {
    text += {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 63)),
             static_cast<char>(0x80 | (code & 63))};
  } else {
    text += {static_cast<char>(0xF0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 63)),
             static_cast<char>(0x80 | (code >> 6 & 63)), static_cast<char>(0x80 | (code & 63))};
  }
}

// Returns a text like class Mixer of the script.
std::string mixed_text(const std::vector<std::string>& pieces, size_t size) {
  uint64_t state = 7;
  const auto draw = [&](uint64_t count) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % count;
  };
  std::string text;
  while (text.size() < size) {
    const uint64_t pick = draw(pieces.size() + 4);
    if (pick < pieces.size()) {
      text += pieces[pick];
    } else {
      const auto code = static_cast<uint32_t>(draw(pick % 2 ? 0x110000 : 0x3000));
      append(text, code >= 0xD800 && code < 0xE000 ? 0x20AC : code);
    }
  }
  return text;
}

std::string code_point_text(uint32_t first, uint32_t last) {
  std::string text;
  for (uint32_t code = first; code < last; ++code) {
    append(text, code);
    text += 'a';
    append(text, code);
    append(text, code);
    text += ' ';
  }
  return text;
}

struct Folded {
  uint64_t ids = 0xCBF29CE484222325u, offsets = 0xCBF29CE484222325u;
  int64_t count = 0;
  static void fold(uint64_t& hash, int64_t value) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x100000001B3u;
  }
  void add(const std::vector<TokenSpan>& tokens) {
    for (const TokenSpan& token : tokens) {
      fold(ids, token.id);
      fold(offsets, token.begin);
      fold(offsets, token.end);
    }
    count += static_cast<int64_t>(tokens.size());
  }
};

std::string hex(uint64_t value) {
  char text[17];
  snprintf(text, sizeof(text), "%016lx", static_cast<unsigned long>(value));
  return text;
}

void check_hashes(const Folded& found, const Json& expected) {
  CHECK(found.count == expected["count"].get<int64_t>());
  CHECK(hex(found.ids) == expected["ids"].get<std::string>());
  CHECK(hex(found.offsets) == expected["offsets"].get<std::string>());
}

std::vector<int32_t> ids_of(const std::vector<TokenSpan>& tokens) {
  std::vector<int32_t> ids;
  for (const TokenSpan& token : tokens) ids.push_back(token.id);
  return ids;
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip_special) {
  DecodeStream stream(tokenizer, skip_special);
  std::string text;
  for (const int32_t id : ids) text += stream.push(id);
  return text + stream.finish();
}

void check_case(const Tokenizer& tokenizer, const Json& expected) {
  const std::string text = expected["text"].get<std::string>();
  INFO("text: " << text);
  const std::vector<TokenSpan> tokens = tokenizer.encode(text);
  CHECK(ids_of(tokens) == expected["ids"].get<std::vector<int32_t>>());
  std::vector<int64_t> offsets;
  for (const TokenSpan& token : tokens) offsets.insert(offsets.end(), {token.begin, token.end});
  CHECK(offsets == expected["offsets"].get<std::vector<int64_t>>());
  std::vector<int32_t> fast;
  tokenizer.encode_ids(text, fast);
  CHECK(fast == ids_of(tokens));
  const auto with_special = expected["with_special"].get<std::vector<int32_t>>();
  CHECK(ids_of(tokenizer.encode(text, {.add_special_tokens = true})) == with_special);
  fast.clear();
  tokenizer.encode_ids(text, fast, {.add_special_tokens = true});
  CHECK(fast == with_special);
  CHECK(ids_of(tokenizer.encode(text, {.parse_special = false})) ==
        expected["unparsed"].get<std::vector<int32_t>>());
  CHECK(tokenizer.decode(with_special) == expected["decoded"].get<std::string>());
  CHECK(tokenizer.decode(with_special, true) == expected["skipped"].get<std::string>());
}

}  // namespace

TEST_CASE("every style of tokenizer.json gives the package's ids, offsets and texts", "[tokenizer]") {
  const Json golden = golden_json("tokenizers.json");
  const auto pieces = golden_json("pieces.json").get<std::vector<std::string>>();
  const std::string mixed = mixed_text(pieces, golden["generated_bytes"].get<size_t>());
  for (const Json& expected : golden["tokenizers"]) {
    const std::string name = expected["name"].get<std::string>();
    DYNAMIC_SECTION(name) {
      const Tokenizer tokenizer = fixture(name);
      for (const Json& one : expected["cases"]) check_case(tokenizer, one);
      {
        INFO("generated text");
        Folded found;
        found.add(tokenizer.encode(mixed));
        check_hashes(found, expected["generated"]);
      }
      INFO("code points");
      Folded found;
      for (const Json& range : golden["ranges"]) {
        found.add(tokenizer.encode(code_point_text(range[0].get<uint32_t>(), range[1].get<uint32_t>())));
      }
      check_hashes(found, expected["code_points"]);
    }
  }
}

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

TEST_CASE("cuts of equal scores are chosen as by the package that owns the file", "[tokenizer]") {
  TemporaryFolder folder;
  int checked = 0;
  for (const Json& golden : golden_json("unigram_ties.json")) {
    const bool model = golden.contains("model");
    if (model) folder.write("tokenizer.model", bytes_of_hex(golden["model"].get<std::string>()));
    const Tokenizer tokenizer = model ? load_sentencepiece(folder.path("tokenizer.model"))
                                      : load_tokenizer_json({"json", golden["json"].dump(), {}, {}});
    for (size_t i = 0; i < golden["texts"].size(); ++i, ++checked) {
      const std::string text = golden["texts"][i].get<std::string>();
      INFO((model ? "sentencepiece: " : "tokenizers: ") << text);
      std::vector<int32_t> ids;
      tokenizer.encode_ids(text, ids);
      CHECK(ids == golden["ids"][i].get<std::vector<int32_t>>());
      // Tokens are in the order of the text.
      int64_t end = 0;
      for (const TokenSpan& token : tokenizer.encode(text)) {
        CHECK((token.begin >= 0 && token.end >= end && token.end <= static_cast<int64_t>(text.size())));
        end = token.end;
      }
    }
  }
  CHECK(checked == 60 * 43 + 13);
}

TEST_CASE("a stream of tokens decodes to the text that all of them decode to", "[tokenizer]") {
  const auto pieces = golden_json("pieces.json").get<std::vector<std::string>>();
  const std::string text = mixed_text(pieces, 3000);
  for (const char* name : {"gpt2", "llama2", "gemma", "smollm", "qwen2", "unigram_bytes", "t5"}) {
    INFO(name);
    const Tokenizer tokenizer = fixture(name);
    std::vector<int32_t> ids;
    tokenizer.encode_ids(text, ids, {.add_special_tokens = true});
    CHECK(streamed(tokenizer, ids, false) == tokenizer.decode(ids, false));
    CHECK(streamed(tokenizer, ids, true) == tokenizer.decode(ids, true));
  }
}

TEST_CASE("a GGUF vocabulary encodes as the tokenizer.json it came from", "[tokenizer]") {
  const auto pieces = golden_json("pieces.json").get<std::vector<std::string>>();
  const std::string text = mixed_text(pieces, 100'000);
  for (const auto& [name, pre] : {std::pair{"smollm", "smollm"},
                                  {"gpt2", "gpt-2"},
                                  {"gpt4o", "gpt-4o"},
                                  {"llama3", "llama-bpe"},
                                  {"deepseek3", "deepseek-v3"}}) {
    INFO(name);
    const Json spec = golden_json(std::string(name) + ".tokenizer.json");
    GgufVocabulary vocabulary{.name = "test.gguf", .model = "gpt2", .pre = pre};
    const auto& tokens = spec["model"]["vocab"];
    vocabulary.tokens.resize(tokens.size());
    vocabulary.token_types.assign(tokens.size(), 1);
    for (const auto& [token, id] : tokens.items()) vocabulary.tokens[id.get<size_t>()] = token;
    for (const Json& added : spec["added_tokens"]) vocabulary.token_types[added["id"].get<size_t>()] = 3;
    for (const Json& merge : spec["model"]["merges"]) {
      vocabulary.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    }
    vocabulary.bos_id = 1;
    vocabulary.eos_id = 2;
    const Tokenizer from_gguf = load_gguf_tokenizer(vocabulary), from_json = fixture(name);
    std::vector<int32_t> a, b;
    from_gguf.encode_ids(text, a);
    from_json.encode_ids(text, b);
    CHECK(a == b);
    CHECK(from_gguf.decode(a) == from_json.decode(a));
    CHECK(from_gguf.bos_id() == 1);
    CHECK(from_gguf.adds_bos() == (std::string(pre) == "llama-bpe"));
  }
}

TEST_CASE("a GGUF of BERT's vocabulary encodes as the tokenizer.json it came from", "[tokenizer]") {
  const auto pieces = golden_json("pieces.json").get<std::vector<std::string>>();
  const std::string text = mixed_text(pieces, 100'000);
  const Json spec = golden_json("bert.tokenizer.json");
  GgufVocabulary vocabulary{.name = "test.gguf", .model = "bert", .pre = "bert-bge"};
  vocabulary.tokens.resize(spec["model"]["vocab"].size());
  vocabulary.token_types.assign(vocabulary.tokens.size(), 1);
  for (const auto& [token, id] : spec["model"]["vocab"].items()) {
    const bool named = token.front() == '[' && token.back() == ']';
    vocabulary.tokens[id.get<size_t>()] = named ? token : token.starts_with("##") ? token.substr(2) : "▁" + token;
  }
  for (const Json& added : spec["added_tokens"]) vocabulary.token_types[added["id"].get<size_t>()] = 3;
  vocabulary.unk_id = 1;
  vocabulary.bos_id = 2;  // [CLS]
  vocabulary.eos_id = 3;  // [SEP]
  const Tokenizer from_gguf = load_gguf_tokenizer(vocabulary), from_json = fixture("bert");
  const EncodeOptions with_special{.add_special_tokens = true};
  CHECK(from_gguf.encode(text, with_special) == from_json.encode(text, with_special));
  std::vector<int32_t> ids;
  from_gguf.encode_ids(text, ids);
  CHECK(from_gguf.decode(ids) == from_json.decode(ids));
}

}  // namespace forge
