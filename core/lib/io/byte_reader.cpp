#include "core/lib/io/byte_reader.h"

#include <cstring>

#include "core/lib/base/text.h"
#include "core/lib/io/json.h"

namespace forge {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;  // fits into the L2 cache

// Actual contents of files that are named like text files.
struct Signature {
  std::string_view bytes;
  const char* what;
  const char* hint;
};
constexpr const char* kSaveAsCsv =
    "save it as CSV (UTF-8), or: pandas.read_excel(\"OLD.xlsx\").to_csv(\"NEW.csv\", index=False)";
constexpr Signature kRefused[] = {
    {"%PDF-", "a PDF, expected text", "write its text to a file: pdftotext OLD.pdf NEW.txt"},
    {"{\\rtf", "rich text (RTF), expected plain text", "save it as plain text"},
    {"\xD0\xCF\x11\xE0", "an old Word or Excel file, expected text", kSaveAsCsv},
    {{"SQLite format 3\0", 16}, "an SQLite database, expected text", "write its rows as JSONL or CSV"},
    {"PK\x03\x04", "a zip archive, expected text", "unzip it"},
    {{"\xFD"
      "7zXZ\0",
      6},
     "compressed with xz, expected text, gzip or zstd",
     "unxz it"},
    {"7z\xBC\xAF\x27\x1C", "a 7z archive, expected text", "unpack it"},
    {"PAR1", "Parquet, expected text", "name it .parquet"},
    {{"ARROW1\0", 7}, "an Arrow file, expected text", "write it as JSONL: Dataset.to_json(…)"},
    {"\xff\xfe", "UTF-16, expected UTF-8", "iconv -f UTF-16 -t UTF-8"},
    {"\xfe\xff", "UTF-16, expected UTF-8", "iconv -f UTF-16 -t UTF-8"},
    {kGitLfsPointer, "a Git LFS pointer, expected the file that it points to", kGitLfsHint},
    {"<!DOCTYPE html", "a web page, expected data", "download the file itself, not the page that shows it"},
    {"<!doctype html", "a web page, expected data", "download the file itself, not the page that shows it"},
};

bool is_bzip2(std::string_view start) {
  return start.size() >= 10 && starts_with(start, "BZh") && start.substr(4, 6) == "1AY&SY";
}

}  // namespace

ByteReader::ByteReader(const std::string& path) : place_{path}, file_(path), buffer_(kBufferBytes) {
  fill();
  const std::string_view start(buffer_.data(), filled_);
  auto refuse = [&](const char* what, const char* hint) {
    throw Error(ErrorKind::data, path + ": is " + what).hint(hint);
  };
  if (starts_with(start, "PK\x03\x04")) {
    // The archive holds the names of its files uncompressed.
    const auto holds = [&](std::string_view name) { return start.find(name) != start.npos; };
    if (holds("xl/") || holds("opendocument.spreadsheet"))
      refuse("a workbook (Excel), expected text", kSaveAsCsv);
    if (holds("word/") || holds("opendocument.text"))
      refuse("a Word document, expected text", "save it as plain text");
  }
  for (const Signature& signature : kRefused)
    if (starts_with(start, signature.bytes)) refuse(signature.what, signature.hint);
  if (is_bzip2(start)) refuse("compressed with bzip2, expected text, gzip or zstd", "bunzip2 it");
  if (file_.compressed() && (starts_with(start, "\x1f\x8b") || starts_with(start, "\x28\xb5\x2f\xfd")))
    refuse("compressed twice, expected once", "decompress it once");
  if (starts_with(start, "\xEF\xBB\xBF")) position_ = 3;
}

bool ByteReader::fill() {
  try {
    position_ = filled_ = 0;
    filled_ = static_cast<size_t>(file_.read(buffer_.data(), static_cast<int64_t>(buffer_.size())));
  } catch (const Error& error) {
    throw PlacedError(ErrorKind::data, place_, error.what());
  }
  return filled_ > 0;
}

int64_t ByteReader::file_position() const {
  const auto waiting = static_cast<int64_t>(filled_ - position_);
  return file_.compressed() ? file_.file_position() : file_.file_position() - waiting;
}

bool ByteReader::read_line(std::string& text, int64_t limit, bool* cut) {
  text.clear();
  if (cut) *cut = false;
  if (peek() < 0) return false;
  while (peek() >= 0 && static_cast<int64_t>(text.size()) <= limit) {
    const char* begin = buffer_.data() + position_;
    const auto* end = static_cast<const char*>(std::memchr(begin, '\n', filled_ - position_));
    text.append(begin, end ? end : buffer_.data() + filled_);
    position_ = end ? static_cast<size_t>(end - buffer_.data()) + 1 : filled_;
    if (end) {
      place_.pass('\n');
      return true;
    }
    place_.column += count_characters({begin, buffer_.data() + filled_});
  }
  if (cut) *cut = peek() >= 0;
  return true;
}

}  // namespace forge
