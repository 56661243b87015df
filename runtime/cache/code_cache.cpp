#include "runtime/cache/code_cache.h"

#include <algorithm>

#include "base/check.h"
#include "runtime/cache/twin_origin.h"
#include "runtime/call/twin_calls.h"

namespace framejit::runtime {

using bytecode::InstrIndex;
using codegen::ExitTarget;

CodeCache::CodeCache(CodeInfoPtr info, PyObject* backend) : info_(std::move(info)), backend_(Ref::borrow(backend)) {
  segment(layout().body_start());
}

CodeCache::~CodeCache() = default;

Segment& CodeCache::segment(InstrIndex at) {
  auto& slot = segments_[at.value];
  if (!slot) slot = std::make_unique<Segment>(at);
  return *slot;
}

uint32_t CodeCache::exit_number(const ExitTarget& exit) {
  auto found = std::find(exits_.begin(), exits_.end(), exit);
  if (found != exits_.end()) return static_cast<uint32_t>(found - exits_.begin());
  exits_.push_back(exit);
  for (InstrIndex at : layout().sites_after(exit)) segment(at);
  return static_cast<uint32_t>(exits_.size() - 1);
}

CodeCache::Built CodeCache::build(std::optional<uint32_t> resume_at) {
  const TwinCallables& calls = twin_callables();
  codegen::TwinSpec spec;
  spec.exits = exits_;
  spec.take = calls.take.get();
  spec.run_pending = calls.run_pending.get();
  spec.resume_slot = calls.resume_slot.get();
  spec.resume_at = resume_at;
  // Making objects may let other threads in, which find exits and reset.
  std::vector<std::pair<uint32_t, Segment*>> segments;
  for (auto& [at, segment] : segments_) segments.emplace_back(at, segment.get());
  std::vector<Ref> sites;
  for (auto& [at, segment] : segments) {
    Ref site = make_site(shared_from_this(), segment, spec.exits.size());
    if (!site) return {};
    spec.sites.push_back({InstrIndex(at), site.get()});
    sites.push_back(std::move(site));
  }
  bytecode::OffsetMap offsets;
  auto built = codegen::build_twin(decoded_ptr(), spec, &offsets);
  FJ_CHECK(built.ok(), "no twin of {}: {}", PyUnicode_AsUTF8(decoded().name.get()), built.error().message);
  Ref code = std::move(built).value();
  if (code) mark_twin(code.get(), decoded().code, std::move(offsets));
  return {std::move(code), spec.exits.size()};
}

Ref CodeCache::twin() {
  if (is_current(twin_)) return twin_.code;
  Built built = build(std::nullopt);
  Ref code = built.code;
  std::swap(twin_, built);
  return code;
}

// A first call that breaks often goes on in new resume code after each break, and needs no twin for that.
Ref CodeCache::resume_code(uint32_t exit) {
  if (auto known = resume_codes_.find(exit); known != resume_codes_.end() && is_current(known->second))
    return known->second.code;
  Built built = build(exit);
  Ref code = built.code;
  std::vector<Ref> dropped;  // at the end: that may run code of the program
  std::erase_if(resume_codes_, [&](auto& known) {
    if (is_current(known.second)) return false;
    dropped.push_back(std::move(known.second.code));
    return true;
  });
  if (code) std::swap(resume_codes_[exit], built);
  return code;
}

void CodeCache::dispose() {
  auto keep = shared_from_this();
  auto resume_codes = std::move(resume_codes_);
  resume_codes_.clear();
  Built twin = std::move(twin_);
  twin_ = {};
  // Sites of running twins point to their segments: these stay, empty.
  for (auto& [at, segment] : segments_) segment->clear();
  changing_.clear();
}

}  // namespace framejit::runtime
