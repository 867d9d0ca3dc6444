// Finds the position of a value in a row's text. Values carry no positions: faults are rare, so the
// text is read again for each.
#include "core/data/read/source_readers.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

// Moves over valid JSON.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) { skip_blanks(); }
  size_t position() const { return position_; }

  // Enters the container here and stops at the member called `name`; stays put and returns false if
  // it has none.
  bool enter(std::string_view name) {
    const size_t start = position_;
    if (position_ < text_.size() && (text_[position_] == '{' || text_[position_] == '[')) {
      const bool object = text_[position_] == '{';
      step();
      for (int64_t index = 0; position_ < text_.size() && text_[position_] != '}' && text_[position_] != ']';
           ++index) {
        std::string key = std::to_string(index);
        if (object) {
          const size_t begin = position_;
          skip_value();
          key = Json::parse(text_.substr(begin, position_ - begin)).get<std::string>();
          skip_blanks();
          step();  // the colon
        }
        if (key == name) return true;
        skip_value();
        skip_blanks();
        if (position_ < text_.size() && text_[position_] == ',') step();
      }
    }
    position_ = start;
    return false;
  }

 private:
  void skip_blanks() {
    while (position_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[position_]) != std::string_view::npos)
      ++position_;
  }
  void step() {
    ++position_;
    skip_blanks();
  }
  void skip_value() {
    ValueText value;
    while (position_ < text_.size() && !value.ends_before(text_[position_]))
      if (value.ends_with(text_[position_++])) return;
  }

  std::string_view text_;
  size_t position_ = 0;
};

}  // namespace

PlaceInFile place_of_byte(const SourceRow& row, size_t byte, const std::string& path) {
  PlaceInFile place{path, row.line, row.column};
  for (char c : std::string_view(row.text).substr(0, byte)) place.pass(c);
  return place;
}

std::string place_of(const SourceRow& row, const std::string& pointer) {
  Scanner scanner(row.text);
  const std::vector<std::string> names = split(pointer, '/');
  for (size_t i = 1; i < names.size() && scanner.enter(names[i]); ++i) {
  }
  const PlaceInFile place = place_of_byte(row, scanner.position(), "");
  return place_text(place.line, place.column);
}

}  // namespace forge
