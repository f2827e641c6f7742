/* cli, private: charts as inline SVG. Colours and fonts come from the page's style (classes s0, s1, ...; text t, grid
 * g). */
#ifndef HY_CLI_REPORT_SVG_H
#define HY_CLI_REPORT_SVG_H

#include "base/base.h"

#define SVG_POINTS 16
#define SVG_SERIES 4

typedef struct svg_series {
    const char *name;
    uint32_t n;
    double x[SVG_POINTS], y[SVG_POINTS];
} svg_series;

/* Lines with points; both axes logarithmic where asked. Values must be above 0 on a logarithmic axis. */
typedef struct svg_lines {
    const char *title, *x_name, *y_name;
    bool log_x, log_y;
    uint32_t n;
    svg_series series[SVG_SERIES];
} svg_lines;
void svg_put_lines(const svg_lines *l, hy_buf *out);

typedef struct svg_bar {
    char name[48];
    double v;
    int style;                 /* 0: the baseline, 1: better, 2: worse */
    char label[48];            /* behind the bar */
} svg_bar;
/* Horizontal bars from zero, one below the other. one: where the line of "as without it" stands, 0: none. */
void svg_put_bars(const char *title, const svg_bar *bar, uint32_t n, double one, hy_buf *out);

/* HTML text: & < > " escaped. */
void html_put(hy_buf *out, const char *s);

#endif
