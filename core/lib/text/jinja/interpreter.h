#pragma once
// Walks a template's tree and collects marked text. An interpreter renders once; the tree is only
// read.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/lib/text/jinja/ast.h"

namespace forge::jinja {

// Limits on what a template may use. A step is one evaluated node, or 16 bytes of text or one item
// produced.
struct Limits {
  int64_t steps = 4'000'000;  // plus one for each byte of input
  int64_t output_bytes = 64 << 20;
  int64_t range_items = 100'000;  // as jinja2's sandbox
  int64_t macros = 1'000;         // definitions executed
  int depth = 400;                // nested evaluations, macro calls included
};

struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<int, Value>> variables;
  const Value* find(int symbol) const;
  void set(int symbol, Value value);
};

class Interpreter {
 public:
  // `now` is the time of strftime_now, in seconds since 1970; without it, the clock's time.
  Interpreter(const Tree& tree, const Limits& limits, std::optional<int64_t> now = {});
  ~Interpreter();
  void set_variable(std::string_view name, const Value& value);
  // Throws RenderFault. line() is then its line.
  MarkedText run();
  int line() const { return line_; }

  // --- for builtins ---
  Value call(const Value& callee, const Arguments& arguments);
  Value apply_filter(const std::string& name, const Value& input, const Arguments& arguments);
  bool apply_test(const std::string& name, const Value& input, const Arguments& arguments);
  void spend(int64_t steps);
  // Refuses a text or list that is too large before it is made.
  void spend_text(int64_t bytes);
  const Limits& limits() const { return limits_; }
  int64_t now() const;
  Value new_namespace();

 private:
  enum class Flow { normal, break_, continue_ };
  // Counts a nested evaluation, and refuses one too many.
  struct Depth {
    explicit Depth(Interpreter& interpreter);
    ~Depth() { --interpreter.depth_; }
    Interpreter& interpreter;
  };
  struct ScopeGuard;

  // statements (execute.cpp)
  Flow execute(const Body& body);
  Flow execute(const Statement& node);
  void execute_loop(const Statement& node);
  bool loop_condition(const Statement& node, const Value& item);
  Flow loop_iteration(const Statement& node, const Value& item, const std::shared_ptr<LoopState>& state);
  void execute_call_block(const Statement& node);
  void execute_filter_block(const Statement& node);
  void execute_set_block(const Statement& node);
  void execute_with(const Statement& node);
  void execute_generation(const Statement& node);
  void print(const MarkedText& text);
  MarkedText capture(const Body& body);
  void assign(const Target& target, const Value& value);
  Value make_macro(const Macro& macro);
  Value call_macro(const Macro& macro, const std::shared_ptr<Scope>& closure, const Arguments& arguments);
  void bind_parameters(const Macro& macro, const Arguments& arguments);

  // expressions (evaluate.cpp)
  Value evaluate(const Expr& node);
  Value evaluate_name(const Expr& node);
  Value evaluate_sequence(const Expr& node);
  Value evaluate_dict(const Expr& node);
  Value evaluate_item(const Expr& node);
  Value evaluate_slice(const Value& object, const Expr& node);
  Value evaluate_call(const Expr& node);
  Value evaluate_filter(const Expr& node, const Value& input);
  Value evaluate_chain(const Expr& node, const Value& input);
  Value evaluate_test(const Expr& node);
  Value evaluate_compare(const Expr& node);
  Value evaluate_concat(const Expr& node);
  Value evaluate_conditional(const Expr& node);
  Arguments evaluate_arguments(const CallArguments& written);

  const Tree& tree_;
  Limits limits_;
  std::optional<int64_t> now_;
  std::shared_ptr<Scope> scope_;
  TextBuilder* out_ = nullptr;
  int64_t steps_left_ = 0;
  int depth_ = 0;
  int line_ = 1;
  // Macros hold the scope that holds them, and namespaces may hold themselves. The interpreter cuts
  // both cycles at its end.
  std::vector<std::shared_ptr<Scope>> captured_scopes_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

// --- rules that builtins share with expressions (operators.cpp, access.cpp) ---
Value arithmetic(Interpreter& interpreter, std::string_view op, const Value& left, const Value& right);
Value negated(const Value& value);
// Returns object.name: methods and attributes first, then items; an undefined value if there is
// neither.
Value get_attribute(const Value& object, const std::string& name);
// Returns object[key]: items first, then attributes.
Value get_item(const Value& object, const Value& key);
Value slice(Interpreter& interpreter, const Value& object, const Value& start, const Value& stop,
            const Value& step);

}  // namespace forge::jinja
