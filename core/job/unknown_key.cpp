// Hints for keys that forge does not have.
#include <algorithm>
#include <set>

#include "core/job/foreign.h"
#include "core/job/parse.h"
#include "core/lib/base/text.h"
#include "core/lib/base/typo.h"

namespace forge {
namespace {

// Position of an unknown key.
struct Place {
  std::string path;  // its section as written, with [] for items: "datasets[]", "optimizer"; empty: the top
  std::string
      section;        // the forge section it corresponds to: "data.train[]"; empty: the top, or the whole job
  bool known = true;  // false if the section is unknown
  bool other_peft_method = false;  // the section is a PEFT config of a method other than LoRA
};

// True if `map` has the keys of an adapter_config.json of a PEFT method other than LoRA.
bool has_other_peft_method(const Node& map) {
  const Node* type = map.find("peft_type");
  return type && type->is_scalar() && lower(type->scalar) != "lora";
}

// True if a key means the same for every PEFT method as for LoRA. block_size, alpha and random_seed
// do not.
bool every_peft_method_has(const std::string& key) {
  static const std::set<std::string> keys{"peft_type",
                                          "task_type",
                                          "auto_mapping",
                                          "peft_version",
                                          "base_model_name_or_path",
                                          "revision",
                                          "inference_mode",
                                          "target_modules",
                                          "target_parameters",
                                          "exclude_modules",
                                          "modules_to_save",
                                          "layers_to_transform",
                                          "layers_pattern"};
  return keys.count(key) > 0;
}

const std::vector<Field>& fields_of(const std::string& section) {
  if (section.empty()) return job_fields();
  std::string dotted = section;
  if (dotted.ends_with("[]")) dotted.resize(dotted.size() - 2);
  return find_field(dotted)->fields;
}

// Returns the path without numbers: data.train[0].x and data.eval[1].x are looked up below
// data.train[].
std::string without_numbers(const std::string& path) {
  std::string plain;
  bool inside = false;
  for (char c : path) {
    if (c == ']') inside = false;
    if (!inside) plain += c;
    if (c == '[') inside = true;
  }
  return plain;
}

bool whole_job(const Place& place) { return place.section.empty() || place.section == "train"; }

// Returns the names under which the table may list the key, most specific first.
std::vector<std::string> lookup_names(const std::string& key, const Place& place) {
  std::vector<std::string> names;
  for (std::string path = place.path; !path.empty();) {
    names.push_back(path + "." + key);
    const size_t dot = path.find('.');
    path = dot == std::string::npos ? "" : path.substr(dot + 1);
  }
  if (!place.section.empty() && place.section != place.path) names.push_back(place.section + "." + key);
  if (place.section.starts_with("data.eval[]")) names.push_back("data.train[]." + key);
  if (place.known && whole_job(place)) names.push_back("/" + key);
  names.push_back(key);
  return names;
}

// True for forge's own section, but not for another tool's name of it nor for one that stands for
// the whole job.
bool own_section(const Place& place) { return place.path == place.section && !whole_job(place); }

// Returns the first part of a dotted key: "rollout" of rollout.server.url, "data" of data.train[].
std::string root_of(const std::string& key) { return key.substr(0, key.find_first_of(".[")); }

// True if a name that is listed without a section, or that forge has in another one, means the same
// in this section. A plain word (type, format, host) means something else in each of forge's own
// sections. max_tokens and base_url are the sampler's or the server's in sections about drawing and
// scoring completions.
bool means_the_same(const std::string& key, const std::string& leads_to, const Place& place) {
  if (!own_section(place)) return true;
  const std::string root = root_of(place.section);
  if (root_of(leads_to) == root) return true;
  if (key.find('_') == std::string::npos) return false;
  const bool of_completions = root == "rollout" || root == "rewards" || root == "reward_mix";
  return !of_completions || leads_to.empty();
}

bool is_section_of_a_job(const std::string& key) {
  const Field* field = find_field(key);
  return field && field->kind == FieldKind::section;
}

bool has_key_of(const Field& section, const Node& map) {
  return std::any_of(map.members.begin(), map.members.end(),
                     [&](const Member& member) { return field_of(section.fields, member.key) != nullptr; });
}

// True if a value has the shape of `field`. A map could be any tool's section, so one of the
// field's own keys must be in it.
bool has_shape_of(const Field& field, const Node& value) {
  if (value.is_null()) return true;
  switch (field.kind) {
    case FieldKind::section:
      return value.is_map() ? has_key_of(field, value) : value.is_scalar() && !field.shorthand.empty();
    case FieldKind::sections: {
      const Node& item = value.is_list() && !value.items.empty() ? value.items[0] : value;
      return !item.is_map() || has_key_of(field, item);
    }
    case FieldKind::texts:
    case FieldKind::numbers:
    case FieldKind::integers:
    case FieldKind::targets:
      return !value.is_map();
    case FieldKind::integer_lists:
      return true;
    case FieldKind::integer_map:
    case FieldKind::number_map:
    case FieldKind::text_map:
    case FieldKind::scalar_map:
      return value.is_map();
    default:
      return value.is_scalar();
  }
}

// Returns forge's keys of this name, wherever they are: "optimizer.learning_rate".
std::vector<std::string> homes_of(const std::string& key, const Place& place, const Node& value) {
  std::vector<std::string> homes;
  // Keys of rewards are plain words (timeout, target). Elsewhere they belong to another tool.
  for (const std::string& dotted : dotted_keys(job_fields())) {
    const bool same_name = dotted.substr(dotted.rfind('.') + 1) == key && !starts_with(dotted, "rewards.");
    if (same_name && (!value.is_map() || has_shape_of(*find_field(dotted), value))) homes.push_back(dotted);
  }
  std::erase_if(homes, [&](const std::string& home) { return !means_the_same(key, home, place); });
  const bool foreign = place.path != place.section;
  if (foreign && place.known && whole_job(place) && is_section_of_a_job(key)) return {key};
  // In another tool's section a plain word (name, path, type) is that tool's own; max_steps is not.
  const bool telling = place.known || key.find('_') != std::string::npos;
  if (!telling || (foreign && (homes.size() != 1 || homes[0] == key) && key != "seed" && key != "output_dir"))
    return {};
  return homes;
}

// Returns the change in the value that makes forge's key accept it.
std::string value_hint(const std::string& key, const Node& value) {
  const std::string hint = carried_value_hint(key, value);
  return hint.empty() ? "" : "; " + hint;
}

bool is_section_of_a_job(const std::string& key, const Node& value) {
  return value.is_map() && is_section_of_a_job(key) &&
         std::any_of(value.members.begin(), value.members.end(),
                     [&](const Member& member) { return find_field(key + "." + member.key) != nullptr; });
}

// Returns the hint of a row. A row about data.train also serves keys of the evaluation data.
std::string row_hint(ForeignRow row, const std::string& key, const Node& value, const Place& place) {
  if (place.section.starts_with("data.eval[]") && row.key.starts_with("data.train[]"))
    row.key.replace(0, 10, "data.eval");
  return foreign_hint(row, key, value);
}

// True if the other tool's key makes sense in the place of the misspelt one.
bool leads_into(const std::string& name, const Place& place) {
  if (!place.known) return false;
  return whole_job(place) || find_foreign_row({name})->key.starts_with(place.section + ".");
}

// Returns the row of a key. A row that is listed by its name alone counts only if the name means
// the same.
const ForeignRow* row_of(const std::string& key, const Place& place, bool patterns) {
  std::vector<std::string> names = lookup_names(key, place);
  const std::string bare = names.back();
  names.pop_back();
  if (const ForeignRow* row = find_foreign_row(names, patterns)) return row;
  const ForeignRow* row = find_foreign_row({bare}, patterns);
  return row && means_the_same(key, row->key, place) ? row : nullptr;
}

struct Help {
  std::string text;    // empty if there is none
  bool guess = false;  // the name is assumed to be a misspelling
};

// Returns the key of the same section that `key` probably misspells.
std::string misspelt(const std::string& key, const Node& value, const Place& place) {
  if (!place.known) return "";
  const std::vector<Field>& fields = fields_of(place.section);
  const std::string meant = likely_meant(key, keys_of(fields));
  const Field* field = field_of(fields, meant);
  return field && has_shape_of(*field, value) ? meant : "";
}

Help help(const std::string& key, const Node& value, const Place& place) {
  if (place.other_peft_method && !every_peft_method_has(key))
    return {foreign_hint(*find_foreign_row({"peft_type.other"}), key, value)};
  const std::string prefix = place.section.empty() ? "" : place.section + ".";
  if (size_t dot = key.rfind('.'); dot != std::string::npos && find_field(prefix + key))
    return {"write it as " + key.substr(dot + 1) + ": under " + key.substr(0, dot) + ":"};
  const bool own = place.path == place.section;  // forge's own section, not another tool's name for it
  const std::string meant = misspelt(key, value, place);
  const Help guess{"did you mean \"" + (own ? "" : prefix) + meant + "\"?", true};
  if (!meant.empty() && is_section_of_a_job(prefix + meant, value)) return guess;
  if (const ForeignRow* row = row_of(key, place, false)) return {row_hint(*row, key, value, place)};
  if (!meant.empty() && own_section(place)) return guess;
  if (!own && !prefix.empty() && place.known && field_of(fields_of(place.section), key))
    return {"it is " + prefix + key + value_hint(prefix + key, value)};
  if (std::vector<std::string> homes = homes_of(key, place, value); !homes.empty())
    return {"it is " + alternatives(homes) + (homes.size() == 1 ? value_hint(homes[0], value) : "")};
  if (!meant.empty()) return guess;
  if (const ForeignRow* row = row_of(key, place, true)) return {row_hint(*row, key, value, place)};
  if (std::string other = misspelt_foreign_key(key); !other.empty() && leads_into(other, place))
    return {"did you mean \"" + other + "\"? " + foreign_hint(*find_foreign_row({other}), other, value)};
  return {};
}

class Explainer {
 public:
  explicit Explainer(Diagnostics& faults) : faults_(faults) {}

  // Explains a key. `shown` is the section as in the file ("datasets[0].").
  void explain(const Member& member, const Place& place, const std::string& shown, bool top) {
    if (!top && !seen_.insert(place.path + "." + member.key).second) return;  // already reported for another item of the same list
    const std::string key = shown + member.key;
    if (faults_.full()) return faults_.add(member.key_at, key, "unknown key");
    const Help help_here = help(member.key, member.value, place);
    const std::string known = join(keys_of(fields_of(place.section)), ", ");
    std::string hint = help_here.text;
    if (hint.empty() && top)
      hint = has_help_below(member, place)
                 ? "forge has no such section; the keys under it that forge knows are listed"
                 : "known here: " + known;
    else if (hint.empty() && place.known && !place.section.empty())
      hint = "known in " + place.section + ": " + known;
    if (!hint.empty()) faults_.add(member.key_at, key, "unknown key", hint);
    if (!help_here.guess) go_below(member, place, key);
  }

 private:
  static bool holds_maps(const Node& value) {
    return value.is_map() || (value.is_list() && !value.items.empty() && value.items[0].is_map());
  }

  // Sets `inner` to the position of the keys below. Returns false if they are not checked.
  static bool below(const Member& member, const Place& place, Place& inner) {
    if (!holds_maps(member.value)) return false;
    inner.path =
        (place.path.empty() ? "" : place.path + ".") + member.key + (member.value.is_list() ? "[]" : "");
    inner.other_peft_method = has_other_peft_method(member.value);
    const ForeignRow* row = row_of(member.key, place, true);
    if (!row) {
      inner.known = place.known && whole_job(place) && is_section_of_a_job(member.key);
      inner.section = inner.known ? member.key : "";
      return true;
    }
    const Field* field = row->key.empty() ? nullptr : find_field(row->key);
    if (field && row->same_value && !field->fields.empty()) {
      inner.section = row->key + (field->kind == FieldKind::sections ? "[]" : "");
      return true;
    }
    inner.known = false;
    inner.section.clear();
    return has_foreign_rows_below(member.key);
  }

  bool has_help_below(const Member& member, const Place& place) const {
    Place inner;
    if (!below(member, place, inner)) return false;
    for (const auto& [before, next] : members_below(member.value))
      if (!help(next->key, next->value, inner).text.empty()) return true;
    return false;
  }

  // Returns the members of a map, or of the maps in a list, each with the text before its key.
  static std::vector<std::pair<std::string, const Member*>> members_below(const Node& value) {
    std::vector<std::pair<std::string, const Member*>> all;
    for (const Member& member : value.members) all.emplace_back(".", &member);
    for (size_t i = 0; i < value.items.size(); ++i)
      for (const Member& member : value.items[i].members)
        all.emplace_back("[" + std::to_string(i) + "].", &member);
    return all;
  }

  void go_below(const Member& member, const Place& place, const std::string& key) {
    Place inner;
    if (!below(member, place, inner)) return;
    for (const auto& [before, next] : members_below(member.value))
      explain(*next, inner, key + before, false);
  }

  Diagnostics& faults_;
  std::set<std::string> seen_;
};

// Returns the member before `member` if a list belongs there, else nullptr. In braces,
// `target_modules: q_proj, v_proj` makes v_proj a key without a value.
const Member* list_without_brackets(const Member& member, const Node& map, const std::string& section) {
  const auto at = std::find_if(map.members.begin(), map.members.end(),
                               [&](const Member& other) { return &other == &member; });
  if (!member.value.is_null() || at == map.members.begin() || at == map.members.end()) return nullptr;
  const Member& before = *std::prev(at);
  const Field* field = find_field((section.empty() ? "" : section + ".") + before.key);
  if (!field || !before.value.is_scalar()) return nullptr;
  const bool list = field->kind == FieldKind::texts || field->kind == FieldKind::numbers ||
                    field->kind == FieldKind::integers || field->kind == FieldKind::targets;
  return list && before.key_at.line == member.key_at.line ? &before : nullptr;
}

}  // namespace

void refuse_unknown_key(const Member& member, const Node& map, const std::string& prefix,
                        Diagnostics& faults) {
  std::string section = without_numbers(prefix);
  if (!section.empty()) section.pop_back();
  if (const Member* before = list_without_brackets(member, map, section))
    return faults.add(
        member.key_at, prefix + member.key, "unknown key",
        "write a list in brackets: " + before->key + ": [" + before->value.scalar + ", " + member.key + "]");
  const Place place{.path = section, .section = section, .other_peft_method = has_other_peft_method(map)};
  Explainer(faults).explain(member, place, prefix, true);
}

}  // namespace forge
