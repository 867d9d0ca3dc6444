#pragma once
// One table entry per key of a job. From these tables come the parser, its messages, defaults, `forge plan`'s
// values, docs/job.md and schemas/job.schema.json; adding a key means a member in job.h and an entry in
// fields/.
//
//   for (const Field& field : job_fields())
//     if (field.key == "seed") field.set(&job, int64_t{7});
//
// The struct's type is erased (`void*` is the struct that the table belongs to), so that everything that
// walks a table is plain code, compiled once.
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/config/job.h"

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

// What changing a key means to a run of the same name. A section's role applies to all keys in it that state
// none of their own.
enum class KeyRole {
  none,       // not stated: a test demands one of every key
  identity,   // another job
  limit,      // another job too, but --extend may change it
  content,    // names of files: the identity has their content, or that of the examples
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
  std::vector<std::string> choices;  // of a choice; for a text, words with a special meaning
  std::vector<std::string> also;     // words that are rewritten before the parser sees them
  std::vector<std::string> later;    // choices of other tools that forge does not have yet
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool above_minimum = false;  // the minimum itself is out
  bool below_maximum = false;  // the maximum itself is out
  int64_t length = 0;          // of a list: exactly so many items; 0: any
  bool automatic = false;      // may be `auto`: the plan decides
  bool optional = false;       // null has a meaning of its own: "not set"
  bool required = false;
  bool path = false;          // relative to the file that states it
  KeyRole role = KeyRole::none;
  bool makes_examples = false;  // affects which examples rows give, so it is part of the token cache's key
  std::string unit;           // tokens, examples, seconds …
  std::string when_unset;     // what null or the default means, if the value alone does not tell
  std::string share_key;      // the key to use for a share instead of a count
  std::string shorthand;      // of a section or list of sections: the member that a plain text stands for
  std::vector<Field> fields;  // of a section

  std::function<FieldValue(const void*)> get;
  std::function<void(void*, FieldValue)> set;
  std::function<void*(void*)> member;           // section: its struct
  std::function<void(void*, size_t)> resize;    // sections
  std::function<size_t(const void*)> size;      // sections
  std::function<void*(void*, size_t)> element;  // sections
  const void* member_of(const void* object) const { return member(const_cast<void*>(object)); }
};

// The whole job, section by section. Constant.
const std::vector<Field>& job_fields();

// Every dotted key below `fields` ("adapter.rank"), sections included.
std::vector<std::string> dotted_keys(const std::vector<Field>& fields, const std::string& prefix = "");
// Those of `role` that hold a value of their own: no sections, nothing inside lists of structs.
std::vector<std::string> keys_of_role(KeyRole role);
// The same for keys that decide what examples rows give.
std::vector<std::string> keys_that_make_examples();
// The entry of a dotted key; nullptr when there is none.
const Field* find_field(const std::string& dotted);
// Whether a key belongs to the items of a list ("data.train.path"), so that no single value of a job has it.
bool inside_list(const std::string& dotted);
// "1 to 65536", "above 0", "0 or more", "0 to below 1"; empty without limits.
std::string range_text(const Field& field);

}  // namespace forge
