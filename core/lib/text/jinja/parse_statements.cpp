#include <algorithm>

#include "core/lib/text/jinja/parser.h"

namespace forge::jinja {

void Parser::fail(const std::string& message) const { throw SyntaxFault{message, current().line}; }

bool Parser::skip_symbol(std::string_view text) { return at_symbol(text) && (next(), true); }
bool Parser::skip_name(std::string_view text) { return at_name(text) && (next(), true); }

namespace {

std::string described(const Token& token) {
  switch (token.kind) {
    case TokenKind::block_end:
      return "end of statement block";
    case TokenKind::variable_end:
      return "end of print statement";
    case TokenKind::end:
      return "end of template";
    default:
      return "'" + token.text + "'";
  }
}

}  // namespace

void Parser::expect_symbol(std::string_view text) {
  if (!skip_symbol(text)) fail("expected token '" + std::string(text) + "', got " + described(current()));
}

void Parser::expect(TokenKind kind) {
  if (!at(kind))
    fail(std::string("expected ") + (kind == TokenKind::block_end ? "'%}'" : "'}}'") + ", got " +
         described(current()));
  next();
}

std::string Parser::expect_name() {
  if (!at(TokenKind::name)) fail("expected a name, got " + described(current()));
  return next().text;
}

int Parser::symbol(const std::string& name) {
  const auto [entry, added] = symbol_ids_.try_emplace(name, static_cast<int>(tree_.symbols.size()));
  if (added) tree_.symbols.push_back(name);
  return entry->second;
}

Parser::Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  for (const char* reserved : {"loop", "caller", "varargs", "kwargs"}) symbol(reserved);
}

Tree Parser::parse() {
  tree_.body = statements({});
  return std::move(tree_);
}

// Parses up to one of the ending words. The name of that word is then the current token.
Body Parser::statements(std::initializer_list<std::string_view> ends) {
  const Nesting nesting(*this);
  Body body;
  for (;;) {
    auto node = std::make_unique<Statement>();
    node->line = current().line;
    if (at(TokenKind::end)) {
      if (ends.size() == 0) return body;
      fail("Unexpected end of template. Expected '" + std::string(*std::prev(ends.end())) + "'");
    }
    if (at(TokenKind::data)) {
      node->kind = StatementKind::data;
      node->data = Value::text(next().text);
    } else if (at(TokenKind::variable_begin)) {
      next();
      node->kind = StatementKind::print;
      node->expr = tuple();
      expect(TokenKind::variable_end);
    } else {
      next();
      if (at(TokenKind::name) && std::find(ends.begin(), ends.end(), current().text) != ends.end())
        return body;
      node = statement();
      expect(TokenKind::block_end);
    }
    body.push_back(std::move(node));
  }
}

std::unique_ptr<Statement> Parser::statement() {
  auto node = std::make_unique<Statement>();
  node->line = current().line;
  if (!at(TokenKind::name)) fail("tag name expected");
  const std::string word = current().text;
  struct Tag {
    std::string_view word;
    StatementKind kind;
    void (Parser::*parse)(Statement& node);
  };
  static constexpr Tag kTags[] = {
      {"set", StatementKind::set, &Parser::parse_set},
      {"if", StatementKind::branch, &Parser::parse_if},
      {"for", StatementKind::loop, &Parser::parse_for},
      {"macro", StatementKind::macro, &Parser::parse_macro},
      {"call", StatementKind::call_block, &Parser::parse_call},
      {"with", StatementKind::with, &Parser::parse_with},
      {"filter", StatementKind::filter_block, &Parser::parse_filter_block},
      {"generation", StatementKind::generation, &Parser::parse_generation},
      {"print", StatementKind::print, &Parser::parse_print},
      {"break", StatementKind::break_, &Parser::loop_control},
      {"continue", StatementKind::continue_, &Parser::loop_control},
  };
  static constexpr std::string_view kRefused[] = {"extends", "include", "import", "from",
                                                  "block",   "do",      "trans",  "autoescape"};
  if (std::find(std::begin(kRefused), std::end(kRefused), word) != std::end(kRefused))
    fail("the tag '" + word + "' is not part of chat templates");
  next();
  const auto* tag = std::ranges::find(kTags, word, &Tag::word);
  if (tag == std::end(kTags)) fail("Encountered unknown tag '" + word + "'");
  node->kind = tag->kind;
  (this->*tag->parse)(*node);
  return node;
}

// Parses from after the opening tag's words: the tag's end and the body. The ending word's name is
// then the current token.
Body Parser::block(std::initializer_list<std::string_view> ends) {
  skip_symbol(":");
  expect(TokenKind::block_end);
  return statements(ends);
}

// Like block(), and moves past the one word that ends it.
Body Parser::whole_block(std::string_view end) {
  Body body = block({end});
  next();
  return body;
}

void Parser::macro_body(Macro& macro, std::string_view end) {
  const int loops = std::exchange(loops_, 0);
  macros_.push_back(&macro);
  macro.body = whole_block(end);
  macros_.pop_back();
  loops_ = loops;
}

Target Parser::single_target(bool allow_attribute) {
  Target result;
  if (skip_symbol("(")) {
    result = target(true, allow_attribute);
    expect_symbol(")");
    return result;
  }
  const std::string name = expect_name();
  for (const char* reserved : {"true", "false", "none", "True", "False", "None", "not"})
    if (name == reserved) fail("can't assign to '" + name + "'");
  result.symbol = symbol(name);
  if (allow_attribute && skip_symbol(".")) result.attribute = expect_name();
  return result;
}

Target Parser::target(bool allow_tuple, bool allow_attribute) {
  const Nesting nesting(*this);
  Target first = single_target(allow_attribute);
  if (!allow_tuple || !at_symbol(",")) return first;
  Target result;
  result.parts.push_back(std::move(first));
  while (skip_symbol(",")) {
    if (at_symbol("=") || at_symbol(")") || at_name("in") || at(TokenKind::block_end)) break;
    result.parts.push_back(single_target(allow_attribute));
  }
  return result;
}

void Parser::parse_set(Statement& node) {
  node.target = target(true, true);
  if (skip_symbol("=")) {
    node.expr = tuple();
    return;
  }
  node.kind = StatementKind::set_block;
  if (at_symbol("|")) node.expr = filters(nullptr);
  node.body = whole_block("endset");
}

void Parser::parse_if(Statement& node) {
  std::string word;
  do {
    ExprPtr condition = tuple(false);
    node.branches.push_back({std::move(condition), block({"elif", "else", "endif"})});
    word = next().text;
  } while (word == "elif");
  if (word == "else") node.branches.push_back({nullptr, whole_block("endif")});
}

void Parser::parse_for(Statement& node) {
  node.target = target(true, false);
  if (!skip_name("in")) fail("expected 'in', got " + described(current()));
  node.expr = tuple(false);
  if (skip_name("if")) node.condition = expression();
  if (at_name("recursive")) fail("recursive loops are not supported");
  const int mentions = loop_mentions_;
  ++loops_;
  node.body = block({"endfor", "else"});
  --loops_;
  node.uses_loop = loop_mentions_ != mentions;
  if (next().text == "else") node.otherwise = whole_block("endfor");
}

void Parser::parameters(Macro& macro) {
  expect_symbol("(");
  while (!at_symbol(")")) {
    if (!macro.parameters.empty()) expect_symbol(",");
    if (at_symbol(")")) break;
    Parameter parameter;
    parameter.name = expect_name();
    parameter.symbol = symbol(parameter.name);
    if (skip_symbol("="))
      parameter.default_value = expression();
    else if (!macro.parameters.empty() && macro.parameters.back().default_value)
      fail("non-default argument follows default argument");
    macro.parameters.push_back(std::move(parameter));
  }
  next();
}

void Parser::parse_macro(Statement& node) {
  Macro& macro = node.macro;
  macro.name = expect_name();
  macro.symbol = symbol(macro.name);
  parameters(macro);
  for (const Parameter& parameter : macro.parameters)
    if (parameter.name == "caller" && !parameter.default_value)
      fail("the parameter 'caller' needs a default");
  macro_body(macro, "endmacro");
}

void Parser::parse_call(Statement& node) {
  node.macro.name = "caller";
  if (at_symbol("(")) parameters(node.macro);
  node.expr = expression();
  if (node.expr->kind != ExprKind::call) fail("expected call");
  macro_body(node.macro, "endcall");
}

void Parser::parse_with(Statement& node) {
  while (!at(TokenKind::block_end)) {
    if (!node.assignments.empty()) expect_symbol(",");
    Target name = target(false, false);
    expect_symbol("=");
    node.assignments.emplace_back(std::move(name), expression());
  }
  node.body = whole_block("endwith");
}

void Parser::parse_filter_block(Statement& node) {
  node.expr = filters(nullptr, true);
  node.body = whole_block("endfilter");
}

void Parser::parse_generation(Statement& node) {
  tree_.marks_generation = true;
  const int loops = std::exchange(loops_, 0);
  node.body = whole_block("endgeneration");
  loops_ = loops;
}

void Parser::parse_print(Statement& node) { node.expr = tuple(); }

void Parser::loop_control(Statement&) {
  if (loops_ == 0) fail("break and continue are allowed only inside a loop");
}

Tree parse_tree(std::string_view source) { return Parser(tokenize(source)).parse(); }

}  // namespace forge::jinja
