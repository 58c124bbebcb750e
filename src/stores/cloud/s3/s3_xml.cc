#include "stores/cloud/s3/s3_xml.h"

#include <algorithm>
#include <pugixml.hpp>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "ground/base/utf8.h"
#include "stores/http/http_date.h"

namespace holdfast {
namespace {

// These keep the white space of a key that has nothing else.
constexpr unsigned kXmlParseOptions =
    pugi::parse_default | pugi::parse_ws_pcdata_single;

Status NotTheXmlOf(std::string_view what, std::string_view why) {
  return DataLossError("the answer is not the XML of " + std::string(what) +
                       ": " + std::string(why));
}

// Returns the root element, which must have the given name.
Result<pugi::xml_node> LoadXml(std::string_view xml, std::string_view root_name,
                               pugi::xml_document& document) {
  // The parser ignores a DOCTYPE, so there are no entities to expand. Neither
  // the parser nor the code below recurses, no matter how deep the nesting is.
  const pugi::xml_parse_result parsed = document.load_buffer(
      xml.data(), xml.size(), kXmlParseOptions, pugi::encoding_utf8);
  if (!parsed) {
    return NotTheXmlOf(root_name, std::string(parsed.description()) +
                                      " at offset " +
                                      std::to_string(parsed.offset));
  }
  const pugi::xml_node root = document.document_element();
  if (root.name() != root_name) {
    return NotTheXmlOf(
        root_name,
        "its root is <" + std::string(root.name()).substr(0, 64) + ">");
  }
  return root;
}

std::string ChildText(const pugi::xml_node& node, const char* name) {
  return node.child_value(name);
}

Result<uint64_t> ParseSize(std::string_view text, std::string_view what) {
  const auto number = ParseNumber<uint64_t>(text);
  if (!number) return NotTheXmlOf(what, "a size that is not a number");
  return *number;
}

// Decodes encoding-type=url: %XX, and '+' for a space.
std::string Unescape(std::string text) {
  std::replace(text.begin(), text.end(), '+', ' ');
  return PercentDecoded(text);
}

// Reads the keys of one answer according to its EncodingType.
struct KeyReader {
  bool is_escaped = false;

  std::string operator()(const pugi::xml_node& node, const char* name) const {
    const char* text = node.child_value(name);
    return is_escaped ? Unescape(text) : std::string(text);
  }
};

KeyReader KeyReaderOf(const pugi::xml_node& root) {
  return {ChildText(root, "EncodingType") == "url"};
}

void AppendEscaped(std::string& xml, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '&':
        xml += "&amp;";
        break;
      case '<':
        xml += "&lt;";
        break;
      case '>':
        xml += "&gt;";
        break;
      case '\r':
        xml += "&#13;";
        break;
      case '\n':
        xml += "&#10;";
        break;
      case '\t':
        xml += "&#9;";
        break;
      default:
        xml += c;
    }
  }
}

}  // namespace

Result<ListPage> ParseListPage(std::string_view xml) {
  pugi::xml_document document;
  HF_ASSIGN_OR_RETURN(const pugi::xml_node root,
                      LoadXml(xml, "ListBucketResult", document));
  const KeyReader key_of = KeyReaderOf(root);
  ListPage page;
  for (const pugi::xml_node& node : root.children("Contents")) {
    ObjectEntry entry;
    entry.key = key_of(node, "Key");
    if (entry.key.empty()) {
      return NotTheXmlOf("ListBucketResult", "an object without a key");
    }
    HF_ASSIGN_OR_RETURN(entry.byte_count,
                        ParseSize(ChildText(node, "Size"), "ListBucketResult"));
    entry.version = UnquoteETag(ChildText(node, "ETag"));
    entry.modified_ns =
        ParseIsoTime(ChildText(node, "LastModified")).value_or(0);
    page.objects.push_back(std::move(entry));
  }
  for (const pugi::xml_node& node : root.children("CommonPrefixes")) {
    page.prefixes.push_back(key_of(node, "Prefix"));
  }
  // Bucket guarantees byte order. Amazon's answers are already in this order.
  std::sort(page.objects.begin(), page.objects.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  std::sort(page.prefixes.begin(), page.prefixes.end());
  if (ChildText(root, "IsTruncated") == "true") {
    page.next_page_token = ChildText(root, "NextContinuationToken");
    if (page.next_page_token.empty()) {
      return NotTheXmlOf("ListBucketResult",
                         "it is truncated, but has no token for the rest");
    }
  }
  return page;
}

S3Error ParseS3Error(std::string_view xml) {
  S3Error error;
  pugi::xml_document document;
  if (!document.load_buffer(xml.data(), xml.size(), kXmlParseOptions,
                            pugi::encoding_utf8)) {
    return error;
  }
  const pugi::xml_node root = document.document_element();
  pugi::xml_node node = root;
  if (std::string_view(root.name()) == "ErrorResponse") {
    node = root.child("Error");
  } else if (std::string_view(root.name()) != "Error") {
    return error;
  }
  error.code = ChildText(node, "Code");
  error.message = ChildText(node, "Message");
  error.request_id = ChildText(node, "RequestId");
  if (error.request_id.empty()) error.request_id = ChildText(root, "RequestId");
  error.region = ChildText(node, "Region");
  error.endpoint = ChildText(node, "Endpoint");
  return error;
}

bool IsErrorDocument(std::string_view xml) {
  size_t at = 0;
  for (;;) {
    at = xml.find('<', at);
    if (at == std::string_view::npos || at + 1 >= xml.size()) return false;
    if (xml[at + 1] != '?' && xml[at + 1] != '!') break;
    ++at;
  }
  const std::string_view tag = xml.substr(at);
  return tag.starts_with("<Error>") || tag.starts_with("<Error ");
}

Result<std::string> ParseUploadId(std::string_view xml) {
  pugi::xml_document document;
  HF_ASSIGN_OR_RETURN(const pugi::xml_node root,
                      LoadXml(xml, "InitiateMultipartUploadResult", document));
  std::string id = ChildText(root, "UploadId");
  if (id.empty()) {
    return NotTheXmlOf("InitiateMultipartUploadResult", "it has no UploadId");
  }
  return id;
}

Result<std::string> ParseResultETag(std::string_view xml) {
  pugi::xml_document document;
  if (!document.load_buffer(xml.data(), xml.size(), kXmlParseOptions,
                            pugi::encoding_utf8)) {
    return NotTheXmlOf("an upload or copy", "it cannot be parsed");
  }
  std::string etag =
      UnquoteETag(ChildText(document.document_element(), "ETag"));
  if (etag.empty()) return NotFoundError("the answer has no ETag");
  return etag;
}

Result<std::vector<DeleteFailure>> ParseDeleteResult(std::string_view xml) {
  pugi::xml_document document;
  HF_ASSIGN_OR_RETURN(const pugi::xml_node root,
                      LoadXml(xml, "DeleteResult", document));
  std::vector<DeleteFailure> failures;
  for (const pugi::xml_node& node : root.children("Error")) {
    failures.push_back({ChildText(node, "Key"), ChildText(node, "Code"),
                        ChildText(node, "Message")});
  }
  return failures;
}

Result<UploadsPage> ParseUploadsPage(std::string_view xml) {
  pugi::xml_document document;
  HF_ASSIGN_OR_RETURN(const pugi::xml_node root,
                      LoadXml(xml, "ListMultipartUploadsResult", document));
  const KeyReader key_of = KeyReaderOf(root);
  UploadsPage page;
  for (const pugi::xml_node& node : root.children("Upload")) {
    page.uploads.push_back(
        {key_of(node, "Key"), ChildText(node, "UploadId"),
         ParseIsoTime(ChildText(node, "Initiated")).value_or(0)});
  }
  if (ChildText(root, "IsTruncated") == "true") {
    page.next_key = key_of(root, "NextKeyMarker");
    page.next_upload_id = ChildText(root, "NextUploadIdMarker");
    if (page.next_key.empty()) {
      return NotTheXmlOf("ListMultipartUploadsResult",
                         "it is truncated, but has no marker");
    }
  }
  return page;
}

Result<PartsPage> ParsePartsPage(std::string_view xml) {
  pugi::xml_document document;
  HF_ASSIGN_OR_RETURN(const pugi::xml_node root,
                      LoadXml(xml, "ListPartsResult", document));
  PartsPage page;
  for (const pugi::xml_node& node : root.children("Part")) {
    HF_ASSIGN_OR_RETURN(
        const uint64_t number,
        ParseSize(ChildText(node, "PartNumber"), "ListPartsResult"));
    if (number < 1 || number > 10'000) {
      return NotTheXmlOf("ListPartsResult", "a part number beyond 10,000");
    }
    page.parts.emplace_back(static_cast<int>(number),
                            UnquoteETag(ChildText(node, "ETag")));
  }
  if (ChildText(root, "IsTruncated") == "true") {
    page.next_marker = ChildText(root, "NextPartNumberMarker");
  }
  return page;
}

Result<StsKeys> ParseStsKeys(std::string_view xml) {
  pugi::xml_document document;
  if (!document.load_buffer(xml.data(), xml.size(), kXmlParseOptions,
                            pugi::encoding_utf8)) {
    return NotTheXmlOf("STS", "it cannot be parsed");
  }
  // The path is <AssumeRoleResponse><AssumeRoleResult><Credentials>, or the
  // same with the names of AssumeRoleWithWebIdentity.
  for (const pugi::xml_node& result : document.document_element().children()) {
    const pugi::xml_node node = result.child("Credentials");
    if (!node) continue;
    StsKeys keys{ChildText(node, "AccessKeyId"),
                 ChildText(node, "SecretAccessKey"),
                 ChildText(node, "SessionToken"),
                 ParseIsoTime(ChildText(node, "Expiration")).value_or(0)};
    if (keys.access_key_id.empty() || keys.secret_access_key.empty()) break;
    return keys;
  }
  return NotTheXmlOf("STS", "it has no credentials");
}

std::string CompleteXml(std::span<const std::string> etags) {
  std::string xml =
      "<CompleteMultipartUpload "
      "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (size_t i = 0; i < etags.size(); ++i) {
    xml += "<Part><PartNumber>" + std::to_string(i + 1) +
           "</PartNumber><ETag>&quot;";
    AppendEscaped(xml, etags[i]);
    xml += "&quot;</ETag></Part>";
  }
  return xml + "</CompleteMultipartUpload>";
}

std::string DeleteXml(std::span<const std::string> keys) {
  std::string xml =
      "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<Quiet>true</Quiet>";
  for (const std::string& key : keys) {
    xml += "<Object><Key>";
    AppendEscaped(xml, key);
    xml += "</Key></Object>";
  }
  return xml + "</Delete>";
}

bool CanBeInXml(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const char32_t c = DecodeUtf8(text, at);
    // XML 1.0 allows three control characters, but some servers lose even
    // these.
    if (c == kBadCodePoint || c < 0x20 || c == 0x7f || c == 0xfffe ||
        c == 0xffff) {
      return false;
    }
  }
  return true;
}

std::string UnquoteETag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.starts_with('"')) etag.remove_prefix(1);
  if (etag.ends_with('"')) etag.remove_suffix(1);
  // The text is sent in headers, so it must not contain a line break.
  std::string plain(etag);
  std::erase_if(plain, [](unsigned char c) { return c <= 0x20 || c == 0x7f; });
  return plain;
}

}  // namespace holdfast
