/* The shared library is made of the rooms; this file only names its version in the binary. */
#include <hayate/hayate.h>

HY_API const char hayate_version[];
const char hayate_version[] = "hayate " HY_VERSION;
