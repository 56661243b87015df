// What the frame hook does with a frame that an uncaptured instruction reached: a frame of the user's code runs through
// its own code cache, all others run as they are.
#pragma once

namespace framejit::runtime {

// Makes the engine's handler the hook's.
void install_frame_handler();

}  // namespace framejit::runtime
