#include <charconv>
#include <cstdlib>

#include "core/lib/text/jinja/parser_detail.h"

namespace forge::jinja {
namespace {

constexpr int kMaxTreeDepth = 150;

struct CompareRow {
  const char* text;
  CompareOp op;
};
constexpr CompareRow kCompare[] = {{"==", CompareOp::eq}, {"!=", CompareOp::ne}, {"<", CompareOp::lt},
                                   {"<=", CompareOp::le}, {">", CompareOp::gt},  {">=", CompareOp::ge}};

}  // namespace

ExprPtr Parser::make(ExprKind kind, int line, std::vector<ExprPtr> children, std::string text) {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  node->text = std::move(text);
  for (const ExprPtr& child : children)
    if (child) node->depth = std::max(node->depth, child->depth + 1);
  if (node->depth > kMaxTreeDepth)
    fail("an expression nested more than " + std::to_string(kMaxTreeDepth) + " deep");
  node->children = std::move(children);
  return node;
}

namespace {

template <class... Nodes>
std::vector<ExprPtr> children_of(Nodes... nodes) {
  std::vector<ExprPtr> children;
  (children.push_back(std::move(nodes)), ...);
  return children;
}

}  // namespace

ExprPtr Parser::expression(bool with_condition) {
  const Nesting nesting(*this);
  const int line = current().line;
  ExprPtr node = logical_or();
  while (with_condition && skip_name("if")) {
    ExprPtr condition = logical_or();
    ExprPtr otherwise = skip_name("else") ? expression() : nullptr;
    node = make(ExprKind::conditional, line,
                children_of(std::move(condition), std::move(node), std::move(otherwise)));
  }
  return node;
}

bool Parser::tuple_ends() const {
  return at(TokenKind::variable_end) || at(TokenKind::block_end) || at_symbol(")") || at(TokenKind::end);
}

ExprPtr Parser::tuple(bool with_condition, bool explicit_parentheses) {
  const int line = current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  for (;;) {
    if (!items.empty()) expect_symbol(",");
    if (tuple_ends()) break;
    items.push_back(expression(with_condition));
    if (!at_symbol(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (items.empty() && !explicit_parentheses)
    fail("Expected an expression, got " +
         (at(TokenKind::end) ? "end of template" : "'" + current().text + "'"));
  return make(ExprKind::tuple, line, std::move(items));
}

ExprPtr Parser::logical_or() {
  const int line = current().line;
  ExprPtr left = logical_and();
  while (skip_name("or"))
    left = make(ExprKind::logical_or, line, children_of(std::move(left), logical_and()));
  return left;
}

ExprPtr Parser::logical_and() {
  const int line = current().line;
  ExprPtr left = logical_not();
  while (skip_name("and"))
    left = make(ExprKind::logical_and, line, children_of(std::move(left), logical_not()));
  return left;
}

ExprPtr Parser::logical_not() {
  if (!at_name("not")) return comparison();
  const Nesting nesting(*this);
  const int line = next().line;
  return make(ExprKind::logical_not, line, children_of(logical_not()));
}

ExprPtr Parser::comparison() {
  const int line = current().line;
  std::vector<ExprPtr> operands = children_of(sum());
  std::vector<CompareOp> ops;
  for (;;) {
    const CompareRow* found = nullptr;
    for (const CompareRow& row : kCompare)
      if (at_symbol(row.text)) found = &row;
    if (found) {
      next();
      ops.push_back(found->op);
    } else if (skip_name("in")) {
      ops.push_back(CompareOp::in);
    } else if (at_name("not") && ahead().kind == TokenKind::name && ahead().text == "in") {
      next(), next();
      ops.push_back(CompareOp::not_in);
    } else {
      break;
    }
    operands.push_back(sum());
  }
  if (ops.empty()) return std::move(operands[0]);
  ExprPtr node = make(ExprKind::compare, line, std::move(operands));
  node->ops = std::move(ops);
  return node;
}

ExprPtr Parser::sum() {
  ExprPtr left = concatenation();
  while (at_symbol("+") || at_symbol("-")) {
    const Token& op = next();
    left = make(ExprKind::arithmetic, op.line, children_of(std::move(left), concatenation()), op.text);
  }
  return left;
}

ExprPtr Parser::concatenation() {
  const int line = current().line;
  std::vector<ExprPtr> parts = children_of(product());
  while (skip_symbol("~")) parts.push_back(product());
  return parts.size() == 1 ? std::move(parts[0]) : make(ExprKind::concat, line, std::move(parts));
}

ExprPtr Parser::product() {
  ExprPtr left = power();
  while (at_symbol("*") || at_symbol("/") || at_symbol("//") || at_symbol("%")) {
    const Token& op = next();
    left = make(ExprKind::arithmetic, op.line, children_of(std::move(left), power()), op.text);
  }
  return left;
}

// ** groups left to right, as in jinja2: 2 ** 3 ** 2 is 64.
ExprPtr Parser::power() {
  ExprPtr left = unary();
  while (at_symbol("**")) {
    const int line = next().line;
    left = make(ExprKind::arithmetic, line, children_of(std::move(left), unary()), "**");
  }
  return left;
}

// Filters bind to the negated value, as in jinja2: -x|f is (-x)|f.
ExprPtr Parser::unary(bool with_filter) {
  const Nesting nesting(*this);
  const int line = current().line;
  ExprPtr node;
  if (skip_symbol("-"))
    node = make(ExprKind::negate, line, children_of(unary(false)));
  else if (skip_symbol("+"))
    node = make(ExprKind::plus, line, children_of(unary(false)));
  else
    node = primary();
  node = postfix(std::move(node));
  return with_filter ? filters_and_tests(std::move(node)) : std::move(node);
}

namespace {

int64_t integer_of(const Token& token) {
  std::string_view digits = token.text;
  int base = 10;
  if (digits.size() > 1 && digits[0] == '0' && digits[1] > '9') {
    base = (digits[1] | 32) == 'x' ? 16 : (digits[1] | 32) == 'o' ? 8 : 2;
    digits.remove_prefix(2);
  }
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (problem != std::errc() || end != digits.data() + digits.size())
    throw SyntaxFault{"the number " + token.text + " is not an integer of 64 bits", token.line};
  return value;
}

double real_of(const Token& token) {
  return std::strtod(token.text.c_str(), nullptr);  // out of range is infinity, as in Python
}

}  // namespace

ExprPtr Parser::named(const Token& token) {
  const std::string& text = token.text;
  ExprPtr node = make(ExprKind::constant, token.line);
  if (text == "true" || text == "True" || text == "false" || text == "False") {
    node->value = Value(text[0] == 't' || text[0] == 'T');
    return node;
  }
  if (text == "none" || text == "None") return node;
  node->kind = ExprKind::name;
  node->text = text;
  node->symbol = symbol(text);
  loop_mentions_ += node->symbol == kLoopSymbol;
  for (Macro* macro : macros_) {
    macro->uses_caller |= text == "caller";
    macro->uses_varargs |= text == "varargs";
    macro->uses_kwargs |= text == "kwargs";
  }
  return node;
}

ExprPtr Parser::primary() {
  const Token& token = current();
  if (token.kind == TokenKind::name) return named(next());
  if (token.kind == TokenKind::string) {
    std::string text;
    while (at(TokenKind::string)) text += next().text;
    ExprPtr node = make(ExprKind::constant, token.line);
    node->value = Value::text(std::move(text));
    return node;
  }
  if (token.kind == TokenKind::integer || token.kind == TokenKind::real) {
    ExprPtr node = make(ExprKind::constant, token.line);
    node->value = token.kind == TokenKind::real ? Value(real_of(token)) : Value(integer_of(token));
    next();
    return node;
  }
  if (skip_symbol("(")) {
    ExprPtr node = tuple(true, true);
    expect_symbol(")");
    return node;
  }
  if (at_symbol("[")) return list_literal();
  if (at_symbol("{")) return dict_literal();
  if (token.kind == TokenKind::symbol) fail("unexpected '" + token.text + "'");
  fail("Expected an expression, got the end of the " +
       std::string(token.kind == TokenKind::variable_end ? "print statement" : "statement block"));
}

ExprPtr Parser::list_literal() {
  const int line = next().line;
  std::vector<ExprPtr> items;
  while (!at_symbol("]")) {
    if (!items.empty()) expect_symbol(",");
    if (at_symbol("]")) break;
    items.push_back(expression());
  }
  next();
  return make(ExprKind::list, line, std::move(items));
}

ExprPtr Parser::dict_literal() {
  const int line = next().line;
  std::vector<ExprPtr> items;
  while (!at_symbol("}")) {
    if (!items.empty()) expect_symbol(",");
    if (at_symbol("}")) break;
    items.push_back(expression());
    expect_symbol(":");
    items.push_back(expression());
  }
  next();
  return make(ExprKind::dict, line, std::move(items));
}

ExprPtr Parser::postfix(ExprPtr node) {
  for (;;) {
    if (at_symbol(".") || at_symbol("[")) {
      node = subscript(std::move(node));
    } else if (at_symbol("(")) {
      node = make(ExprKind::call, current().line, children_of(std::move(node)));
      call_arguments(*node);
    } else {
      return node;
    }
  }
}

ExprPtr Parser::filters_and_tests(ExprPtr node) {
  for (;;) {
    if (at_symbol("|")) {
      node = filters(std::move(node));
    } else if (at_name("is")) {
      node = test(std::move(node));
    } else if (at_symbol("(")) {
      node = make(ExprKind::call, current().line, children_of(std::move(node)));
      call_arguments(*node);
    } else {
      return node;
    }
  }
}

ExprPtr Parser::subscript(ExprPtr node) {
  const int line = current().line;
  if (skip_symbol(".")) {
    if (at(TokenKind::integer)) {
      ExprPtr index = make(ExprKind::constant, line);
      index->value = Value(integer_of(next()));
      return make(ExprKind::item, line, children_of(std::move(node), std::move(index)));
    }
    if (!at(TokenKind::name)) fail("expected name or number");
    return make(ExprKind::attribute, line, children_of(std::move(node)), next().text);
  }
  expect_symbol("[");
  std::vector<ExprPtr> parts;
  bool is_tuple = false;
  while (!at_symbol("]")) {
    if (!parts.empty()) {
      expect_symbol(",");
      is_tuple = true;
    }
    parts.push_back(subscript_part());
  }
  next();
  if (parts.empty()) fail("expected an index between '[' and ']'");
  ExprPtr index = is_tuple ? make(ExprKind::tuple, line, std::move(parts)) : std::move(parts[0]);
  return make(ExprKind::item, line, children_of(std::move(node), std::move(index)));
}

ExprPtr Parser::subscript_part() {
  const int line = current().line;
  ExprPtr start;
  if (!at_symbol(":")) {
    start = expression();
    if (!at_symbol(":")) return start;
  }
  next();
  const auto ends = [&] { return at_symbol(":") || at_symbol("]") || at_symbol(","); };
  ExprPtr stop = ends() ? nullptr : expression();
  ExprPtr step;
  if (skip_symbol(":") && !ends()) step = expression();
  return make(ExprKind::slice, line, children_of(std::move(start), std::move(stop), std::move(step)));
}

std::string Parser::dotted_name() {
  std::string name = expect_name();
  while (skip_symbol(".")) name += "." + expect_name();
  return name;
}

ExprPtr Parser::filters(ExprPtr node, bool first_without_pipe) {
  while (first_without_pipe || at_symbol("|")) {
    if (!first_without_pipe) next();
    first_without_pipe = false;
    const int line = current().line;
    std::string name = dotted_name();
    node = make(ExprKind::filter, line, children_of(std::move(node)), std::move(name));
    if (at_symbol("(")) call_arguments(*node);
  }
  return node;
}

ExprPtr Parser::test(ExprPtr node) {
  const int line = next().line;
  const bool negated = skip_name("not");
  std::string name = dotted_name();
  ExprPtr result = make(ExprKind::test, line, children_of(std::move(node)), std::move(name));
  const bool ends = at_name("else") || at_name("or") || at_name("and");
  if (at_symbol("(")) {
    call_arguments(*result);
  } else if (!ends && (at(TokenKind::name) || at(TokenKind::string) || at(TokenKind::integer) ||
                       at(TokenKind::real) || at_symbol("[") || at_symbol("{"))) {
    if (at_name("is")) fail("You cannot chain multiple tests with is");
    result->arguments.positional.push_back(postfix(primary()));
    result->depth = std::max(result->depth, result->arguments.positional[0]->depth + 1);
  }
  return negated ? make(ExprKind::logical_not, line, children_of(std::move(result))) : std::move(result);
}

void Parser::call_arguments(Expr& node) {
  expect_symbol("(");
  CallArguments& arguments = node.arguments;
  bool first = true;
  while (!at_symbol(")")) {
    if (!first) {
      expect_symbol(",");
      if (at_symbol(")")) break;
    }
    first = false;
    if (skip_symbol("*")) {
      if (arguments.extra_positional || arguments.extra_named)
        fail("invalid syntax for function call expression");
      arguments.extra_positional = expression();
    } else if (skip_symbol("**")) {
      if (arguments.extra_named) fail("invalid syntax for function call expression");
      arguments.extra_named = expression();
    } else if (at(TokenKind::name) && ahead().kind == TokenKind::symbol && ahead().text == "=") {
      if (arguments.extra_named) fail("invalid syntax for function call expression");
      const std::string name = next().text;
      next();
      arguments.named.emplace_back(name, expression());
    } else {
      if (!arguments.named.empty() || arguments.extra_positional || arguments.extra_named)
        fail("invalid syntax for function call expression");
      arguments.positional.push_back(expression());
    }
  }
  next();
  const auto count = [&](const ExprPtr& argument) {
    if (argument) node.depth = std::max(node.depth, argument->depth + 1);
  };
  for (const ExprPtr& argument : arguments.positional) count(argument);
  for (const auto& [name, argument] : arguments.named) count(argument);
  count(arguments.extra_positional);
  count(arguments.extra_named);
  if (node.depth > kMaxTreeDepth)
    fail("an expression nested more than " + std::to_string(kMaxTreeDepth) + " deep");
}

}  // namespace forge::jinja
