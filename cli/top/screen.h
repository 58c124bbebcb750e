// The screen of `holdfast top`, and the terminal that shows it.
//
// Ownership: values. Units: rows and columns of the terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::cli::top {

struct Size {
  size_t rows = 24;
  size_t columns = 80;
};

enum class Style : uint8_t {
  kPlain,
  kBold,
  kDim,
  kSelected,  // the cursor
  kBar,       // titles
  kGood,
  kBad,
  kLive,
};

// A piece of text in one style. The text is UTF-8 that a terminal does not
// interpret (cells.h).
struct Span {
  std::string text;
  Style style = Style::kPlain;
};

using Line = std::vector<Span>;
// One line for each row of the terminal, each as wide as the terminal.
using Screen = std::vector<Line>;

// A code point, or one of the constants below.
using Key = uint32_t;
inline constexpr Key kKeyUp = 0x110000;
inline constexpr Key kKeyDown = 0x110001;
inline constexpr Key kKeyLeft = 0x110002;
inline constexpr Key kKeyRight = 0x110003;
inline constexpr Key kKeyPageUp = 0x110004;
inline constexpr Key kKeyPageDown = 0x110005;
inline constexpr Key kKeyHome = 0x110006;
inline constexpr Key kKeyEnd = 0x110007;
inline constexpr Key kKeyEnter = 0x110008;
inline constexpr Key kKeyBackspace = 0x110009;
inline constexpr Key kKeyEscape = 0x11000a;
inline constexpr Key kKeyTab = 0x11000b;

struct Event {
  std::vector<Key> keys;  // typed since the last call
  int signal = 0;         // a signal that asks the program to end
};

// Thread-safety: Wake from any thread, all other methods from one. The
// destructor restores the terminal.
class Terminal {
 public:
  virtual ~Terminal() = default;
  virtual Size size() const = 0;
  virtual void Draw(const Screen& screen) = 0;
  // Waits for an event. Returns earlier when the size changes, after Wake, or
  // after `seconds_max`.
  virtual Event Wait(double seconds_max) = 0;
  virtual void Wake() = 0;
};

}  // namespace holdfast::cli::top
