// Equality, order and membership by Python's rules.
#include <algorithm>
#include <cmath>

#include "core/lib/text/jinja/value.h"

namespace forge::jinja {
namespace {

bool equal_sequences(const Sequence& left, const Sequence& right) {
  if (left.kind != right.kind || left.items.size() != right.items.size()) return false;
  if (left.kind == SequenceKind::generator || left.kind == SequenceKind::dict_values) return &left == &right;
  return std::equal(left.items.begin(), left.items.end(), right.items.begin(), equal);
}

bool equal_dicts(const Dict& left, const Dict& right) {
  if (left.entries.size() != right.entries.size()) return false;
  return std::all_of(left.entries.begin(), left.entries.end(), [&](const auto& entry) {
    const Value* other = right.find(entry.first);
    return other && equal(entry.second, *other);
  });
}

// Compares exactly: an int64 is not rounded to double first.
int compare_numbers(const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) {
    const int64_t a = left.integer(), b = right.integer();
    return a < b ? -1 : a > b;
  }
  const long double a = left.is_float() ? left.number() : static_cast<long double>(left.integer());
  const long double b = right.is_float() ? right.number() : static_cast<long double>(right.integer());
  return a < b ? -1 : a > b;
}

bool is_nan(const Value& value) { return value.is_float() && std::isnan(value.number()); }

}  // namespace

bool equal(const Value& left, const Value& right) {
  if (left.is_number() && right.is_number())
    return !is_nan(left) && !is_nan(right) && compare_numbers(left, right) == 0;
  if (left.is_text() && right.is_text()) return left.bytes() == right.bytes();
  if (left.is_none() || right.is_none()) return left.is_none() && right.is_none();
  if (left.is_undefined() || right.is_undefined()) return left.is_undefined() && right.is_undefined();
  if (left.is_sequence() && right.is_sequence())
    return left.identity() == right.identity() || equal_sequences(left.sequence(), right.sequence());
  if (left.is_dict() && right.is_dict())
    return left.identity() == right.identity() || equal_dicts(left.dict(), right.dict());
  if (left.is_number() || right.is_number() || left.is_text() || right.is_text()) return false;
  return left.identity() == right.identity();
}

int compare(const Value& left, const Value& right) {
  if (left.is_undefined()) undefined_fault(left);
  if (right.is_undefined()) undefined_fault(right);
  if (left.is_number() && right.is_number()) return compare_numbers(left, right);
  if (left.is_text() && right.is_text()) return left.bytes().compare(right.bytes());
  const bool lists = left.is_array() && right.is_sequence(left.sequence().kind);
  if (!lists)
    fault("'<' not supported between instances of '" + type_name(left) + "' and '" + type_name(right) + "'");
  const auto& a = left.items();
  const auto& b = right.items();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (!equal(a[i], b[i])) return compare(a[i], b[i]);
  return a.size() < b.size() ? -1 : a.size() > b.size();
}

bool contains(const Value& container, const Value& item) {
  if (container.is_undefined()) return false;
  if (container.is_text()) {
    if (!item.is_text()) fault("'in <string>' requires string as left operand, not " + type_name(item));
    return container.bytes().find(item.bytes()) != std::string::npos;
  }
  if (container.is_dict()) return container.dict().find(item) != nullptr;
  if (!container.is_sequence()) fault("argument of type '" + type_name(container) + "' is not iterable");
  const auto items = iterate(container);
  return std::any_of(items->items.begin(), items->items.end(),
                     [&](const Value& candidate) { return equal(candidate, item); });
}

}  // namespace forge::jinja
