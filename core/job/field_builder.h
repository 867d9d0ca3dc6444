#pragma once
// Builds the entries of the tables in fields/: the member's type gives the kind, chained calls the
// rest.
//
//   key("rank", &AdapterConfig::rank, "Width of the low-rank update.").range(1, 65536)
//
// Only those files and job_fields.cpp include it: the templates here cost compile time.
#include <optional>
#include <type_traits>
#include <utility>

#include "core/job/field.h"
#include "core/job/names.h"
#include "core/lib/base/text.h"

namespace forge {

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class M>
FieldValue read_member(const M& member) {
  if constexpr (IsOptional<M>::value)
    return member ? read_member(*member) : FieldValue();
  else if constexpr (std::is_enum_v<M>)
    return name_of(member);
  else
    return member;
}

template <class M>
void write_member(M& member, FieldValue value) {
  if constexpr (IsOptional<M>::value) {
    member.reset();
    if (!std::holds_alternative<std::monostate>(value)) write_member(member.emplace(), std::move(value));
  } else if constexpr (std::is_enum_v<M>) {
    member = enum_of<M>(std::get<std::string>(value)).value();
  } else {
    member = std::get<M>(std::move(value));
  }
}

// Kinds of the types of FieldValue, in its order. No member is a monostate.
constexpr FieldKind kKinds[] = {
    FieldKind(),
    FieldKind::boolean,    FieldKind::integer,       FieldKind::number,   FieldKind::text,
    FieldKind::texts,      FieldKind::numbers,       FieldKind::integers, FieldKind::integer_map,
    FieldKind::number_map, FieldKind::integer_lists, FieldKind::text_map, FieldKind::scalar_map,
};

template <class M>
FieldKind kind_of() {
  if constexpr (IsOptional<M>::value)
    return kind_of<typename M::value_type>();
  else if constexpr (std::is_enum_v<M>)
    return FieldKind::choice;
  else
    return kKinds[FieldValue(M()).index()];
}

struct Entry {
  Field field;
  operator Field() { return std::move(field); }

  Entry& range(double minimum, double maximum, std::string unit = "") {
    field.maximum = maximum;
    return at_least(minimum, std::move(unit));
  }
  Entry& at_least(double minimum, std::string unit = "") {
    return field.minimum = minimum, field.unit = std::move(unit), *this;
  }
  Entry& above(double minimum, std::string unit = "") {
    field.above_minimum = true;
    return at_least(minimum, std::move(unit));
  }
  Entry& below(double maximum) { return field.maximum = maximum, field.below_maximum = true, *this; }
  Entry& bytes(double minimum) { return field.kind = FieldKind::bytes, at_least(minimum); }
  Entry& seconds() { return field.kind = FieldKind::seconds, above(0); }
  Entry& length(int64_t length) { return field.length = length, *this; }
  Entry& words(std::vector<std::string> words) { return field.choices = std::move(words), *this; }
  Entry& also(std::vector<std::string> words) { return field.also = std::move(words), *this; }
  Entry& later(std::vector<std::string> words) { return field.later = std::move(words), *this; }
  Entry& automatic() { return field.automatic = true, field.optional = false, *this; }
  Entry& required() { return field.required = true, *this; }
  Entry& path() { return field.path = true, *this; }
  Entry& role(KeyRole role) { return field.role = role, *this; }
  Entry& makes_examples() { return field.makes_examples = true, *this; }
  Entry& when_unset(std::string text) { return field.when_unset = std::move(text), *this; }
  Entry& share_key(std::string key) { return field.share_key = std::move(key), *this; }
  Entry& shorthand(std::string key) { return field.shorthand = std::move(key), *this; }
};

// Returns an entry without access to its value.
inline Entry entry_of(std::string name, FieldKind kind, std::string doc, std::vector<Field> fields = {}) {
  Entry entry;
  entry.field.key = std::move(name);
  entry.field.kind = kind;
  entry.field.doc = std::move(doc);
  entry.field.fields = std::move(fields);
  return entry;
}

// Returns the entry of a plain member.
template <class S, class M>
Entry key(std::string name, M S::*member, std::string doc) {
  Entry entry = entry_of(std::move(name), kind_of<M>(), std::move(doc));
  Field& field = entry.field;
  field.optional = IsOptional<M>::value;
  if constexpr (std::is_enum_v<M>)
    field.choices = names(M());
  else if constexpr (IsOptional<M>::value)
    if constexpr (std::is_enum_v<typename M::value_type>) field.choices = names(typename M::value_type());
  field.get = [member](const void* object) { return read_member(static_cast<const S*>(object)->*member); };
  field.set = [member](void* object, FieldValue value) {
    write_member(static_cast<S*>(object)->*member, std::move(value));
  };
  return entry;
}

// Returns the entry of a struct inside the struct.
template <class S, class M>
Entry section(std::string name, M S::*member, std::string doc, std::vector<Field> fields) {
  Entry entry = entry_of(std::move(name), FieldKind::section, std::move(doc), std::move(fields));
  entry.field.member = [member](void* object) -> void* { return &(static_cast<S*>(object)->*member); };
  return entry;
}

// Returns the entry of the type of a OneOf, which decides about the other keys.
template <class Owner>
Entry type_key(std::string doc) {
  using Type = decltype(Owner().type());
  Entry entry = entry_of("type", FieldKind::choice, std::move(doc));
  Field& field = entry.field;
  field.choices = names(Type());
  field.picks_type = true;
  field.get = [](const void* object) { return name_of(static_cast<const Owner*>(object)->type()); };
  field.set = [](void* object, FieldValue value) {
    static_cast<Owner*>(object)->become(enum_of<Type>(std::get<std::string>(value)).value());
  };
  return entry;
}

// Says in the texts of a key, and of those in it, which types have it.
inline void belongs_to(Field& field, const std::vector<std::string>& types) {
  if (!field.types.empty()) return;
  field.types = types;
  field.doc = join(types, ", ") + ": " + field.doc;
  for (Field& inner : field.fields) belongs_to(inner, types);
}

// Returns the entry of a key or section that is a member of a part of Owner. Types without the part
// show its defaults, and drop what is set.
template <class Owner, class Part>
Entry of_part(Entry entry) {
  Field& field = entry.field;
  std::vector<std::string> types;
  for (auto type : Owner::template types_with<Part>()) types.push_back(name_of(type));
  belongs_to(field, types);
  if (field.kind == FieldKind::section) {
    field.member = [member = std::move(field.member)](void* object) {
      static thread_local Part dropped;
      Part* part = static_cast<Owner*>(object)->template find<Part>();
      if (!part) dropped = Part();
      return member(part ? part : &dropped);
    };
    return entry;
  }
  field.get = [get = std::move(field.get)](const void* object) {
    return get(&static_cast<const Owner*>(object)->template as<Part>());
  };
  field.set = [set = std::move(field.set)](void* object, FieldValue value) {
    if (Part* part = static_cast<Owner*>(object)->template find<Part>()) set(part, std::move(value));
  };
  return entry;
}

// Returns the entry of a section of the file whose keys are members of the struct around it.
inline Entry group(std::string name, std::string doc, std::vector<Field> fields) {
  Entry entry = entry_of(std::move(name), FieldKind::section, std::move(doc), std::move(fields));
  entry.field.member = [](void* object) { return object; };
  return entry;
}

// Returns the entry of a list of structs.
template <class S, class E>
Entry sections(std::string name, std::vector<E> S::*member, std::string doc, std::vector<Field> fields) {
  Entry entry = entry_of(std::move(name), FieldKind::sections, std::move(doc), std::move(fields));
  Field& field = entry.field;
  field.resize = [member](void* object, size_t count) {
    (static_cast<S*>(object)->*member).assign(count, E());
  };
  field.size = [member](const void* object) { return (static_cast<const S*>(object)->*member).size(); };
  field.element = [member](void* object, size_t i) -> void* {
    return &(static_cast<S*>(object)->*member)[i];
  };
  return entry;
}

}  // namespace forge
