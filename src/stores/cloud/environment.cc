#include "stores/cloud/environment.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace holdfast {

Environment ProcessEnvironment() {
  return [](const std::string& name) -> std::string {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? "" : value;
  };
}

int ReadSmallFile(const std::string& path, size_t byte_count_max,
                  std::string& text) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(
      std::fopen(path.c_str(), "re"), &std::fclose);
  if (file == nullptr) return errno;
  text.resize(byte_count_max + 1);
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return errno;
  return text.size() > byte_count_max ? EFBIG : 0;
}

}  // namespace holdfast
