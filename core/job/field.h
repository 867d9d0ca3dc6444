#pragma once
// One table entry per key of a job. From these tables come the parser, its messages, defaults,
// `forge plan`'s values, docs/job.md and schemas/job.schema.json; adding a key means a member in
// job.h and an entry in fields/.
//
//   for (const Field& field : job_fields())
//     if (field.key == "seed") field.set(&job, int64_t{7});
//
// The struct's type is erased (`void*` is the struct that the table belongs to), so that everything
// that walks a table is plain code, compiled once.
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/job/job.h"

namespace forge {

enum class FieldKind {
  boolean,      // bool
  integer,      // int64_t
  number,       // double
  bytes,        // int64_t; the file may say 24GiB
  seconds,      // double; the file may say 1h30m
  text,         // std::string
  choice,       // std::string, one of `choices`
  texts,        // std::vector<std::string>; one text means a list of it
  numbers,      // std::vector<double>
  integers,     // std::vector<int64_t>
  integer_map,  // InOrder<int64_t>
  number_map,   // InOrder<double>
  text_map,     // std::map<std::string, std::string>
  scalar_map,   // std::map<std::string, Scalar>
  integer_lists,  // std::map<std::string, std::vector<int64_t>>; a plain list is the one of ""
  targets,      // all-linear, a regex (std::string), or names (std::vector<std::string>)
  section,      // a struct with its own table
  sections,     // a list of structs
};

// Effect of changing a key on a run of the same name. A section's role applies to all keys in it
// that state none of their own.
enum class KeyRole {
  none,       // not stated: a test demands one of every key
  identity,   // another job
  limit,      // another job too, but --extend may change it
  content,    // names of files: their content, or the examples', is part of the identity
  execution,  // the same job, planned again
  settings,   // changes freely: a continued run takes the new value
  free,       // changes freely: names, places, what is only evaluated on
};

// monostate: null for an optional key, auto for one that the plan decides.
using FieldValue = std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<std::string>,
                                std::vector<double>, std::vector<int64_t>, InOrder<int64_t>, InOrder<double>,
                                std::map<std::string, std::vector<int64_t>>, std::map<std::string, std::string>,
                                std::map<std::string, Scalar>>;

struct Field {
  std::string key;
  FieldKind kind = FieldKind::text;
  std::string doc;                   // one sentence for the user
  std::vector<std::string> choices;  // values of a choice; for a text, words with a special meaning
  std::vector<std::string> also;     // words that are rewritten before the parser sees them
  std::vector<std::string> later;    // choices of other tools that forge does not have yet
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool above_minimum = false;  // the minimum itself is out
  bool below_maximum = false;  // the maximum itself is out
  int64_t length = 0;          // items that a list must have; 0: any number
  bool automatic = false;      // may be `auto`: the plan decides
  bool optional = false;       // null has a meaning of its own: "not set"
  bool required = false;
  bool path = false;          // relative to the file that states it
  KeyRole role = KeyRole::none;
  // True if it affects which examples rows give, so that it is part of the token cache's key. Not
  // stated inside lists.
  bool makes_examples = false;
  std::string unit;           // tokens, examples, steps …
  std::string when_unset;     // meaning of null or the default, if the value alone does not tell it
  std::string share_key;      // the key to use for a share instead of a count
  bool picks_type = false;    // the section's type, which decides about its other keys
  std::vector<std::string> types;  // types that have the key; empty: all
  std::string shorthand;      // sections and lists of sections: the member that a plain text sets
  std::vector<Field> fields;  // keys of a section

  std::function<FieldValue(const void*)> get;
  std::function<void(void*, FieldValue)> set;
  std::function<void*(void*)> member;           // section: its struct
  std::function<void(void*, size_t)> resize;    // sections
  std::function<size_t(const void*)> size;      // sections
  std::function<void*(void*, size_t)> element;  // sections
  const void* member_of(const void* object) const { return member(const_cast<void*>(object)); }
};

// Returns the table of the whole job, section by section. It is constant.
const std::vector<Field>& job_fields();

// Returns every dotted key below `fields` ("adapter.rank"), sections included.
std::vector<std::string> dotted_keys(const std::vector<Field>& fields, const std::string& prefix = "");
// Returns the dotted keys of a job that hold a value of their own: no sections, nothing inside
// lists of structs.
std::vector<std::string> value_keys();
// Returns the value_keys() of `role`.
std::vector<std::string> keys_of_role(KeyRole role);
// Like keys_of_role(), for keys that decide which examples the rows give.
std::vector<std::string> keys_that_make_examples();
// Returns the keys of a table, without those inside its sections.
std::vector<std::string> keys_of(const std::vector<Field>& fields);
// Returns the words that a file may have for a key with choices.
std::vector<std::string> accepted_words(const Field& field);
// Returns the entry of a key in a table; nullptr if there is none.
const Field* field_of(const std::vector<Field>& fields, const std::string& key);
// Returns the entry of a dotted key; nullptr if there is none.
const Field* find_field(const std::string& dotted);
// True if a key belongs to the items of a list ("data.train.path"), so that it has no single value
// in a job.
bool inside_list(const std::string& dotted);
// Returns "1 to 65536", "above 0", "0 or more", "0 to below 1"; empty without limits.
std::string range_text(const Field& field);

}  // namespace forge
