#include "core/run/svg.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "core/lib/base/format.h"

namespace forge {
namespace {

constexpr double kWidth = 520, kHeight = 240, kLeft = 56, kRight = 16, kTop = 28, kBottom = 40;
constexpr size_t kDrawnPoints = 1000, kDottedPoints = 60;
constexpr const char* kColors[] = {"#3b76c4", "#d9722e", "#3f9a58", "#9a4fb0"};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void include(double value) { low = std::min(low, value), high = std::max(high, value); }
  bool empty() const { return low > high; }
  void widen() {  // a single value, or a flat curve, gets a range around it
    if (high > low) return;
    double margin = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= margin, high += margin;
  }
};

std::string text_of(double value) {
  return fmt::format("{:.6g}", value);
}

std::string coordinate(double value) {
  return fmt::format("{:.1f}", value);
}

struct Frame {
  Range x, y;
  double column(double value) const {
    return kLeft + (value - x.low) / (x.high - x.low) * (kWidth - kLeft - kRight);
  }
  double row(double value) const {
    return kHeight - kBottom - (value - y.low) / (y.high - y.low) * (kHeight - kTop - kBottom);
  }
};

// Returns the indices to draw: all, or the extremes of each interval, so that no spike disappears.
std::vector<size_t> drawn_points(const std::vector<double>& y) {
  std::vector<size_t> indices;
  size_t stretch = y.size() <= kDrawnPoints ? 1 : (2 * y.size() + kDrawnPoints - 1) / kDrawnPoints;
  for (size_t begin = 0; begin < y.size(); begin += stretch) {
    size_t end = std::min(y.size(), begin + stretch);
    auto [least, most] = std::minmax_element(y.begin() + begin, y.begin() + end);
    size_t first = std::min(least, most) - y.begin(), second = std::max(least, most) - y.begin();
    indices.push_back(first);
    if (second != first) indices.push_back(second);
  }
  return indices;
}

std::string curve(const Series& series, const Frame& frame, const char* color) {
  std::string path, dots;
  bool pen_down = false;
  for (size_t i : drawn_points(series.y)) {
    if (!std::isfinite(series.y[i]) || !std::isfinite(series.x[i])) {
      pen_down = false;
      continue;
    }
    std::string column = coordinate(frame.column(series.x[i])), row = coordinate(frame.row(series.y[i]));
    path += (pen_down ? "L" : "M") + column + " " + row;
    pen_down = true;
    if (series.x.size() <= kDottedPoints)
      dots += "<circle cx='" + column + "' cy='" + row + "' r='3' fill='" + color + "'><title>" +
              escape_html(series.name) + " at " + text_of(series.x[i]) + ": " + text_of(series.y[i]) +
              "</title></circle>";
  }
  return "<path d='" + path + "' fill='none' stroke='" + color + "' stroke-width='1.5'/>" + dots;
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return "<text x='" + coordinate(x) + "' y='" + coordinate(y) + "' text-anchor='" + anchor + "'>" +
         escape_html(text) + "</text>";
}

std::string axes(const Chart& chart, const Frame& frame) {
  std::string svg;
  for (double tick : round_ticks(frame.y.low, frame.y.high, 5)) {
    std::string row = coordinate(frame.row(tick));
    svg += "<line class='grid' x1='" + coordinate(kLeft) + "' x2='" + coordinate(kWidth - kRight) + "' y1='" +
           row + "' y2='" + row + "'/>" + label(kLeft - 6, frame.row(tick) + 4, "end", text_of(tick));
  }
  for (double tick : round_ticks(frame.x.low, frame.x.high, 6))
    svg += label(frame.column(tick), kHeight - kBottom + 16, "middle", text_of(tick));
  svg += label((kLeft + kWidth - kRight) / 2, kHeight - 6, "middle", chart.x_label);
  return svg +
         label(kLeft, 16, "start", chart.title + (chart.y_label.empty() ? "" : " (" + chart.y_label + ")"));
}

}  // namespace

std::string escape_html(const std::string& text) {
  constexpr std::string_view kLetters = "&<>\"'";
  constexpr const char* kEntities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  std::string out;
  for (const char letter : text) {
    const size_t at = kLetters.find(letter);
    out += at == std::string_view::npos ? std::string(1, letter) : kEntities[at];
  }
  return out;
}

std::vector<double> round_ticks(double low, double high, int count) {
  double rough = (high - low) / count;
  if (!(rough > 0) || !std::isfinite(rough)) return {};
  double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (double factor : {1.0, 2.0, 5.0, 10.0})
    if ((step = factor * power) >= rough * 0.999) break;
  std::vector<double> ticks;
  for (double index = std::ceil(low / step - 1e-9); index * step <= high + step * 1e-9 && ticks.size() < 100;
       ++index)
    ticks.push_back(index * step);
  return ticks;
}

std::string line_chart(const Chart& chart) {
  Frame frame;
  for (const Series& series : chart.series) {
    for (size_t i = 0; i < series.y.size(); ++i) {
      if (!std::isfinite(series.x[i]) || !std::isfinite(series.y[i])) continue;
      frame.x.include(series.x[i]);
      frame.y.include(series.y[i]);
    }
  }
  if (frame.x.empty()) return "";
  frame.x.widen();
  frame.y.widen();
  std::string svg = "<svg viewBox='0 0 " + coordinate(kWidth) + " " + coordinate(kHeight) + "' role='img'>" +
                    axes(chart, frame);
  double legend = kWidth - kRight;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const char* color = kColors[i % std::size(kColors)];
    svg += curve(chart.series[i], frame, color);
    if (chart.series.size() == 1) continue;
    svg += "<g fill='" + std::string(color) + "'>" + label(legend, 16, "end", chart.series[i].name) + "</g>";
    legend -= 8.0 * static_cast<double>(chart.series[i].name.size()) + 16;
  }
  return svg + "</svg>";
}

}  // namespace forge
