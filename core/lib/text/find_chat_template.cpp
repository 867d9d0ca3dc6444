// Finds a model folder's chat template, in transformers' order of precedence.
#include "core/lib/base/file.h"
#include "core/lib/io/python_json.h"
#include "core/lib/text/chat_template.h"

namespace forge {
namespace {

constexpr int64_t kMaxTemplate = 4 << 20;
constexpr int64_t kMaxConfig = 64 << 20;

TemplateSource file_source(const std::string& path) {
  std::string text = read_file(path, kMaxTemplate, ErrorKind::environment);
  refuse_git_lfs(text, path, ErrorKind::environment);
  return {std::move(text), path};
}

std::optional<std::string> named_template(const Json& templates, const std::string& name, const std::string& where) {
  for (const Json& entry : templates) {
    const bool whole = entry.is_object() && entry.contains("name") && entry["name"].is_string() &&
                       entry.contains("template") && entry["template"].is_string();
    if (!whole) throw Error(ErrorKind::environment, where + ": expected a list of {name, template}, both strings");
    if (entry["name"] == name) return entry["template"].get<std::string>();
  }
  return {};
}

std::optional<TemplateSource> source_in_config(const std::string& path, bool with_tools) {
  const Json config = parse_python_json(read_file(path, kMaxConfig, ErrorKind::environment), path);
  if (!config.is_object()) throw Error(ErrorKind::environment, path + ": expected an object");
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return {};
  const std::string where = path + ": chat_template";
  if (found->is_string()) return TemplateSource{found->get<std::string>(), where};
  if (!found->is_array()) throw Error(ErrorKind::environment, where + ": expected a string or a list of named templates");
  for (const char* name : {"tool_use", "default"}) {
    if (name == std::string("tool_use") && !with_tools) continue;
    if (auto text = named_template(*found, name, where)) return TemplateSource{*text, where + "[" + name + "]"};
  }
  throw Error(ErrorKind::environment, where + ": none of the named templates is called \"default\"")
      .hint("write one of them to a .jinja file and name it in data.template");
}

}  // namespace

std::optional<TemplateSource> find_chat_template(const std::string& model_dir, bool with_tools) {
  const std::string tool_use = model_dir + "/additional_chat_templates/tool_use.jinja";
  if (with_tools && file_exists(tool_use)) return file_source(tool_use);
  if (file_exists(model_dir + "/chat_template.jinja")) return file_source(model_dir + "/chat_template.jinja");
  for (const char* name : {"/tokenizer_config.json", "/chat_template.json"})
    if (file_exists(model_dir + name))
      if (auto source = source_in_config(model_dir + name, with_tools)) return source;
  return {};
}

}  // namespace forge
