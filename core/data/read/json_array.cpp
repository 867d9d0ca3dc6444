// Reads the rows of a .json file: an array, an object that contains one, or objects one after
// another, like JSON lines in a file of another name.
#include <algorithm>
#include <string_view>

#include "core/data/read/source_readers.h"
#include "core/data/rows/advice.h"
#include "core/data/rows/formats/format.h"
#include "core/data/rows/keys.h"
#include "core/data/rows/rows.h"
#include "core/lib/base/text.h"

namespace forge {

namespace {

bool is_blank(int c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
void skip_blanks(ByteReader& reader) {
  while (is_blank(reader.peek())) reader.advance();
}

constexpr size_t kFirstObject = size_t{1} << 20;

// True for members of a row that are lists.
bool is_list_of_row(const std::string& key) {
  return among("messages conversations conversation prompt completion chosen rejected history "
               "tools functions ids input_ids labels attention_mask images",
               key) ||
         std::ranges::count(kTokenMasks, key) > 0;
}

// True if a list under a name of turns holds rows in their place: lists of turns, or objects with
// such a list of their own.
bool holds_rows(const std::string& key, const Json& list) {
  constexpr const char* kTurns[] = {"messages", "conversations", "conversation"};
  if (list.empty() || std::ranges::count(kTurns, key) == 0) return false;
  const auto has_turns = [&](const char* name) {
    return list[0].is_object() && list[0].contains(name) && list[0][name].is_array();
  };
  return list[0].is_array() || std::ranges::any_of(kTurns, has_turns);
}

// True if a file's only object is a row, not a container of rows.
bool is_row(const std::string& text) {
  const std::optional<Json> object = json_in(text);
  if (!object) return false;
  for (const auto& [key, value] : object->items())
    if (value.is_array() && (!is_list_of_row(key) || holds_rows(key, value))) return false;
  return object->is_object() && !object->empty();
}

// True if rows follow one another. An object too long to inspect is assumed to contain an array.
bool holds_objects(const std::string& path) {
  ByteReader reader(path);
  skip_blanks(reader);
  if (reader.peek() != '{') return false;
  std::string text;
  ValueText object;
  do {
    if (reader.peek() < 0 || text.size() >= kFirstObject) return false;
    text += static_cast<char>(reader.peek());
    reader.advance();
  } while (!object.ends_with(text.back()));
  skip_blanks(reader);
  return reader.peek() == '{' || (reader.peek() < 0 && is_row(text));
}

// Cuts the elements out of the array by brackets and quotes alone. The text inside an element is
// checked when it is parsed; here only the text between elements is checked.
class JsonArray : public RowSource {
 public:
  explicit JsonArray(const std::string& path) : reader_(path), bare_(holds_objects(path)) {
    if (!bare_) find_array();
  }

  bool next(SourceRow& row) override {
    if (done_) return false;
    skip_blanks();
    if (bare_ && reader_.peek() < 0) return false;
    if (bare_ && reader_.peek() != '{') unexpected("{, the next row");
    if (reader_.peek() == ']' && first_) return finish();
    if (!first_ && !bare_) {
      if (reader_.peek() == ']') return finish();
      expect(',', "a comma or ] after a row");
      skip_blanks();
    }
    first_ = false;
    read_value(row);
    return true;
  }
  int64_t file_position() const override { return reader_.file_position(); }

 private:
  void skip_blanks() { forge::skip_blanks(reader_); }
  PlaceInFile here() const { return {reader_.path(), reader_.line(), reader_.column()}; }
  [[noreturn]] void unexpected(const std::string& expected) {
    const int c = reader_.peek();
    const std::string found =
        c < 0 ? "the file ends here" : std::string("found '") + static_cast<char>(c) + "'";
    throw PlacedError(ErrorKind::data, here(), found + ", expected " + expected);
  }
  void expect(char c, const std::string& what) {
    if (reader_.peek() != c) unexpected(what);
    reader_.advance();
  }

  // Finds the array: the file is the array, or an object with one array among its members, after
  // any other members.
  void find_array() {
    skip_blanks();
    if (reader_.peek() < 0)
      throw PlacedError(ErrorKind::data, {reader_.path()}, "empty, expected a JSON array of rows");
    if (reader_.peek() == '[') return reader_.advance();
    expect('{', "[ (an array of rows) or { (an object that holds one)");
    in_object_ = true;
    std::string deeper;
    for (skip_blanks(); reader_.peek() != '}'; skip_blanks()) {
      array_key_ = skip_key();
      if (reader_.peek() == '[') return reader_.advance();
      SourceRow ignored;
      read_value(ignored);
      if (deeper.empty()) deeper = rows_below(array_key_, ignored);
      skip_blanks();
      if (reader_.peek() == ',')
        reader_.advance();
      else if (reader_.peek() != '}')
        unexpected("a comma or }");
    }
    throw PlacedError(ErrorKind::data, here(), "the object holds no array, expected one array of rows",
                      deeper.empty() ? ""
                                     : "the rows lie under " + deeper +
                                           ": write that list alone to a file, as jq '." + deeper + "' does");
  }

  // Returns the path of the rows that lie deeper within a member; empty if there are none, or if it
  // is too long to look at.
  std::string rows_below(const std::string& key, const SourceRow& member) const {
    if (member.too_long > 0 || !starts_with(member.text, "{")) return "";
    const std::optional<Json> object = json_in("{" + key + ":" + member.text + "}");
    return object ? list_of_rows(*object) : "";
  }

  // Returns the key as it is written, with its quotes.
  std::string skip_key() {
    skip_blanks();
    if (reader_.peek() != '"') unexpected("a key in quotes");
    SourceRow key;
    read_value(key);
    skip_blanks();
    expect(':', "a colon");
    skip_blanks();
    return key.text;
  }

  bool finish() {
    reader_.advance();
    for (skip_blanks(); in_object_ && reader_.peek() != '}'; skip_blanks()) {
      expect(',', "a comma or }");
      const std::string key = skip_key();
      if (reader_.peek() == '[') {
        const PlaceInFile second = here();
        reader_.advance();
        skip_blanks();
        const bool rows = reader_.peek() == '{' || reader_.peek() == '[';
        throw PlacedError(
            ErrorKind::data, second,
            "a second array in the object, " + key + " beside " + array_key_ + ", expected one array of rows",
            array_key_ == "\"columns\"" && (key == "\"index\"" || key == "\"data\"")
                ? "pandas wrote it with orient=\"split\"; write df.to_json(\"train.jsonl\", orient=\"records\", lines=True)"
            : !rows ? "this is a dictionary of columns: write datasets.Dataset.from_dict(columns).to_json(\"train.jsonl\")"
                    : "write each array to a file of its own: jq '.[" + array_key_ + "]' OLD.json > NEW.json");
      }
      SourceRow ignored;
      read_value(ignored);
    }
    if (in_object_) reader_.advance();
    skip_blanks();
    if (reader_.peek() >= 0) unexpected("the end of the file");
    done_ = true;
    return false;
  }

  // Skips one value.
  void read_value(SourceRow& row) {
    row = {reader_.line(), reader_.column(), ""};
    ValueText value;
    for (bool any = false, ended = false; !ended; any = true) {
      if (reader_.peek() < 0) unexpected(value.quoted() ? "the end of a text" : "the rest of the value");
      const char c = static_cast<char>(reader_.peek());
      if (value.ends_before(c) && !any) unexpected("a value");
      if (value.ends_before(c)) return;
      take(c, row);
      ended = value.ends_with(c);
    }
  }
  void take(char c, SourceRow& row) {
    if (row.too_long == 0 && static_cast<int64_t>(row.text.size()) < kMaxRowBytes)
      row.text += c;
    else
      add_text(row, {&c, 1});
    reader_.advance();
  }

  ByteReader reader_;
  const bool bare_;  // rows without an enclosing array
  std::string array_key_;  // of the object that holds the array
  bool in_object_ = false, first_ = true, done_ = false;
};

}  // namespace

std::unique_ptr<RowSource> open_json_array(const std::string& path) {
  return std::make_unique<JsonArray>(path);
}

}  // namespace forge
