/* Any other processor: plain C alone. */
#include "probe/probe_room.h"

#if !defined(__x86_64__) && !defined(__aarch64__)
const hy_probe_isa hy_probe_isa_list[] = {
    { "scalar", 0, hy_probe_int8_plain, hy_probe_f32_plain, hy_probe_read_plain },
};
const uint32_t hy_probe_isa_count = HY_COUNT(hy_probe_isa_list);
#else
typedef int hy_probe_none_empty;
#endif
