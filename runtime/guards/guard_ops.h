// The instructions of a guard program. Included by the compiler and the evaluator only.
#pragma once

#include "runtime/guards/guard_program.h"

namespace framejit::runtime {

enum class GuardProgram::OpCode : uint8_t {
  // Reads: a value that is not there gives null, and what is read through null is null.
  kLocal,
  kStack,
  kInstanceDict,
  kDictItem,
  kListItem,
  kTupleItem,
  kCellContents,
  kType,
  kTypeAttr,
  kFunctionDefaults,
  kFunctionKwDefaults,
  kFunctionClosure,
  kFunctionCode,
  kMethodSelf,
  kMethodFunction,  // the last of the plain reads
  // Reads that give a new reference.
  kAttr,
  kSequenceItem,
  kTensorGrad,
  kReferent,
  kContextVar,
  // Groups: `other` is the op after the group's arm op.
  kDictGroup,
  kInstanceGroup,  // reads an instance's dictionary, and opens its group
  kDictArm,
  kTypeGroup,
  kTypeArm,
  // Guards.
  kTypeIs,
  kIdIs,
  kEquals,
  kCompares,
  kTensorMatch,
  kBound,
  kUnbound,
  kHasNoKey,
  kDictKeys,
  kDictLengths,
  kLength,
  kSetGives,
  kSame,
  kNotSame,
  kApart,
  kNoGradHooks,
  kTypeAttrAbsent,
  kMroIs,
  kAnswers,
  kGlobalState,
  kNothingHandled,
};

}  // namespace framejit::runtime
