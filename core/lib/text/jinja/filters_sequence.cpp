// Filters that reorder, group or reduce sequences.
#include <algorithm>

#include "core/lib/base/text.h"
#include "core/lib/text/jinja/builtins.h"
#include "core/lib/text/jinja/text_operations.h"

namespace forge::jinja {

// Follows "a.b.0": item a, then b, then 0. An int is an index. The rules are those of jinja2's
// make_attrgetter.
Value attribute_path(const Value& item, const Value& attribute, const Value* otherwise) {
  if (attribute.is_none()) return item;
  if (attribute.is_int()) {
    const Value found = get_item(item, attribute);
    return found.is_undefined() && otherwise ? *otherwise : found;
  }
  if (!attribute.is_text()) fault("an attribute must be str or int, not " + type_name(attribute));
  Value value = item;
  for (const std::string& part : split(attribute.bytes(), '.')) {
    const bool number =
        !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
    value = get_item(value, number ? Value(int64_t{std::stoi(part)}) : Value::text(part));
    if (value.is_undefined() && otherwise) value = *otherwise;
  }
  return value;
}

namespace {

Value folded(const Value& value, bool case_sensitive) {
  return !case_sensitive && value.is_text() ? Value(lower(value.text())) : value;
}

struct Keyed {
  Value key;
  Value item;
};

std::vector<Keyed> keyed(Interpreter& interpreter, const Value& self, const Value& attribute,
                         bool case_sensitive, const Value* otherwise = nullptr) {
  std::vector<Keyed> rows;
  for (const Value& item : walk(interpreter, self))
    rows.push_back({folded(attribute_path(item, attribute, otherwise), case_sensitive), item});
  return rows;
}

void sort_rows(Interpreter& interpreter, std::vector<Keyed>& rows, bool reverse) {
  interpreter.spend(static_cast<int64_t>(rows.size()));
  std::stable_sort(rows.begin(), rows.end(), [&](const Keyed& left, const Keyed& right) {
    interpreter.spend(1 + std::min(weight_of(left.key), weight_of(right.key)));
    return reverse ? compare(right.key, left.key) < 0 : compare(left.key, right.key) < 0;
  });
}

Value sorted(Interpreter& interpreter, std::vector<Keyed> rows, bool reverse) {
  sort_rows(interpreter, rows, reverse);
  std::vector<Value> items;
  for (Keyed& row : rows) items.push_back(std::move(row.item));
  return list_of(std::move(items));
}

// Several attributes, "a,b", make a list as the key.
Value filter_sort(Interpreter& interpreter, const Value& self, const Bound& arguments) {
  const bool reverse = arguments.flag(0, false), case_sensitive = arguments.flag(1, false);
  const Value attribute = arguments.value(2);
  if (!attribute.is_text() || attribute.bytes().find(',') == std::string::npos)
    return sorted(interpreter, keyed(interpreter, self, attribute, case_sensitive), reverse);
  std::vector<Keyed> rows;
  for (const Value& item : walk(interpreter, self)) {
    std::vector<Value> keys;
    for (const std::string& part : split(attribute.bytes(), ','))
      keys.push_back(folded(attribute_path(item, Value::text(part), nullptr), case_sensitive));
    rows.push_back({list_of(std::move(keys)), item});
  }
  return sorted(interpreter, std::move(rows), reverse);
}

Value filter_unique(Interpreter& interpreter, const Value& self, const Bound& arguments) {
  Dict seen;
  std::vector<Value> items;
  for (const Keyed& row : keyed(interpreter, self, arguments.value(1), arguments.flag(0, false))) {
    interpreter.spend(row.key.is_text() ? 1 : 1 + static_cast<int64_t>(seen.entries.size()) / 8);
    if (seen.find(row.key)) continue;
    seen.set(row.key, {});
    items.push_back(row.item);
  }
  return generator_of(std::move(items));
}

Value extreme(Interpreter& interpreter, const Value& self, const Bound& arguments, int sign) {
  const auto rows = keyed(interpreter, self, arguments.value(1), arguments.flag(0, false));
  if (rows.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const Keyed* best = &rows[0];
  for (const Keyed& row : rows) {
    interpreter.spend(weight_of(row.key));
    if (sign * compare(row.key, best->key) > 0) best = &row;
  }
  return best->item;
}

Value filter_first(Interpreter&, const Value& self, const Bound&) {
  if (self.is_text() && !self.bytes().empty()) return get_item(self, Value(int64_t{0}));
  const auto items = iterate(self);
  return items->items.empty() ? Value::undefined("No first item, sequence was empty.") : items->items.front();
}

Value filter_last(Interpreter&, const Value& self, const Bound&) {
  if (self.is_generator()) fault("'generator' object is not reversible");
  if (self.is_text() && !self.bytes().empty()) return get_item(self, Value(int64_t{-1}));
  const auto items = iterate(self);
  return items->items.empty() ? Value::undefined("No last item, sequence was empty.") : items->items.back();
}

Value filter_reverse(Interpreter& interpreter, const Value& self, const Bound&) {
  if (self.is_undefined()) undefined_fault(self);
  auto items = walk(interpreter, self).sequence->items;
  std::reverse(items.begin(), items.end());
  if (!self.is_text())
    return self.is_generator() ? list_of(std::move(items)) : generator_of(std::move(items));
  std::vector<MarkedText> parts;
  for (const Value& item : items) parts.push_back(item.text());
  return Value(joined(interpreter, {}, parts));
}

Value filter_items(Interpreter& interpreter, const Value& self, const Bound&) {
  if (self.is_undefined()) return generator_of({});
  if (!self.is_dict()) fault("Can only get item pairs from a mapping.");
  return generator_of(pairs_of(interpreter, self.dict()));
}

Value filter_dictsort(Interpreter& interpreter, const Value& self, const Bound& arguments) {
  if (self.is_undefined()) undefined_fault(self);
  if (!self.is_dict()) fault("dictsort takes a dict, not " + type_name(self));
  const std::string by = arguments.has(1) ? arguments.text(1).bytes : "key";
  if (by != "key" && by != "value") fault("You can only sort by either \"key\" or \"value\"");
  std::vector<Keyed> rows;
  for (const auto& [key, value] : self.dict().entries)
    rows.push_back({folded(by == "key" ? key : value, arguments.flag(0, false)),
                    Value::list({key, value}, SequenceKind::tuple)});
  return sorted(interpreter, std::move(rows), arguments.flag(2, false));
}

Value filter_sum(Interpreter& interpreter, const Value& self, const Bound& arguments) {
  Value total = arguments.value(1, Value(int64_t{0}));
  if (total.is_text()) fault("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : walk(interpreter, self))
    total = arithmetic(interpreter, "+", total, attribute_path(item, arguments.value(0), nullptr));
  return total;
}

Value filter_batch(Interpreter& interpreter, const Value& self, const Bound& arguments) {
  const int64_t size = arguments.integer(0, 1);
  std::vector<Value> rows, row;
  for (const Value& item : walk(interpreter, self)) {
    if (static_cast<int64_t>(row.size()) == size) rows.push_back(list_of(std::exchange(row, {})));
    row.push_back(item);
  }
  if (row.empty()) return generator_of(std::move(rows));
  const bool fills = arguments.given(1);
  if (fills && size > interpreter.limits().range_items)
    fault("batches of " + std::to_string(size) + " items");
  while (fills && static_cast<int64_t>(row.size()) < size) row.push_back(*arguments[1]);
  rows.push_back(list_of(std::move(row)));
  return generator_of(std::move(rows));
}

Value filter_slice(Interpreter& interpreter, const Value& self, const Bound& arguments) {
  const auto items = walk(interpreter, self).sequence->items;
  const int64_t slices = arguments.integer(0, 1), count = static_cast<int64_t>(items.size());
  if (slices == 0) fault("integer division or modulo by zero");
  if (slices > interpreter.limits().range_items)
    fault("more than " + std::to_string(interpreter.limits().range_items) + " slices");
  interpreter.spend(std::max<int64_t>(slices, 0));
  const bool fills = arguments.given(1);
  std::vector<Value> rows;
  int64_t begin = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const int64_t size = count / slices + (i < count % slices);
    std::vector<Value> row(items.begin() + begin, items.begin() + begin + size);
    begin += size;
    if (fills && i >= count % slices) row.push_back(*arguments[1]);
    rows.push_back(list_of(std::move(row)));
  }
  return generator_of(std::move(rows));
}

// Returns groups in the order of their keys. Each is a named tuple (grouper, list).
Value filter_groupby(Interpreter& interpreter, const Value& self, const Bound& arguments) {
  const bool case_sensitive = arguments.flag(2, false);
  const Value* otherwise = arguments.given(1) ? arguments[1] : nullptr;
  std::vector<Keyed> rows = keyed(interpreter, self, *arguments[0], case_sensitive, otherwise);
  sort_rows(interpreter, rows, false);
  std::vector<Value> groups;
  for (size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    std::vector<Value> members;
    for (; end < rows.size() && equal(rows[end].key, rows[begin].key); ++end)
      members.push_back(rows[end].item);
    auto group = std::make_shared<Sequence>();
    group->kind = SequenceKind::tuple;
    group->field_names = {"grouper", "list"};
    group->items = {attribute_path(rows[begin].item, *arguments[0], otherwise), list_of(std::move(members))};
    group->depth = depth_of(group->items[1]) + 1;
    group->weight = 1 + weight_of(group->items[0]) + weight_of(group->items[1]);
    groups.push_back(Value(std::move(group)));
    if (end == begin) ++end;  // a key that does not equal itself (NaN)
  }
  return list_of(std::move(groups));
}

constexpr Builtin kSequenceFilters[] = {
    {"list", "", 0, [](I& i, const V& s, const B&) { return list_of(walk(i, s).sequence->items); }},
    {"first", "", 0, filter_first},
    {"last", "", 0, filter_last},
    {"reverse", "", 0, filter_reverse},
    {"sort", "reverse case_sensitive attribute", 0, filter_sort},
    {"unique", "case_sensitive attribute", 0, filter_unique},
    {"min", "case_sensitive attribute", 0,
     [](I& i, const V& s, const B& b) { return extreme(i, s, b, -1); }},
    {"max", "case_sensitive attribute", 0,
     [](I& i, const V& s, const B& b) { return extreme(i, s, b, 1); }},
    {"sum", "attribute start", 0, filter_sum},
    {"items", "", 0, filter_items},
    {"dictsort", "case_sensitive by reverse", 0, filter_dictsort},
    {"batch", "linecount fill_with", 1, filter_batch},
    {"slice", "slices fill_with", 1, filter_slice},
    {"groupby", "attribute default case_sensitive", 1, filter_groupby},
};

}  // namespace

std::span<const Builtin> sequence_filters() { return kSequenceFilters; }

}  // namespace forge::jinja
