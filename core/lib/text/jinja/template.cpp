#include "core/lib/text/jinja/template.h"

#include <algorithm>

#include "core/lib/base/text.h"
#include "core/lib/text/jinja/parser.h"

namespace forge::jinja {
namespace {

constexpr size_t kMaxSource = 4 << 20;

std::string place(const std::string& name, int line) { return name + ":" + std::to_string(line) + ": "; }

}  // namespace

Template Template::parse(std::string_view source, const std::string& name) {
  if (source.size() > kMaxSource)
    throw Error(
        ErrorKind::environment,
        name + ": a template of " + format_bytes(static_cast<int64_t>(source.size())) + ", more than 4 MiB");
  size_t bad = 0;
  if (!valid_utf8(source, &bad))
    throw Error(ErrorKind::environment,
                place(name, 1 + static_cast<int>(std::count(source.begin(), source.begin() + bad, '\n'))) +
                    "the template is not UTF-8");
  Template result;
  result.name_ = name;
  try {
    result.tree_ = std::make_shared<const Tree>(parse_tree(source));
  } catch (const SyntaxFault& problem) {
    throw Error(ErrorKind::environment, place(name, problem.line) + problem.message);
  }
  return result;
}

MarkedText Template::render(const Variables& variables, const Limits& limits,
                            std::optional<int64_t> now) const {
  Limits scaled = limits;
  for (const auto& [variable, value] : variables) scaled.steps += 16 * weight_of(value);
  Interpreter interpreter(*tree_, scaled, now);
  for (const auto& [variable, value] : variables) interpreter.set_variable(variable, value);
  try {
    return interpreter.run();
  } catch (const RenderFault& problem) {
    throw Error(ErrorKind::data, place(name_, interpreter.line()) + problem.message);
  }
}

}  // namespace forge::jinja
