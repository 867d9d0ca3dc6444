#pragma once
// Line charts as SVG text, for reports that need no network and no script.
#include <string>
#include <vector>

namespace forge {

struct Series {
  std::string name;
  std::vector<double> x, y;  // equally long; points that are not finite leave gaps
};

struct Chart {
  std::string title, x_label, y_label;
  std::vector<Series> series;
};

// Returns a chart as SVG. At most 1,000 points of a series are drawn: for a longer one, the
// smallest and largest of each stretch. Few points also get a dot each. Returns an empty text when
// no series has a finite point.
std::string line_chart(const Chart& chart);

// Writes & < > " ' as entities.
std::string escape_html(const std::string& text);

// Returns about `count` round numbers (1, 2 or 5 times a power of ten) that cover [low, high].
std::vector<double> round_ticks(double low, double high, int count);

}  // namespace forge
