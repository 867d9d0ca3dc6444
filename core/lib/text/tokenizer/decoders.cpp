#include "core/lib/text/tokenizer/decoders.h"

#include "core/lib/base/text.h"
#include "core/lib/text/tokenizer/aligned_text.h"
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/regex.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

using Tokens = std::vector<std::string>;

size_t bytes_of(const Tokens& tokens) {
  size_t bytes = 0;
  for (const std::string& token : tokens) bytes += token.size();
  return bytes;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

Decoder byte_level_decoder(const Json&, const std::string&) {
  return [](Tokens& tokens) {
    std::string bytes;
    for (const std::string& token : tokens) bytes += byte_level_bytes(token);
    tokens = {replace_invalid_utf8(bytes)};
  };
}

// Joins a run of byte tokens into one text if it is UTF-8; else each byte becomes U+FFFD.
Decoder byte_fallback(const Json&, const std::string&) {
  return [](Tokens& tokens) {
    Tokens out;
    std::string bytes;
    const auto flush = [&] {
      if (valid_utf8(bytes)) {
        if (!bytes.empty()) out.push_back(bytes);
      } else {
        out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const int byte = byte_token(token); byte >= 0) {
        bytes += static_cast<char>(byte);
        continue;
      }
      flush();
      out.push_back(std::move(token));
    }
    flush();
    tokens = std::move(out);
  };
}

Decoder fuse(const Json&, const std::string&) {
  return [](Tokens& tokens) { tokens = {join(tokens, "")}; };
}

Decoder replace(const Json& spec, const std::string& where) {
  const PatternField pattern = pattern_member(spec, where);
  const Regex regex = pattern.is_regex ? Regex(pattern.text, where) : Regex::literal(pattern.text, where);
  const std::string content = string_member(spec, "content", where);
  return [regex, content, where](Tokens& tokens) {
    for (std::string& token : tokens) {
      const Growth growth(where, token.size());
      std::string out;
      size_t last = 0;
      regex.each_match(token, [&](size_t begin, size_t end) {
        growth.require(out.size() + content.size());
        out.append(token, last, begin - last).append(content);
        last = end;
      });
      out.append(token, last);
      token = std::move(out);
    }
  };
}

Decoder strip(const Json& spec, const std::string& where) {
  const std::string mark = utf8_of(character_member(spec, "content", where));
  const int64_t start = int_member(spec, "start", where, 0), stop = int_member(spec, "stop", where, 0);
  return [mark, start, stop](Tokens& tokens) {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (int64_t n = 0; n < start && rest.starts_with(mark); ++n) rest.remove_prefix(mark.size());
      for (int64_t n = 0; n < stop && rest.ends_with(mark); ++n) rest.remove_suffix(mark.size());
      token = std::string(rest);
    }
  };
}

Decoder metaspace(const Json& spec, const std::string& where) {
  const std::string mark = utf8_of(character_member(spec, "replacement", where));
  const bool prepends = string_member(spec, "prepend_scheme", where, "always") != "never" &&
                        bool_member(spec, "add_prefix_space", where, true);
  return [mark, prepends](Tokens& tokens) {
    for (size_t k = 0; k < tokens.size(); ++k) replace_all(tokens[k], mark, k == 0 && prepends ? "" : " ");
  };
}

void clean_up(std::string& text) {
  constexpr std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

Decoder wordpiece(const Json& spec, const std::string& where) {
  const std::string prefix = string_member(spec, "prefix", where, "##");
  const bool cleanup = bool_member(spec, "cleanup", where, true);
  return [prefix, cleanup](Tokens& tokens) {
    for (size_t k = 0; k < tokens.size(); ++k) {
      if (k > 0)
        tokens[k] = tokens[k].starts_with(prefix) ? tokens[k].substr(prefix.size()) : " " + tokens[k];
      if (cleanup) clean_up(tokens[k]);
    }
  };
}

Decoder bpe(const Json& spec, const std::string& where) {
  const std::string suffix = string_member(spec, "suffix", where, "</w>");
  return [suffix](Tokens& tokens) {
    for (size_t k = 0; k < tokens.size(); ++k)
      replace_all(tokens[k], suffix, k + 1 == tokens.size() ? "" : " ");
  };
}

Decoder ctc(const Json& spec, const std::string& where) {
  const std::string pad = string_member(spec, "pad_token", where, "<pad>");
  const std::string delimiter = string_member(spec, "word_delimiter_token", where, "|");
  const bool cleanup = bool_member(spec, "cleanup", where, true);
  return [pad, delimiter, cleanup](Tokens& tokens) {
    Tokens out;
    for (size_t k = 0; k < tokens.size(); ++k) {
      if (k > 0 && tokens[k] == tokens[k - 1]) continue;
      std::string token = tokens[k];
      replace_all(token, pad, "");
      if (cleanup) {
        clean_up(token);
        replace_all(token, delimiter, " ");
      }
      if (!token.empty()) out.push_back(std::move(token));
    }
    tokens = std::move(out);
  };
}

Decoder decoder_sequence(const Json& spec, const std::string& where) {
  std::vector<Decoder> steps;
  const Json& list = array_member(spec, "decoders", where);
  for (size_t k = 0; k < list.size(); ++k) {
    steps.push_back(make_decoder(list[k], where + ".decoders[" + std::to_string(k) + "]"));
  }
  return [steps, where](Tokens& tokens) {
    const Growth growth(where, bytes_of(tokens));
    for (const auto& step : steps) {
      step(tokens);
      growth.require(bytes_of(tokens));
    }
  };
}

constexpr std::pair<const char*, Decoder (*)(const Json& spec, const std::string& where)>
    kDecoders[] = {
    {"BPEDecoder", bpe}, {"ByteFallback", byte_fallback}, {"ByteLevel", byte_level_decoder}, {"CTC", ctc},
    {"Fuse", fuse},      {"Metaspace", metaspace},        {"Replace", replace},      {"Sequence", decoder_sequence},
    {"Strip", strip},    {"WordPiece", wordpiece},
};

}  // namespace

int byte_token(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
  };
  // Rust's number parser also accepts a sign.
  if (token[3] == '+' && digit(token[4]) >= 0) return digit(token[4]);
  return digit(token[3]) < 0 || digit(token[4]) < 0 ? -1 : digit(token[3]) * 16 + digit(token[4]);
}

Decoder make_decoder(const Json& spec, const std::string& where) {
  return maker_of(kDecoders, string_member(spec, "type", where), "decoder", where)(spec, where);
}

bool is_byte_level_decoder(const Json& spec) {
  const Json* type = find_member(spec, "type");
  return type != nullptr && *type == "ByteLevel";
}

std::string byte_level_bytes(const std::string& token) {
  return alphabet_bytes(token).value_or(token);
}

}  // namespace forge::text
