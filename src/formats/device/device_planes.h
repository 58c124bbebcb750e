// DevicePlanesPlan: how a device decodes containers of byte planes
// (formats/codec/blosc_planes.h) whose encoded bytes are in its memory.
//
// A plan reads headers and trees, a few cache lines for each 128 KiB of a
// plane. The device then does what takes time: DeviceKernels::DecodePlanes.
// Most containers that EncodeBloscPlanes writes qualify; a block in which
// libzstd has found repeated strings does not, nor does any other compressor.
// The host decodes what does not qualify, and what the device finds damaged.
// Its error, if there is one, is what the user sees.
//
// One plan may have many containers, which the device decodes at the same time.
// A launch takes tens of microseconds, however little there is to decode.
//
// Thread-safety: one thread while Add is called; const functions any thread.
// Ownership: a plan keeps nothing of a container. Units: bytes. Errors: Add
// returns false for what is not for the device, damaged or not, and leaves the
// plan as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/codec/zstd_literals.h"
#include "formats/device/kernel_tables.h"

namespace holdfast {

class DevicePlanesPlan {
 public:
  // `bytes_are_known`: the caller has compared all encoded bytes with checksums
  // of its own, so the frames' checksums are not computed.
  explicit DevicePlanesPlan(bool bytes_are_known)
      : checks_frames_(!bytes_are_known) {}

  // Plans to decode `container`, whose copy is at `encoded_at` of the encoded
  // bytes in the device's memory, to `decoded_bytes` bytes from `elements_at`
  // on. Adds nothing and returns false if it is not for the device, or if
  // host_bytes() would exceed `host_bytes_max`.
  bool Add(std::string_view container, uint64_t encoded_at,
           uint64_t decoded_bytes, uint64_t elements_at,
           uint64_t host_bytes_max = std::numeric_limits<uint64_t>::max());

  // The work memory on the device: tables, results, scratch. The caller copies
  // the tables to its start, and the results back to the host.
  uint64_t table_bytes() const;
  // REQUIRES: `out` has table_bytes() bytes.
  void WriteTables(char* out) const;
  uint64_t results_at() const { return table_bytes(); }
  uint64_t result_count() const;  // words of 4 bytes
  // The tables, and the results after them.
  uint64_t host_bytes() const;
  uint64_t scratch_at() const { return host_bytes(); }
  uint64_t scratch_bytes() const { return scratch_bytes_; }
  uint64_t work_bytes() const { return scratch_at() + scratch_bytes_; }

  // The least sizes of the encoded bytes and of the elements.
  uint64_t encoded_bytes() const { return encoded_bytes_; }
  uint64_t elements_bytes() const { return elements_bytes_; }

  // Returns whether the device has decoded the container of this number, in the
  // order in which they were added. `results` are the words at results_at(),
  // after all work of the launch has ended.
  bool IsDecoded(size_t container, std::span<const uint32_t> results) const;

  // For the launch.
  uint32_t piece_count() const;
  uint32_t frame_count() const;
  uint64_t frames_at() const;  // pieces are at 0
  uint64_t trees_at() const;
  uint32_t tile_count() const { return tile_count_; }  // of each frame
  bool checks_frames() const { return checks_frames_; }

 private:
  class Reader;
  uint64_t HostBytes(uint64_t piece_count, uint64_t frame_count) const;

  // The first piece and frame of a container.
  struct Container {
    size_t first_piece = 0;
    size_t first_frame = 0;
  };

  const bool checks_frames_;
  std::vector<Container> containers_;
  std::vector<DevicePiece> pieces_;
  std::vector<DeviceFrame> frames_;
  std::vector<DeviceTree> trees_;
  std::map<std::string, uint32_t, std::less<>> tree_of_description_;
  uint64_t scratch_bytes_ = 0;
  uint64_t encoded_bytes_ = 0;
  uint64_t elements_bytes_ = 0;
  uint32_t tile_count_ = 1;
};

}  // namespace holdfast
