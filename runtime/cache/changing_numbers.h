// Numbers that differ in each capture of a segment: a counter of calls, a learning rate, the variable of a loop.
//
// A float of which the entries have some values becomes an input of the graph, if a capture comes as far with it as
// with a guard on its value. A number of which they have many values is left to the interpreter where something looks
// at it.
#pragma once

#include "graph/capture.h"
#include "runtime/cache/code_cache.h"
#include "tracer/source_path.h"

namespace framejit::runtime {

// Where integers and floats are read of which the entries of a full segment have many values; on the operand stack, and
// where the segment begins behind an instruction that was left to the interpreter for such a number or for a tensor's
// data, some values will do: what is made of these changes too, and goes through one such segment after the other.
SourcePaths find_changing_numbers(const Segment& segment);

// Whether the segment has entries enough to tell.
bool may_learn_changing_numbers(const Segment& segment);

// Notes them for the segment and for its code. Entries that look at them go on serving what they serve; where the
// segment is full, the older half of them makes room for captures that leave the numbers to the interpreter.
void learn_changing_numbers(CodeCache& cache, Segment& segment);

// What was noted.
SourcePaths known_changing_numbers(const CodeCache& cache, const Segment& segment);
SourcePaths known_number_inputs(const CodeCache& cache, const Segment& segment);

// Floats of which the entries have some values, and that were not refused.
SourcePaths find_number_inputs(const CodeCache& cache, const Segment& segment);

// Those of them that the capture guards by value as well.
SourcePaths guarded_by_value(const graph::Capture& capture, const ObjectPool& pool, const SourcePaths& floats);

void take_number_inputs(CodeCache& cache, Segment& segment, const SourcePaths& floats);
void refuse_number_inputs(CodeCache& cache, Segment& segment, const SourcePaths& floats);

// Where the segment is full, removes the entries that guard an input by value: they were captured before it was one.
void make_room_for_number_inputs(const CodeCache& cache, Segment& segment);

}  // namespace framejit::runtime
