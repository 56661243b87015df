#include "codegen/kernels/disk_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace framejit::codegen {
namespace {

namespace fs = std::filesystem;

class DiskCacheTest : public testing::Test {
 protected:
  DiskCacheTest() {
    std::string name = (fs::temp_directory_path() / "framejit-XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~DiskCacheTest() override { fs::remove_all(root_); }

  std::string folder() const { return (root_ / "kernels").string(); }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder())) found.push_back(entry.path());
    return found;
  }
  static std::string content_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write(const fs::path& path, const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  }

  fs::path root_;
};

TEST_F(DiskCacheTest, GivesWhatWasWritten) {
  DiskCache cache(folder(), 1 << 20);
  EXPECT_EQ(cache.why_not(), "");
  EXPECT_EQ(cache.read("key"), std::nullopt);
  cache.write("key", std::string("code\0more", 9));
  EXPECT_EQ(cache.read("key"), std::string("code\0more", 9));
  EXPECT_EQ(cache.read("other"), std::nullopt);
  EXPECT_EQ(DiskCache(folder(), 1 << 20).read("key"), std::string("code\0more", 9));
}

TEST_F(DiskCacheTest, FolderIsTheUsersAlone) {
  DiskCache cache(folder(), 1 << 20);
  struct stat status;
  ASSERT_EQ(stat(folder().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
}

TEST_F(DiskCacheTest, FolderThatOthersMayWriteIsNotUsed) {
  fs::create_directory(folder());
  fs::permissions(folder(), fs::perms::all);
  DiskCache cache(folder(), 1 << 20);
  EXPECT_NE(cache.why_not().find("may be written by other users"), std::string::npos);
  cache.write("key", "code");
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(cache.read("key"), std::nullopt);
}

TEST_F(DiskCacheTest, FolderThatIsNoneIsNotUsed) {
  write(root_ / "file", "");
  DiskCache cache((root_ / "file" / "kernels").string(), 1 << 20);
  EXPECT_NE(cache.why_not(), "");
  cache.write("key", "code");
  EXPECT_EQ(cache.read("key"), std::nullopt);
  EXPECT_NE(DiskCache("", 1 << 20).why_not(), "");
}

TEST_F(DiskCacheTest, DamagedFilesAreNotReadAndAreReplaced) {
  DiskCache cache(folder(), 1 << 20);
  cache.write("key", "some code");
  const fs::path file = files().at(0);
  const std::string whole = content_of(file);
  for (size_t size = 0; size < whole.size(); ++size) {
    write(file, whole.substr(0, size));
    EXPECT_EQ(cache.read("key"), std::nullopt) << "cut off at " << size;
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    write(file, changed);
    EXPECT_EQ(cache.read("key"), std::nullopt) << "changed at " << i;
  }
  cache.write("key", "some code");
  EXPECT_EQ(cache.read("key"), "some code");
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(DiskCacheTest, FileOfAnotherKeyIsNotTaken) {
  DiskCache cache(folder(), 1 << 20);
  cache.write("one", "code of one");
  const fs::path one = files().at(0);
  cache.write("two", "code of two");
  for (const fs::path& file : files())
    if (file != one) fs::copy_file(one, file, fs::copy_options::overwrite_existing);
  EXPECT_EQ(cache.read("one"), "code of one");
  EXPECT_EQ(cache.read("two"), std::nullopt);
}

TEST_F(DiskCacheTest, SizeIsBounded) {
  DiskCache cache(folder(), 10000);
  for (int i = 0; i < 50; ++i) cache.write("key " + std::to_string(i), std::string(1000, 'c'));
  uint64_t total = 0;
  for (const fs::path& file : files()) total += fs::file_size(file);
  EXPECT_LE(total, 10000U);
  EXPECT_GT(total, 0U);
  EXPECT_NE(cache.read("key 49"), std::nullopt);
}

TEST_F(DiskCacheTest, ManyMayWriteAtOnce) {
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([this] {
      DiskCache cache(folder(), 1 << 20);
      for (int i = 0; i < 50; ++i) {
        const std::string key = "key " + std::to_string(i % 5);
        cache.write(key, "code of " + key);
        std::optional<std::string> read = cache.read(key);
        EXPECT_TRUE(!read || *read == "code of " + key);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(files().size(), 5U);
}

}  // namespace
}  // namespace framejit::codegen
