#include "core/lib/io/json.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <ranges>
#include <set>

#include "core/lib/base/file.h"
#include "core/lib/base/placed_error.h"
#include "core/lib/base/text.h"
#include "core/lib/io/encoding.h"

namespace forge {
namespace {

struct PythonNumber {
  std::string_view word;
  double value;
};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr PythonNumber kPythonNumbers[] = {
    {"-Infinity", -kInfinity}, {"Infinity", kInfinity}, {"NaN", std::numeric_limits<double>::quiet_NaN()}};

// Document in which null takes the place of each Python number, outside strings.
struct PythonText {
  std::string text;
  std::map<int64_t, double> values;  // by the number of the null that replaces it
};

// Builds the document by hand instead of with nlohmann's own handler, to see keys, depth and count
// as they come.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(const JsonLimits& limits, const std::map<int64_t, double>& in_null) : limits_(limits), in_null_(in_null) {}

  Json take() { return std::move(root_); }
  const std::string& problem() const { return problem_; }
  // Returns the number of bytes up to the end of a fault of syntax; nothing for another fault.
  std::optional<size_t> syntax_byte() const { return syntax_byte_; }

  bool null() override {
    const auto number = in_null_.find(nulls_++);
    return (number == in_null_.end() ? add(nullptr) : add(number->second)) != nullptr;
  }
  bool boolean(bool value) override { return add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t& text) override {
    // An integer literal arrives here only when it does not fit 64 bits.
    if (!limits_.wide_integers && text.find_first_of(".eE") == std::string::npos)
      return fail("the integer " + text + " does not fit 64 bits");
    return add(value) != nullptr;
  }
  bool string(string_t& value) override { return add(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return fail("binary values are not JSON"); }

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) return fail("the key \"" + name + "\" appears twice in one object");
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception& error) override {
    syntax_byte_ = byte;
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while …":
    // keep the end.
    problem_ = error.what();
    size_t cut = problem_.find("number overflow parsing '");
    if (cut != std::string::npos) {
      const std::string number = problem_.substr(problem_.find('\'', cut) + 1);
      problem_ = "the number " + number.substr(0, number.find('\'')) + " does not fit 64 bits";
      return false;
    }
    cut = problem_.find("syntax error");
    if (cut != std::string::npos)
      problem_ = problem_.substr(cut);
    else if ((cut = problem_.find("] ")) != std::string::npos)
      problem_ = problem_.substr(cut + 2);
    return false;
  }

 private:
  bool fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }
  template <class Value>
  Json* add(Value&& value) {
    if (++values_ > limits_.values) {
      fail("more than " + format_count(limits_.values) + " values");
      return nullptr;
    }
    if (stack_.empty()) {
      root_ = std::forward<Value>(value);
      return &root_;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) return &parent.emplace_back(std::forward<Value>(value));
    return &append_member(parent, key_, std::forward<Value>(value));  // key() refused duplicates
  }
  bool open(Json container) {
    if (static_cast<int>(stack_.size()) >= limits_.depth)
      return fail("nested deeper than " + std::to_string(limits_.depth) + " levels");
    Json* place = add(std::move(container));
    if (!place) return false;
    stack_.push_back(place);
    keys_.emplace_back();
    return true;
  }
  bool close() {
    stack_.pop_back();
    keys_.pop_back();
    return true;
  }

  JsonLimits limits_;
  const std::map<int64_t, double>& in_null_;
  int64_t nulls_ = 0;
  Json root_;
  std::vector<Json*> stack_;
  std::vector<std::set<std::string>> keys_;
  std::string key_, problem_;
  int64_t values_ = 0;
  std::optional<size_t> syntax_byte_;
};

PythonText without_python_numbers(std::string_view text) {
  PythonText plain;
  bool quoted = false;
  int64_t nulls = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (quoted && text[i] == '\\' && i + 1 < text.size()) plain.text += text[i++];
    const std::string_view rest = text.substr(i);
    if (!quoted && starts_with(rest, "null")) ++nulls;
    const auto* number = std::find_if(std::begin(kPythonNumbers), std::end(kPythonNumbers),
                                      [&](const PythonNumber& known) { return !quoted && starts_with(rest, known.word); });
    if (number == std::end(kPythonNumbers)) {
      plain.text += text[i];
      continue;
    }
    plain.text += "null";
    plain.values[nulls++] = number->value;
    plain.text.append(std::max<size_t>(number->word.size(), 4) - 4, ' ');  // places after it stay, but after NaN
    i += number->word.size() - 1;
  }
  return plain;
}

}  // namespace

void refuse_git_lfs_file(const std::string& path) {
  constexpr int64_t kLargestPointer = 1024;
  if (file_size(path) <= kLargestPointer)
    refuse_git_lfs(read_file(path, kLargestPointer, ErrorKind::environment), path, ErrorKind::environment);
}

void refuse_git_lfs(std::string_view content, const std::string& path, ErrorKind kind) {
  if (starts_with(content, kGitLfsPointer))
    throw Error(kind, path + ": is a Git LFS pointer, expected the file that it points to").hint(kGitLfsHint);
}

Json parse_json(std::string_view text, const std::string& name, ErrorKind kind, const JsonLimits& limits,
                int64_t first_line) {
  refuse_git_lfs(text, name, kind);
  PythonText plain;
  if (limits.python_numbers && (text.find("NaN") != text.npos || text.find("Infinity") != text.npos))
    plain = without_python_numbers(text), text = plain.text;
  auto fail = [&](size_t byte, const std::string& problem) {
    PlaceInFile place{name, first_line, 1};
    for (const char c : text.substr(0, byte)) place.pass(c);
    throw PlacedError(kind, place, problem);
  };
  size_t bad = 0;
  if (!valid_utf8(text, &bad)) fail(bad, utf8_problem(text, bad));
  // nlohmann treats a NUL byte as the end of the text and ignores what follows.
  if ((bad = text.find('\0')) != text.npos) fail(bad, "a NUL byte, expected text");
  if (trim(text).empty()) fail(0, "empty, expected JSON");
  Builder builder(limits, plain.values);
  // The parser takes each byte once, so that the handler's position is known.
  size_t taken = 0;
  const auto counted = text | std::views::transform([&taken](char c) { return ++taken, c; });
  const bool good = Json::sax_parse(counted.begin(), counted.end(), &builder);
  const size_t end = builder.syntax_byte().value_or(taken);
  if (!good) fail(end > 0 ? end - 1 : 0, builder.problem());
  return builder.take();
}

Json& append_member(Json& object, std::string name, Json value) {
  std::vector<std::pair<const std::string, Json>>& members = object.get_ref<Json::object_t&>();
  // Growing copies every member, whose const name cannot move; most objects have no more than four.
  if (members.size() == members.capacity()) members.reserve(std::max<size_t>(4, 2 * members.size()));
  return members.emplace_back(std::move(name), std::move(value)).second;
}

std::string dump_json(const Json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace forge
