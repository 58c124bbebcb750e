#include "stores/cloud/gcs/gcs_batch.h"

#include <algorithm>
#include <optional>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "stores/cloud/gcs/gcs_json.h"

namespace holdfast {
namespace {

constexpr std::string_view kBatchBoundary = "holdfast_batch_5b1c7f0e";

bool StartsWithNoCase(std::string_view text, std::string_view start) {
  return EqualsInAnyCase(text.substr(0, start.size()), start);
}

// Returns the line up to '\n', without its '\r', and removes it from `text`.
std::string_view TakeLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

std::optional<std::string_view> BoundaryOf(std::string_view content_type) {
  if (!StartsWithNoCase(content_type, "multipart/mixed")) return std::nullopt;
  size_t at = content_type.find(';');
  while (at != std::string_view::npos) {
    const size_t end =
        std::min(content_type.find(';', at + 1), content_type.size());
    std::string_view part =
        TrimSpaces(content_type.substr(at + 1, end - at - 1));
    if (StartsWithNoCase(part, "boundary=")) {
      part.remove_prefix(9);
      if (part.size() >= 2 && part.front() == '"' && part.back() == '"') {
        part = part.substr(1, part.size() - 2);
      }
      if (part.empty() || part.size() > 200) return std::nullopt;
      return part;
    }
    at = end < content_type.size() ? end : std::string_view::npos;
  }
  return std::nullopt;
}

// Extracts the call's index from "<response-7>" or "response-7".
std::optional<size_t> CallOfContentId(std::string_view value) {
  const size_t at = value.rfind("response-");
  if (at == std::string_view::npos) return std::nullopt;
  value.remove_prefix(at + 9);
  while (!value.empty() && (value.front() == '<')) value.remove_prefix(1);
  while (!value.empty() && (value.back() == '>')) value.remove_suffix(1);
  const auto number = ParseNumber<uint64_t>(value);
  if (!number) return std::nullopt;
  return static_cast<size_t>(*number);
}

// Removes the part's own headers, up to the empty line, from `part`. Returns
// the call's index from the Content-ID.
std::optional<size_t> TakePartHeaders(std::string_view& part) {
  std::optional<size_t> call;
  while (!part.empty()) {
    const std::string_view line = TakeLine(part);
    if (line.empty()) break;
    if (StartsWithNoCase(line, "content-id:")) {
      call = CallOfContentId(TrimSpaces(line.substr(11)));
    }
  }
  return call;
}

// Parses "HTTP/1.1 204 No Content", headers, an empty line and the body.
std::optional<GcsBatchAnswer> InnerAnswer(std::string_view text) {
  const std::string_view line = TakeLine(text);
  if (!StartsWithNoCase(line, "HTTP/") || line.find(' ') > line.size()) {
    return std::nullopt;
  }
  const std::string_view status = TrimSpaces(line.substr(line.find(' ') + 1));
  const auto number = ParseNumber<uint64_t>(status.substr(0, 3));
  if (!number || *number < 100 || *number > 599) return std::nullopt;
  while (!text.empty() && !TakeLine(text).empty()) {
  }
  return GcsBatchAnswer{static_cast<int>(*number), text};
}

}  // namespace

GcsBatchBody MakeDeleteBatch(std::span<const std::string> paths) {
  GcsBatchBody batch;
  batch.content_type = "multipart/mixed; boundary=";
  batch.content_type += kBatchBoundary;
  size_t call = 0;
  for (const std::string& path : paths) {
    batch.body += "--";
    batch.body += kBatchBoundary;
    batch.body += "\r\nContent-Type: application/http\r\nContent-ID: <";
    batch.body += std::to_string(call++);
    batch.body += ">\r\n\r\nDELETE ";
    batch.body += path;
    batch.body += " HTTP/1.1\r\n\r\n\r\n";
  }
  batch.body += "--";
  batch.body += kBatchBoundary;
  batch.body += "--\r\n";
  return batch;
}

Result<std::vector<GcsBatchAnswer>> ParseGcsBatch(std::string_view content_type,
                                                  std::string_view body,
                                                  size_t call_count) {
  const auto boundary = BoundaryOf(content_type);
  if (!boundary) return DataLossError("the answer is not multipart/mixed");
  const std::string mark = "--" + std::string(*boundary);
  std::vector<GcsBatchAnswer> answers(call_count);
  size_t at = body.find(mark);
  while (at != std::string_view::npos) {
    std::string_view part = body.substr(at + mark.size());
    if (part.starts_with("--")) break;
    at = body.find(mark, at + mark.size());
    if (at == std::string_view::npos) {
      return DataLossError("the batch has no end");
    }
    part = part.substr(0, part.size() - (body.size() - at));
    TakeLine(part);  // the rest of the boundary's line
    const auto call = TakePartHeaders(part);
    const auto answer = InnerAnswer(part);
    if (!call || *call >= call_count || !answer) {
      return DataLossError("a part of the batch is not an answer to a call");
    }
    // Answers may be in any order; each call has exactly one.
    if (answers[*call].status != 0) {
      return DataLossError("two answers to one call of the batch");
    }
    answers[*call] = *answer;
  }
  for (const GcsBatchAnswer& answer : answers) {
    if (answer.status == 0) {
      return DataLossError("a call of the batch has no answer");
    }
  }
  return answers;
}

}  // namespace holdfast
