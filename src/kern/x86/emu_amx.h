/* For tests: what amx_mm.c uses of AMX, in C, after Intel's manual (SDM vol. 1, chapter 18; vol. 2, LDTILECFG, TILELOADD,
 * TDPBSUD). What the manual calls a fault fills the tiles with rubbish here, so that the results differ. */
#ifndef HY_KERN_EMU_AMX_H
#define HY_KERN_EMU_AMX_H

#include "base/base.h"
#include <string.h>

typedef struct emu_tiles {
    bool on;
    uint8_t rows[8];
    uint16_t row_bytes[8];
    uint8_t data[8][16][64];
} emu_tiles;
static _Thread_local emu_tiles emu;

static void emu_fault(void)
{
    memset(emu.data, 0x5a, sizeof emu.data);
}

static void t_config(const void *config)
{
    const uint8_t *c = config;
    memset(&emu, 0, sizeof emu);
    emu.on = c[0] == 1 && c[1] == 0;
    for (int i = 2; i < 16; i++) emu.on &= c[i] == 0;
    for (int i = 0; i < 16; i++) {
        uint16_t bytes;
        memcpy(&bytes, c + 16 + 2 * i, 2);
        uint8_t rows = c[48 + i];
        emu.on &= bytes <= 64 && rows <= 16 && (i < 8 || (bytes == 0 && rows == 0)) && (bytes == 0) == (rows == 0);
        if (i >= 8) continue;
        emu.rows[i] = rows;
        emu.row_bytes[i] = bytes;
    }
}
static void t_release(void)
{
    memset(&emu, 0, sizeof emu);
}
static void t_zero(int t)
{
    memset(emu.data[t], 0, sizeof emu.data[t]);
}
static void t_load(int t, const void *p, size_t stride)
{
    if (!emu.on || emu.rows[t] == 0) {
        emu_fault();
        return;
    }
    t_zero(t);
    for (int r = 0; r < emu.rows[t]; r++) memcpy(emu.data[t][r], (const uint8_t *)p + (size_t)r * stride, emu.row_bytes[t]);
}
static void t_store(int t, void *p, size_t stride)
{
    for (int r = 0; r < (emu.on ? emu.rows[t] : 0); r++)
        memcpy((uint8_t *)p + (size_t)r * stride, emu.data[t][r], emu.row_bytes[t]);
}
/* sum[m][n] += a[m][4 k ...] signed times b[k][4 n ...] unsigned */
static void t_dots(int sum, int a, int b)
{
    if (!emu.on || emu.rows[sum] != emu.rows[a] || emu.row_bytes[a] / 4 != emu.rows[b] ||
        emu.row_bytes[sum] != emu.row_bytes[b] || emu.row_bytes[a] % 4) {
        emu_fault();
        return;
    }
    for (int m = 0; m < emu.rows[sum]; m++)
        for (int n = 0; n < emu.row_bytes[sum] / 4; n++) {
            uint32_t acc;
            memcpy(&acc, &emu.data[sum][m][4 * n], 4);
            for (int k = 0; k < emu.rows[b]; k++)
                for (int i = 0; i < 4; i++)
                    acc += (uint32_t)((int8_t)emu.data[a][m][4 * k + i] * emu.data[b][k][4 * n + i]);
            memcpy(&emu.data[sum][m][4 * n], &acc, 4);
        }
}

#endif
