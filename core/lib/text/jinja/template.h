#pragma once
// A Jinja template, parsed once and rendered many times, possibly by many threads.
//
//   const Template greeting = Template::parse("Hello {{ name }}!", "greeting");
//   greeting.render({{"name", value_of_json("you")}}).bytes     // "Hello you!"
//
// The language is that of jinja2 3.1 under transformers' settings: ImmutableSandboxedEnvironment,
// trim_blocks, lstrip_blocks, loop controls, {% generation %}, tojson without HTML escapes,
// raise_exception, strftime_now.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/lib/text/jinja/interpreter.h"

namespace forge::jinja {

using Variables = std::vector<std::pair<std::string, Value>>;

class Template {
 public:
  // `name` begins every message. Throws Error(environment) as "name:line: what".
  static Template parse(std::string_view source, const std::string& name);

  // Throws Error(data) as "name:line: what" if the template raises, misuses a value or passes a
  // limit.
  MarkedText render(const Variables& variables, const Limits& limits = {},
                    std::optional<int64_t> now = {}) const;

  bool marks_generation() const { return tree_->marks_generation; }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::shared_ptr<const Tree> tree_;
};

}  // namespace forge::jinja
