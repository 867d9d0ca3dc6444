#pragma once
// Builds the tree of a template: Jinja's grammar as of 3.1, with loop controls and
// {% generation %}. Constructs that a chat template cannot use (extends, include, import, block,
// recursive loops) are refused by name. The parser's two halves share one class: expressions in
// parse_expressions.cpp, statements in parse_statements.cpp.
#include <initializer_list>
#include <map>
#include <string_view>

#include "core/lib/text/jinja/ast.h"
#include "core/lib/text/jinja/lexer.h"

namespace forge::jinja {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens);
  Tree parse();

 private:
  // --- tokens ---
  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool at(TokenKind kind) const { return current().kind == kind; }
  bool at_symbol(std::string_view text) const { return at(TokenKind::symbol) && current().text == text; }
  bool at_name(std::string_view text) const { return at(TokenKind::name) && current().text == text; }
  bool skip_symbol(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_symbol(std::string_view text);
  void expect(TokenKind kind);
  std::string expect_name();
  [[noreturn]] void fail(const std::string& message) const;
  int symbol(const std::string& name);

  // --- expressions ---
  using Operand = ExprPtr (Parser::*)();
  ExprPtr make(ExprKind kind, int line, std::vector<ExprPtr> children = {}, std::string text = "");
  ExprPtr expression(bool with_condition = true);
  ExprPtr tuple(bool with_condition = true, bool explicit_parentheses = false);
  bool tuple_ends() const;
  ExprPtr logical(std::string_view word, ExprKind kind, Operand operand);
  ExprPtr logical_or();
  ExprPtr logical_and();
  ExprPtr logical_not();
  ExprPtr comparison();
  ExprPtr arithmetic(std::initializer_list<std::string_view> symbols, Operand operand);
  ExprPtr sum();
  ExprPtr concatenation();
  ExprPtr product();
  ExprPtr power();
  ExprPtr filtered();
  ExprPtr unary();
  ExprPtr primary();
  ExprPtr constant(int line, Value value);
  ExprPtr named(const Token& token);
  ExprPtr literal(ExprKind kind, std::string_view end);
  ExprPtr call(ExprPtr callee);
  ExprPtr postfix(ExprPtr node);
  ExprPtr filters_and_tests(ExprPtr node);
  ExprPtr subscript(ExprPtr node);
  ExprPtr subscript_part();
  ExprPtr filters(ExprPtr node, bool first_without_pipe = false);
  ExprPtr test(ExprPtr node);
  std::string dotted_name();
  void call_arguments(Expr& node);

  // --- statements ---
  Body statements(std::initializer_list<std::string_view> ends);
  std::unique_ptr<Statement> statement();
  Body block(std::initializer_list<std::string_view> ends);
  Body whole_block(std::string_view end);
  void macro_body(Macro& macro, std::string_view end);
  Target target(bool allow_tuple, bool allow_attribute);
  Target single_target(bool allow_attribute);
  void parameters(Macro& macro);
  void parse_set(Statement& node);
  void parse_if(Statement& node);
  void parse_for(Statement& node);
  void parse_macro(Statement& node);
  void parse_call(Statement& node);
  void parse_with(Statement& node);
  void parse_filter_block(Statement& node);
  void parse_generation(Statement& node);
  void parse_print(Statement& node);
  void loop_control(Statement& node);
  // Bounds the recursion of the parser, and with it that of all code that walks the tree.
  struct Nesting;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;
  int loop_mentions_ = 0;  // mentions of the name `loop` so far
  std::map<std::string, int> symbol_ids_;
  std::vector<Macro*> macros_;  // macros that enclose the current token
  Tree tree_;
};

struct Parser::Nesting {
  explicit Nesting(Parser& parser) : parser(parser) {
    if (++parser.depth_ > 150) parser.fail("nested more than 150 deep");
  }
  ~Nesting() { --parser.depth_; }
  Parser& parser;
};

// Returns the tree. Throws SyntaxFault.
Tree parse_tree(std::string_view source);

}  // namespace forge::jinja
