#include "core/lib/io/csv.h"

#include "tests/io/pack.h"
#include "tests/test.h"

using namespace forge;

namespace {

// Returns "line:col[cell|cell]" of each record; an absent cell is "-".
std::string records(const std::string& path, char delimiter = ',', int64_t longest = 1 << 20) {
  CsvFile file(path, delimiter, longest);
  std::string all;
  for (CsvRecord record; file.next(record);) {
    all += (all.empty() ? "" : " ") + std::to_string(record.line) + ":" + std::to_string(record.column) + "[";
    bool first = true;
    for (const CsvCell& cell : parse_csv_record(record, *file.table(), path)) {
      all += (first ? "" : "|") + (cell.text.empty() && !cell.quoted ? "-" : cell.text);
      first = false;
    }
    all += "]";
  }
  return all;
}

std::string of(const std::string& content, char delimiter = ',') {
  TemporaryFolder folder;
  return records(folder.write("a.csv", content), delimiter);
}

std::string problem(const std::string& content, char delimiter = ',', int64_t longest = 1 << 20) {
  TemporaryFolder folder;
  const std::string path = folder.write("a.csv", content);
  std::string text = error_of([&] { records(path, delimiter, longest); });
  for (size_t at; (at = text.find(path)) != std::string::npos;) text.erase(at, path.size());
  return text;
}

}  // namespace

TEST_CASE("CSV records have the cells that RFC 4180 gives them") {
  CHECK(of("a,b\n1,2\n3,4") == "2:1[1|2] 3:1[3|4]");
  CHECK(of("a,b\r\n1,2\r\n") == "2:1[1|2]");
  CHECK(of("\xEF\xBB\xBF"
           "a,b\n1,2\n") == "2:1[1|2]");
  CHECK(of("a,b\n,\n\"\",x\n") == "2:1[-|-] 3:1[|x]");
  CHECK(of("a\n\"x \"\"y\"\" z\"\n\"\"\"\"\n") == "2:1[x \"y\" z] 3:1[\"]");
  CHECK(of("a,b\n\"1\n\n,2\",3\r\n4,\"5\r\n6\"\r\n") == "2:1[1\n\n,2|3] 5:1[4|5\r\n6]");
  CHECK(of("a,b\n\n  \n1,2\n\r\n") == "4:1[1|2]");
  CHECK(of("a;b\n1,5;\"x;y\"\n") == "2:1[1,5|x;y]");
  CHECK(of("\"a\";\"b\"\n1;2\n") == "2:1[1|2]");
  CHECK(of("a|b\n1|2\n") == "2:1[1|2]");
  CHECK(of("a,b;c\n1,2;3\n") == "2:1[1|2;3]");
  CHECK(of("a\tb\n1,5\t\"x\ty\"\n", '\t') == "2:1[1,5|x\ty]");
  CHECK(of("a,\"b\nc\"\n1,2") == "3:1[1|2]");
  CHECK(of("a,b\n").empty());
  CHECK(of("é,ü\nß,\"日本\"") == "2:1[ß|日本]");
  TemporaryFolder folder;
  CHECK(records(folder.write("a.csv.gz", gzip_of("a,b\n1,\"2\n\"\n"))) == "2:1[1|2\n]");
}

TEST_CASE("an index that pandas wrote has the names that pandas reads it by") {
  TemporaryFolder folder;
  const auto header = [&](const std::string& text) { return CsvFile(folder.write("a.csv", text), ',').table()->header; };
  CHECK(header(",a,b\n0,1,2\n") == std::vector<std::string>{"Unnamed: 0", "a", "b"});
  CHECK(header(",Unnamed: 0,a\n0,1,2\n") == std::vector<std::string>{"Unnamed: 0.1", "Unnamed: 0", "a"});
  CHECK(header(",,a\n0,1,2\n") == std::vector<std::string>{"Unnamed: 0", "Unnamed: 1", "a"});
}

TEST_CASE("a broken CSV file is refused at the exact place") {
  CHECK(problem("") == ":1:1: empty, expected a header of column names");
  CHECK(problem("\n \n") == ":1:1: empty, expected a header of column names");
  CHECK(problem("a,b\n1,é\"x\n") == ":2:4: a quote inside a cell that does not begin with one");
  CHECK(problem("a,b\n1,\"x\"y\n") == ":2:6: text after a closing quote, expected the end of the cell");
  CHECK(problem("a,b\n1,2\n3,\"x\ny\n") == ":3:3: a quote that is never closed");
  CHECK(problem("a,b\n\"") == ":2:1: a quote that is never closed");
  CHECK(problem("a,\"b\n") == ":1:3: a quote that is never closed");
  CHECK(problem("a,b\n1\n") == ":2:1: 1 cell, expected 2 as in the header");
  CHECK(problem("a,b\n1,2\n1,\"2\n3\",x,y\n") == ":4:4: 4 cells, expected 2 as in the header");
  CHECK(problem("a,b\n1\r2,3\n") == ":2:2: a carriage return inside a cell without quotes");
  CHECK(problem("a,b\n1,\"\nx\xff\"\n") == ":3:2: not valid UTF-8");
  CHECK(problem("a,,a, \n") ==
        ":1:3: a column without a name, expected a name for each column\n"
        ":1:4: the column \"a\" appears twice, first at column 1\n"
        ":1:6: a column without a name, expected a name for each column");
  CHECK(problem("a;b|c\n1;2\n") ==
        ":1:1: one column called \"a;b|c\", expected columns with commas between them");
  CHECK(problem("a,b\n", '\t') == ":1:1: one column called \"a,b\", expected columns with tabs between them");
  CHECK(problem("a,b\n1,\"" + std::string(5000, 'x'), ',', 1000) == ":2:1: a record of more than 1000 B");
}
