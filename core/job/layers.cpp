#include "core/job/layers.h"

#include <algorithm>
#include <filesystem>

#include "core/job/environment.h"
#include "core/job/field.h"
#include "core/lib/base/file.h"
#include "core/lib/base/near_path.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

constexpr int kExtendsDepth = 16;
constexpr const char* kOption = "--set ";

std::string absolute(const std::string& path, const std::string& cwd) {
  return (std::filesystem::path(cwd) / path).lexically_normal().string();
}

// Merges `over` into `base`. The later file wins.
void merge(Node& base, Node over, bool top = true) {
  for (Member& member : over.members) {
    Node* old = base.find(member.key);
    if (!old) {
      base.members.push_back(std::move(member));
      continue;
    }
    // `adapter: none` over a base with an adapter removes all of it, not just its type.
    const Node* type = top && member.key == "adapter" ? member.value.find("type") : nullptr;
    bool whole = type && type->is_scalar() && type->scalar == "none";
    if (old->is_map() && member.value.is_map() && !whole) {
      old->at = member.value.at;
      merge(*old, std::move(member.value), false);
    } else {
      *old = std::move(member.value);
      for (Member& slot : base.members)
        if (slot.key == member.key) slot.key_at = member.key_at;
    }
  }
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Refuses data or a model given as a job, before it is parsed: parsing would only say why it is no
// job.
void require_job(const std::string& path) {
  const auto ends = [&](std::initializer_list<const char*> endings) {
    return std::any_of(endings.begin(), endings.end(), [&](const char* ending) { return lower(path).ends_with(ending); });
  };
  const bool data = ends({".jsonl", ".csv", ".tsv", ".parquet", ".txt", ".gz", ".zst"});
  if (!data && !ends({".gguf", ".safetensors"})) return;
  throw Error(ErrorKind::job, path + (data ? ": is data" : ": is a model") + ", expected a job in JSON or YAML")
      .hint("forge init job.yaml writes one to start from; this file goes under " +
            std::string(data ? "data.train" : "model.path"));
}

class Reader {
 public:
  Reader(const std::string& cwd, const Environment& environment, Diagnostics& faults, Layers& layers)
      : cwd_(cwd), environment_(environment), faults_(faults), layers_(layers) {}

  // Returns the file merged over everything it extends; an empty map if it cannot be read.
  Node read(const std::string& path, const Position& stated, std::vector<std::string> open) {
    Node result = map_node({}, {path, 1, 1});
    std::string whole = absolute(path, cwd_);
    const auto refuse = [&](const std::string& message, const std::string& hint = "") {
      faults_.add(stated, "extends", message, hint);
      layers_.complete = false;
      return result;
    };
    if (std::find(open.begin(), open.end(), whole) != open.end())
      return refuse(path + " extends itself");
    if (static_cast<int>(open.size()) >= kExtendsDepth)
      return refuse("more than " + std::to_string(kExtendsDepth) + " files deep");
    if (open.empty()) require_job(path);
    std::string text;
    try {
      text = read_file(whole, kNodeTextLimit, ErrorKind::job);
    } catch (const Error& error) {
      const std::string hint =
          exists(whole) ? error.hint() : near_path_hint(open.empty() ? path : whole, error.hint());
      if (open.empty()) throw Error(ErrorKind::job, error.what()).hint(hint);
      return refuse(error.what(), hint);
    }
    if (open.empty()) layers_.text = text;
    layers_.files.push_back(path);
    open.push_back(whole);
    std::optional<Node> own = parse(text, path);
    if (!own) {
      layers_.complete = false;
      return result;
    }
    for (const Node& base : take_extends(*own))
      merge(result, read(beside(base.scalar, path), base.at, open));
    result.at = own->at;
    merge(result, std::move(*own));
    return result;
  }

  // Returns "--set key.path=value" as a layer of its own.
  Node option(const std::string& set) {
    Position at{kOption + set, 0, 0};
    Node result = map_node({}, at);
    size_t equals = set.find('=');
    std::string path = set.substr(0, equals);
    if (equals == std::string::npos || path.empty()) {
      faults_.add(at, "", "expected key=value", "as in --set train.epochs=2");
      return result;
    }
    try {
      Node value = parse_yaml(set.substr(equals + 1), kOption + set);
      place(value, at);
      substitute_environment(value, environment_, layers_.secrets, faults_);
      std::vector<std::string> parts = split(path, '.');
      for (auto part = parts.rbegin(); part != parts.rend(); ++part)
        value = map_node({Member{std::string(trim(*part)), at, std::move(value)}}, at);
      result = std::move(value);
    } catch (const JobErrors& errors) {
      for (const Diagnostic& fault : errors.faults()) faults_.add(at, path, fault.message, fault.hint);
    }
    expand_shorthands(result);
    return result;
  }

 private:
  std::optional<Node> parse(const std::string& text, const std::string& path) {
    try {
      Node root = parse_node(text, path);
      if (!root.is_map()) {
        faults_.add(root.at, "",
                    root.is_null() ? "the file is empty, expected a job" : describe(root) + ", expected keys",
                    "forge init writes a job to start from");
        return std::nullopt;
      }
      // $schema is a reference for editors, not part of the job.
      std::erase_if(root.members, [](const Member& member) { return member.key == "$schema"; });
      substitute_environment(root, environment_, layers_.secrets, faults_);
      expand_shorthands(root);
      return root;
    } catch (const JobErrors& errors) {
      faults_.add(errors);
      return std::nullopt;
    }
  }
  // Returns a name as it is shown: relative to the file that states it.
  static std::string beside(const std::string& name, const std::string& file) {
    return (std::filesystem::path(file).parent_path() / name).lexically_normal().string();
  }
  std::vector<Node> take_extends(Node& root) {
    auto member = std::find_if(root.members.begin(), root.members.end(),
                               [](const Member& m) { return m.key == "extends"; });
    if (member == root.members.end()) return {};
    Node value = std::move(member->value);
    root.members.erase(member);
    std::vector<Node> files;
    for (Node& item : value.is_scalar() ? (value.items = {value}) : value.items) {
      if (item.is_scalar() && !item.scalar.empty())
        files.push_back(std::move(item));
      else
        faults_.add(item.at, "extends", describe(item) + ", expected a file");
    }
    if (value.is_map()) faults_.add(value.at, "extends", "a map of keys, expected a file or a list of files");
    return files;
  }
  // Places values of the command line, which have no line and may be read as text or as a number.
  static void place(Node& node, const Position& at) {
    node.at = at;
    if (node.quoting == Quoting::plain) node.quoting = Quoting::either;
    for (Node& item : node.items) place(item, at);
    for (Member& member : node.members) {
      member.key_at = at;
      place(member.value, at);
    }
  }

  const std::string& cwd_;
  const Environment& environment_;
  Diagnostics& faults_;
  Layers& layers_;
};

// Turns a scalar into the section that it is short for.
void wrap(Node& value, const std::string& shorthand) {
  if (value.is_scalar()) value = map_node({Member{shorthand, value.at, value}}, value.at);
}

// Turns a short form of a section or list of sections into the long one.
void expand(Node& value, const Field& field) {
  if (field.kind == FieldKind::section) return wrap(value, field.shorthand);
  if (value.is_map() || value.is_scalar()) value = list_node({value}, value.at);
  for (Node& item : value.items) wrap(item, field.shorthand);
}

void expand_below(Node& node, const std::vector<Field>& fields) {
  for (const Field& field : fields) {
    Node* value = node.find(field.key);
    if (!value || value->is_null()) continue;
    if (!field.shorthand.empty()) expand(*value, field);
    if (field.kind == FieldKind::section && value->is_map()) expand_below(*value, field.fields);
  }
}

}  // namespace

void expand_shorthands(Node& root) { expand_below(root, job_fields()); }

bool is_option(const Position& at) { return at.line == 0 && at.file.starts_with(kOption); }

std::string resolve_path(const std::string& path, const Position& at, const std::string& cwd,
                         const Environment& environment) {
  std::filesystem::path folder = cwd;
  if (!is_option(at)) folder /= std::filesystem::path(at.file).parent_path();
  std::string result = (folder / expand_path(path, environment).path).lexically_normal().string();
  while (result.size() > 1 && result.back() == '/') result.pop_back();
  return result;
}

Layers read_layers(const std::string& path, const std::vector<std::string>& sets, const std::string& cwd,
                   const Environment& environment, Diagnostics& faults) {
  Layers layers;
  Reader reader(cwd, environment, faults, layers);
  layers.root = reader.read(path, {path, 1, 1}, {});
  for (const std::string& set : sets) merge(layers.root, reader.option(set));
  return layers;
}

}  // namespace forge
