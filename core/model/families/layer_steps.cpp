// Parses the lines of a layer, checks their widths and records them. layer_flow.cpp follows their
// values.
#include "core/model/families/layer_steps.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/job/scalars.h"
#include "core/lib/base/text.h"
#include "core/lib/base/typo.h"
#include "core/model/families/layer_ops.h"

namespace forge {
namespace {

std::string meant(const std::string& word, const std::vector<std::string>& known) {
  const std::string close = likely_meant(word, known);
  return close.empty() ? "one of " + join(known, ", ") : "did you mean \"" + close + "\"?";
}

bool word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// True for the name of a value: letters, digits and _, not first a digit.
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 40 && !(text[0] >= '0' && text[0] <= '9') &&
         std::ranges::all_of(text, word_char);
}

// True for the name of a module: names between dots.
bool is_module(std::string_view text) {
  const auto allowed = [](char c) { return word_char(c) || c == '.'; };
  return !text.empty() && text.size() <= 120 && text.front() != '.' && text.back() != '.' &&
         text.find("..") == text.npos && std::ranges::all_of(text, allowed);
}

std::optional<int64_t> whole_number(std::string_view text, int64_t most) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value >= 1 && value <= most ? std::optional(value) : std::nullopt;
}

// A part of a line with its place in it.
struct Piece {
  std::string_view text;
  size_t column = 0;  // from 0, in the line
};

Piece trimmed(Piece piece) {
  const size_t begin = piece.text.find_first_not_of(' ');
  if (begin == piece.text.npos) return {"", piece.column};
  const size_t end = piece.text.find_last_not_of(' ');
  return {piece.text.substr(begin, end - begin + 1), piece.column + begin};
}

Piece part_of(Piece piece, size_t begin, size_t end = std::string_view::npos) {
  return trimmed({piece.text.substr(begin, end == std::string_view::npos ? end : end - begin),
                  piece.column + begin});
}

// Returns the parts between the separators; of an empty text none.
std::vector<Piece> parts_of(Piece piece, char separator) {
  std::vector<Piece> parts;
  if (trimmed(piece).text.empty()) return parts;
  for (size_t begin = 0; begin <= piece.text.size();) {
    const size_t end = std::min(piece.text.find(separator, begin), piece.text.size());
    parts.push_back(part_of(piece, begin, end));
    begin = end + 1;
  }
  return parts;
}

class LineParser {
 public:
  LineParser(LayerSteps& layer, const Position& at, Diagnostics& faults)
      : layer_(layer), line_(at), faults_(faults) {}

  // Parses "a, b = op(arguments) if flag"; returns nothing after a fault.
  std::optional<LayerStep> parse(Piece line) {
    const size_t equals = line.text.find('='), open = line.text.find('('),
                 close = line.text.rfind(')');
    if (equals == line.text.npos || open == line.text.npos || close == line.text.npos ||
        !(equals < open && open < close))
      return fault(line, "expected a formula like h = add(h, y)");
    if (line.text.find('(', open + 1) != line.text.npos)
      return fault(part_of(line, line.text.find('(', open + 1)), "formulas are not nested",
                   "give the inner one a name in a line of its own");
    const Piece op = part_of(line, equals + 1, open);
    step_.at = place(line);
    step_.op = find_layer_op(std::string(op.text));
    if (!step_.op)
      return fault(op, "unknown op " + quoted(op), meant(std::string(op.text), layer_op_names()));
    // Values are read before the line's own results have these names.
    read_arguments(
        parts_of({line.text.substr(open + 1, close - open - 1), line.column + open + 1}, ','), op);
    read_condition(part_of(line, close + 1));
    read_results(parts_of({line.text.substr(0, equals), line.column}, ','), op);
    return sound_ ? std::optional(step_) : std::nullopt;
  }

 private:
  Position place(Piece piece) const {
    Position at = line_;
    at.column += static_cast<int64_t>(piece.column);
    return at;
  }
  static std::string quoted(Piece piece) {
    return "\"" + std::string(piece.text.substr(0, 60)) + "\"";
  }
  std::nullopt_t fault(Piece piece, const std::string& what, const std::string& hint = "") {
    faults_.add(place(piece), kLayerKey, what, hint);
    sound_ = false;
    return std::nullopt;
  }
  std::nullopt_t misfit(Piece piece, const std::string& what) {
    return fault(piece, std::string(step_.op->name) + " " + what + ", expected " + step_.op->form);
  }

  int number_of(std::string_view name) {
    const auto found = std::ranges::find(layer_.names, name);
    if (found != layer_.names.end()) return static_cast<int>(found - layer_.names.begin());
    layer_.names.emplace_back(name);
    return static_cast<int>(layer_.names.size() - 1);
  }

  void read_results(const std::vector<Piece>& results, Piece op) {
    const bool counted = step_.op->rest == Rest::linears || step_.op->rest == Rest::sizes;
    const size_t wanted = counted && sound_ ? step_.modules.size() : step_.op->least_out;
    if (results.size() < step_.op->least_out || results.size() > step_.op->most_out ||
        (sound_ && counted && results.size() != step_.modules.size())) {
      misfit(op, "gives " + std::to_string(wanted) +
                     (wanted == 1 ? " value and not " : " values and not ") +
                     std::to_string(results.size()));
      return;
    }
    for (const Piece& result : results) {
      if (!is_name(result.text))
        fault(result, quoted(result) + " is not a name of letters, digits and _");
      step_.out.push_back(number_of(result.text));
    }
    for (size_t i = 0; i < step_.out.size(); ++i)
      if (std::count(step_.out.begin(), step_.out.end(), step_.out[i]) > 1)
        return void(fault(results[i], quoted(results[i]) + " is the name of two results"));
  }

  void read_condition(Piece condition) {
    if (condition.text.empty()) return;
    const size_t space = std::min(condition.text.find(' '), condition.text.size());
    const Piece word = part_of(condition, 0, space), flag = part_of(condition, space);
    if (word.text != "if" && word.text != "unless")
      return void(
          fault(word, quoted(word) + " follows the formula, expected if FLAG or unless FLAG"));
    step_.wanted = word.text == "if";
    step_.flag = find_flag(std::string(flag.text));
    if (!step_.flag)
      fault(flag, "unknown flag " + quoted(flag), meant(std::string(flag.text), flag_names()));
  }

  void read_arguments(const std::vector<Piece>& arguments, Piece op) {
    const size_t values = step_.op->inputs;
    if (arguments.size() < values)
      return void(
          misfit(op, "reads " + std::to_string(values) + (values == 1 ? " value" : " values")));
    for (size_t i = 0; i < values; ++i) {
      if (!is_name(arguments[i].text))
        fault(arguments[i], quoted(arguments[i]) + " is not the name of a value");
      step_.in.push_back(number_of(arguments[i].text));
    }
    const std::vector<Piece> rest(arguments.begin() + static_cast<std::ptrdiff_t>(values),
                                  arguments.end());
    switch (step_.op->rest) {
      case Rest::none:
        if (!rest.empty()) misfit(rest[0], "has no argument " + quoted(rest[0]));
        return;
      case Rest::module:
        if (rest.size() != 1) return void(misfit(op, "names one module"));
        return void(step_.modules.push_back({module_of(rest[0]), {}}));
      case Rest::linears:
        for (const Piece& argument : rest) read_linear(argument);
        if (step_.modules.empty() && sound_) misfit(op, "names no module");
        return;
      case Rest::sizes:
        for (const Piece& argument : rest) step_.modules.push_back({"", size_of(argument)});
        return;
      case Rest::word:
        return read_word(rest, op);
      case Rest::factor:
        return read_factor(rest, op);
      case Rest::experts:
        return read_experts(rest, op);
    }
  }

  std::string module_of(Piece piece) {
    if (!is_module(piece.text))
      fault(piece, quoted(piece) + " is not the name of a module, like self_attn.q_proj");
    return std::string(piece.text);
  }

  // Splits "name: value".
  std::pair<Piece, Piece> halves(Piece piece) {
    const size_t colon = piece.text.find(':');
    if (colon == piece.text.npos) {
      misfit(piece, "has an argument " + quoted(piece) + " without a colon");
      return {piece, {}};
    }
    return {part_of(piece, 0, colon), part_of(piece, colon + 1)};
  }

  void read_linear(Piece argument) {
    const auto [name, value] = halves(argument);
    if (!sound_) return;
    if (name.text != "bias") {
      step_.modules.push_back({module_of(name), size_of(value)});
      return;
    }
    if (step_.bias || step_.always_bias) return void(misfit(name, "has two biases"));
    if (value.text == "true") return void(step_.always_bias = true);
    step_.bias = find_member(std::string(value.text));
    if (!step_.bias || !step_.bias->is_flag())
      fault(value, "unknown flag " + quoted(value) + " of biases",
            "true, or " + meant(std::string(value.text), flag_names()));
  }

  // Reads "q_width + 2 kv_width".
  SizeSum size_of(Piece piece) {
    SizeSum sum;
    for (const Piece& term : parts_of(piece, '+')) {
      const size_t space = term.text.find(' ');
      const Piece first = part_of(term, 0, space),
                  second = space == term.text.npos ? Piece{} : part_of(term, space);
      const std::optional<int64_t> number =
          whole_number(first.text, second.text.empty() ? kMostWidth : 64);
      const std::string word(number ? second.text : first.text);
      const auto size = word.empty() ? nullptr : find_size(word);
      const bool known = number ? word.empty() || size : size && second.text.empty();
      if (!known) {
        fault(term,
              "unknown size " + quoted(term) +
                  ", expected a number, a size, or up to 64 times a size",
              meant(word, size_names()));
        return sum;
      }
      sum.push_back({number.value_or(1), size});
    }
    if (sum.empty()) fault(piece, "a size is missing", "one of " + join(size_names(), ", "));
    if (sum.size() > 8) fault(piece, "a size has more than 8 terms");
    return sum;
  }

  void read_word(const std::vector<Piece>& rest, Piece op) {
    std::vector<std::string> words;
    for (const char* word : step_.op->words)
      if (word) words.emplace_back(word);
    if (rest.size() != 1) return void(misfit(op, "needs one of " + join(words, ", ")));
    const auto found = std::ranges::find(words, rest[0].text);
    if (found == words.end())
      return void(fault(rest[0], "unknown function " + quoted(rest[0]),
                        meant(std::string(rest[0].text), words)));
    step_.word = static_cast<int>(found - words.begin());
  }

  void read_factor(const std::vector<Piece>& rest, Piece op) {
    if (rest.size() != 1) return void(misfit(op, "needs a factor"));
    const std::string text(rest[0].text);
    const Reading<double> number = read_number(scalar_node(text, {}, Quoting::plain));
    step_.factor = find_member(text);
    if (number.value && *number.value > 1e-9 && *number.value < 1e9)
      step_.number = *number.value;
    else if (!step_.factor || !std::holds_alternative<double ModelSpec::*>(step_.factor->member))
      fault(rest[0], "unknown factor " + quoted(rest[0]) +
                         ", expected a number above 0 or a member such as residual_scale");
  }

  void read_experts(const std::vector<Piece>& rest, Piece op) {
    constexpr const char* kParts[] = {"router", "experts", "gate", "up", "down"};
    step_.modules.resize(std::size(kParts));
    for (const Piece& argument : rest) {
      const auto [name, value] = halves(argument);
      const auto part = std::ranges::find(kParts, name.text,
                                          [](const char* text) { return std::string_view(text); });
      if (part == std::end(kParts)) return void(misfit(name, "has no part " + quoted(name)));
      StepModule& module = step_.modules[static_cast<size_t>(part - kParts)];
      if (!module.name.empty()) return void(misfit(name, "has two parts " + quoted(name)));
      module.name = module_of(value);
    }
    for (size_t i = 0; i < std::size(kParts); ++i)
      if (step_.modules[i].name.empty())
        return void(misfit(op, std::string("names no ") + kParts[i]));
  }

  LayerSteps& layer_;
  const Position line_;
  Diagnostics& faults_;
  LayerStep step_;
  bool sound_ = true;
};

}  // namespace

LayerSteps parse_layer(std::string_view text, const Position& first, Diagnostics& faults) {
  LayerSteps layer{.names = {"h"}};
  const size_t before = faults.all().size();
  Position at = first;
  for (size_t begin = 0; begin < text.size(); ++at.line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    line = line.substr(0, line.find('#'));
    const Piece formula = trimmed({line, 0});
    if (formula.text.empty()) continue;
    if (formula.text.size() > kMostStepText) {
      faults.add(at, kLayerKey,
                 "a line is longer than " + std::to_string(kMostStepText) + " characters");
      continue;
    }
    if (layer.steps.size() == kMostSteps) {
      faults.add(at, kLayerKey, "more than " + std::to_string(kMostSteps) + " lines",
                 "a layer has about twelve");
      return layer;
    }
    if (std::optional<LayerStep> step = LineParser(layer, at, faults).parse(formula))
      layer.steps.push_back(std::move(*step));
    if (faults.full()) return layer;
  }
  if (faults.all().size() == before) check_flow(layer, faults);
  return layer;
}

std::vector<Diagnostic> width_faults(const LayerSteps& layer, const ModelSpec& spec,
                                     int64_t number) {
  std::vector<Diagnostic> faults;
  std::vector<int64_t> widths(layer.names.size(), 0);
  widths[0] = spec.hidden_size;
  for (const LayerStep& step : layer.steps) {
    if (!step.in_layer(spec, number)) continue;
    std::vector<int64_t> in, out(step.out.size());
    for (int name : step.in) in.push_back(widths[static_cast<size_t>(name)]);
    std::string fault = step.op->widths({spec, step, in, out});
    for (size_t i = 0; i < out.size(); ++i) {
      if (out[i] > kMostWidth) fault = "a result is wider than " + std::to_string(kMostWidth);
      widths[static_cast<size_t>(step.out[i])] = out[i];
    }
    if (!fault.empty()) {
      faults.push_back({step.at, "layer", step.op->name + (": " + fault), ""});
      return faults;  // those after it follow from it
    }
  }
  if (widths[0] != spec.hidden_size)
    faults.push_back({layer.steps.back().at, "layer",
                      "h is " + std::to_string(widths[0]) + " wide, expected hidden_size " +
                          std::to_string(spec.hidden_size),
                      ""});
  return faults;
}

ValueId record_layer(const LayerSteps& layer, Recorder& g, const ModelSpec& spec, int64_t number,
                     ValueId h) {
  std::vector<ValueId> values(layer.names.size(), kNoValue);
  values[0] = h;
  for (const LayerStep& step : layer.steps) {
    if (!step.in_layer(spec, number)) continue;
    std::vector<ValueId> in, out(step.out.size());
    for (int name : step.in) in.push_back(values[static_cast<size_t>(name)]);
    step.op->record({g, spec, number, step, in, out});
    for (size_t i = 0; i < out.size(); ++i) values[static_cast<size_t>(step.out[i])] = out[i];
  }
  return values[0];
}

}  // namespace forge
