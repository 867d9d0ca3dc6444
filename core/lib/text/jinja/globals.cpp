// The functions that every template sees.
#include <algorithm>
#include <ctime>

#include "core/lib/text/jinja/builtins.h"

namespace forge::jinja {
namespace {

Value global_range(Interpreter& interpreter, const Value&, const Bound& arguments) {
  const bool one = !arguments.has(1);
  const int64_t start = one ? 0 : arguments.integer(0, 0);
  const int64_t stop = arguments.integer(one ? 0 : 1, 0);
  const int64_t step = arguments.integer(2, 1);
  if (step == 0) fault("range() arg 3 must not be zero");
  const __int128 span = step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  const __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  const __int128 count = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (count > interpreter.limits().range_items)
    fault("Range too big. The sandbox blocks ranges larger than MAX_RANGE (" +
          std::to_string(interpreter.limits().range_items) + ").");
  interpreter.spend(static_cast<int64_t>(count) / 4);
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) items.push_back(Value(start + i * step));
  auto range = std::make_shared<Sequence>();
  range->kind = SequenceKind::range;
  range->weight += static_cast<int64_t>(count);
  range->items = std::move(items);
  range->shown = "range(" + std::to_string(start) + ", " + std::to_string(stop) +
                 (step == 1 ? ")" : ", " + std::to_string(step) + ")");
  return Value(std::move(range));
}

// Returns the entries given to dict(...) and namespace(...): a mapping or pairs, then keywords.
std::vector<std::pair<Value, Value>> entries_of(const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1)
    fault("dict expected at most 1 argument, got " + std::to_string(arguments.positional.size()));
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is_dict()) {
      entries = source.dict().entries;
    } else {
      const auto pairs = iterate(source);
      for (const Value& item : pairs->items) {
        const auto both = iterate(item);
        if (both->items.size() != 2)
          fault("dictionary update sequence element has length " + std::to_string(both->items.size()) +
                "; 2 is required");
        entries.emplace_back(both->items[0], both->items[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) entries.emplace_back(Value::text(name), value);
  return entries;
}

Value global_dict(Interpreter& interpreter, const Value&, const Bound& arguments) {
  auto dict = std::make_shared<Dict>();
  for (auto& [key, value] : entries_of(arguments.raw)) {
    interpreter.spend(1);
    dict->set(key, value);
  }
  return Value(std::move(dict));
}

Value global_namespace(Interpreter& interpreter, const Value&, const Bound& arguments) {
  Value space = interpreter.new_namespace();
  for (auto& [key, value] : entries_of(arguments.raw)) {
    if (!key.is_text()) fault("the attributes of a namespace are named by str");
    space.name_space().set(key.bytes(), value);
  }
  return space;
}

Value global_raise(Interpreter& interpreter, const Value&, const Bound& arguments) {
  const std::string message = printed(interpreter, *arguments[0]).bytes;
  fault(message.empty() ? "the template raised an exception without a message" : message);
}

Value global_strftime_now(Interpreter& interpreter, const Value&, const Bound& arguments) {
  const std::string& format = arguments.text(0).bytes;
  if (format.size() > 1000) fault("strftime_now: a format of more than 1000 bytes");
  const std::time_t now = interpreter.now();
  std::tm local{};
  localtime_r(&now, &local);
  std::string buffer(16384, '\0');
  // A leading space distinguishes an empty result from a buffer that is too small.
  buffer.resize(std::strftime(buffer.data(), buffer.size(), (" " + format).c_str(), &local));
  return Value::text(buffer.empty() ? "" : buffer.substr(1));
}

Value function(std::string name, std::function<Value(Interpreter&, const Arguments&)> call) {
  return Value(std::make_shared<const Callable>(Callable{std::move(name), std::move(call)}));
}

Value global_joiner(Interpreter&, const Value&, const Bound& arguments) {
  auto used = std::make_shared<bool>(false);
  const Value separator = arguments.value(0, Value::text(", "));
  return function("joiner", [used, separator](Interpreter&, const Arguments&) {
    return std::exchange(*used, true) ? separator : Value::text("");
  });
}

// Returns a namespace with next(), reset() and current as attributes, which the functions update.
Value global_cycler(Interpreter& interpreter, const Value&, const Bound& arguments) {
  const auto items = arguments.raw.positional;
  if (items.empty()) fault("at least one item has to be provided");
  Value cycler = interpreter.new_namespace();
  Namespace* space = &cycler.name_space();  // the interpreter keeps it alive
  auto at = std::make_shared<size_t>(0);
  space->set("current", items[0]);
  space->set("next", function("next", [=](Interpreter&, const Arguments&) {
               const Value value = items[*at];
               *at = (*at + 1) % items.size();
               space->set("current", items[*at]);
               return value;
             }));
  space->set("reset", function("reset", [=](Interpreter&, const Arguments&) {
               *at = 0;
               space->set("current", items[0]);
               return Value();
             }));
  return cycler;
}

constexpr Builtin kGlobals[] = {
    {"range", "start stop step", 1, global_range},
    {"dict", "*", 0, global_dict},
    {"namespace", "*", 0, global_namespace},
    {"raise_exception", "message", 1, global_raise},
    {"strftime_now", "format", 1, global_strftime_now},
    {"joiner", "sep", 0, global_joiner},
    {"cycler", "*", 0, global_cycler},
};

}  // namespace

std::span<const Builtin> globals() { return kGlobals; }

}  // namespace forge::jinja
