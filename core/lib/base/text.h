#pragma once
// Small text helpers: nearest names for error messages, human units, plain tables.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace forge {

// Returns the candidate with the smallest edit distance (transpositions count one), if it is near
// enough to be a typing mistake; empty otherwise.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
// Returns ` (did you mean "x"?)`, or an empty text.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
bool starts_with(std::string_view text, std::string_view prefix);
bool ends_with(std::string_view text, std::string_view suffix);
std::string lower(std::string_view text);

// Writes 1536 as "1.5 KiB", with powers of 1024.
std::string format_bytes(int64_t bytes);
// Writes 41943040 as "41,943,040".
std::string format_count(int64_t count);
// Writes 75.2 s as "1 min 15 s".
std::string format_seconds(double seconds);
// Returns the shortest text that reads back as the same double, always with '.', 'e' or digits only
// ("0.0002", "1e-05").
std::string format_number(double value);

// Formats rows of equally many cells as aligned columns, two spaces apart, no trailing blanks,
// '\n' after each row.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

// True if `text` is well-formed UTF-8 (no surrogates, no overlong forms); otherwise `bad` gets the
// offset of the first offending character.
bool valid_utf8(std::string_view text, size_t* bad = nullptr);

// Returns the length of the well-formed character at bytes[at]; 0 if there is none. Sets `broken`
// to the length of the longest beginning of a character there (at least 1).
size_t utf8_character(std::string_view bytes, size_t at, size_t* broken);

// Returns the number of code points of valid UTF-8.
int64_t count_characters(std::string_view text);

}  // namespace forge
