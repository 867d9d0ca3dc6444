#include "core/lib/io/csv.h"

#include <algorithm>
#include <map>

#include "core/lib/base/placed_error.h"
#include "core/lib/base/text.h"
#include "core/lib/io/encoding.h"

namespace forge {

// Tracks whether a record continues after a line. A quote opens a cell only at its beginning.
class QuoteState {
 public:
  explicit QuoteState(char delimiter) : delimiter_(delimiter) {}
  bool inside() const { return state_ == State::quoted; }
  // Adds a line, or the next part of one.
  void add(std::string_view line) {
    if (state_ == State::start && line.find('"') == std::string_view::npos) {
      if (!line.empty() && line.back() != delimiter_) state_ = State::plain;
      return;
    }
    for (char c : line) {
      if (c == '"')
        state_ = state_ == State::start || state_ == State::quote ? State::quoted
                 : state_ == State::quoted                        ? State::quote
                                                                  : State::plain;
      else if (state_ != State::quoted)
        state_ = c == delimiter_ ? State::start : State::plain;
    }
  }

 private:
  enum class State { start, plain, quoted, quote };  // quote: closes the cell, or is the first of a pair
  State state_ = State::start;
  char delimiter_;
};

namespace {

// Parses a record in one pass, tracking the position of each byte.
class CellParser {
 public:
  CellParser(const CsvRecord& record, char delimiter, const std::string& path)
      : text_(record.text), place_{path, record.line, record.column}, delimiter_(delimiter) {}
  std::vector<CsvCell> cells() {
    std::vector<CsvCell> all;
    for (bool more = true; more;) {
      all.push_back(cell());
      more = position_ < text_.size();
      if (more) step();  // the delimiter
    }
    return all;
  }

 private:
  bool at(char c) const { return position_ < text_.size() && text_[position_] == c; }
  void step() { place_.pass(text_[position_++]); }
  [[noreturn]] void fail(const std::string& what, const std::string& hint) const {
    throw PlacedError(ErrorKind::data, place_, what, hint);
  }
  CsvCell cell() {
    CsvCell cell{"", at('"'), place_.line, place_.column};
    return cell.quoted ? quoted(std::move(cell)) : plain(std::move(cell));
  }
  CsvCell plain(CsvCell cell) {
    for (; position_ < text_.size() && !at(delimiter_); step()) {
      if (at('"'))
        fail("a quote inside a cell that does not begin with one",
             "quote the whole cell and double the quotes in it");
      if (at('\r')) fail("a carriage return inside a cell without quotes", "end lines with \\n or \\r\\n");
      cell.text += text_[position_];
    }
    return cell;
  }
  CsvCell quoted(CsvCell cell) {
    for (step(); position_ < text_.size(); step()) {
      if (at('"')) {
        step();
        if (at('"')) {
          cell.text += '"';
          continue;
        }
        if (position_ < text_.size() && !at(delimiter_))
          fail("text after a closing quote, expected the end of the cell",
               "double the quotes inside a cell");
        return cell;
      }
      cell.text += text_[position_];
    }
    place_.line = cell.line, place_.column = cell.column;
    fail("a quote that is never closed", "close it, or double the quotes inside a cell");
  }

  std::string_view text_;
  size_t position_ = 0;
  PlaceInFile place_;
  char delimiter_;
};

void check_utf8(const CsvRecord& record, const std::string& path) {
  size_t bad = 0;
  if (valid_utf8(record.text, &bad)) return;
  PlaceInFile place{path, record.line, record.column};
  for (const char c : std::string_view(record.text).substr(0, bad)) place.pass(c);
  throw PlacedError(ErrorKind::data, place, utf8_problem(record.text, bad));
}

// Returns the comma. If a comma file's header has no commas, returns the only one of three other
// delimiters that the header contains.
char delimiter_of(std::string_view header) {
  std::string found;
  bool quoted = false;
  for (char c : header) {
    if (c == '"') quoted = !quoted;
    if (!quoted && c == ',') return ',';
    if (!quoted && (c == ';' || c == '\t' || c == '|') && found.find(c) == found.npos) found += c;
  }
  return found.size() == 1 ? found[0] : ',';
}

// Returns the number of columns at the beginning without a name. pandas writes such a column for an
// index, and several for an index of several levels.
size_t index_columns(const std::vector<CsvCell>& cells) {
  const auto named = [](const CsvCell& cell) { return !trim(cell.text).empty(); };
  const auto first = std::find_if(cells.begin(), cells.end(), named);
  return first == cells.end() ? 0 : static_cast<size_t>(first - cells.begin());
}

// Returns the name that pandas reads such a column by. The file may already have that name from an
// earlier reading.
std::string index_name(size_t column, const std::vector<CsvCell>& cells) {
  std::string name = "Unnamed: " + std::to_string(column);
  while (std::any_of(cells.begin(), cells.end(), [&](const CsvCell& cell) { return cell.text == name; })) name += ".1";
  return name;
}

void check_header(const std::vector<CsvCell>& cells, char delimiter, const std::string& path) {
  std::vector<std::string> faults;
  std::map<std::string, const CsvCell*> seen;
  auto place = [&](const CsvCell& cell) {
    return path + ":" + place_text(cell.line, cell.column) + ": ";
  };
  for (size_t i = index_columns(cells); i < cells.size(); ++i) {
    const CsvCell& cell = cells[i];
    const auto [first, is_new] = seen.emplace(cell.text, &cell);
    if (trim(cell.text).empty())
      faults.push_back(place(cell) + "a column without a name, expected a name for each column");
    else if (!is_new)
      faults.push_back(place(cell) + "the column \"" + cell.text + "\" appears twice, first at column " +
                       std::to_string(first->second->column));
  }
  if (!faults.empty()) throw Error(ErrorKind::data, join(faults, "\n")).hint("fix the header");
  if (cells.size() == 1 && cells[0].text.find_first_of(",;\t|") != std::string::npos)
    throw Error(ErrorKind::data, place(cells[0]) + "one column called \"" + cells[0].text +
                                     "\", expected columns with " + (delimiter == ',' ? "commas" : "tabs") +
                                     " between them")
        .hint(delimiter == ',' ? "separate by commas only" : "separate by tabs, or name it .csv");
}

}  // namespace

std::vector<CsvCell> parse_csv_record(const CsvRecord& record, const CsvTable& table,
                                      const std::string& path) {
  check_utf8(record, path);
  std::vector<CsvCell> cells = CellParser(record, table.delimiter, path).cells();
  const size_t expected = table.header.size();
  if (expected == 0 || cells.size() == expected) return cells;
  const bool more = cells.size() > expected;
  const CsvCell& at = more ? cells[expected] : cells[0];
  throw PlacedError(ErrorKind::data, {path, at.line, at.column},
                    std::to_string(cells.size()) + (cells.size() == 1 ? " cell" : " cells") + ", expected " +
                        std::to_string(expected) + " as in the header",
                    more ? "quote cells that hold the separator" : "write the missing cells, even if empty");
}

CsvFile::CsvFile(const std::string& path, char delimiter, int64_t longest_record)
    : reader_(path), longest_record_(longest_record) {
  CsvTable table{delimiter, {}};
  table_ = std::make_shared<const CsvTable>(table);
  CsvRecord record;
  if (!next(record)) throw Error(ErrorKind::data, path + ":1:1: empty, expected a header of column names");
  if (record.too_long > 0) fail_too_long(record);
  if (delimiter == ',') table.delimiter = delimiter_of(record.text);
  const std::vector<CsvCell> cells = parse_csv_record(record, table, path);
  check_header(cells, table.delimiter, path);
  for (size_t i = 0; i < cells.size(); ++i)
    table.header.push_back(trim(cells[i].text).empty() ? index_name(i, cells) : cells[i].text);
  table_ = std::make_shared<const CsvTable>(std::move(table));
}

void CsvFile::fail_too_long(const CsvRecord& record) const {
  throw Error(ErrorKind::data, reader_.path() + ":" + std::to_string(record.line) +
                                   ":1: a record of more than " + format_bytes(longest_record_))
      .hint("check for a quote that is not closed");
}

bool CsvFile::add_line(CsvRecord& record, QuoteState& quotes) {
  for (bool cut = true; cut;) {
    if (!reader_.read_line(line_, longest_record_, &cut)) return false;
    quotes.add(line_);
    const auto bytes = static_cast<int64_t>(record.text.size() + line_.size()) + record.too_long;
    record.text += line_;
    if (bytes <= longest_record_) continue;
    record.too_long = bytes;
    record.text.clear();
    record.text.shrink_to_fit();
  }
  return true;
}

bool CsvFile::next(CsvRecord& record) {
  do {
    record = {reader_.line(), reader_.column(), ""};
    QuoteState quotes(table_->delimiter);
    bool ended = false;
    do {
      ended = !add_line(record, quotes);
      if (ended && record.text.empty() && record.too_long == 0) return false;
      if (quotes.inside() && !ended && record.too_long == 0) record.text += '\n';
    } while (quotes.inside() && !ended);
    if (ended && record.too_long > 0) fail_too_long(record);
    if (ended) parse_csv_record(record, *table_, reader_.path());  // reports where the quote opened
    if (!record.text.empty() && record.text.back() == '\r') record.text.pop_back();
  } while (record.too_long == 0 && trim(record.text).empty());
  return true;
}

}  // namespace forge
