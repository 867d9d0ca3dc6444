#include "core/lib/text/tokenizer/load/gguf_pre.h"

#include "core/lib/base/text.h"
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/load/parts.h"
#include "core/lib/text/tokenizer/models/bpe.h"
#include "core/lib/text/tokenizer/scanner.h"

namespace forge::text {
namespace {

constexpr char kQwen35[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kGpt4o[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kTekken[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kDeepSeek3[] =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// The code points are escaped: an editor that composes characters (NFC) would change Kelvin, Ohm
// and Greek with oxia.
constexpr char kDeepSeekLatin[] =
    "\\s?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF"
    "\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5"
    "\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA"
    "\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45"
    "\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-"
    "\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107"
    "\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139\u213C-\u213F"
    "\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D"
    "\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17"
    "\uFF21-\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-\U000104FB"
    "\U00010C80-\U00010CB2\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-\U0001E943]+";
constexpr char kBloom[] = " ?[^(\\s|.,!?…。，、।۔،)]+";

struct Entry {
  const char* names;  // separated by spaces
  GgufPre pre;
};

std::vector<Entry> table() {
  return {
      {"default gpt-2 gpt2 phi-2 mpt olmo jais trillion granite-docling jina-es jina-de roberta-bpe gigachat",
       {{kGpt2Pattern}}},
      {"smollm starcoder refact command-r codeshell exaone minerva-7b",
       {{"\\p{N}", kGpt2Pattern}}},
      {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral lfm2 jina-v5-nano",
       {{kLlama3Pattern}, true, true}},
      {"dbrx smaug-bpe chatglm-bpe glm4", {{kLlama3Pattern}}},
      {"qwen2 stablelm2 hunyuan deepseek-r1-qwen megrez solar-open grok-2", {{kQwen2Pattern}}},
      {"qwen35", {{kQwen35}}},
      {"gpt-4o llama4 minimax-m2", {{kGpt4o}}},
      {"tekken", {{kTekken}, true, true}},
      {"deepseek-llm",
       {{"[\r\n]", kDeepSeekLatin, "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", "[一-龥ࠀ-一가-퟿]+",
         "\\p{N}+"}}},
      {"deepseek-coder",
       {{"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", "\\p{N}"}}},
      {"deepseek-v3 hunyuan-dense joyai-llm",
       {{"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", kDeepSeek3}}},
      {"falcon", {{"[\\p{P}\\$\\+<=>\\^~\\|`]+", kGpt2Pattern, "[0-9][0-9][0-9]"}}},
      {"bloom poro-chat gpt3-finnish", {{kBloom}}},
      {"viking", {{kBloom, "\\p{N}"}}},
  };
}

}  // namespace

GgufPre gguf_pre_tokenizer(const std::string& name, const std::string& where) {
  std::vector<std::string> known;
  for (const Entry& entry : table()) {
    for (const std::string& candidate : split(entry.names, ' ')) {
      if (candidate == name) return entry.pre;
      known.push_back(candidate);
    }
  }
  throw file_fault(where, "forge does not know the pre-tokenizer \"{}\" (tokenizer.ggml.pre){}",
                   name, did_you_mean(name, known))
      .hint("known: " + join(known, ", ") + "; or put the model's tokenizer.json beside the file");
}

std::string gguf_pre_name(const std::vector<std::string>& patterns, bool ignore_merges) {
  for (const Entry& entry : table()) {
    if (entry.pre.patterns != patterns || entry.pre.ignore_merges != ignore_merges) continue;
    const std::vector<std::string> names = split(entry.names, ' ');
    return names[0] == "default" ? names[1] : names[0];  // "default" makes llama.cpp warn
  }
  return "";
}

void set_byte_level(TokenizerParts& parts, BpeSpec bpe, const GgufPre& pre) {
  bpe.ignore_merges = pre.ignore_merges;
  bool raw_bytes = false;
  parts.model = make_bpe(std::move(bpe), true, &raw_bytes);
  std::vector<PreTokenizer> steps;
  for (const std::string& pattern : pre.patterns)
    steps.push_back(make_split(pattern, true, SplitBehavior::isolated, false, parts.name));
  steps.push_back(make_byte_level(false, false, raw_bytes));
  parts.pre_tokenizer = one_after_another(std::move(steps));
  parts.decoder = make_decoder(Json{{"type", "ByteLevel"}}, parts.name);
  parts.byte_decoder = true;
}

}  // namespace forge::text
