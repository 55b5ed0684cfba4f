/* Matrix multiplication.
 *
 * C = A B (+ bias, or + C) for A [n, k] and B [k, m], each of them by rows or transposed. B is packed into panels of 16
 * columns; a tile of a few rows stays in registers. */

#define PANEL 16
#define DEPTH 256
#define NARROW 6 /* rows of a tile */
#define WIDE 12
#define FEW 18 /* rows of A for which packing B does not pay */

typedef float Vector __attribute__((vector_size(32), aligned(4), may_alias));

typedef float Wide __attribute__((vector_size(64), aligned(4), may_alias));
typedef int Index __attribute__((vector_size(32)));
#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (Index){__VA_ARGS__})
#endif

typedef struct {
    const float *start;
    i64 down, right; /* strides between rows and between columns */
} Matrix;

/* Copy m < 16 floats, without a call. */
INLINE void copy_few(float *to, const float *from, i64 m) {
    if (m & 8) memcpy(to, from, 32), to += 8, from += 8;
    if (m & 4) memcpy(to, from, 16), to += 4, from += 4;
    if (m & 2) memcpy(to, from, 8), to += 2, from += 2;
    if (m & 1) *to = *from;
}

/* Keep a pointer in a register of its own. */
#if defined(__GNUC__)
#define KEEP(pointer) __asm__("" : "+r"(pointer))
#else
#define KEEP(pointer) (void)(pointer)
#endif

/* Tiles in two widths: 6 rows of two vectors of 8, or, with AVX-512, 12 rows of one vector of 16. */
#define TILE narrow_tile
#define TILE_VECTOR Vector
#define TILE_ROWS NARROW
#include "tile.h"
#define TILE wide_tile
#define TILE_VECTOR Wide
#define TILE_ROWS WIDE
#include "tile.h"

/* to[u][v] = from[v][u], for 8 × 8 elements; `to` has rows of a panel. */
INLINE void transpose8(const float *from, i64 ld, float *to) {
    Vector row[8], part[8];
    for (int v = 0; v < 8; v++) row[v] = *(const Vector *)(from + v * ld);
    for (int v = 0; v < 8; v += 2) {
        part[v] = SHUFFLE(row[v], row[v + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        part[v + 1] = SHUFFLE(row[v], row[v + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int v = 0; v < 8; v += 4)
        for (int w = 0; w < 2; w++) {
            row[v + 2 * w] = SHUFFLE(part[v + w], part[v + w + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            row[v + 2 * w + 1] = SHUFFLE(part[v + w], part[v + w + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int u = 0; u < 4; u++) {
        *(Vector *)(to + u * PANEL) = SHUFFLE(row[u], row[u + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        *(Vector *)(to + (u + 4) * PANEL) = SHUFFLE(row[u], row[u + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* Pack `width` columns of Bᵀ, which are rows of B. */
INLINE void pack_transposed(const float *from, i64 ld, i64 depth, i64 width, float *panel) {
    i64 v = 0;
    for (; v + 8 <= width; v += 8) {
        i64 u = 0;
        for (; u + 8 <= depth; u += 8) transpose8(from + v * ld + u, ld, panel + u * PANEL + v);
        for (; u < depth; u++)
            for (i64 w = v; w < v + 8; w++) panel[u * PANEL + w] = from[w * ld + u];
    }
    for (; v < width; v++)
        for (i64 u = 0; u < depth; u++) panel[u * PANEL + v] = from[v * ld + u];
}

#define TILE_OF(rows)                                                                                                   \
    case rows:                                                                                                          \
        if (wide) wide_tile(rows, part, panel, ldp, depth, to, ldc, width, initial, ldi);                               \
        else if (rows <= NARROW) narrow_tile(rows, part, panel, ldp, depth, to, ldc, width, initial, ldi);              \
        break;

INLINE void multiply(const int wide, Matrix a, Matrix b, float *c, i64 ldc, i64 n, i64 m, i64 k, const float *bias,
                     int add) {
    const int most = wide ? WIDE : NARROW;
    float packed[DEPTH * PANEL] __attribute__((aligned(64)));
    if (k == 0 && !add)
        for (i64 i = 0; i < n; i++) {
            if (bias) memcpy(c + i * ldc, bias, m * sizeof(float));
            else memset(c + i * ldc, 0, m * sizeof(float));
        }
    for (i64 t = 0; t < k; t += DEPTH) {
        const i64 depth = MIN(k - t, DEPTH);
        for (i64 j = 0; j < m; j += PANEL) {
            const i64 width = MIN(m - j, PANEL);
            const float *from = b.start + t * b.down + j * b.right;
            const float *panel = packed;
            i64 ldp = PANEL;
            if (b.right == 1 && width == PANEL && n <= FEW) panel = from, ldp = b.down;
            else if (b.right == 1 && width == PANEL)
                for (i64 u = 0; u < depth; u++) {
                    const float *row = from + u * b.down;
                    *(Vector *)(packed + u * PANEL) = *(const Vector *)row;
                    *(Vector *)(packed + u * PANEL + 8) = *(const Vector *)(row + 8);
                }
            else {
                if (width < PANEL) memset(packed, 0, depth * PANEL * sizeof(float));
                if (b.right == 1)
                    for (i64 u = 0; u < depth; u++) copy_few(packed + u * PANEL, from + u * b.down, width);
                else pack_transposed(from, b.right, depth, width, packed);
            }
            for (i64 i = 0; i < n; i += most) {
                const Matrix part = {a.start + i * a.down + t * a.right, a.down, a.right};
                float *to = c + i * ldc + j;
                const int first = t == 0 && !add;
                const float *initial = !first ? to : bias ? bias + j : NULL;
                const i64 ldi = first ? 0 : ldc;
                switch (MIN(n - i, most)) {
                    TILE_OF(12)
                    TILE_OF(11)
                    TILE_OF(10)
                    TILE_OF(9)
                    TILE_OF(8)
                    TILE_OF(7)
                    TILE_OF(6)
                    TILE_OF(5)
                    TILE_OF(4)
                    TILE_OF(3)
                    TILE_OF(2)
                    TILE_OF(1)
                }
            }
        }
    }
}

INLINE Matrix by_rows(const float *start, i64 ld) { return (Matrix){start, ld, 1}; }
INLINE Matrix transposed(const float *start, i64 ld) { return (Matrix){start, 1, ld}; }

/* C = A B + bias, or C += A B; not inlined, to keep the code small. */
FAST static void narrow_gemm(Matrix a, Matrix b, float *c, i64 ldc, i64 n, i64 m, i64 k, const float *bias, int add) {
    multiply(0, a, b, c, ldc, n, m, k, bias, add);
}

#if defined(__GNUC__) && defined(__x86_64__) && !defined(__clang__)
__attribute__((target("arch=x86-64-v4"))) static void wide_gemm(Matrix a, Matrix b, float *c, i64 ldc, i64 n, i64 m, i64 k,
                                                                const float *bias, int add) {
    multiply(1, a, b, c, ldc, n, m, k, bias, add);
}
#define HAS_WIDE __builtin_cpu_supports("x86-64-v4")
#else
#define wide_gemm narrow_gemm
#define HAS_WIDE 0
#endif

static void gemm(Matrix a, Matrix b, float *c, i64 ldc, i64 n, i64 m, i64 k, const float *bias, int add) {
    (HAS_WIDE ? wide_gemm : narrow_gemm)(a, b, c, ldc, n, m, k, bias, add);
}
