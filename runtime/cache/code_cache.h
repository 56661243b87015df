// CodeCache: everything captured of one code object, and the twin that runs what lies between.
//
// Exits only ever grow, so that an exit number means the same in every twin. A twin that is running while a new exit or
// site is found stays as it is: its segments leave through "resume elsewhere" to exits that it does not know.
#pragma once

#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "codegen/twin.h"
#include "runtime/cache/changing_paths.h"
#include "runtime/cache/segment.h"
#include "runtime/engine.h"

namespace framejit::runtime {

class CodeCache : public std::enable_shared_from_this<CodeCache> {
 public:
  CodeCache(CodeInfoPtr info, PyObject* backend);
  ~CodeCache();

  const CodeInfo& info() const { return *info_; }
  const bytecode::DecodedCode& decoded() const { return *info_->decoded; }
  const bytecode::DecodedCodePtr& decoded_ptr() const { return info_->decoded; }
  const codegen::TwinLayout& layout() const { return info_->layout; }
  PyObject* backend() const { return backend_.get(); }
  void set_backend(PyObject* backend) { backend_ = Ref::borrow(backend); }
  // Numbers that change from call to call, read from the function's arguments and globals: what one segment learns of
  // them holds for all. See changing_numbers.h.
  ChangingPaths& changing() { return changing_; }
  const ChangingPaths& changing() const { return changing_; }
  // Whether the code is wanted as one graph: a break is an error.
  bool whole() const { return whole_; }
  void set_whole(bool whole) { whole_ = whole; }

  Segment& segment(bytecode::InstrIndex at);
  Segment& entry_segment() { return segment(layout().body_start()); }
  const std::unordered_map<uint32_t, std::unique_ptr<Segment>>& segments() const { return segments_; }

  // Number of this exit; new exits get sites at the instructions that follow them.
  uint32_t exit_number(const codegen::ExitTarget& exit);
  const codegen::ExitTarget& exit(uint32_t number) const { return exits_[number]; }
  size_t exit_count() const { return exits_.size(); }

  // The code that runs this function with segments patched in, or that enters it in the middle at an exit. Null with a
  // Python error; throws InternalError.
  Ref twin();
  Ref resume_code(uint32_t exit);
  bool has_twin() const { return static_cast<bool>(twin_.code); }

  // Other code that ran from captures while this one's static function was called. For reports.
  void note_reached(const std::shared_ptr<CodeCache>& cache) { reached_.insert(cache); }
  const std::set<std::weak_ptr<CodeCache>, std::owner_less<>>& reached() const { return reached_; }

  // Drops all that was captured, and the cycle between the twins and this. Running frames go on with what they hold.
  void dispose();

 private:
  // Code, and how many exits were known when it was made.
  struct Built {
    Ref code;
    size_t exits = 0;
  };
  bool is_current(const Built& built) const { return built.code && built.exits == exits_.size(); }
  Built build(std::optional<uint32_t> resume_at);

  CodeInfoPtr info_;
  Ref backend_;
  bool whole_ = false;
  ChangingPaths changing_;
  std::unordered_map<uint32_t, std::unique_ptr<Segment>> segments_;
  std::vector<codegen::ExitTarget> exits_;
  Built twin_;
  std::set<std::weak_ptr<CodeCache>, std::owner_less<>> reached_;
  std::unordered_map<uint32_t, Built> resume_codes_;
};

}  // namespace framejit::runtime
