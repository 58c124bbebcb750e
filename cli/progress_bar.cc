#include "cli/progress_bar.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "cli/units.h"

namespace holdfast::cli {
namespace {

constexpr const char* kEraseLine = "\r\x1b[K";

double SteadySeconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string Bar(double fraction, int columns) {
  const auto filled = static_cast<size_t>(fraction * columns);
  std::string bar(static_cast<size_t>(columns), ' ');
  std::fill_n(bar.begin(), filled, '#');
  return "[" + bar + "]";
}

std::string Percent(double fraction) {
  std::string digits = std::to_string(static_cast<int>(fraction * 100));
  return std::string(3 - digits.size(), ' ') + digits + "%";
}

}  // namespace

ProgressBar::ProgressBar(std::ostream& sink,
                         std::function<double()> now_seconds, Options options)
    : sink_(sink),
      now_seconds_(now_seconds ? std::move(now_seconds) : SteadySeconds),
      options_(std::move(options)),
      start_seconds_(now_seconds_()) {}

void ProgressBar::Update(uint64_t done_bytes, uint64_t total_bytes) {
  const double now = now_seconds_();
  if (now - start_seconds_ < options_.delay_seconds) return;
  const bool is_drawn = drawn_seconds_ >= 0;
  if (is_drawn && now - drawn_seconds_ < options_.interval_seconds) return;
  drawn_seconds_ = std::max(now, 0.0);
  sink_ << kEraseLine
        << ProgressLine(options_.label, done_bytes, total_bytes,
                        now - start_seconds_, options_.columns)
        << std::flush;
}

void ProgressBar::Finish() {
  if (drawn_seconds_ < 0) return;
  drawn_seconds_ = -1;
  sink_ << kEraseLine << std::flush;
}

std::string ProgressLine(const std::string& label, uint64_t done_bytes,
                         uint64_t total_bytes, double seconds, int columns) {
  const double rate = static_cast<double>(done_bytes) / std::max(seconds, 1e-9);
  const std::string speed = HumanBytes(static_cast<uint64_t>(rate)) + "/s";
  // The last column stays empty, because some terminals wrap when it is
  // written.
  const auto width = static_cast<size_t>(std::max(columns - 1, 1));
  if (total_bytes == 0) {
    return (label + "  " + HumanBytes(done_bytes) + "  " + speed)
        .substr(0, width);
  }
  const uint64_t done = std::min(done_bytes, total_bytes);
  const double fraction =
      static_cast<double>(done) / static_cast<double>(total_bytes);
  std::string tail =
      " " + HumanBytes(done) + " / " + HumanBytes(total_bytes) + "  " + speed;
  if (done > 0) {
    const double left = static_cast<double>(total_bytes - done) / rate;
    tail += "  ETA " + HumanSeconds(left);
  }
  const std::string head = label + " " + Percent(fraction) + " ";
  const int room =
      static_cast<int>(width) - static_cast<int>(head.size() + tail.size()) - 2;
  const std::string bar = room >= 5 ? Bar(fraction, std::min(room, 30)) : "";
  return (head + bar + tail).substr(0, width);
}

}  // namespace holdfast::cli
