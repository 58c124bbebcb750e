// A progress bar on one line of a terminal.
//
// The bar appears when a job has run for a second, and is redrawn at most ten
// times a second. Finish (or the destructor) erases it.
// Thread-safety: Update calls must not overlap (ProgressFn promises that);
// Finish comes after the last Update.
// Ownership: borrows the sink.
// Units: bytes; seconds of a steady clock; columns.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

namespace holdfast::cli {

class ProgressBar {
 public:
  struct Options {
    std::string label;  // "verify"
    int columns = 80;
    double delay_seconds = 1.0;
    double interval_seconds = 0.1;
  };

  // Starts the job's time. An empty `now_seconds` means the steady clock.
  ProgressBar(std::ostream& sink, std::function<double()> now_seconds,
              Options options);
  ~ProgressBar() { Finish(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Draws the bar if it is time to. A `total_bytes` of 0 means unknown.
  void Update(uint64_t done_bytes, uint64_t total_bytes);
  // Erases the line if anything was drawn. Idempotent.
  void Finish();

 private:
  std::ostream& sink_;
  std::function<double()> now_seconds_;
  Options options_;
  double start_seconds_;
  double drawn_seconds_ = -1;  // of the last drawing; negative: not drawn
};

// Returns "verify  45% [####      ] 1.2 GiB / 2.7 GiB  512.0 MiB/s  ETA 3.00
// s", never wider than `columns`.
std::string ProgressLine(const std::string& label, uint64_t done_bytes,
                         uint64_t total_bytes, double seconds, int columns);

}  // namespace holdfast::cli
