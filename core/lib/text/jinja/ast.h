#pragma once
// A parsed template: two kinds of nodes, expressions and statements, each with its line. Every node
// is immutable after parsing, so one tree serves many threads.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/lib/text/jinja/value.h"

namespace forge::jinja {

enum class ExprKind {
  constant,     // value
  name,         // text, symbol
  list,         // children
  tuple,        // children
  dict,         // children: key, value, key, value …
  attribute,    // children[0].text
  item,         // children[0][children[1]]
  slice,        // start, stop, step: children, each may be null
  call,         // children[0](arguments)
  filter,       // children[0] | text(arguments); the child is null in a filter block
  test,         // children[0] is text(arguments)
  negate,       // -x
  plus,         // +x
  logical_not,  // not x
  logical_and,
  logical_or,
  conditional,  // children: condition, then, otherwise (may be null)
  compare,      // children[0] ops[0] children[1] ops[1] …
  arithmetic,   // children[0] text children[1], text one of + - * / // % **
  concat,       // children joined by ~
};

using Comparison = bool (*)(const Value& left, const Value& right);
struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

// Arguments of a call as written: f(a, *b, c=d, **e).
struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr extra_positional;
  ExprPtr extra_named;
};

struct Expr {
  ExprKind kind;
  int line = 1;
  int depth = 1;  // depth of the tree below; bounded by the parser
  int symbol = -1;
  std::string text;
  Value value;
  std::vector<ExprPtr> children;
  std::vector<Comparison> ops;
  CallArguments arguments;
};

// Target of an assignment: a name, namespace.attribute, or several of them.
struct Target {
  int symbol = -1;
  std::string attribute;      // attribute of a namespace; empty otherwise
  std::vector<Target> parts;  // unpacking; empty otherwise
};

struct Parameter {
  int symbol = -1;
  std::string name;
  ExprPtr default_value;  // may be null
};

enum class StatementKind {
  data,       // text
  print,      // expr
  set,        // target = expr
  set_block,  // target, body, filter chain in expr (may be null)
  branch,     // if/elif/else: branches
  loop,       // for
  break_,
  continue_,
  macro,       // name, parameters, body
  call_block,  // {% call(parameters) expr %}
  filter_block,
  with,  // assignments, body
  generation,
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

struct Branch {
  ExprPtr condition;  // null: else
  Body body;
};

struct Macro {
  std::string name;
  int symbol = -1;
  std::vector<Parameter> parameters;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
  Body body;
};

struct Statement {
  StatementKind kind;
  int line = 1;
  Value data;
  Target target;
  ExprPtr expr;
  ExprPtr condition;  // the `if` of a loop
  Body body;
  Body otherwise;
  bool uses_loop = false;  // the body mentions `loop`
  std::vector<Branch> branches;
  std::vector<std::pair<Target, ExprPtr>> assignments;
  Macro macro;  // also of a call block
};

// Numbers of the names that the interpreter itself sets.
enum ReservedSymbol { kLoopSymbol, kCallerSymbol, kVarargsSymbol, kKwargsSymbol };

// Names are numbered once per template, so that scopes compare integers.
struct Tree {
  Body body;
  std::vector<std::string> symbols;
  bool marks_generation = false;
};

}  // namespace forge::jinja
