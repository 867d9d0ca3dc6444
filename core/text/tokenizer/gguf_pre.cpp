#include "core/text/tokenizer/gguf_pre.h"

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/text/tokenizer/scanner.h"

namespace forge::text {
namespace {

constexpr char kLlama3[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen2[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen35[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kGpt4o[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kTekken[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kDeepSeek3[] =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kDeepSeekLatin[] =
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-"
    "Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-"
    "Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-"
    "𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
constexpr char kBloom[] = " ?[^(\\s|.,!?…。，、।۔،)]+";

struct Entry {
  const char* names;  // separated by spaces
  std::vector<std::string> patterns;
  bool ignore_merges;
  bool add_bos;
};

std::vector<Entry> table() {
  return {
      {"default gpt-2 gpt2 phi-2 mpt olmo jais trillion granite-docling jina-es jina-de roberta-bpe gigachat",
       {kGpt2Pattern},
       false,
       false},
      {"smollm starcoder refact command-r codeshell exaone minerva-7b",
       {"\\p{N}", kGpt2Pattern},
       false,
       false},
      {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral lfm2 jina-v5-nano", {kLlama3}, true, true},
      {"dbrx smaug-bpe chatglm-bpe glm4", {kLlama3}, false, false},
      {"qwen2 stablelm2 hunyuan deepseek-r1-qwen megrez solar-open grok-2", {kQwen2}, false, false},
      {"qwen35", {kQwen35}, false, false},
      {"gpt-4o llama4 minimax-m2", {kGpt4o}, false, false},
      {"tekken", {kTekken}, true, true},
      {"deepseek-llm",
       {"[\r\n]", kDeepSeekLatin, "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", "[一-龥ࠀ-一가-퟿]+",
        "\\p{N}+"},
       false,
       false},
      {"deepseek-coder",
       {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", "\\p{N}"},
       false,
       false},
      {"deepseek-v3 hunyuan-dense joyai-llm",
       {"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", kDeepSeek3},
       false,
       false},
      {"falcon", {"[\\p{P}\\$\\+<=>\\^~\\|`]+", kGpt2Pattern, "[0-9][0-9][0-9]"}, false, false},
      {"bloom poro-chat gpt3-finnish", {kBloom}, false, false},
      {"viking", {kBloom, "\\p{N}"}, false, false},
  };
}

}  // namespace

GgufPre gguf_pre_tokenizer(const std::string& name, const std::string& where) {
  std::vector<std::string> known;
  for (const Entry& entry : table()) {
    for (const std::string& candidate : split(entry.names, ' ')) {
      if (candidate == name) return {entry.patterns, entry.ignore_merges, entry.add_bos};
      known.push_back(candidate);
    }
  }
  throw Error(ErrorKind::environment, where + ": forge does not know the pre-tokenizer \"" + name +
                                          "\" (tokenizer.ggml.pre)" + did_you_mean(name, known))
      .hint("known: " + join(known, ", ") + "; or put the model's tokenizer.json beside the file");
}

}  // namespace forge::text
