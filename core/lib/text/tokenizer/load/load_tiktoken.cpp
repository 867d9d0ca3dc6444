#include "core/lib/text/tokenizer/load/load_tiktoken.h"

#include <charconv>

#include "core/lib/text/tokenizer/load/base64.h"
#include "core/lib/text/tokenizer/load/gguf_pre.h"
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/load/parts.h"
#include "core/lib/text/tokenizer/load/tokenizer_config.h"
#include "core/lib/text/tokenizer/models/bpe.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

struct RankedToken {
  std::string bytes;
  int64_t rank = -1;
};

// Returns nothing if the line is not "base64 rank".
std::optional<RankedToken> parse_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const size_t space = line.find(' ');
  if (space == 0 || space == std::string_view::npos) return std::nullopt;
  const std::optional<std::string> bytes = decode_base64(line.substr(0, space));
  RankedToken token;
  const char* end = line.data() + line.size();
  const auto [stopped, problem] = std::from_chars(line.data() + space + 1, end, token.rank);
  if (!bytes || bytes->empty() || problem != std::errc() || stopped != end) return std::nullopt;
  token.bytes = *bytes;
  return token;
}

std::string_view next_line(std::string_view& rest) {
  const size_t end = rest.find('\n');
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return line;
}

std::string in_alphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_utf8(text, byte_to_alphabet(static_cast<unsigned char>(byte)));
  return text;
}

BpeSpec parse(const std::string& path, std::string_view content) {
  BpeSpec bpe;
  bpe.where = path;
  std::vector<RankedToken> tokens;
  for (int64_t line = 1; !content.empty(); ++line) {
    const std::string_view text = next_line(content);
    if (text.empty()) continue;
    const std::string place = path + ":" + std::to_string(line);
    std::optional<RankedToken> token = parse_line(text);
    if (!token) throw file_fault(place, "expected a token in base64, a space and its rank");
    bpe.vocabulary.add(in_alphabet(token->bytes), token->rank, place);
    tokens.push_back(std::move(*token));
  }
  for (const RankedToken& token : tokens) {
    for (size_t at = 1; at < token.bytes.size(); ++at) {
      std::string left = in_alphabet(std::string_view(token.bytes).substr(0, at));
      std::string right = in_alphabet(std::string_view(token.bytes).substr(at));
      if (!bpe.vocabulary.id_of(left) || !bpe.vocabulary.id_of(right)) continue;
      bpe.merges.emplace_back(std::move(left), std::move(right));
      bpe.ranks.push_back(static_cast<uint32_t>(token.rank));
    }
  }
  return bpe;
}

}  // namespace

bool looks_like_tiktoken(std::string_view content) { return parse_line(next_line(content)).has_value(); }

Tokenizer load_tiktoken(const std::string& path, std::string_view content, const std::string& config_text) {
  const TokenizerConfig config(path, config_text);
  auto parts = std::make_shared<TokenizerParts>();
  parts->name = path;
  set_byte_level(*parts, parse(path, content), gguf_pre_tokenizer("llama-bpe", path));
  if (!config.add_tokens(*parts))
    throw file_fault(path, "a tiktoken file does not hold its control tokens")
        .hint(
            "put the model's tokenizer.json into the folder, or a tokenizer_config.json with "
            "added_tokens_decoder");
  config.finish(*parts, content);
  return Tokenizer(std::move(parts));
}

}  // namespace forge::text
