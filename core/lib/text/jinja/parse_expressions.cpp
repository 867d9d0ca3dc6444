#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "core/lib/text/jinja/parser.h"

namespace forge::jinja {
namespace {

constexpr int kMaxTreeDepth = 150;

struct CompareRow {
  const char* text;
  Comparison holds;
};
constexpr CompareRow kCompare[] = {
    {"==", equal},
    {"!=", [](const Value& left, const Value& right) { return !equal(left, right); }},
    {"<", [](const Value& left, const Value& right) { return compare(left, right) < 0; }},
    {"<=", [](const Value& left, const Value& right) { return compare(left, right) <= 0; }},
    {">", [](const Value& left, const Value& right) { return compare(left, right) > 0; }},
    {">=", [](const Value& left, const Value& right) { return compare(left, right) >= 0; }}};

template <class... Nodes>
std::vector<ExprPtr> children_of(Nodes... nodes) {
  std::vector<ExprPtr> children;
  (children.push_back(std::move(nodes)), ...);
  return children;
}

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

ExprPtr Parser::logical(std::string_view word, ExprKind kind, Operand operand) {
  const int line = current().line;
  ExprPtr left = (this->*operand)();
  while (skip_name(word)) left = make(kind, line, children_of(std::move(left), (this->*operand)()));
  return left;
}

ExprPtr Parser::logical_or() { return logical("or", ExprKind::logical_or, &Parser::logical_and); }
ExprPtr Parser::logical_and() {
  return logical("and", ExprKind::logical_and, &Parser::logical_not);
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
  std::vector<Comparison> ops;
  for (;;) {
    const CompareRow* found = nullptr;
    for (const CompareRow& row : kCompare)
      if (at_symbol(row.text)) found = &row;
    if (found) {
      next();
      ops.push_back(found->holds);
    } else if (skip_name("in")) {
      ops.push_back([](const Value& left, const Value& right) { return contains(right, left); });
    } else if (at_name("not") && ahead().kind == TokenKind::name && ahead().text == "in") {
      next(), next();
      ops.push_back([](const Value& left, const Value& right) { return !contains(right, left); });
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

// Groups left to right, as in jinja2: 2 ** 3 ** 2 is 64.
ExprPtr Parser::arithmetic(std::initializer_list<std::string_view> symbols, Operand operand) {
  ExprPtr left = (this->*operand)();
  while (std::any_of(symbols.begin(), symbols.end(),
                     [&](std::string_view text) { return at_symbol(text); })) {
    const Token& op = next();
    left = make(ExprKind::arithmetic, op.line, children_of(std::move(left), (this->*operand)()),
                op.text);
  }
  return left;
}

ExprPtr Parser::sum() { return arithmetic({"+", "-"}, &Parser::concatenation); }

ExprPtr Parser::concatenation() {
  const int line = current().line;
  std::vector<ExprPtr> parts = children_of(product());
  while (skip_symbol("~")) parts.push_back(product());
  return parts.size() == 1 ? std::move(parts[0]) : make(ExprKind::concat, line, std::move(parts));
}

ExprPtr Parser::product() { return arithmetic({"*", "/", "//", "%"}, &Parser::power); }
ExprPtr Parser::power() { return arithmetic({"**"}, &Parser::filtered); }

// Filters bind to the negated value, as in jinja2: -x|f is (-x)|f.
ExprPtr Parser::filtered() {
  ExprPtr node = unary();
  const Nesting nesting(*this);
  return filters_and_tests(std::move(node));
}

ExprPtr Parser::unary() {
  const Nesting nesting(*this);
  const int line = current().line;
  ExprPtr node;
  if (skip_symbol("-"))
    node = make(ExprKind::negate, line, children_of(unary()));
  else if (skip_symbol("+"))
    node = make(ExprKind::plus, line, children_of(unary()));
  else
    node = primary();
  return postfix(std::move(node));
}

ExprPtr Parser::constant(int line, Value value) {
  ExprPtr node = make(ExprKind::constant, line);
  node->value = std::move(value);
  return node;
}

ExprPtr Parser::named(const Token& token) {
  const std::string& text = token.text;
  if (text == "true" || text == "True" || text == "false" || text == "False")
    return constant(token.line, Value(text[0] == 't' || text[0] == 'T'));
  if (text == "none" || text == "None") return constant(token.line, Value());
  ExprPtr node = make(ExprKind::name, token.line, {}, text);
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
    return constant(token.line, Value::text(std::move(text)));
  }
  if (token.kind == TokenKind::integer) return constant(token.line, Value(integer_of(next())));
  if (token.kind == TokenKind::real) return constant(token.line, Value(real_of(next())));
  if (skip_symbol("(")) {
    ExprPtr node = tuple(true, true);
    expect_symbol(")");
    return node;
  }
  if (at_symbol("[")) return literal(ExprKind::list, "]");
  if (at_symbol("{")) return literal(ExprKind::dict, "}");
  if (token.kind == TokenKind::symbol) fail("unexpected '" + token.text + "'");
  fail("Expected an expression, got the end of the " +
       std::string(token.kind == TokenKind::variable_end ? "print statement" : "statement block"));
}

ExprPtr Parser::literal(ExprKind kind, std::string_view end) {
  const int line = next().line;
  std::vector<ExprPtr> items;
  while (!at_symbol(end)) {
    if (!items.empty()) expect_symbol(",");
    if (at_symbol(end)) break;
    items.push_back(expression());
    if (kind != ExprKind::dict) continue;
    expect_symbol(":");
    items.push_back(expression());
  }
  next();
  return make(kind, line, std::move(items));
}

ExprPtr Parser::call(ExprPtr callee) {
  ExprPtr node = make(ExprKind::call, current().line, children_of(std::move(callee)));
  call_arguments(*node);
  return node;
}

ExprPtr Parser::postfix(ExprPtr node) {
  while (at_symbol(".") || at_symbol("[") || at_symbol("("))
    node = at_symbol("(") ? call(std::move(node)) : subscript(std::move(node));
  return node;
}

ExprPtr Parser::filters_and_tests(ExprPtr node) {
  while (at_symbol("|") || at_name("is") || at_symbol("("))
    node = at_symbol("|")   ? filters(std::move(node))
           : at_symbol("(") ? call(std::move(node))
                            : test(std::move(node));
  return node;
}

ExprPtr Parser::subscript(ExprPtr node) {
  const int line = current().line;
  if (skip_symbol(".")) {
    if (at(TokenKind::integer))
      return make(ExprKind::item, line,
                  children_of(std::move(node), constant(line, Value(integer_of(next())))));
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
