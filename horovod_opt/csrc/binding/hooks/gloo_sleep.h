// Whether the thread that Gloo has for its connections sleeps until something happens.
#pragma once

namespace horovod_opt {

// In mode topo. Otherwise it looks every 10 ms, as upstream's does. Before the ranks can talk.
bool GlooSleeps();

}  // namespace horovod_opt
