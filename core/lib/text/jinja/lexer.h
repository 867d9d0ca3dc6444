#pragma once
// Splits the text of a template into tokens, with whitespace control already applied. trim_blocks
// and lstrip_blocks are on, as in transformers, and one newline at the end of the template is
// dropped.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace forge::jinja {

enum class TokenKind {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  symbol,
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;  // data, name, decoded string, digits of a number, or the operator's characters
  int line = 1;
};

// A fault of the template's text; the parser adds the template's name.
struct SyntaxFault {
  std::string message;
  int line = 1;
};

// Returns the tokens. Throws SyntaxFault. The last token is `end`.
std::vector<Token> tokenize(std::string_view source);

}  // namespace forge::jinja
