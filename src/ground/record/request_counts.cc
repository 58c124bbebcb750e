#include "ground/record/request_counts.h"

namespace holdfast {

RemoteCounters RequestCounts::Read() const {
  return {.requests = requests,
          .attempts = attempts,
          .retries = retries,
          .throttled = throttled,
          .hedges = hedges,
          .hedge_bytes = hedge_bytes,
          .connections = connections,
          .sent_bytes = sent_bytes,
          .received_bytes = received_bytes};
}

RequestCounts& RequestCounts::OfProcess() {
  static auto* counts = new RequestCounts;
  return *counts;
}

}  // namespace holdfast
