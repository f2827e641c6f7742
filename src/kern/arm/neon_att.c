/* NEON: attention. */
#include "kern/arm/v16_neon.h"
/* the body */
#include "kern/v16_att.h"
