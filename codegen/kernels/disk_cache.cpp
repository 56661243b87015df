#include "codegen/kernels/disk_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

namespace framejit::codegen {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "framejit kernel 1\n";
constexpr std::string_view kSuffix = ".kernel";

// FNV-1a, from two starting points.
uint64_t hash(std::string_view text, uint64_t start) {
  uint64_t value = start;
  for (char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return value;
}

void append(std::string& text, uint64_t number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  text.append(bytes, sizeof number);
}

std::optional<uint64_t> take_number(std::string_view& text) {
  uint64_t number;
  if (text.size() < sizeof number) return std::nullopt;
  std::memcpy(&number, text.data(), sizeof number);
  text.remove_prefix(sizeof number);
  return number;
}

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Code is run as it is found: the folder must be nobody else's to write.
std::string why_not_trusted(const std::string& folder) {
  struct stat status;
  if (stat(folder.c_str(), &status) != 0) return fmt::format("{}: {}", folder, std::strerror(errno));
  if (!S_ISDIR(status.st_mode)) return folder + " is no folder";
  if (status.st_uid != geteuid()) return folder + " belongs to another user";
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return folder + " may be written by other users";
  return {};
}

}  // namespace

std::string digest_of(std::string_view text) {
  return fmt::format("{:016x}{:016x}", hash(text, 0xcbf29ce484222325ULL), hash(text, 0x9ae16a3b2f90404fULL));
}

std::string default_cache_folder() {
  if (const char* chosen = std::getenv("FRAMEJIT_CACHE_DIR")) return chosen;
  const char* caches = std::getenv("XDG_CACHE_HOME");
  if (caches && *caches) return std::string(caches) + "/framejit/kernels";
  const char* home = std::getenv("HOME");
  return home && *home ? std::string(home) + "/.cache/framejit/kernels" : std::string();
}

DiskCache::DiskCache(std::string folder, uint64_t most_bytes) : folder_(std::move(folder)), most_bytes_(most_bytes) {
  if (folder_.empty()) {
    why_not_ = "no folder";
    return;
  }
  std::error_code error;
  const fs::path path(folder_);
  fs::create_directories(path.parent_path(), error);
  mkdir(folder_.c_str(), S_IRWXU);
  why_not_ = why_not_trusted(folder_);
}

std::string DiskCache::path_of(std::string_view key) const {
  return fmt::format("{}/{}{}", folder_, digest_of(key), kSuffix);
}

std::optional<std::string> DiskCache::read(std::string_view key) const {
  if (!why_not_.empty()) return std::nullopt;
  const std::string path = path_of(key);
  std::optional<std::string> file = read_file(path);
  if (!file) return std::nullopt;
  std::string_view rest = *file;
  if (!rest.starts_with(kMagic)) return std::nullopt;
  rest.remove_prefix(kMagic.size());
  const std::optional<uint64_t> checksum = take_number(rest);
  if (!checksum || hash(rest, 0) != *checksum) return std::nullopt;
  const std::optional<uint64_t> key_size = take_number(rest);
  if (!key_size || rest.substr(0, *key_size) != key) return std::nullopt;
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // it was of use
  return std::string(rest.substr(*key_size));
}

void DiskCache::write(std::string_view key, std::string_view code) const {
  if (!why_not_.empty()) return;
  std::string content;
  append(content, key.size());
  content.append(key).append(code);
  std::string head(kMagic);
  append(head, hash(content, 0));
  std::string temporary = folder_ + "/writing-XXXXXX";
  const int file = mkstemp(temporary.data());
  if (file < 0) return;
  const bool written = ::write(file, head.data(), head.size()) == static_cast<ssize_t>(head.size()) &&
                       ::write(file, content.data(), content.size()) == static_cast<ssize_t>(content.size());
  if (close(file) != 0 || !written || std::rename(temporary.c_str(), path_of(key).c_str()) != 0)
    unlink(temporary.c_str());
  prune();
}

void DiskCache::prune() const {
  struct Entry {
    fs::file_time_type used;
    uint64_t size;
    fs::path path;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code error;
  for (const fs::directory_entry& file : fs::directory_iterator(folder_, error)) {
    std::error_code gone;  // by another process, meanwhile
    const uint64_t size = file.file_size(gone);
    const fs::file_time_type used = file.last_write_time(gone);
    if (gone || file.path().extension() != kSuffix) continue;
    entries.push_back({used, size, file.path()});
    total += size;
  }
  if (total <= most_bytes_) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= most_bytes_ / 2) return;  // some room, so that the next write finds it
    fs::remove(entry.path, error);
    total -= entry.size;
  }
}

}  // namespace framejit::codegen
