// Constants of the zip format that reader and writer share.
//
// Source: PKWARE's APPNOTE.TXT, sections 4.3 and 4.5.
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::pickle {

inline constexpr uint32_t kLocalSignature = 0x04034b50;
inline constexpr uint32_t kDescriptorSignature = 0x08074b50;
inline constexpr uint32_t kCentralSignature = 0x02014b50;
inline constexpr uint32_t kEnd64Signature = 0x06064b50;
inline constexpr uint32_t kEnd64LocatorSignature = 0x07064b50;
inline constexpr uint32_t kEndSignature = 0x06054b50;

inline constexpr size_t kLocalBytes = 30;
inline constexpr size_t kCentralBytes = 46;
inline constexpr size_t kEnd64Bytes = 56;
inline constexpr size_t kEnd64LocatorBytes = 20;
inline constexpr size_t kEndBytes = 22;

// A field with this value has its real value in the 64-bit records.
inline constexpr uint64_t kIs64 = 0xffffffff;
inline constexpr uint64_t kIs64Count = 0xffff;
inline constexpr uint16_t kExtra64Id = 0x0001;

inline constexpr uint16_t kMethodDeflate = 8;

inline constexpr uint16_t kFlagEncrypted = 0x0001;
inline constexpr uint16_t kFlagDescriptor = 0x0008;  // sizes follow the data
inline constexpr uint16_t kFlagUtf8 = 0x0800;

}  // namespace holdfast::pickle
