// Executes statements.
#include <algorithm>
#include <ctime>

#include "core/lib/text/jinja/builtins.h"

namespace forge::jinja {

const Value* Scope::find(int symbol) const {
  for (const auto& [name, value] : variables)
    if (name == symbol) return &value;
  return nullptr;
}

void Scope::set(int symbol, Value value) {
  for (auto& [name, old] : variables)
    if (name == symbol) {
      old = std::move(value);
      return;
    }
  variables.emplace_back(symbol, std::move(value));
}

Interpreter::Depth::Depth(Interpreter& interpreter) : interpreter(interpreter) {
  if (++interpreter.depth_ <= interpreter.limits_.depth) return;
  --interpreter.depth_;
  fault("evaluations nested more than " + std::to_string(interpreter.limits_.depth) +
        " deep (endless recursion?)");
}

// Opens a new scope under `parent` until the end of the block.
struct Interpreter::ScopeGuard {
  ScopeGuard(Interpreter& interpreter, std::shared_ptr<Scope> parent)
      : interpreter(interpreter), outer(interpreter.scope_) {
    interpreter.scope_ = std::make_shared<Scope>(Scope{std::move(parent), {}});
  }
  explicit ScopeGuard(Interpreter& interpreter) : ScopeGuard(interpreter, interpreter.scope_) {}
  ~ScopeGuard() { interpreter.scope_ = outer; }
  Interpreter& interpreter;
  std::shared_ptr<Scope> outer;
};

Interpreter::Interpreter(const Tree& tree, const Limits& limits, std::optional<int64_t> now)
    : tree_(tree), limits_(limits), now_(now), scope_(std::make_shared<Scope>()), steps_left_(limits.steps) {
  for (size_t i = 0; i < tree.symbols.size(); ++i)
    if (const Builtin* global = find_global(tree.symbols[i]))
      scope_->set(static_cast<int>(i), bound_method({}, *global));
}

// Destroys children before their parents, so that a long chain of scopes does not recurse.
Interpreter::~Interpreter() {
  for (const auto& scope : captured_scopes_) scope->variables.clear();
  for (const auto& space : namespaces_) space->attributes.clear();
  while (!captured_scopes_.empty()) captured_scopes_.pop_back();
}

void Interpreter::set_variable(std::string_view name, const Value& value) {
  const auto found = std::find(tree_.symbols.begin(), tree_.symbols.end(), name);
  if (found != tree_.symbols.end()) scope_->set(static_cast<int>(found - tree_.symbols.begin()), value);
}

int64_t Interpreter::now() const { return now_ ? *now_ : static_cast<int64_t>(std::time(nullptr)); }

void Interpreter::spend(int64_t steps) {
  steps_left_ -= steps;
  if (steps_left_ < 0)
    fault("the template needs more than " + std::to_string(limits_.steps) + " steps (endless work?)");
}

void Interpreter::spend_text(int64_t bytes) {
  if (bytes > limits_.output_bytes)
    fault("a text of more than " + std::to_string(limits_.output_bytes) + " bytes");
  spend(bytes / 16);
}

Value Interpreter::new_namespace() {
  namespaces_.push_back(std::make_shared<Namespace>());
  spend(50);
  return Value(namespaces_.back());
}

MarkedText Interpreter::run() {
  TextBuilder out;
  out_ = &out;
  const ScopeGuard guard(*this);
  execute(tree_.body);
  return out.take();
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  for (const auto& node : body)
    if (const Flow flow = execute(*node); flow != Flow::normal) return flow;
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute(const Statement& node) {
  const Depth depth(*this);
  spend(1);
  line_ = node.line;
  switch (node.kind) {
    case StatementKind::data:
      print(node.data.text());
      break;
    case StatementKind::print: {
      const Value value = evaluate(*node.expr);
      spend(weight_of(value));
      value.is_text() ? print(value.text()) : print(to_text(value));
      break;
    }
    case StatementKind::set:
      assign(node.target, evaluate(*node.expr));
      break;
    case StatementKind::set_block:
      execute_set_block(node);
      break;
    case StatementKind::branch:
      for (const Branch& branch : node.branches)
        if (!branch.condition || truth(evaluate(*branch.condition))) return execute(branch.body);
      break;
    case StatementKind::loop:
      execute_loop(node);
      break;
    case StatementKind::break_:
      return Flow::break_;
    case StatementKind::continue_:
      return Flow::continue_;
    case StatementKind::macro:
      scope_->set(node.macro.symbol, make_macro(node.macro));
      break;
    case StatementKind::call_block:
      execute_call_block(node);
      break;
    case StatementKind::filter_block:
      execute_filter_block(node);
      break;
    case StatementKind::with:
      execute_with(node);
      break;
    case StatementKind::generation:
      execute_generation(node);
      break;
  }
  return Flow::normal;
}

void Interpreter::print(const MarkedText& text) {
  if (out_->size() + text.size() > limits_.output_bytes)
    fault("the output is longer than " + std::to_string(limits_.output_bytes) + " bytes");
  spend(text.size() / 16);
  out_->add(text);
}

bool Interpreter::loop_condition(const Statement& node, const Value& item) {
  const ScopeGuard guard(*this);
  assign(node.target, item);
  return truth(evaluate(*node.condition));
}

Interpreter::Flow Interpreter::loop_iteration(const Statement& node, const Value& item,
                                              const std::shared_ptr<LoopState>& state) {
  spend(1);
  const ScopeGuard guard(*this);
  if (node.uses_loop) scope_->set(kLoopSymbol, Value(state));
  assign(node.target, item);
  return execute(node.body);
}

// Python tests a loop's `if` item by item. Only a body that uses `loop` needs all items beforehand.
void Interpreter::execute_loop(const Statement& node) {
  const Value source = evaluate(*node.expr);
  line_ = node.line;
  auto items = iterate(source);
  spend(static_cast<int64_t>(items->items.size()) / 4);
  if (node.condition && node.uses_loop) {
    auto kept = std::make_shared<Sequence>();
    for (const Value& item : items->items)
      if (loop_condition(node, item)) kept->items.push_back(item);
    items = kept;
  }
  const auto state = std::make_shared<LoopState>(LoopState{items, 0, 0, false, {}});
  bool any = false;
  for (const Value& item : items->items) {
    if (node.condition && !node.uses_loop && !loop_condition(node, item)) continue;
    const Flow flow = loop_iteration(node, item, state);
    any |= flow == Flow::normal;  // jinja2 also runs `else` if every iteration was cut short
    if (flow == Flow::break_) break;
    ++state->index0;
  }
  if (any) return;
  const ScopeGuard guard(*this);
  execute(node.otherwise);
}

MarkedText Interpreter::capture(const Body& body) {
  TextBuilder buffer;
  TextBuilder* outer = std::exchange(out_, &buffer);
  execute(body);  // after a fault nothing is printed any more
  out_ = outer;
  return buffer.take();
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (!target.attribute.empty()) {
    const Value* object = nullptr;
    for (const Scope* scope = scope_.get(); scope && !object; scope = scope->parent.get())
      object = scope->find(target.symbol);
    if (!object || !object->is_namespace()) fault("cannot assign attribute on non-namespace object");
    spend(1);
    return object->name_space().set(target.attribute, value);
  }
  if (target.parts.empty()) return scope_->set(target.symbol, value);
  const auto items = iterate(value);
  if (items->items.size() < target.parts.size())
    fault("not enough values to unpack (expected " + std::to_string(target.parts.size()) + ", got " +
          std::to_string(items->items.size()) + ")");
  if (items->items.size() > target.parts.size())
    fault("too many values to unpack (expected " + std::to_string(target.parts.size()) + ")");
  for (size_t i = 0; i < target.parts.size(); ++i) assign(target.parts[i], items->items[i]);
}

void Interpreter::execute_set_block(const Statement& node) {
  Value value;
  {
    const ScopeGuard guard(*this);
    value = Value(capture(node.body));
    if (node.expr) value = evaluate_chain(*node.expr, value);
  }
  assign(node.target, value);
}

void Interpreter::execute_filter_block(const Statement& node) {
  const ScopeGuard guard(*this);
  const Value body(capture(node.body));
  print(to_text(evaluate_chain(*node.expr, body)));
}

void Interpreter::execute_with(const Statement& node) {
  std::vector<Value> values;
  for (const auto& [target, expr] : node.assignments) values.push_back(evaluate(*expr));
  const ScopeGuard guard(*this);
  for (size_t i = 0; i < values.size(); ++i) assign(node.assignments[i].first, values[i]);
  execute(node.body);
}

void Interpreter::execute_generation(const Statement& node) {
  const ScopeGuard guard(*this);
  const int64_t begin = out_->size();
  execute(node.body);
  spend_text(out_->size() - begin);
  out_->mark_from(begin, kGenerated);
}

Value Interpreter::make_macro(const Macro& macro) {
  if (static_cast<int64_t>(captured_scopes_.size()) >= limits_.macros)
    fault("more than " + std::to_string(limits_.macros) + " macros defined");
  captured_scopes_.push_back(scope_);
  const auto call = [&macro, closure = scope_](Interpreter& interpreter,
                                               const Arguments& arguments) {
    return interpreter.call_macro(macro, closure, arguments);
  };
  return Value(std::make_shared<const Callable>(Callable{macro.name, call, &macro}));
}

Value Interpreter::call_macro(const Macro& macro, const std::shared_ptr<Scope>& closure,
                              const Arguments& arguments) {
  const Depth depth(*this);
  const ScopeGuard guard(*this, closure);
  bind_parameters(macro, arguments);
  return Value(capture(macro.body));
}

void Interpreter::bind_parameters(const Macro& macro, const Arguments& arguments) {
  const auto named = [&](const std::string& name) { return find_named(arguments.named, name); };
  const auto is_parameter = [&](const std::string& name) {
    return std::any_of(macro.parameters.begin(), macro.parameters.end(),
                       [&](const Parameter& p) { return p.name == name; });
  };
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Parameter& parameter = macro.parameters[i];
    const Value* given = i < arguments.positional.size() ? &arguments.positional[i] : named(parameter.name);
    if (i < arguments.positional.size() && named(parameter.name))
      fault("macro '" + macro.name + "' got multiple values for argument '" + parameter.name + "'");
    if (given)
      scope_->set(parameter.symbol, *given);
    else if (parameter.default_value)
      scope_->set(parameter.symbol, evaluate(*parameter.default_value));
    else
      scope_->set(parameter.symbol, Value::undefined("parameter '" + parameter.name + "' was not provided"));
  }
  if (macro.uses_caller && !is_parameter("caller")) {
    const Value* caller = named("caller");
    scope_->set(kCallerSymbol, caller ? *caller : Value::undefined("No caller defined"));
  }
  auto extra_named = std::make_shared<Dict>();
  for (const auto& [name, value] : arguments.named) {
    if (is_parameter(name) || (name == "caller" && macro.uses_caller)) continue;
    if (!macro.uses_kwargs) fault("macro '" + macro.name + "' takes no keyword argument '" + name + "'");
    extra_named->set(Value::text(name), value);
  }
  const size_t count = macro.parameters.size();
  if (arguments.positional.size() > count && !macro.uses_varargs)
    fault("macro '" + macro.name + "' takes not more than " + std::to_string(count) + " argument(s)");
  if (macro.uses_kwargs) scope_->set(kKwargsSymbol, Value(std::shared_ptr<const Dict>(extra_named)));
  if (!macro.uses_varargs) return;
  std::vector<Value> rest;
  for (size_t i = count; i < arguments.positional.size(); ++i) rest.push_back(arguments.positional[i]);
  scope_->set(kVarargsSymbol, Value::list(std::move(rest), SequenceKind::tuple));
}

void Interpreter::execute_call_block(const Statement& node) {
  const Value callee = evaluate(*node.expr->children[0]);
  Arguments arguments = evaluate_arguments(node.expr->arguments);
  arguments.named.emplace_back("caller", make_macro(node.macro));
  line_ = node.line;
  print(to_text(call(callee, arguments)));
}

}  // namespace forge::jinja
