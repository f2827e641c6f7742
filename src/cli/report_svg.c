/* Two kinds of charts. All lengths are in units of the viewBox, which the page scales to its width. */
#include "report_svg.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 640.0

void html_put(hy_buf *out, const char *s)
{
    for (; *s; s++) {
        switch (*s) {
        case '&': hy_buf_str(out, "&amp;"); break;
        case '<': hy_buf_str(out, "&lt;"); break;
        case '>': hy_buf_str(out, "&gt;"); break;
        case '"': hy_buf_str(out, "&quot;"); break;
        default: hy_buf_char(out, *s);
        }
    }
}

static void put_text(hy_buf *out, double x, double y, const char *anchor, const char *more, const char *text)
{
    hy_buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, more);
    html_put(out, text);
    hy_buf_str(out, "</text>\n");
}

static void put_begin(hy_buf *out, double height, const char *kind, const char *title)
{
    hy_buf_printf(out, "<svg class=\"%s\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"", kind, WIDTH, height);
    html_put(out, title);
    hy_buf_str(out, "\">\n");
}

/* ---- lines ------------------------------------------------------------------------------------------------- */

typedef struct axis {
    double low, high;          /* of the data's range, widened to ticks */
    bool log;
    double from, to;           /* in the picture */
} axis;

static double place(const axis *a, double v)
{
    double t = a->log ? (log(v) - log(a->low)) / (log(a->high) - log(a->low)) : (v - a->low) / (a->high - a->low);
    return a->from + t * (a->to - a->from);
}

static const char *number(double v, char out[32])
{
    if (v >= 10000) snprintf(out, 32, "%.0f,%03.0f", floor(v / 1000), fmod(v, 1000));
    else snprintf(out, 32, "%.4g", v);
    return out;
}

/* 1, 2 or 5 times a power of ten, so that there are about five steps. */
static double step_of(double range)
{
    double raw = range / 5, ten = pow(10, floor(log10(raw))), k = raw / ten;
    return ten * (k <= 1 ? 1 : k <= 2 ? 2 : k <= 5 ? 5 : 10);
}

static void range_of(const svg_lines *l, bool of_y, axis *a)
{
    a->low = INFINITY;
    a->high = -INFINITY;
    for (uint32_t s = 0; s < l->n; s++)
        for (uint32_t i = 0; i < l->series[s].n; i++) {
            double v = of_y ? l->series[s].y[i] : l->series[s].x[i];
            a->low = HY_MIN(a->low, v);
            a->high = HY_MAX(a->high, v);
        }
    if (a->log && of_y) {
        a->low = pow(10, floor(log10(a->low)));
        a->high = pow(10, ceil(log10(a->high) + 1e-9));
    } else if (!a->log && of_y) {
        a->low = 0;
        double step = step_of(HY_MAX(a->high, 1e-9));
        a->high = ceil(a->high / step + 1e-9) * step;
    }
    if (a->high <= a->low) a->high = a->log ? a->low * 2 : a->low + 1;
}

static void grid_line(hy_buf *out, bool of_y, double at, const axis *other, const char *text)
{
    if (of_y) hy_buf_printf(out, "<path class=\"g\" d=\"M%.1f %.1fH%.1f\"/>", other->from, at, other->to);
    else hy_buf_printf(out, "<path class=\"g\" d=\"M%.1f %.1fV%.1f\"/>", at, other->from, other->to);
    if (of_y) put_text(out, other->from - 6, at + 4, "end", "", text);
    else put_text(out, at, other->from + 18, "middle", "", text);
}

static void put_y_grid(hy_buf *out, const axis *y, const axis *x)
{
    char text[32];
    if (y->log) {
        for (double v = y->low; v <= y->high * 1.001; v *= 10) grid_line(out, true, place(y, v), x, number(v, text));
        return;
    }
    double step = step_of(y->high - y->low);
    for (double v = y->low; v <= y->high + step / 100; v += step) grid_line(out, true, place(y, v), x, number(v, text));
}

static void put_series(hy_buf *out, const svg_series *s, uint32_t i, const axis *x, const axis *y)
{
    char a[32], b[32];
    hy_buf_printf(out, "<path class=\"s%u\" d=\"", i);
    for (uint32_t k = 0; k < s->n; k++)
        hy_buf_printf(out, "%c%.1f %.1f", k ? 'L' : 'M', place(x, s->x[k]), place(y, s->y[k]));
    hy_buf_str(out, "\"/>\n");
    for (uint32_t k = 0; k < s->n; k++) {
        hy_buf_printf(out, "<circle class=\"s%u\" r=\"4\" cx=\"%.1f\" cy=\"%.1f\"><title>", i, place(x, s->x[k]),
                      place(y, s->y[k]));
        html_put(out, s->name);
        hy_buf_printf(out, ": %s at %s</title></circle>\n", number(s->y[k], a), number(s->x[k], b));
    }
}

void svg_put_lines(const svg_lines *l, hy_buf *out)
{
    const double height = 330;
    axis x = { .log = l->log_x, .from = 76, .to = WIDTH - 18 }, y = { .log = l->log_y, .from = height - 52, .to = 44 };
    range_of(l, false, &x);
    range_of(l, true, &y);
    hy_buf_str(out, "<p class=\"key\">");
    for (uint32_t i = 0; l->n > 1 && i < l->n; i++) {
        hy_buf_printf(out, "<span class=\"s%u\">", i);
        html_put(out, l->series[i].name);
        hy_buf_str(out, "</span>\n");
    }
    hy_buf_str(out, "</p>\n");
    put_begin(out, height, "lines", l->title);
    put_y_grid(out, &y, &x);
    char text[32];
    const svg_series *longest = &l->series[0];
    for (uint32_t i = 1; i < l->n; i++) longest = l->series[i].n > longest->n ? &l->series[i] : longest;
    for (uint32_t k = 0; k < longest->n; k++)
        grid_line(out, false, place(&x, longest->x[k]), &y, number(longest->x[k], text));
    put_text(out, (x.from + x.to) / 2, height - 10, "middle", " class=\"n\"", l->x_name);
    put_text(out, 4, 18, "start", " class=\"n\"", l->y_name);
    for (uint32_t i = 0; i < l->n; i++) put_series(out, &l->series[i], i, &x, &y);
    hy_buf_str(out, "</svg>\n");
}

/* ---- bars --------------------------------------------------------------------------------------------------- */

void svg_put_bars(const char *title, const svg_bar *bar, uint32_t n, double one, hy_buf *out)
{
    const double row = 30, left = 210, top = 8;
    double most = one, right = WIDTH;
    for (uint32_t i = 0; i < n; i++) {
        most = HY_MAX(most, bar[i].v);
        right = HY_MIN(right,
                       WIDTH - 16 - 10.0 * (double)strlen(bar[i].label)); /* a label stands behind the longest bar */
    }
    if (most <= 0) return;
    double height = top + row * n + 8;
    put_begin(out, height, "bars", title);
    for (uint32_t i = 0; i < n; i++) {
        double y = top + row * i, w = HY_MAX(2, bar[i].v / most * (right - left));
        put_text(out, left - 8, y + 19, "end", " class=\"k\"", bar[i].name);
        hy_buf_printf(out, "<rect class=\"b%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"20\" rx=\"3\"/>",
                      bar[i].style, left, y + 4, w);
        /* the line of "as without it" does not run through a label */
        double at = left + w + 6, line = left + one / most * (right - left);
        if (one > 0 && line > at - 4 && line < at + 10.0 * (double)strlen(bar[i].label)) at = line + 6;
        put_text(out, at, y + 19, "start", "", bar[i].label);
    }
    if (one > 0)
        hy_buf_printf(out, "<path class=\"o\" d=\"M%.1f %.1fV%.1f\"/>\n", left + one / most * (right - left), top,
                      height - 6);
    hy_buf_str(out, "</svg>\n");
}
