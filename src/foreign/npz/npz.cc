#include "foreign/npz/npz.h"

#include <algorithm>

#include "engine/commit/known_formats.h"
#include "engine/restore/leaf_request.h"
#include "foreign/extents/extent_checkpoint.h"
#include "foreign/npz/inflate_reader.h"
#include "foreign/npz/npy_header.h"
#include "foreign/sidecar/tree_sidecar.h"
#include "formats/zip/zip_reader.h"
#include "formats/zip/zip_writer.h"
#include "ground/base/coding.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/base/utf8.h"
#include "stores/place/file_set.h"

namespace holdfast {
namespace {

// The most bytes that deflate can produce from one byte.
constexpr uint64_t kInflationMax = 1032;
constexpr uint64_t kCrcPieceBytes = 1 << 20;
// The longest string that one member may hold.
constexpr uint64_t kTextBytesMax = uint64_t{64} << 20;

// Compares a stored member's bytes with its CRC.
Status CheckStored(const DeflatedStream& stream) {
  uint32_t crc = 0;
  for (uint64_t done = 0; done < stream.byte_count;) {
    const uint64_t piece = std::min(kCrcPieceBytes, stream.byte_count - done);
    HF_ASSIGN_OR_RETURN(
        const Bytes bytes,
        stream.store->Read(stream.file, {stream.offset + done, piece}));
    crc = pickle::ZipCrc32(bytes.view(), crc);
    done += piece;
  }
  if (crc == stream.crc32) return Status();
  return DataLossError("its CRC-32 does not match");
}

// Converts numpy's strings (code points of four bytes, padded with NULs) to
// UTF-8.
Result<std::string> TextOfCodePoints(std::string_view bytes,
                                     bool is_big_endian) {
  std::string text;
  size_t end = 0;  // without the trailing NULs
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    uint32_t code_point = LoadLittle<uint32_t>(bytes.data() + i);
    if (is_big_endian) code_point = __builtin_bswap32(code_point);
    const bool is_surrogate = code_point >= 0xD800 && code_point < 0xE000;
    if (is_surrogate || code_point > 0x10FFFF) {
      return DataLossError("a string has a code point of " +
                           std::to_string(code_point));
    }
    AppendUtf8(text, code_point);
    if (code_point != 0) end = text.size();
  }
  text.resize(end);
  return text;
}

class NpzOpener {
 public:
  NpzOpener(const Place& file, bool verify)
      : place_(file), file_(file.name()), verify_(verify) {}

  Status ReadDirectory() {
    HF_ASSIGN_OR_RETURN(store_, MakeFileSet({{file_, place_}}));
    HF_ASSIGN_OR_RETURN(const ObjectInfo info, store_->Stat(file_));
    source_ = std::make_unique<pickle::StoreSource>(
        *store_, file_, ByteRange{0, info.byte_count});
    Result<pickle::ZipReader> zip =
        pickle::ZipReader::Open(*source_, /*allow_deflated=*/true);
    if (!zip.ok()) {
      return WithWhatFileIs(zip.status(), *store_, file_, "npz")
          .WithContext(place_.path());
    }
    zip_ = std::make_unique<pickle::ZipReader>(std::move(zip).value());
    return Status();
  }

  Result<std::unique_ptr<Checkpoint>> Open(bool use_sidecar) {
    HF_RETURN_IF_ERROR(ReadDirectory());
    const std::string sidecar_name = std::string(kSidecarKey) + ".json";
    const pickle::ZipEntry* sidecar = nullptr;
    std::vector<ExtentLeaf> leaves;
    for (const pickle::ZipEntry& entry : zip_->entries()) {
      if (entry.name == sidecar_name) {
        sidecar = &entry;
      } else if (entry.name.ends_with(kNpySuffix)) {
        leaves.push_back(LeafOf(entry));
      } else {
        return DataLossError(place_.path() + ": member \"" + entry.name +
                             "\" is not an npy file, so this is not an npz "
                             "file");
      }
    }
    HF_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                        MakeExtentCheckpoint(OneItemInfo(place_.path(), "npz"),
                                             store_, std::move(leaves)));
    if (sidecar == nullptr || !use_sidecar) return checkpoint;
    return Seen(std::move(checkpoint), *sidecar);
  }

  // Compares the member's bytes with its CRC.
  Status CheckMember(const pickle::ZipEntry& entry) {
    HF_ASSIGN_OR_RETURN(const DeflatedStream stream, StreamOf(entry));
    return entry.is_deflated ? CheckDeflated(stream) : CheckStored(stream);
  }

  const std::vector<pickle::ZipEntry>& entries() const {
    return zip_->entries();
  }

 private:
  Result<DeflatedStream> StreamOf(const pickle::ZipEntry& entry) const {
    HF_ASSIGN_OR_RETURN(const uint64_t offset, zip_->DataOffset(entry));
    if (entry.is_deflated &&
        entry.byte_count / kInflationMax > entry.stored_byte_count) {
      return DataLossError(
          "it says that it is " + std::to_string(entry.byte_count) +
          " bytes, more than its " + std::to_string(entry.stored_byte_count) +
          " deflated ones can be");
    }
    return DeflatedStream{store_,           file_,
                          offset,           entry.stored_byte_count,
                          entry.byte_count, entry.crc32};
  }

  Result<std::unique_ptr<Checkpoint>> Seen(
      std::unique_ptr<Checkpoint> checkpoint, const pickle::ZipEntry& entry) {
    HF_ASSIGN_OR_RETURN(const DeflatedStream stream, StreamOf(entry));
    HF_ASSIGN_OR_RETURN(const std::string text,
                        entry.is_deflated
                            ? InflateStart(stream, entry.byte_count)
                            : zip_->Read(entry));
    return WithSidecarText(std::move(checkpoint), text, place_.path());
  }

  ExtentLeaf LeafOf(const pickle::ZipEntry& entry) const {
    ExtentLeaf leaf;
    leaf.info =
        NamedLeaf(entry.name.substr(0, entry.name.size() - kNpySuffix.size()),
                  ValueKind::kArray);
    const Status filled = FillLeaf(entry, leaf);
    if (!filled.ok()) leaf.info.problem = filled.WithContext(PlaceOf(entry));
    return leaf;
  }

  std::string PlaceOf(const pickle::ZipEntry& entry) const {
    return place_.path() + ": member \"" + entry.name + "\" at offset " +
           std::to_string(entry.header_offset);
  }

  Result<NpyHeader> ReadNpyHeader(const pickle::ZipEntry& entry,
                                  const DeflatedStream& stream) const {
    const auto read = [&](uint64_t byte_count) -> Result<std::string> {
      byte_count = std::min(byte_count, entry.byte_count);
      if (entry.is_deflated) return InflateStart(stream, byte_count);
      HF_ASSIGN_OR_RETURN(const Bytes bytes,
                          store_->Read(file_, {stream.offset, byte_count}));
      return bytes.ToString();
    };
    HF_ASSIGN_OR_RETURN(const std::string start, read(kNpyStartBytes));
    HF_ASSIGN_OR_RETURN(const uint64_t length, NpyHeaderLength(start));
    HF_ASSIGN_OR_RETURN(const std::string bytes, read(length));
    return ParseNpyHeader(bytes);
  }

  // Reads one string or byte string without its trailing NULs, like numpy.
  Status FillText(const NpyHeader& header, DeflatedStream stream,
                  bool is_deflated, ExtentLeaf& leaf) const {
    if (header.data_bytes > kTextBytesMax) {
      return UnimplementedError("a string of " +
                                std::to_string(header.data_bytes) + " bytes");
    }
    const bool is_bytes = header.text_kind == 'S';
    leaf.info.kind = is_bytes ? ValueKind::kBytes : ValueKind::kString;
    leaf.info.stored_bytes = stream.stored_bytes;
    leaf.info.decoded_bytes = header.data_bytes;
    leaf.read_text = [stream = std::move(stream), header, is_deflated, is_bytes,
                      check = std::move(leaf.check)]() -> Result<std::string> {
      if (check) HF_RETURN_IF_ERROR(check());
      std::string bytes;
      if (is_deflated) {
        HF_ASSIGN_OR_RETURN(bytes, InflateStart(stream, stream.byte_count));
        bytes.erase(0, header.header_bytes);
      } else {
        HF_ASSIGN_OR_RETURN(
            const Bytes stored,
            stream.store->Read(
                stream.file,
                {stream.offset + header.header_bytes, header.data_bytes}));
        bytes = stored.ToString();
      }
      if (!is_bytes) return TextOfCodePoints(bytes, header.is_big_endian);
      bytes.resize(bytes.find_last_not_of('\0') + 1);
      return bytes;
    };
    leaf.check = nullptr;
    return Status();
  }

  Status FillLeaf(const pickle::ZipEntry& entry, ExtentLeaf& leaf) const {
    HF_ASSIGN_OR_RETURN(DeflatedStream stream, StreamOf(entry));
    HF_ASSIGN_OR_RETURN(NpyHeader header, ReadNpyHeader(entry, stream));
    const uint64_t want = header.header_bytes + header.data_bytes;
    if (entry.byte_count != want) {
      return DataLossError("it has " + std::to_string(entry.byte_count) +
                           " bytes, but its header and an array of shape " +
                           ShapeToString(header.shape) + " take " +
                           std::to_string(want));
    }
    if (verify_) {
      leaf.check = [stream, is_deflated = entry.is_deflated,
                    place = PlaceOf(entry)] {
        const Status status =
            is_deflated ? CheckDeflated(stream) : CheckStored(stream);
        return status.ok() ? status : status.WithContext(place);
      };
    }
    if (header.text_kind != 0) {
      return FillText(header, std::move(stream), entry.is_deflated, leaf);
    }
    leaf.info.dtype = header.dtype;
    leaf.info.shape = header.shape;
    leaf.info.stored_bytes = entry.stored_byte_count;
    if (entry.is_deflated) {
      leaf.info.codecs = "deflate";
      leaf.reader = MakeInflateReader(std::move(stream), std::move(header));
      return Status();
    }
    leaf.extents.push_back({BoxOf(header.shape), file_,
                            stream.offset + header.header_bytes, header.strides,
                            header.is_big_endian});
    return Status();
  }

  const Place place_;
  const std::string file_;
  const bool verify_;
  std::shared_ptr<Store> store_;
  std::unique_ptr<pickle::StoreSource> source_;
  std::unique_ptr<pickle::ZipReader> zip_;
};

}  // namespace

Result<std::unique_ptr<Checkpoint>> OpenNpz(const Place& file, bool use_sidecar,
                                            bool verify) {
  return CatchBadAlloc(
      [&] { return NpzOpener(file, verify).Open(use_sidecar); });
}

Result<std::vector<Damage>> CheckZipMembers(
    const Place& file, Executor& executor, const CancelToken& cancel,
    const std::function<bool(const std::string& name, uint64_t byte_count)>&
        takes,
    uint64_t& member_count) {
  NpzOpener opener(file, /*verify=*/false);
  HF_RETURN_IF_ERROR(opener.ReadDirectory());
  std::vector<const pickle::ZipEntry*> mine;
  for (const pickle::ZipEntry& entry : opener.entries()) {
    if (takes(entry.name, entry.byte_count)) mine.push_back(&entry);
  }
  member_count = mine.size();
  std::vector<Status> found(mine.size());
  HF_RETURN_IF_ERROR(executor.ParallelFor(
      mine.size(),
      [&](size_t i, int) {
        found[i] = opener.CheckMember(*mine[i]);
        return Status();
      },
      &cancel));
  std::vector<Damage> damages;
  for (size_t i = 0; i < mine.size(); ++i) {
    if (found[i].ok()) continue;
    damages.push_back({"", mine[i]->name, mine[i]->header_offset, found[i]});
  }
  return damages;
}

}  // namespace holdfast
