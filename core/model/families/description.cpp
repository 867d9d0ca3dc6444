#include "core/model/families/description.h"

#include <algorithm>

#include "core/lib/base/text.h"
#include "core/lib/base/typo.h"
#include "core/lib/io/gguf_names.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/described_map.h"
#include "core/model/families/layer_ops.h"

namespace forge {
namespace {

constexpr size_t kMostSettings = 64, kMostIgnored = 256;

bool plain(std::string_view text, std::string_view more, size_t most) {
  return !text.empty() && text.size() <= most && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           more.find(c) != more.npos;
  });
}

// Reads a name of letters, digits and the characters `more`.
std::string name_in(DescribedMap& map, const std::string& key, std::string_view more,
                    const std::string& absent = "") {
  const std::optional<std::string> text = map.text(key);
  if (!text) return absent;
  if (!plain(*text, more, 120))
    map.fault(map.node().find(key)->at, key,
              "is no name: letters, digits and " + std::string(more) + " are allowed, at most 120");
  return *text;
}

// Refuses a value that does not fit what it is for.
void check_value(DescribedMap& map, const std::string& key, const Json& value,
                 const SpecMember& member, double least, double most) {
  const bool fits = member.is_flag()      ? value.is_boolean()
                    : member.is_integer() ? value.is_number_integer()
                                          : value.is_number();
  const char* expected = member.is_flag()      ? "true or false"
                         : member.is_integer() ? "an integer"
                                               : "a number";
  const Node* node = map.node().find(key);
  const Position at = node ? node->at : map.node().at;
  if (!fits)
    return map.fault(at, key, std::string("is not ") + expected + ", which " + member.name + " is");
  if (!member.is_flag() && !(value.get<double>() >= least && value.get<double>() <= most))
    map.fault(
        at, key,
        dump_json(value) + " is outside " + format_number(least) + " to " + format_number(most));
}

const SpecMember* member_in(DescribedMap& map, const Position& at, const std::string& key,
                            const std::string& name) {
  const SpecMember* member = find_member(name);
  if (member) return member;
  const std::string close = likely_meant(name, member_names());
  map.fault(at, key, "unknown member \"" + name.substr(0, 60) + "\"",
            close.empty() ? "there are " + join(member_names(), ", ")
                          : "did you mean \"" + close + "\"?");
  return nullptr;
}

// Reads "between: [least, most]" within the range of the members.
void read_range(DescribedMap& map, DescribedSetting& setting) {
  const SpecMember& member = *setting.sets.front();
  setting.least = setting.inverse ? 1 / member.most : member.least;
  setting.most = setting.inverse ? 1 / member.least : member.most;
  const Node* range = map.take("between");
  if (!range) return;
  std::vector<double> ends;
  for (const Node& end : range->items)
    if (const Json value = scalar_of(end); end.is_scalar() && value.is_number())
      ends.push_back(value.get<double>());
  if (ends.size() != 2 || range->items.size() != 2 || !(ends[0] <= ends[1]))
    return map.fault(range->at, "between",
                     "is " + describe(*range) + ", expected two numbers, the lower one first");
  if (ends[0] < setting.least || ends[1] > setting.most)
    return map.fault(range->at, "between",
                     "is outside " + format_number(setting.least) + " to " +
                         format_number(setting.most) + ", the range of " + member.name);
  setting.least = ends[0], setting.most = ends[1];
}

// Reads "words: {gelu: false, gelu_new: true}".
void read_words(DescribedMap& map, DescribedSetting& setting) {
  const Node* words = map.take("words");
  if (!words) return;
  if (!setting.sets.front()->is_flag())
    return map.fault(words->at, "words",
                     "are for flags, and " + std::string(setting.sets.front()->name) + " is none");
  DescribedMap inner(*words, map.prefix() + "words.", map.faults());
  for (const Member& word : words->members) {
    const std::optional<bool> flag = inner.flag(word.key);
    if (!flag) continue;
    if (std::string& written = setting.written[*flag]; written.empty()) written = word.key;
    setting.words[word.key] = *flag;
  }
}

DescribedSetting read_setting(const Member& member, Diagnostics& faults) {
  DescribedSetting setting{.key = member.key};
  DescribedMap map(member.value, "settings." + member.key.substr(0, 60) + ".", faults);
  if (!plain(member.key, "_.-", 120)) map.fault(member.key_at, "", "is not a key of config.json");
  for (const std::string& name : map.texts("sets"))
    if (const SpecMember* found = member_in(map, map.node().find("sets")->at, "sets", name))
      setting.sets.push_back(found);
  if (const Json must = map.value("must_be"); !must.is_null()) {
    setting.value = must;
    setting.because = map.text("because").value_or("");
    map.require("because", false, "the reason, which the refusal of another value gives");
    if (map.node().find("sets")) map.fault(member.key_at, "sets", "and must_be exclude each other");
  } else if (!setting.sets.empty()) {
    setting.inverse = map.flag("inverse").value_or(false);
    read_range(map, setting);
    read_words(map, setting);
    setting.value = map.value("default");
    setting.gguf = name_in(map, "gguf", "_.");
    for (const SpecMember* one : setting.sets)
      if (one->member.index() != setting.sets[0]->member.index())
        map.fault(member.key_at, "sets", "names members of different types");
    const bool word =
        setting.value.is_string() && setting.words.contains(setting.value.get<std::string>());
    if (!setting.value.is_null() && !word)
      check_value(map, "default", setting.value, *setting.sets[0], setting.least, setting.most);
    if (setting.inverse && (setting.sets[0]->is_flag() || setting.sets[0]->is_integer() ||
                            setting.sets[0]->least <= 0))
      map.fault(member.key_at, "inverse", "is for numbers above 0");
  } else if (map.node().find("sets")) {
    for (const char* key : {"inverse", "between", "words", "default", "gguf"}) map.take(key);
  } else {
    map.fault(member.key_at, "", "says neither what it sets nor what it must be",
              "write {sets: MEMBER, default: VALUE} or {must_be: VALUE, because: REASON}; a key "
              "without effect stands in ignores");
  }
  map.finish();
  return setting;
}

void read_settings(DescribedMap& root, Description& d) {
  const Node* node = root.take("settings");
  if (!node) return;
  DescribedMap map(*node, "settings.", root.faults());
  if (node->members.size() > kMostSettings)
    return root.fault(node->at, "settings",
                      "has more than " + std::to_string(kMostSettings) + " keys");
  for (const Member& member : node->members)
    d.settings.push_back(read_setting(member, root.faults()));
}

using Values = std::vector<std::pair<const SpecMember*, Json>>;

Values read_fixed(DescribedMap& root, const std::string& key) {
  Values values;
  const Node* node = root.take(key);
  if (!node) return values;
  DescribedMap map(*node, key + ".", root.faults());
  for (const Member& stated : node->members) {
    const SpecMember* member = member_in(map, stated.key_at, stated.key.substr(0, 60), stated.key);
    const Json value = map.value(stated.key);
    if (!member || value.is_null()) continue;
    check_value(map, stated.key, value, *member, member->least, member->most);
    values.emplace_back(member, value);
  }
  return values;
}

void read_defaults(DescribedMap& root, Description& d) {
  const Node* node = root.take("defaults");
  root.require("defaults", node,
               "the values of the class in transformers for keys that config.json lacks");
  if (!node) return;
  DescribedMap map(*node, "defaults.", root.faults());
  d.max_position_embeddings = map.integer("max_position_embeddings", 1, kMostPositions).value_or(0);
  map.require("max_position_embeddings", d.max_position_embeddings > 0,
              "the longest context of a config.json that states none");
  d.num_kv_heads = map.integer("num_key_value_heads", 1, kMostHeads).value_or(0);
  d.head_dim = map.integer("head_dim", 2, kMostHeadDim).value_or(0);
  d.mlp_ratio = map.integer("mlp_ratio", 1, 64).value_or(0);
  if (std::vector<std::string> words = map.texts("hidden_act"); !words.empty())
    d.activations = std::move(words);
  d.norm_eps = map.number("rms_norm_eps", 0, 1).value_or(d.norm_eps);
  d.rope_theta = map.number("rope_theta", 1, 1e12).value_or(d.rope_theta);
  d.partial_rotary_factor = map.number("partial_rotary_factor", 0, 1);
  d.tied = map.flag("tie_word_embeddings").value_or(false);
  map.finish();
}

// Keys of config.json that every family reads; a family may call them otherwise.
const std::vector<std::string>& common_keys() {
  static const std::vector<std::string> keys{"vocab_size",
                                             "hidden_size",
                                             "intermediate_size",
                                             "num_hidden_layers",
                                             "num_attention_heads",
                                             "num_key_value_heads",
                                             "head_dim",
                                             "max_position_embeddings",
                                             "rms_norm_eps",
                                             "tie_word_embeddings",
                                             "hidden_act",
                                             "rope_theta",
                                             "partial_rotary_factor",
                                             "initializer_range",
                                             "sliding_window",
                                             "num_experts_per_tok"};
  return keys;
}

void read_spelling(DescribedMap& root, Description& d) {
  const Node* node = root.take("spelling");
  if (!node) return;
  DescribedMap map(*node, "spelling.", root.faults());
  for (const std::string& key : common_keys())
    if (const std::string own = name_in(map, key, "_.-"); !own.empty()) d.spelling[key] = own;
  map.finish();
}

void read_windows(DescribedMap& root, Description& d) {
  const Node* node = root.take("windows");
  if (!node) return;
  DescribedMap map(*node, "windows.", root.faults());
  DescribedWindows windows;
  windows.absent = map.integer("absent", 0, kMostPositions).value_or(0);
  windows.full_every = map.integer("full_every", 1, kMostLayers).value_or(0);
  windows.full_every_key = name_in(map, "full_every_key", "_.-");
  windows.rotary_in_windows = map.flag("rotary_in_windows").value_or(false);
  if (const auto gguf = map.choice("gguf", {"refused", "stated", "periodic"}))
    windows.gguf = static_cast<GgufWindows>(*gguf);
  const bool periodic = windows.full_every > 0;
  for (const char* key : {"full_every_key", "rotary_in_windows"})
    if (const Node* stated = node->find(key); stated && !periodic)
      map.fault(stated->at, key, "needs full_every");
  if (windows.gguf == GgufWindows::periodic && !periodic)
    map.fault(node->at, "gguf", "periodic needs full_every");
  map.finish();
  d.windows = windows;
}

void read_modules(DescribedMap& root, Description& d) {
  const Node* node = root.take("modules");
  if (!node) return;
  DescribedMap map(*node, "modules.", root.faults());
  DescribedModules& m = d.modules;
  m.embedding = name_in(map, "embedding", "_.", m.embedding);
  m.positions = name_in(map, "positions", "_.");
  m.layers = name_in(map, "layers", "_.", "model.layers") + ".";
  m.final_norm = name_in(map, "final_norm", "_.", m.final_norm);
  m.head = name_in(map, "head", "_.", m.head);
  m.stored_head = name_in(map, "stored_head", "_.");
  map.finish();
}

void read_layer(DescribedMap& root, std::string_view file, Description& d) {
  const Node* node = root.take("layer");
  root.require("layer", node, "the formulas of a layer, one a line");
  if (!node) return;
  if (!node->is_scalar() || node->scalar.find('=') == std::string::npos)
    return root.fault(node->at, "layer", "is " + describe(*node) + ", expected a text of formulas",
                      "begin it with layer: |");
  // A block's text begins in the line after its bar, without the indentation of its first line.
  Position first = node->at;
  first.line += 1, first.column = 1;
  size_t line = 0;
  for (int64_t number = 1; number < first.line && line < file.size(); ++number)
    line = std::min(file.find('\n', line), file.size() - 1) + 1;
  while (line < file.size() && (file[line] == ' ' || file[line] == '\n')) {
    first.column = file[line] == ' ' ? first.column + 1 : 1;
    ++line;
  }
  d.layer = parse_layer(node->scalar, first, root.faults());
  if (d.layer.steps.empty() && root.faults().all().empty())
    root.fault(node->at, "layer", "has no line");
}

void read_gguf(DescribedMap& root, Description& d) {
  const std::vector<std::string> known = gguf_architectures();
  if (const auto at = root.choice("gguf", known)) d.gguf = known[*at];
  d.fixed_in_gguf = read_fixed(root, "fixed_in_gguf");
}

// Members that a GGUF's sizes and tensors state.
constexpr const char* kStatedByGguf[] = {"qkv_bias",    "o_bias",           "mlp_bias",
                                         "qk_norm",     "num_experts",      "experts_per_token",
                                         "expert_size", "normalise_experts"};

// Refuses a family of GGUF files that do not say all that the settings do.
void check_gguf(DescribedMap& root, const Description& d) {
  if (d.gguf.empty()) return;
  const Node* settings = root.node().find("settings");
  for (const DescribedSetting& setting : d.settings)
    for (const SpecMember* member : setting.sets) {
      const bool stated =
          std::ranges::count(kStatedByGguf, std::string_view(member->name),
                             [](const char* name) { return std::string_view(name); }) > 0;
      const bool fixed = std::ranges::count(d.fixed_in_gguf, member,
                                            &std::pair<const SpecMember*, Json>::first) > 0;
      if (setting.gguf.empty() && !stated && !fixed)
        root.fault(settings->find(setting.key)->at, "settings." + setting.key,
                   std::string("a GGUF does not say ") + member->name,
                   "name its key, gguf: KEY, or state the member in fixed_in_gguf");
    }
}

}  // namespace

Description parse_description(std::string_view text, const std::string& name) {
  if (static_cast<int64_t>(text.size()) > kLargestDescription)
    throw JobErrors({{{name, 1, 1},
                      "",
                      "is larger than " + format_bytes(kLargestDescription),
                      "a family file has about a hundred lines: check that this is one"}});
  const Node node = parse_yaml(text, name);
  Diagnostics faults;
  DescribedMap root(node, "", faults);
  Description d;
  const bool form = root.integer("form", 1, 1).has_value();
  root.require("form", form, "the version of family files, 1");
  d.name = name_in(root, "name", "_.-");
  root.require("name", !d.name.empty(), "model_type in config.json");
  d.architecture = name_in(root, "architecture", "_");
  root.require("architecture", !d.architecture.empty(),
               "the class in transformers, architectures in config.json");
  read_gguf(root, d);
  read_defaults(root, d);
  read_spelling(root, d);
  read_settings(root, d);
  d.fixed = read_fixed(root, "fixed");
  d.ignores = root.texts("ignores");
  if (d.ignores.size() > kMostIgnored)
    root.fault(node.at, "ignores", "has more than " + std::to_string(kMostIgnored) + " keys");
  if (const auto pairs = root.choice("rotary_pairs", {"halves", "neighbours"}))
    d.neighbours = *pairs == 1;
  d.padding_row = root.flag("padding_row").value_or(true);
  read_windows(root, d);
  read_modules(root, d);
  read_layer(root, text, d);
  check_gguf(root, d);
  root.finish();
  faults.throw_if_any();
  return d;
}

}  // namespace forge
