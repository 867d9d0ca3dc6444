#pragma once
// The values of the template language: Python's None, bool, int, float, str, list, tuple, dict and
// the few objects of jinja2 (undefined, namespace, loop, macro, methods). Containers are shared and
// never change once built, except a namespace.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "core/lib/io/json.h"
#include "core/lib/text/jinja/marked_text.h"

namespace forge::jinja {

class Value;
class Interpreter;
struct Macro;
struct LoopState;

// A fault of the template while it renders; the interpreter adds the template's name and the line.
struct RenderFault {
  std::string message;
};
[[noreturn]] void fault(const std::string& message);

// Value of a missing name: prints as nothing, fails when used. An unsafe one stands for a method
// that would change a list or dict.
struct Undefined {
  std::string message;  // "'x' is undefined"
};

// Kind of a sequence. A generator has no length and no items and can be walked once; views know
// their length.
enum class SequenceKind { list, tuple, range, generator, dict_keys, dict_values, dict_items };

struct Sequence {
  SequenceKind kind = SequenceKind::list;
  std::vector<Value> items;
  bool from_data = false;
  int depth = 1;
  int64_t weight = 1;
  mutable bool consumed = false;         // generators only
  std::vector<std::string> field_names;  // names of a named tuple (groupby); empty otherwise
  std::string shown;                     // a range as Python prints it
};

struct Dict;
struct Namespace;
struct Callable;

using Text = std::shared_ptr<const MarkedText>;

class Value {
 public:
  using None = std::monostate;
  Value() = default;  // None
  explicit Value(bool value) : data_(value) {}
  explicit Value(int64_t value) : data_(value) {}
  explicit Value(double value) : data_(value) {}
  explicit Value(MarkedText text) : data_(std::make_shared<const MarkedText>(std::move(text))) {}
  template <class Content>
  explicit Value(std::shared_ptr<Content> content) : data_(std::move(content)) {}
  static Value text(std::string bytes, Mark mark = kFromTemplate) {
    return Value(MarkedText(std::move(bytes), mark));
  }
  static Value undefined(std::string message);
  static Value list(std::vector<Value> items, SequenceKind kind = SequenceKind::list, bool from_data = false);

  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_undefined() const { return std::holds_alternative<std::shared_ptr<const Undefined>>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_int() const { return std::holds_alternative<int64_t>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_integral() const { return is_int() || is_bool(); }
  bool is_number() const { return is_integral() || is_float(); }
  bool is_text() const { return std::holds_alternative<Text>(data_); }
  bool is_sequence() const { return std::holds_alternative<std::shared_ptr<const Sequence>>(data_); }
  bool is_dict() const { return std::holds_alternative<std::shared_ptr<const Dict>>(data_); }
  bool is_namespace() const { return std::holds_alternative<std::shared_ptr<Namespace>>(data_); }
  bool is_callable() const { return std::holds_alternative<std::shared_ptr<const Callable>>(data_); }
  bool is_loop() const { return std::holds_alternative<std::shared_ptr<LoopState>>(data_); }
  bool is_sequence(SequenceKind kind) const { return is_sequence() && sequence().kind == kind; }
  bool is_generator() const { return is_sequence(SequenceKind::generator); }
  // True for a list or a tuple; true for a range too.
  bool is_array() const { return is_sequence() && sequence().kind <= SequenceKind::tuple; }
  bool is_indexed() const { return is_sequence() && sequence().kind <= SequenceKind::range; }

  // Return the content. The caller must check the kind before.
  bool boolean() const { return std::get<bool>(data_); }
  int64_t integer() const { return is_bool() ? (boolean() ? 1 : 0) : std::get<int64_t>(data_); }
  double number() const { return is_float() ? std::get<double>(data_) : static_cast<double>(integer()); }
  const MarkedText& text() const { return *std::get<Text>(data_); }
  const std::string& bytes() const { return text().bytes; }
  const Undefined& undefined() const { return *std::get<std::shared_ptr<const Undefined>>(data_); }
  const Sequence& sequence() const { return *std::get<std::shared_ptr<const Sequence>>(data_); }
  const std::vector<Value>& items() const { return sequence().items; }
  std::shared_ptr<const Sequence> shared_sequence() const {
    return std::get<std::shared_ptr<const Sequence>>(data_);
  }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  Namespace& name_space() const { return *std::get<std::shared_ptr<Namespace>>(data_); }
  const Callable& callable() const { return *std::get<std::shared_ptr<const Callable>>(data_); }
  LoopState& loop() const { return *std::get<std::shared_ptr<LoopState>>(data_); }
  const void* identity() const;
  size_t alternative() const { return data_.index(); }

 private:
  std::variant<None, bool, int64_t, double, Text, std::shared_ptr<const Undefined>,
               std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>, std::shared_ptr<Namespace>,
               std::shared_ptr<const Callable>, std::shared_ptr<LoopState>>
      data_;
};

// Keys keep their order. In a large dict, text keys are found through an index.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  bool from_data = false;
  int depth = 1;
  int64_t weight = 1;

  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  // Adds or replaces an entry. Allowed only while the dict is being built.
  void set(Value key, Value value);

 private:
  // Maps text keys to their entries, which hold the texts; filled from 16 entries on.
  std::unordered_map<std::string_view, size_t> index_;
};

using NamedValues = std::vector<std::pair<std::string, Value>>;

// Returns the value of that name; null if there is none.
const Value* find_named(const NamedValues& values, std::string_view name);

struct Namespace {
  NamedValues attributes;
  void set(std::string_view name, Value value);
};

// Arguments of a call, filter or test.
struct Arguments {
  std::vector<Value> positional;
  NamedValues named;
};

struct Callable {
  std::string name;
  std::function<Value(Interpreter&, const Arguments&)> call;
  const Macro* macro = nullptr;  // for its attributes
};

struct LoopState {
  std::shared_ptr<const Sequence> items;
  int64_t index0 = 0;
  int depth0 = 0;
  bool changed_before = false;
  std::vector<Value> last_changed;
};

// --- Python's rules (value.cpp, compare.cpp) ---
bool truth(const Value& value);
// Returns the nesting of containers inside the value; 0 for scalars. More than kMaxDepth is refused
// when a container is built.
int depth_of(const Value& value);
constexpr int kMaxDepth = 100;
// Returns the work to visit the whole value: one for each value inside and for every 16 bytes of
// text. Shared parts count each time, so a small graph that prints as an endless tree is refused
// when it is built.
int64_t weight_of(const Value& value);
constexpr int64_t kMaxWeight = 50'000'000;
std::string type_name(const Value& value);    // "int", "dict", "NoneType"
std::string object_name(const Value& value);  // in jinja2's form: "'dict object'", "'None'"
bool equal(const Value& left, const Value& right);
// Returns a negative, zero or positive number. Faults when Python would raise TypeError.
int compare(const Value& left, const Value& right);
bool contains(const Value& container, const Value& item);
int64_t length_of(const Value& value);
// Returns the items that `for` visits: list items, dict keys, characters; a generator is used up.
std::shared_ptr<const Sequence> iterate(const Value& value);
[[noreturn]] void undefined_fault(const Value& value);

// --- printing (print.cpp) ---
std::string float_text(double value);           // repr(float)
MarkedText to_text(const Value& value);         // str(value)
MarkedText representation(const Value& value);  // repr(value)
std::string repr_of_text(std::string_view text);

// --- JSON (json_values.cpp) ---
// Returns the value with everything in it marked as data.
Value value_of_json(const Json& json);
struct JsonStyle {
  bool ensure_ascii = false;
  bool indented = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
// Returns json.dumps(value, …).
MarkedText json_text(const Value& value, const JsonStyle& style);

}  // namespace forge::jinja
