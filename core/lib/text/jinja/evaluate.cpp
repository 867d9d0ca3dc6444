// Evaluates expressions.
#include "core/lib/text/jinja/builtins.h"

namespace forge::jinja {

Value Interpreter::evaluate(const Expr& node) {
  const Depth depth(*this);
  spend(1);
  line_ = node.line;
  const auto child = [&](size_t index) { return evaluate(*node.children[index]); };
  switch (node.kind) {
    case ExprKind::constant:
      return node.value;
    case ExprKind::name:
      return evaluate_name(node);
    case ExprKind::list:
    case ExprKind::tuple:
      return evaluate_sequence(node);
    case ExprKind::dict:
      return evaluate_dict(node);
    case ExprKind::attribute:
      return get_attribute(child(0), node.text);
    case ExprKind::item:
      return evaluate_item(node);
    case ExprKind::slice:
      fault("a slice is allowed only between '[' and ']'");
    case ExprKind::call:
      return evaluate_call(node);
    case ExprKind::filter:
      return evaluate_filter(node, child(0));
    case ExprKind::test:
      return evaluate_test(node);
    case ExprKind::negate:
      return negated(child(0));
    case ExprKind::plus: {
      const Value value = child(0);
      if (value.is_undefined()) undefined_fault(value);
      if (!value.is_number()) fault("bad operand type for unary +: '" + type_name(value) + "'");
      return value.is_bool() ? Value(value.integer()) : value;
    }
    case ExprKind::logical_not:
      return Value(!truth(child(0)));
    case ExprKind::logical_and: {
      Value left = child(0);
      return truth(left) ? child(1) : left;
    }
    case ExprKind::logical_or: {
      Value left = child(0);
      return truth(left) ? left : child(1);
    }
    case ExprKind::conditional:
      return evaluate_conditional(node);
    case ExprKind::compare:
      return evaluate_compare(node);
    case ExprKind::arithmetic: {
      const Value left = child(0);
      const Value right = child(1);
      line_ = node.line;
      return arithmetic(*this, node.text, left, right);
    }
    case ExprKind::concat:
      return evaluate_concat(node);
  }
  return {};
}

Value Interpreter::evaluate_name(const Expr& node) {
  int distance = 0;
  for (const Scope* scope = scope_.get(); scope; scope = scope->parent.get(), ++distance)
    if (const Value* value = scope->find(node.symbol)) {
      spend(distance / 8);
      return *value;
    }
  return Value::undefined("'" + node.text + "' is undefined");
}

Value Interpreter::evaluate_sequence(const Expr& node) {
  std::vector<Value> items;
  items.reserve(node.children.size());
  for (const ExprPtr& child : node.children) items.push_back(evaluate(*child));
  return Value::list(std::move(items),
                     node.kind == ExprKind::list ? SequenceKind::list : SequenceKind::tuple);
}

Value Interpreter::evaluate_dict(const Expr& node) {
  auto dict = std::make_shared<Dict>();
  for (size_t i = 0; i < node.children.size(); i += 2) {
    Value key = evaluate(*node.children[i]);
    dict->set(std::move(key), evaluate(*node.children[i + 1]));
  }
  return Value(std::move(dict));
}

Value Interpreter::evaluate_item(const Expr& node) {
  const Value object = evaluate(*node.children[0]);
  const Expr& index = *node.children[1];
  if (index.kind == ExprKind::slice) return evaluate_slice(object, index);
  const Value key = evaluate(index);
  line_ = node.line;
  return get_item(object, key);
}

Value Interpreter::evaluate_slice(const Value& object, const Expr& node) {
  Value parts[3];
  for (int i = 0; i < 3; ++i)
    if (node.children[i]) parts[i] = evaluate(*node.children[i]);
  line_ = node.line;
  return slice(*this, object, parts[0], parts[1], parts[2]);
}

Arguments Interpreter::evaluate_arguments(const CallArguments& written) {
  Arguments arguments;
  for (const ExprPtr& argument : written.positional) arguments.positional.push_back(evaluate(*argument));
  for (const auto& [name, argument] : written.named) {
    if (find_named(arguments.named, name)) fault("keyword argument repeated: " + name);
    arguments.named.emplace_back(name, evaluate(*argument));
  }
  if (written.extra_positional) {
    const auto extra = iterate(evaluate(*written.extra_positional));
    spend(static_cast<int64_t>(extra->items.size()));
    arguments.positional.insert(arguments.positional.end(), extra->items.begin(), extra->items.end());
  }
  if (!written.extra_named) return arguments;
  const Value extra = evaluate(*written.extra_named);
  if (!extra.is_dict()) fault("argument after ** must be a mapping, not " + type_name(extra));
  for (const auto& [key, value] : extra.dict().entries) {
    if (!key.is_text()) fault("keywords must be strings");
    if (find_named(arguments.named, key.bytes()))
      fault("got multiple values for keyword argument '" + key.bytes() + "'");
    arguments.named.emplace_back(key.bytes(), value);
  }
  return arguments;
}

// Calls a method without building the bound method first.
Value Interpreter::evaluate_call(const Expr& node) {
  const Expr& callee = *node.children[0];
  if (callee.kind != ExprKind::attribute) {
    const Value function = evaluate(callee);
    const Arguments arguments = evaluate_arguments(node.arguments);
    line_ = node.line;
    return call(function, arguments);
  }
  const Value object = evaluate(*callee.children[0]);
  const Builtin* method = find_method(object, callee.text);
  const Value function = method ? Value() : get_attribute(object, callee.text);
  const Arguments arguments = evaluate_arguments(node.arguments);
  line_ = node.line;
  return method ? call_builtin(*method, *this, object, arguments) : call(function, arguments);
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  spend(1);
  if (callee.is_callable()) return callee.callable().call(*this, arguments);
  if (callee.is_undefined()) undefined_fault(callee);
  if (callee.is_loop()) fault("recursive loops are not supported");
  fault("'" + type_name(callee) + "' object is not callable");
}

Value Interpreter::apply_filter(const std::string& name, const Value& input, const Arguments& arguments) {
  const Builtin* filter = find_filter(name);
  if (!filter) fault("No filter named '" + name + "'.");
  spend(1);
  return call_builtin(*filter, *this, input, arguments);
}

bool Interpreter::apply_test(const std::string& name, const Value& input, const Arguments& arguments) {
  const Builtin* test = find_test(name);
  if (!test) fault("No test named '" + name + "'.");
  spend(1);
  return truth(call_builtin(*test, *this, input, arguments));
}

// Applies a chain of filters. In {% filter a|b %} and {% set x | a | b %} it ends in an empty
// place, which the body fills.
Value Interpreter::evaluate_chain(const Expr& node, const Value& input) {
  return evaluate_filter(node, node.children[0] ? evaluate_chain(*node.children[0], input) : input);
}

Value Interpreter::evaluate_filter(const Expr& node, const Value& input) {
  const Arguments arguments = evaluate_arguments(node.arguments);
  line_ = node.line;
  return apply_filter(node.text, input, arguments);
}

Value Interpreter::evaluate_test(const Expr& node) {
  const Value value = evaluate(*node.children[0]);
  const Arguments arguments = evaluate_arguments(node.arguments);
  line_ = node.line;
  return Value(apply_test(node.text, value, arguments));
}

Value Interpreter::evaluate_compare(const Expr& node) {
  Value left = evaluate(*node.children[0]);
  for (size_t i = 0; i < node.ops.size(); ++i) {
    Value right = evaluate(*node.children[i + 1]);
    line_ = node.line;
    spend(weight_of(right) / 4);
    if (!node.ops[i](left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

// The result is plain text even if a part is safe: without autoescape jinja2 joins by str.
Value Interpreter::evaluate_concat(const Expr& node) {
  TextBuilder out;
  for (const ExprPtr& child : node.children) {
    const Value part = evaluate(*child);
    spend_text(16 * weight_of(part));
    part.is_text() ? out.add(part.text()) : out.add(to_text(part));
  }
  return Value(out.take());
}

Value Interpreter::evaluate_conditional(const Expr& node) {
  if (truth(evaluate(*node.children[0]))) return evaluate(*node.children[1]);
  if (node.children[2]) return evaluate(*node.children[2]);
  return Value::undefined("the inline if-expression on line " + std::to_string(node.line) +
                          " evaluated to false and no else section was defined.");
}

}  // namespace forge::jinja
