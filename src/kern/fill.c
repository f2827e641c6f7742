/* Choosing an ISA and filling the table with it. */
#include "kern/fill.h"
#include <stdio.h>
#include <string.h>

void hy_kern_fill_scalar(hy_kernels *k, uint32_t panel)
{
    memset(k, 0, sizeof(*k));
    k->isa = "scalar";
    k->panel = panel;
    hy_mm_fill_scalar(k, 0);
    hy_vec_fill_scalar(k, 0);
}

static bool runs(const hy_kern_isa *isa, uint64_t cpu)
{
    return (cpu & isa->need) == isa->need || (isa->or_need && (cpu & isa->or_need) == isa->or_need);
}

static void fill(hy_kernels *k, const hy_kern_isa *isa, uint64_t cpu)
{
    hy_kern_fill_scalar(k, isa->panel);
    if (isa->fill) isa->fill(k, cpu);
}

static uint32_t names_of(uint64_t cpu, bool off, const char *out[8])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < hy_kern_isa_count && n < 8; i++)
        if (runs(&hy_kern_isa_list[i], cpu) && (hy_kern_isa_list[i].off != NULL) == off) out[n++] = hy_kern_isa_list[i].name;
    return n;
}

uint32_t hy_kern_isas(uint64_t cpu, const char *out[8]) { return names_of(cpu, false, out); }

uint32_t hy_kern_isas_off(uint64_t cpu, const char *out[8]) { return names_of(cpu, true, out); }

const char *hy_kern_isa_off(const char *name)
{
    for (uint32_t i = 0; i < hy_kern_isa_count; i++)
        if (!strcmp(hy_kern_isa_list[i].name, name)) return hy_kern_isa_list[i].off;
    return NULL;
}

/* The last entry that runs here; one that no hardware has proven yet must first pass the self-test.
 */
static void fill_best(hy_kernels *k, uint64_t cpu)
{
    for (uint32_t i = hy_kern_isa_count; i-- > 0;) {
        const hy_kern_isa *isa = &hy_kern_isa_list[i];
        if (!runs(isa, cpu) || isa->off) continue;
        fill(k, isa, cpu);
        char msg[200];
        if (isa->proven || hy_kern_selftest(k, msg, sizeof(msg))) return;
        hy_log(HY_LOG_WARN, "kern: self-test failed, trying the next ISA", "isa=%s what=\"%s\"",
               isa->name, msg);
    }
}

hy_status hy_kern_fill(hy_kernels *k, uint64_t cpu, const char *name, hy_err *err)
{
    if (!name || !strcmp(name, "auto")) {
        fill_best(k, cpu);
        return HY_OK;
    }
    for (uint32_t i = 0; i < hy_kern_isa_count; i++) {
        const hy_kern_isa *isa = &hy_kern_isa_list[i];
        if (strcmp(isa->name, name) || !runs(isa, cpu)) continue;
        if (isa->allow && !isa->allow())
            return hy_fail(err, HY_E_UNSUPPORTED, "ISA \"%s\": the system does not allow its registers", isa->name);
        fill(k, isa, cpu);
        return HY_OK;
    }
    char names[128] = "auto";
    size_t len = strlen(names);
    for (int off = 0; off < 2; off++) {
        const char *can[8];
        uint32_t n = names_of(cpu, off, can);
        for (uint32_t i = 0; i < n && len < sizeof(names); i++)
            len += (size_t)snprintf(names + len, sizeof(names) - len, ", %s", can[i]);
    }
    return hy_fail(err, HY_E_UNSUPPORTED, "ISA \"%.40s\": this machine can run: %s", name,
                   names);
}
