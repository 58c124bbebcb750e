#include "tools/convert/leaf_map.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "ground/names/regex.h"
#include "ground/tree/broken_lists.h"
#include "holdfast/tools/glob.h"
#include "tools/convert/name_set.h"

namespace holdfast {

namespace {

std::vector<std::string> SplitAt(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

// A list of rules of one kind, which records the rules that were used.
template <typename Rule>
struct UsedRules {
  explicit UsedRules(const std::vector<Rule>& list)
      : rules(list), is_used(list.size()) {}

  const std::vector<Rule>& rules;
  std::vector<bool> is_used;
};

class Renamer {
 public:
  static Result<Renamer> Make(const std::vector<LeafMap::Rename>& rules) {
    Renamer made(rules);
    for (const LeafMap::Rename& rule : rules) {
      if (rule.is_literal) {
        made.regexes_.emplace_back();
        continue;
      }
      HF_ASSIGN_OR_RETURN(Regex regex, Regex::Compile(rule.pattern));
      made.regexes_.emplace_back(std::move(regex));
    }
    return made;
  }

  // Returns the leaf's new keys, or nullopt if no rule matches.
  Result<std::optional<std::vector<std::string>>> NewKeys(
      const LeafInfo& leaf) {
    const std::string path = Joined(leaf.key, "/");
    for (size_t i = 0; i < used_.rules.size(); ++i) {
      const LeafMap::Rename& rule = used_.rules[i];
      bool is_name = false;
      HF_ASSIGN_OR_RETURN(std::optional<std::string> renamed,
                          Replaced(i, path));
      if (!renamed && leaf.name != path) {
        is_name = true;
        HF_ASSIGN_OR_RETURN(renamed, Replaced(i, leaf.name));
      }
      if (!renamed) continue;
      used_.is_used[i] = true;
      std::vector<std::string> keys = KeysOf(leaf, is_name, *renamed);
      if (std::find(keys.begin(), keys.end(), "") != keys.end()) {
        return InvalidArgumentError(
            "rename " + rule.pattern + "=" + rule.replacement + ": makes \"" +
            *renamed + "\" of leaf " + leaf.name + ", which has an empty key");
      }
      return std::optional<std::vector<std::string>>(std::move(keys));
    }
    return std::optional<std::vector<std::string>>();
  }

  const UsedRules<LeafMap::Rename>& used() const { return used_; }

 private:
  explicit Renamer(const std::vector<LeafMap::Rename>& rules) : used_(rules) {}

  Result<std::optional<std::string>> Replaced(
      size_t rule, const std::string& subject) const {
    const LeafMap::Rename& rename = used_.rules[rule];
    if (rename.is_literal) {
      if (subject != rename.pattern) return std::optional<std::string>();
      return std::optional<std::string>(rename.replacement);
    }
    HF_ASSIGN_OR_RETURN(const std::optional<RegexMatch> match,
                        regexes_[rule]->FullMatch(subject));
    if (!match) return std::optional<std::string>();
    HF_ASSIGN_OR_RETURN(std::string text,
                        regexes_[rule]->Expand(rename.replacement, *match));
    return std::optional<std::string>(std::move(text));
  }

  // Splits a renamed leaf's name into keys. A single key that contained slashes
  // stays a single key.
  static std::vector<std::string> KeysOf(const LeafInfo& leaf, bool is_name,
                                         const std::string& renamed) {
    if (is_name) return SplitAt(renamed, '.');
    const bool is_flat =
        leaf.key.size() == 1 && leaf.key[0].find('/') != std::string::npos;
    if (is_flat) return {renamed};
    return SplitAt(renamed, '/');
  }

  UsedRules<LeafMap::Rename> used_;
  std::vector<std::optional<Regex>> regexes_;
};

class Mapper {
 public:
  Mapper(const std::vector<LeafInfo>& leaves,
         const std::vector<std::string>& names, const LeafMap& map,
         bool keeps_chunks)
      : leaves_(leaves),
        names_(names),
        map_(map),
        keeps_chunks_(keeps_chunks),
        select_(map.select),
        drop_(map.drop),
        casts_(map.casts),
        shards_(map.shards) {}

  Result<MappedLeaves> Map() {
    HF_ASSIGN_OR_RETURN(Renamer renamer, Renamer::Make(map_.renames));
    for (size_t i = 0; i < leaves_.size(); ++i) {
      if (!IsWanted(leaves_[i])) {
        mapped_.report.entries.push_back({leaves_[i].name, "", "left out"});
        continue;
      }
      HF_RETURN_IF_ERROR(AddLeaf(i, renamer));
    }
    if (const std::string* unused = names_.FirstUnused()) {
      return NotFoundError("no leaf is named \"" + *unused +
                           "\" or lies below it");
    }
    HF_RETURN_IF_ERROR(NoteUnused(renamer));
    if (mapped_.leaves.empty()) {
      return InvalidArgumentError("convert: no leaf is left");
    }
    HF_RETURN_IF_ERROR(CheckNames());
    ReplaceBrokenSequences();
    return std::move(mapped_);
  }

 private:
  bool IsWanted(const LeafInfo& leaf) {
    if (!names_.Selects(leaf.name)) return false;
    bool is_selected = map_.select.empty();
    for (size_t i = 0; i < map_.select.size(); ++i) {
      if (!GlobSelects(map_.select[i], leaf.name)) continue;
      is_selected = select_.is_used[i] = true;
    }
    bool is_dropped = false;
    for (size_t i = 0; i < map_.drop.size(); ++i) {
      if (!GlobSelects(map_.drop[i], leaf.name)) continue;
      is_dropped = drop_.is_used[i] = true;
    }
    return is_selected && !is_dropped;
  }

  Status AddLeaf(size_t number, Renamer& renamer) {
    const LeafInfo& info = leaves_[number];
    HF_RETURN_IF_ERROR(info.problem.WithContext("leaf " + info.name));
    TargetLeaf leaf;
    leaf.source = number;
    leaf.name = info.name;
    leaf.key = info.key;
    leaf.key_kinds = info.key_kinds;
    leaf.key_kinds.resize(leaf.key.size());
    leaf.kind = info.kind;
    leaf.dtype = info.dtype.value_or(DType::kUint8);
    leaf.shape = info.shape;
    leaf.value_type = info.value_type;
    leaf.prng_impl = info.prng_impl;
    leaf.sharding_json = info.sharding_json;
    leaf.write_shape = info.write_shape;
    if (keeps_chunks_) leaf.chunk_shape = info.chunk_shape;
    std::string what;
    HF_ASSIGN_OR_RETURN(auto keys, renamer.NewKeys(info));
    bool is_renamed = keys && *keys != info.key;
    if (is_renamed) SetKeys(*std::move(keys), leaf);
    if (leaf.name != info.name) what = "renamed";
    if (map_.nest) is_renamed |= Nest(leaf);
    is_renamed_.push_back(is_renamed);
    if (const std::string cast = Cast(info, leaf); !cast.empty()) {
      what += (what.empty() ? "" : "; ") + cast;
    }
    HF_RETURN_IF_ERROR(Shard(leaf));
    if (!what.empty()) {
      mapped_.report.entries.push_back({info.name, leaf.name, std::move(what)});
    }
    mapped_.leaves.push_back(std::move(leaf));
    return Status();
  }

  // Sets the leaf's keys. Trailing keys that did not change keep their kinds,
  // such as the index "0" of "a/0" renamed to "b/0".
  static void SetKeys(std::vector<std::string> keys, TargetLeaf& leaf) {
    std::vector<KeyKind> kinds(keys.size());
    size_t from_end = 1;
    while (from_end <= std::min(keys.size(), leaf.key.size()) &&
           keys[keys.size() - from_end] ==
               leaf.key[leaf.key.size() - from_end]) {
      kinds[keys.size() - from_end] =
          leaf.key_kinds[leaf.key.size() - from_end];
      ++from_end;
    }
    leaf.key = std::move(keys);
    leaf.key_kinds = std::move(kinds);
    leaf.name = Joined(leaf.key, ".");
  }

  // Splits keys at their dots. Returns true if a key was split.
  static bool Nest(TargetLeaf& leaf) {
    std::vector<std::string> keys;
    std::vector<KeyKind> kinds;
    for (size_t i = 0; i < leaf.key.size(); ++i) {
      std::vector<std::string> parts = SplitAt(leaf.key[i], '.');
      if (std::find(parts.begin(), parts.end(), "") != parts.end()) {
        parts = {leaf.key[i]};
      }
      kinds.resize(keys.size() + parts.size());
      if (parts.size() == 1) kinds.back() = leaf.key_kinds[i];
      keys.insert(keys.end(), parts.begin(), parts.end());
    }
    if (keys.size() == leaf.key.size()) return false;
    leaf.key = std::move(keys);
    leaf.key_kinds = std::move(kinds);
    return true;
  }

  // Casts the leaf; returns the line for the report.
  std::string Cast(const LeafInfo& info, TargetLeaf& leaf) {
    std::optional<DType> wanted;
    for (size_t i = 0; i < map_.casts.size(); ++i) {
      if (!GlobSelects(map_.casts[i].glob, info.name)) continue;
      casts_.is_used[i] = true;
      wanted = map_.casts[i].dtype;
    }
    if (!wanted || info.kind != ValueKind::kArray || *wanted == leaf.dtype) {
      return "";
    }
    if (!info.prng_impl.empty()) return "not cast: a random key";
    leaf.dtype = *wanted;
    return "cast to " + std::string(DTypeName(*wanted));
  }

  Status Shard(TargetLeaf& leaf) {
    if (leaf.kind != ValueKind::kArray) return Status();
    for (size_t i = 0; i < map_.shards.size(); ++i) {
      const LeafMap::Shards& rule = map_.shards[i];
      if (!GlobSelects(rule.glob, leaves_[leaf.source].name) ||
          rule.part_counts.size() != leaf.shape.size()) {
        continue;
      }
      shards_.is_used[i] = true;
      leaf.chunk_shape = leaf.shape;
      for (size_t d = 0; d < leaf.shape.size(); ++d) {
        const int64_t count = rule.part_counts[d];
        if (count < 1) {
          return InvalidArgumentError("shards " + rule.glob +
                                      ": got a count of " +
                                      std::to_string(count) +
                                      ", want 1 or "
                                      "more");
        }
        leaf.chunk_shape[d] = std::max<int64_t>(
            1, leaf.shape[d] / count + (leaf.shape[d] % count != 0));
      }
    }
    return Status();
  }

  Status NoteUnused(const Renamer& renamer) {
    const auto note = [&](const std::string& rule) -> Status {
      const std::string text = rule + ": matches no leaf";
      if (map_.is_strict) return InvalidArgumentError(text);
      mapped_.report.notes.push_back(text);
      return Status();
    };
    for (size_t i = 0; i < map_.select.size(); ++i) {
      if (!select_.is_used[i]) {
        HF_RETURN_IF_ERROR(note("select " + map_.select[i]));
      }
    }
    for (size_t i = 0; i < map_.drop.size(); ++i) {
      if (!drop_.is_used[i]) HF_RETURN_IF_ERROR(note("drop " + map_.drop[i]));
    }
    const auto& renames = renamer.used();
    for (size_t i = 0; i < renames.rules.size(); ++i) {
      if (renames.is_used[i]) continue;
      HF_RETURN_IF_ERROR(note("rename " + renames.rules[i].pattern + "=" +
                              renames.rules[i].replacement));
    }
    for (size_t i = 0; i < map_.casts.size(); ++i) {
      if (casts_.is_used[i]) continue;
      HF_RETURN_IF_ERROR(note("cast " + map_.casts[i].glob + "=" +
                              std::string(DTypeName(map_.casts[i].dtype))));
    }
    for (size_t i = 0; i < map_.shards.size(); ++i) {
      if (shards_.is_used[i]) continue;
      HF_RETURN_IF_ERROR(note("shards " + map_.shards[i].glob));
    }
    return Status();
  }

  const std::string& OldName(size_t leaf) const {
    return leaves_[mapped_.leaves[leaf].source].name;
  }

  Status CheckNames() const {
    std::map<std::string, size_t> by_name;
    std::map<std::vector<std::string>, size_t> by_key;
    for (size_t i = 0; i < mapped_.leaves.size(); ++i) {
      const TargetLeaf& leaf = mapped_.leaves[i];
      const auto [found, is_new] = by_name.emplace(leaf.name, i);
      if (!is_new) {
        return InvalidArgumentError("leaves " + OldName(found->second) +
                                    " and " + OldName(i) +
                                    " would both be named " + leaf.name);
      }
      by_key.emplace(leaf.key, i);
    }
    for (size_t i = 0; i < mapped_.leaves.size(); ++i) {
      std::vector<std::string> above = mapped_.leaves[i].key;
      while (above.size() > 1) {
        above.pop_back();
        const auto found = by_key.find(above);
        if (found == by_key.end()) continue;
        // The source already has a leaf below another leaf; some partial saves
        // do that.
        if (!is_renamed_[i] && !is_renamed_[found->second]) continue;
        return InvalidArgumentError(
            "leaf " + OldName(i) + " would become " + mapped_.leaves[i].name +
            ", below " + mapped_.leaves[found->second].name +
            ", which is a leaf itself (" + OldName(found->second) + ")");
      }
    }
    return Status();
  }

  void ReplaceBrokenSequences() {
    std::vector<LeafKeys> leaves;
    for (TargetLeaf& leaf : mapped_.leaves) {
      leaves.push_back({&leaf.key, &leaf.key_kinds});
    }
    for (const std::vector<std::string>& list : ReplaceBrokenLists(leaves)) {
      mapped_.report.notes.push_back(
          Joined(list, ".") +
          ": was a list and becomes a dict of its indices, because some "
          "items are left out");
    }
  }

  const std::vector<LeafInfo>& leaves_;
  NameSet names_;
  const LeafMap& map_;
  const bool keeps_chunks_;
  UsedRules<std::string> select_;
  UsedRules<std::string> drop_;
  UsedRules<LeafMap::Cast> casts_;
  UsedRules<LeafMap::Shards> shards_;
  std::vector<bool> is_renamed_;  // like mapped_.leaves
  MappedLeaves mapped_;
};

}  // namespace

Result<MappedLeaves> MapLeaves(const std::vector<LeafInfo>& leaves,
                               const std::vector<std::string>& names,
                               const LeafMap& map, bool keeps_chunks) {
  return Mapper(leaves, names, map, keeps_chunks).Map();
}

}  // namespace holdfast
