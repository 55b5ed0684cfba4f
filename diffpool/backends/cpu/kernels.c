/* Kernels for the CPU, float32: an encoder's layers, the pooling of a level, and products over ragged blocks.
 *
 * A training step on small graphs is a thousand PyTorch operations of a few microseconds each. Here all the layers of an
 * encoder are one call, and so is a pooling; each call divides its work among a few threads. They are optional: without
 * a compiler the package installs without them and computes the same with PyTorch. Pointers come from Tensor.data_ptr();
 * the callers in fused.py and segment.py check types and shapes. Matrices are row-major; "ld" is the distance between
 * rows.
 */
#define _GNU_SOURCE
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__) && defined(__x86_64__) && !defined(__clang__)
#define FAST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FAST
#endif
#define INLINE static inline __attribute__((always_inline))
#define MIN(a, b) ((a) < (b) ? (a) : (b))

typedef int64_t i64;

/* --- threads ---------------------------------------------------------------------------------------------------------
 * Those of PyTorch: its OpenMP library is found at run time, so that there is one team of threads in the process and not
 * two that fight for the cores. Where it is not found (another OpenMP than GNU's) there is one thread. The number of
 * threads is PyTorch's setting; a result depends on that number alone. */

#define MOST_THREADS 64

typedef void (*Task)(void *, int rank, int threads);

static struct {
    void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
    void (*barrier)(void);
    int (*rank)(void);
    int (*threads)(void);
} openmp;

typedef struct {
    Task task;
    void *context;
} Shared;

static void find_openmp(void) {
    *(void **)&openmp.parallel = dlsym(RTLD_DEFAULT, "GOMP_parallel");
    *(void **)&openmp.barrier = dlsym(RTLD_DEFAULT, "GOMP_barrier");
    *(void **)&openmp.rank = dlsym(RTLD_DEFAULT, "omp_get_thread_num");
    *(void **)&openmp.threads = dlsym(RTLD_DEFAULT, "omp_get_num_threads");
}

static void barrier(int threads) {
    if (threads > 1) openmp.barrier();
}

static void member(void *argument) {
    const Shared *shared = argument;
    shared->task(shared->context, openmp.rank(), openmp.threads());
}

static void run(Task task, void *context, int threads) {
    Shared shared = {task, context};
    if (threads > 1 && openmp.parallel && openmp.barrier && openmp.rank && openmp.threads)
        openmp.parallel(member, &shared, (unsigned)MIN(threads, MOST_THREADS), 0);
    else
        task(context, 0, 1);
}

/* --- matrix product ------------------------------------------------------------------------------------------------
 * C = A B (+ bias, or + C) with A [n, k] and B [k, m] read by any two strides, so that transposes cost nothing. B is
 * packed in panels of 16 columns; a tile of up to 6 rows stays in registers. */

#define PANEL 16
#define DEPTH 256
#define TILE 6

typedef float Vector __attribute__((vector_size(32), aligned(4), may_alias));

typedef struct {
    const float *start;
    i64 down, right; /* distances between rows and between columns */
} Matrix;

INLINE void tile(const int rows, Matrix a, const float *panel, i64 k, float *c, i64 ldc, i64 m) {
    Vector sum[TILE][2];
    float edge[PANEL];
    for (int r = 0; r < rows; r++) {
        const float *from = c + r * ldc;
        if (m < PANEL) {
            memset(edge, 0, sizeof edge);
            memcpy(edge, from, m * sizeof(float));
            from = edge;
        }
        sum[r][0] = *(const Vector *)from;
        sum[r][1] = *(const Vector *)(from + 8);
    }
    for (i64 t = 0; t < k; t++) {
        const Vector low = *(const Vector *)(panel + t * PANEL), high = *(const Vector *)(panel + t * PANEL + 8);
        const float *column = a.start + t * a.right;
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            const float value = column[r * a.down];
            sum[r][0] += value * low;
            sum[r][1] += value * high;
        }
    }
    for (int r = 0; r < rows; r++) {
        float *to = m < PANEL ? edge : c + r * ldc;
        *(Vector *)to = sum[r][0];
        *(Vector *)(to + 8) = sum[r][1];
        if (m < PANEL) memcpy(c + r * ldc, edge, m * sizeof(float));
    }
}

INLINE void multiply(Matrix a, Matrix b, float *c, i64 ldc, i64 n, i64 m, i64 k, const float *bias, int add) {
    float panel[DEPTH * PANEL] __attribute__((aligned(64)));
    if (!add)
        for (i64 i = 0; i < n; i++) {
            if (bias) memcpy(c + i * ldc, bias, m * sizeof(float));
            else memset(c + i * ldc, 0, m * sizeof(float));
        }
    for (i64 t = 0; t < k; t += DEPTH) {
        const i64 depth = MIN(k - t, DEPTH);
        for (i64 j = 0; j < m; j += PANEL) {
            const i64 width = MIN(m - j, PANEL);
            const float *from = b.start + t * b.down + j * b.right;
            if (width < PANEL) memset(panel, 0, depth * PANEL * sizeof(float));
            if (b.right == 1)
                for (i64 u = 0; u < depth; u++) memcpy(panel + u * PANEL, from + u * b.down, width * sizeof(float));
            else
                for (i64 u = 0; u < depth; u++)
                    for (i64 v = 0; v < width; v++) panel[u * PANEL + v] = from[u * b.down + v * b.right];
            for (i64 i = 0; i < n; i += TILE) {
                const Matrix part = {a.start + i * a.down + t * a.right, a.down, a.right};
                float *to = c + i * ldc + j;
                switch (MIN(n - i, TILE)) {
                case 6: tile(6, part, panel, depth, to, ldc, width); break;
                case 5: tile(5, part, panel, depth, to, ldc, width); break;
                case 4: tile(4, part, panel, depth, to, ldc, width); break;
                case 3: tile(3, part, panel, depth, to, ldc, width); break;
                case 2: tile(2, part, panel, depth, to, ldc, width); break;
                default: tile(1, part, panel, depth, to, ldc, width);
                }
            }
        }
    }
}

INLINE Matrix by_rows(const float *start, i64 ld) { return (Matrix){start, ld, 1}; }
INLINE Matrix transposed(const float *start, i64 ld) { return (Matrix){start, 1, ld}; }

/* C = A B + bias, or C += A B: one copy of the code for every use. */
FAST static void gemm(Matrix a, Matrix b, float *c, i64 ldc, i64 n, i64 m, i64 k, const float *bias, int add) {
    multiply(a, b, c, ldc, n, m, k, bias, add);
}

/* --- the layers of an encoder: [X, D⁻¹AX] W + b, then l2, ReLU and batch normalisation ------------------------------ */

#define MOST_LAYERS 32

typedef struct { /* A by rows: an edge list (values may be NULL: all ones), or dense blocks */
    i64 n, graphs;
    const i64 *sizes, *starts; /* of the graphs */
    const i64 *indptr, *indices;
    const float *values;
    const float *adj;
    i64 lda;
    const float *inverse_degree;
} Graphs;

typedef struct {
    i64 training; /* normalise by the statistics of the batch, else by the running ones */
    i64 d, width, full; /* columns of the input and the output, and of the weight, of which the first `width` are used */
    const float *x;
    i64 ldx;
    float *out;
    i64 ldo;
    const float *weight, *bias, *scale, *shift;
    float *running_mean, *running_var;
    double momentum, eps;
    const i64 *columns; /* row i has the first columns[i] of the output (NULL: all); the rest is zero */
    float *beside, *unit, *length, *statistics; /* kept for the gradient: [X, D⁻¹AX], unit vectors, mean, 1/sd, count */
    float *grad_weight, *grad_bias, *grad_scale, *grad_shift;
} Layer;

typedef struct {
    Graphs graphs;
    i64 begin, end; /* the rows of this model */
    Layer layers[MOST_LAYERS];
    i64 count, concat;
    float *kept;
    float *out; /* of the layers: the last one's, or all side by side */
    i64 ldo;
    /* the linear layer at the end, if final is not NULL */
    const float *weight, *bias;
    i64 full, width;
    float *final;
    /* backward */
    const float *grad; /* of final or out */
    float *grad_weight, *grad_bias;
    i64 inputs; /* rows of the linear layer's weight, of which the first ldo are used */
    float *grad_x, *grad_adj, *grad_inverse;
    float *grad_out, *grad_h, *grad_beside, *later; /* working space */
    double *partial;                                /* three sums of every column, for each thread */
    i64 widest, deepest; /* the largest width and d of a layer */
} Encoder;

typedef struct { /* several models, one after the other in rows; each is a copy with parameters of its own */
    Encoder *encoders;
    i64 models, rows;   /* rows of each model, of which some at the end may be unused */
    int threads;
    int forward;
    atomic_llong next;
} Models;

/* Where each layer reads, writes and keeps; the number of floats kept. */
static i64 arrange(Encoder *e, const float *x, i64 d, i64 models) {
    const i64 n = e->graphs.n;
    float *next = e->kept;
    const float *from = x;
    i64 ldx = d, column = 0;
    e->ldo = 0;
    for (i64 i = 0; i < e->count; i++) e->ldo = e->concat ? e->ldo + e->layers[i].width : e->layers[i].width;
    for (i64 i = 0; i < e->count; i++) {
        Layer *layer = e->layers + i;
        const i64 width = layer->width;
        layer->d = d;
        layer->x = from;
        layer->ldx = ldx;
        layer->beside = next, next += n * 2 * d;
        layer->unit = next, next += n * width;
        layer->length = next, next += n;
        layer->statistics = next, next += models * 3 * width;
        layer->ldo = e->concat ? e->ldo : width;
        if (e->concat) layer->out = e->out + column;
        else if (i == e->count - 1) layer->out = e->out;
        else layer->out = next, next += n * width;
        column += width;
        from = layer->out, ldx = layer->ldo, d = width;
    }
    return next - e->kept;
}

INLINE float dot(const float *a, const float *b, i64 d) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (i64 j = 0; j < d; j++) sum += a[j] * b[j];
    return sum;
}

/* Call body(start, size, first, last) for the rows from first to last in the block of each graph. */
#define FOR_BLOCKS(graphs_, r0, r1, body)                                                        \
    for (i64 g_ = 0; g_ < (graphs_)->graphs && (graphs_)->starts[g_] < (r1); g_++) {               \
        const i64 start = (graphs_)->starts[g_], size = (graphs_)->sizes[g_];                     \
        const i64 first = start > (r0) ? start : (r0), last = MIN(start + size, (r1));           \
        if (first < last) body                                                                   \
    }

/* beside = [X, D⁻¹AX] */
INLINE void make_beside(const Graphs *graphs, const Layer *layer, i64 r0, i64 r1) {
    const i64 d = layer->d, ldx = layer->ldx;
    const float *x = layer->x;
    for (i64 i = r0; i < r1; i++) memcpy(layer->beside + i * 2 * d, x + i * ldx, d * sizeof(float));
    if (graphs->adj)
        FOR_BLOCKS(graphs, r0, r1, {
            gemm(by_rows(graphs->adj + first * graphs->lda, graphs->lda), by_rows(x + start * ldx, ldx),
                 layer->beside + first * 2 * d + d, 2 * d, last - first, d, size, NULL, 0);
        })
    for (i64 i = r0; i < r1; i++) {
        float *mean = layer->beside + i * 2 * d + d;
        if (!graphs->adj) {
            memset(mean, 0, d * sizeof(float));
            for (i64 e = graphs->indptr[i]; e < graphs->indptr[i + 1]; e++) {
                const float v = graphs->values ? graphs->values[e] : 1.0f;
                const float *row = x + graphs->indices[e] * ldx;
#pragma omp simd
                for (i64 j = 0; j < d; j++) mean[j] += v * row[j];
            }
        }
        const float inverse = graphs->inverse_degree[i];
#pragma omp simd
        for (i64 j = 0; j < d; j++) mean[j] *= inverse;
    }
}

/* unit becomes its rows divided by their lengths; the sums over rows of max(unit, 0), its square, and 1 */
INLINE void make_unit(const Layer *layer, i64 r0, i64 r1, double *sum) {
    const i64 d = layer->width;
    double *square = sum + d, *count = square + d;
    memset(sum, 0, 3 * d * sizeof(double));
    for (i64 i = r0; i < r1; i++) {
        float *row = layer->unit + i * d;
        const i64 width = layer->columns ? layer->columns[i] : d;
        for (i64 j = width; j < d; j++) row[j] = 0;
        const float size = sqrtf(dot(row, row, width));
        layer->length[i] = size > 1e-12f ? size : 1e-12f;
        const float inverse = 1 / layer->length[i];
#pragma omp simd
        for (i64 j = 0; j < width; j++) {
            row[j] *= inverse;
            const double p = row[j] > 0 ? row[j] : 0;
            sum[j] += p;
            square[j] += p * p;
        }
        if (layer->columns)
            for (i64 j = 0; j < width; j++) count[j] += 1;
    }
    if (!layer->columns)
        for (i64 j = 0; j < d; j++) count[j] = (double)(r1 - r0);
}

/* Mean, 1/sd and count of each column from the sums of all threads. A column that fewer than two rows have is normalised
 * by the running statistics and leaves them alone. */
static void make_statistics(const Layer *layer, const double *partial, i64 stride, int rank, int threads) {
    const i64 d = layer->width;
    float *mean = layer->statistics, *inverse_sd = mean + d, *counts = inverse_sd + d;
    for (i64 j = d * rank / threads; j < d * (rank + 1) / threads; j++) {
        double sum = 0, square = 0, count = 0;
        for (int t = 0; t < threads; t++) {
            sum += partial[t * stride + j];
            square += partial[t * stride + d + j];
            count += partial[t * stride + 2 * d + j];
        }
        double m = layer->running_mean[j], v = layer->running_var[j];
        if (!layer->training) count = 0;
        if (count > 1) {
            m = sum / count;
            v = square / count - m * m;
            v = v > 0 ? v : 0;
            layer->running_mean[j] += layer->momentum * (m - layer->running_mean[j]);
            layer->running_var[j] += layer->momentum * (v * count / (count - 1) - layer->running_var[j]);
        }
        mean[j] = (float)m;
        inverse_sd[j] = (float)(1 / sqrt(v + layer->eps));
        counts[j] = (float)count;
    }
}

INLINE void make_out(const Layer *layer, i64 r0, i64 r1) {
    const i64 d = layer->width;
    const float *mean = layer->statistics, *inverse_sd = mean + d, *scale = layer->scale, *shift = layer->shift;
    for (i64 i = r0; i < r1; i++) {
        const float *row = layer->unit + i * d;
        float *to = layer->out + i * layer->ldo;
        const i64 width = layer->columns ? layer->columns[i] : d;
#pragma omp simd
        for (i64 j = 0; j < width; j++)
            to[j] = ((row[j] > 0 ? row[j] : 0) - mean[j]) * inverse_sd[j] * scale[j] + shift[j];
        for (i64 j = width; j < d; j++) to[j] = 0;
    }
}

FAST static void layers_forward(void *context, int rank, int threads) {
    Encoder *e = context;
    const i64 n = e->end - e->begin, stride = 3 * e->widest;
    const i64 r0 = e->begin + n * rank / threads, r1 = e->begin + n * (rank + 1) / threads;
    for (i64 i = 0; i < e->count; i++) {
        const Layer *layer = e->layers + i;
        if (i > 0) barrier(threads); /* neighbours of these rows belong to others */
        make_beside(&e->graphs, layer, r0, r1);
        gemm(by_rows(layer->beside + r0 * 2 * layer->d, 2 * layer->d), by_rows(layer->weight, layer->full),
             layer->unit + r0 * layer->width, layer->width, r1 - r0, layer->width, 2 * layer->d, layer->bias, 0);
        make_unit(layer, r0, r1, e->partial + rank * stride);
        barrier(threads);
        make_statistics(layer, e->partial, stride, rank, threads);
        barrier(threads);
        make_out(layer, r0, r1);
    }
    if (e->final)
        gemm(by_rows(e->out + r0 * e->ldo, e->ldo), by_rows(e->weight, e->full), e->final + r0 * e->width, e->width,
             r1 - r0, e->width, e->ldo, e->bias, 0);
}

/* grad_h becomes the gradient of the layer's output, its own `direct` and what comes from `later` layers (either may be
 * NULL); sums over rows of it and of it times the normalised column */
INLINE void sum_gradients(const Layer *layer, const float *direct, i64 ldd, const float *later, float *grad_h, i64 r0,
                          i64 r1, double *shift) {
    const i64 d = layer->width;
    const float *mean = layer->statistics, *inverse_sd = mean + d;
    double *scale = shift + d;
    memset(shift, 0, 3 * d * sizeof(double));
    for (i64 i = r0; i < r1; i++) {
        float *g = grad_h + i * d;
        const float *u = layer->unit + i * d;
        const i64 width = layer->columns ? layer->columns[i] : d;
        if (direct) memcpy(g, direct + i * ldd, width * sizeof(float));
        else memset(g, 0, width * sizeof(float));
        if (later) {
            const float *more = later + i * d;
#pragma omp simd
            for (i64 j = 0; j < width; j++) g[j] += more[j];
        }
#pragma omp simd
        for (i64 j = 0; j < width; j++) {
            shift[j] += g[j];
            scale[j] += g[j] * (((u[j] > 0 ? u[j] : 0) - mean[j]) * inverse_sd[j]);
        }
    }
}

/* sums[which] of all threads, into out[0:d] */
static void gather_sums(const double *partial, i64 stride, i64 which, i64 d, float *out, int rank, int threads) {
    for (i64 j = d * rank / threads; j < d * (rank + 1) / threads; j++) {
        double sum = 0;
        for (int t = 0; t < threads; t++) sum += partial[t * stride + which * d + j];
        out[j] = (float)sum;
    }
}

/* grad_h becomes the gradient before the normalisation; bias its sums over rows */
INLINE void through_normalisation(const Layer *layer, float *grad_h, i64 r0, i64 r1, double *bias) {
    const i64 d = layer->width;
    const float *mean = layer->statistics, *inverse_sd = mean + d, *count = inverse_sd + d, *scale = layer->scale;
    const float *grad_shift = layer->grad_shift, *grad_scale = layer->grad_scale;
    for (i64 i = r0; i < r1; i++) {
        float *g = grad_h + i * d;
        const float *u = layer->unit + i * d;
        const i64 width = layer->columns ? layer->columns[i] : d;
        float along = 0;
#pragma omp simd reduction(+ : along)
        for (i64 j = 0; j < width; j++) {
            const float factor = count[j] > 1 ? 1 / count[j] : 0; /* running statistics have no gradient */
            const float normal = ((u[j] > 0 ? u[j] : 0) - mean[j]) * inverse_sd[j];
            const float v = scale[j] * inverse_sd[j] * (g[j] - factor * (grad_shift[j] + normal * grad_scale[j]));
            g[j] = u[j] > 0 ? v : 0;
            along += g[j] * u[j];
        }
        const float inverse = 1 / layer->length[i];
        if (layer->length[i] <= 1e-12f) along = 0; /* too small to divide by: it counts as a constant */
#pragma omp simd
        for (i64 j = 0; j < width; j++) {
            g[j] = (g[j] - u[j] * along) * inverse;
            bias[j] += g[j];
        }
        for (i64 j = width; j < d; j++) g[j] = 0;
    }
}

/* Rows k0 to k1 of XᵀG: the gradient of a weight with `full` columns, of which the first `width` are used */
INLINE void weight_gradient(const float *x, i64 ldx, const float *g, i64 width, i64 n, float *out, i64 full, i64 k0,
                            i64 k1) {
    gemm(transposed(x + k0, ldx), by_rows(g, width), out + k0 * full, full, k1 - k0, width, n, NULL, 0);
    if (width < full)
        for (i64 k = k0; k < k1; k++) memset(out + k * full + width, 0, (full - width) * sizeof(float));
}

FAST static void layers_backward(void *context, int rank, int threads) {
    Encoder *e = context;
    const Graphs *graphs = &e->graphs; /* Aᵀ by rows where A is an edge list */
    const i64 first_row = e->begin, n = e->end - e->begin, stride = 3 * e->widest;
    const i64 r0 = e->begin + n * rank / threads, r1 = e->begin + n * (rank + 1) / threads;
    double *partial = e->partial + rank * stride;
    const float *grad = e->grad;
    if (e->final) {
        gemm(by_rows(grad + r0 * e->width, e->width), transposed(e->weight, e->full), e->grad_out + r0 * e->ldo, e->ldo,
             r1 - r0, e->ldo, e->width, NULL, 0);
        weight_gradient(e->out + first_row * e->ldo, e->ldo, grad + first_row * e->width, e->width, n, e->grad_weight,
                        e->full, e->ldo * rank / threads, e->ldo * (rank + 1) / threads);
        if (rank == 0) {
            memset(e->grad_weight + e->ldo * e->full, 0, (e->inputs - e->ldo) * e->full * sizeof(float));
            memset(e->grad_bias, 0, e->full * sizeof(float));
            for (i64 i = first_row; i < e->end; i++)
                for (i64 j = 0; j < e->width; j++) e->grad_bias[j] += grad[i * e->width + j];
        }
        grad = e->grad_out;
    }
    const float *later = NULL;
    i64 column = e->ldo;
    for (i64 i = e->count - 1; i >= 0; i--) {
        const Layer *layer = e->layers + i;
        const i64 d = layer->d, width = layer->width;
        column -= width;
        /* each model has its own part of the working space, found from the numbers of its rows */
        float *grad_h = e->grad_h + e->begin * (e->widest - width);
        float *grad_beside = e->grad_beside + e->begin * 2 * (e->deepest - d);
        const float *direct = e->concat ? grad + column : i == e->count - 1 ? grad : NULL;
        sum_gradients(layer, direct, e->ldo, later, grad_h, r0, r1, partial);
        barrier(threads);
        gather_sums(e->partial, stride, 0, width, layer->grad_shift, rank, threads);
        gather_sums(e->partial, stride, 1, width, layer->grad_scale, rank, threads);
        barrier(threads);
        through_normalisation(layer, grad_h, r0, r1, partial + 2 * width);
        const int onward = i > 0 || e->grad_x;
        if (onward) {
            gemm(by_rows(grad_h + r0 * width, width), transposed(layer->weight, layer->full),
                 grad_beside + r0 * 2 * d, 2 * d, r1 - r0, 2 * d, width, NULL, 0);
            for (i64 r = r0; r < r1; r++) { /* the half of the mean becomes that of AX */
                float *of_mean = grad_beside + r * 2 * d + d;
                const float inverse = graphs->inverse_degree[r];
                if (e->grad_inverse && inverse > 0) /* beside holds inverse · AX */
                    e->grad_inverse[r] += dot(of_mean, layer->beside + r * 2 * d + d, d) / inverse;
#pragma omp simd
                for (i64 j = 0; j < d; j++) of_mean[j] *= inverse;
            }
        }
        barrier(threads);
        gather_sums(e->partial, stride, 2, width, layer->grad_bias, rank, threads);
        weight_gradient(layer->beside + first_row * 2 * d, 2 * d, grad_h + first_row * width, width, n,
                        layer->grad_weight, layer->full, 2 * d * rank / threads, 2 * d * (rank + 1) / threads);
        if (rank == 0 && width < layer->full) {
            const i64 rest = (layer->full - width) * sizeof(float);
            memset(layer->grad_bias + width, 0, rest);
            memset(layer->grad_scale + width, 0, rest);
            memset(layer->grad_shift + width, 0, rest);
        }
        if (onward) {
            float *to = i > 0 ? e->later + e->begin * (e->deepest - d) : e->grad_x;
            for (i64 r = r0; r < r1; r++) {
                float *out = to + r * d;
                memcpy(out, grad_beside + r * 2 * d, d * sizeof(float));
                if (graphs->adj) continue;
                for (i64 k = graphs->indptr[r]; k < graphs->indptr[r + 1]; k++) {
                    const float v = graphs->values ? graphs->values[k] : 1.0f;
                    const float *row = grad_beside + graphs->indices[k] * 2 * d + d;
#pragma omp simd
                    for (i64 j = 0; j < d; j++) out[j] += v * row[j];
                }
            }
            if (graphs->adj)
                FOR_BLOCKS(graphs, r0, r1, {
                    const float *scaled = grad_beside + d;
                    gemm(transposed(graphs->adj + start * graphs->lda + (first - start), graphs->lda),
                         by_rows(scaled + start * 2 * d, 2 * d), to + first * d, d, last - first, d, size, NULL, 1);
                    if (e->grad_adj)
                        gemm(by_rows(scaled + first * 2 * d, 2 * d), transposed(layer->x + start * layer->ldx, layer->ldx),
                             e->grad_adj + first * graphs->lda, graphs->lda, last - first, size, d, NULL, 1);
                })
            later = to;
        }
        barrier(threads);
    }
}

/* Unused rows at the end of a model: zero in everything that others read. */
static void clear_rows(const Encoder *e, i64 end, int forward) {
    const i64 rows = end - e->end;
    if (rows <= 0) return;
    if (forward) {
        memset(e->out + e->end * e->ldo, 0, rows * e->ldo * sizeof(float));
        if (e->final) memset(e->final + e->end * e->width, 0, rows * e->width * sizeof(float));
    } else if (e->grad_x)
        memset(e->grad_x + e->end * e->layers[0].d, 0, rows * e->layers[0].d * sizeof(float));
}

/* One model after the other, each by one thread; a single model by all threads. */
static void run_models(void *context, int rank, int threads) {
    Models *m = context;
    for (i64 number; (number = atomic_fetch_add(&m->next, 1)) < m->models;) {
        Encoder *e = m->encoders + number;
        e->partial += rank * 3 * e->widest; /* this thread's */
        (m->forward ? layers_forward : layers_backward)(e, 0, 1);
        clear_rows(e, (number + 1) * m->rows, m->forward);
    }
    (void)threads;
}

/* --- the pooling of a level: equations 3, 4 and 6 and the two losses, graph by graph --------------------------------- */

typedef struct {
    Graphs graphs;
    const i64 *clusters, *cluster; /* of each graph: how many, and the first */
    i64 width, d;        /* of logits, s and the coarse blocks; of z */
    const float *logits, *z, *squared_norm;
    float *s, *out_x, *out_adj, *degree, *inverse, *link, *entropy;
    float *propagated, *gram, *log_sum; /* kept: AS [N, W], SᵀS [K, W], log Σ exp of the logits [N] */
    const i64 *indptr_t, *indices_t;    /* Aᵀ by rows */
    const float *values_t;
    const float *of_s, *of_x, *of_adj, *of_degree, *of_inverse, *of_link, *of_entropy; /* gradients; NULL: zero */
    float *grad_logits, *grad_z, *grad_adj;
    float *work;        /* three blocks [most nodes, W] for each thread */
    i64 most;
    atomic_llong next;
} Pooling;

FAST static void pool_forward(void *context, int rank, int threads) {
    Pooling *p = context;
    const Graphs *graphs = &p->graphs;
    const i64 w = p->width, d = p->d;
    (void)rank, (void)threads;
    for (i64 g; (g = atomic_fetch_add(&p->next, 1)) < graphs->graphs;) {
        const i64 n = graphs->sizes[g], k = p->clusters[g], r = graphs->starts[g], c = p->cluster[g];
        float *s = p->s + r * w, *as = p->propagated + r * w, *adj = p->out_adj + c * w, *gram = p->gram + c * w;
        double entropy = 0, norm = 0, gram_norm = 0, trace = 0;
        for (i64 i = 0; i < n; i++) {
            const float *logits = p->logits + (r + i) * w;
            float *row = s + i * w, largest = -INFINITY, sum = 0, mean = 0;
            for (i64 j = 0; j < k; j++) largest = logits[j] > largest ? logits[j] : largest;
            for (i64 j = 0; j < k; j++) {
                row[j] = expf(logits[j] - largest);
                sum += row[j];
            }
            for (i64 j = 0; j < k; j++) {
                row[j] /= sum;
                mean += row[j] * (logits[j] - largest);
            }
            memset(row + k, 0, (w - k) * sizeof(float));
            p->log_sum[r + i] = largest + logf(sum);
            entropy += logf(sum) - mean;
        }
        if (graphs->adj) {
            const float *a = graphs->adj + r * graphs->lda;
            gemm(by_rows(a, graphs->lda), by_rows(s, w), as, w, n, k, n, NULL, 0);
            for (i64 i = 0; i < n; i++) norm += dot(a + i * graphs->lda, a + i * graphs->lda, n);
        } else {
            norm = p->squared_norm[g];
            for (i64 i = 0; i < n; i++) {
                float *row = as + i * w;
                memset(row, 0, k * sizeof(float));
                for (i64 e = graphs->indptr[r + i]; e < graphs->indptr[r + i + 1]; e++) {
                    const float v = graphs->values ? graphs->values[e] : 1.0f;
                    const float *from = p->s + graphs->indices[e] * w;
                    for (i64 j = 0; j < k; j++) row[j] += v * from[j];
                }
            }
        }
        gemm(transposed(s, w), by_rows(p->z + r * d, d), p->out_x + c * d, d, k, d, n, NULL, 0);
        gemm(transposed(s, w), by_rows(as, w), adj, w, k, k, n, NULL, 0);
        gemm(transposed(s, w), by_rows(s, w), gram, w, k, k, n, NULL, 0);
        for (i64 i = 0; i < k; i++) {
            float degree = 0;
            for (i64 j = 0; j < k; j++) degree += adj[i * w + j];
            memset(adj + i * w + k, 0, (w - k) * sizeof(float));
            p->degree[c + i] = degree;
            p->inverse[c + i] = degree > 1e-12f ? 1 / degree : 0;
            gram_norm += dot(gram + i * w, gram + i * w, k);
            trace += adj[i * w + i];
        }
        /* A difference within rounding counts as zero. */
        const double largest = norm + gram_norm, squared = largest - 2 * trace;
        p->link[g] = squared > 8 * FLT_EPSILON * largest + FLT_MIN ? (float)sqrt(squared) : 0;
        p->entropy[g] = n && k ? (float)(entropy / n) : 0;
    }
}

FAST static void pool_backward(void *context, int rank, int threads) {
    Pooling *p = context;
    const Graphs *graphs = &p->graphs;
    const i64 w = p->width, d = p->d;
    float *work = p->work + rank * 3 * p->most * w;
    (void)threads;
    for (i64 g; (g = atomic_fetch_add(&p->next, 1)) < graphs->graphs;) {
        const i64 n = graphs->sizes[g], k = p->clusters[g], r = graphs->starts[g], c = p->cluster[g];
        const float *s = p->s + r * w, *as = p->propagated + r * w, *gram = p->gram + c * w;
        float *of_adj = work, *through = work + p->most * w, *of_s = through + p->most * w;
        const float half = p->of_link && p->link[g] > 0 ? p->of_link[g] / (2 * p->link[g]) : 0; /* of the square */
        for (i64 i = 0; i < k; i++) { /* of A': itself, its degrees, its trace */
            float more = p->of_degree ? p->of_degree[c + i] : 0;
            const float inverse = p->inverse[c + i];
            if (p->of_inverse) more -= p->of_inverse[c + i] * inverse * inverse;
            for (i64 j = 0; j < k; j++) of_adj[i * w + j] = (p->of_adj ? p->of_adj[(c + i) * w + j] : 0) + more;
            of_adj[i * w + i] -= 2 * half;
        }
        for (i64 i = 0; i < n; i++) {
            if (p->of_s) memcpy(of_s + i * w, p->of_s + (r + i) * w, k * sizeof(float));
            else memset(of_s + i * w, 0, k * sizeof(float));
        }
        if (p->of_x) {
            gemm(by_rows(p->z + r * d, d), transposed(p->of_x + c * d, d), of_s, w, n, k, d, NULL, 1);
            gemm(by_rows(s, w), by_rows(p->of_x + c * d, d), p->grad_z + r * d, d, n, d, k, NULL, 0);
        } else
            memset(p->grad_z + r * d, 0, n * d * sizeof(float));
        gemm(by_rows(as, w), transposed(of_adj, w), of_s, w, n, k, k, NULL, 1);
        gemm(by_rows(s, w), by_rows(of_adj, w), through, w, n, k, k, NULL, 0);
        if (graphs->adj) {
            const float *a = graphs->adj + r * graphs->lda;
            gemm(transposed(a, graphs->lda), by_rows(through, w), of_s, w, n, k, n, NULL, 1);
            if (p->grad_adj) {
                float *to = p->grad_adj + r * graphs->lda;
                gemm(by_rows(through, w), transposed(s, w), to, graphs->lda, n, n, k, NULL, 0);
                for (i64 i = 0; i < n; i++) {
                    for (i64 j = 0; j < n; j++) to[i * graphs->lda + j] += 2 * half * a[i * graphs->lda + j];
                    memset(to + i * graphs->lda + n, 0, (graphs->lda - n) * sizeof(float));
                }
            }
        } else
            for (i64 i = 0; i < n; i++)
                for (i64 e = p->indptr_t[r + i]; e < p->indptr_t[r + i + 1]; e++) {
                    const float v = p->values_t ? p->values_t[e] : 1.0f;
                    const float *from = through + (p->indices_t[e] - r) * w;
                    for (i64 j = 0; j < k; j++) of_s[i * w + j] += v * from[j];
                }
        for (i64 i = 0; i < k; i++) /* of SᵀS: 2 half · SᵀS, twice because S stands there twice */
            for (i64 j = 0; j < k; j++) of_adj[i * w + j] = 4 * half * gram[i * w + j];
        gemm(by_rows(s, w), by_rows(of_adj, w), of_s, w, n, k, k, NULL, 1);
        const float spread = p->of_entropy && n ? p->of_entropy[g] / n : 0;
        for (i64 i = 0; i < n; i++) {
            const float *row = s + i * w, *logits = p->logits + (r + i) * w;
            float *g_s = of_s + i * w, *to = p->grad_logits + (r + i) * w, along = 0;
            for (i64 j = 0; j < k; j++) {
                g_s[j] -= spread * (logits[j] - p->log_sum[r + i]);
                along += g_s[j] * row[j];
            }
            for (i64 j = 0; j < k; j++) to[j] = row[j] * (g_s[j] - along);
            memset(to + k, 0, (w - k) * sizeof(float));
        }
    }
}

/* --- products of ragged blocks, for segment.py --------------------------------------------------------------------- */

typedef struct {
    i64 form;
    const float *a, *b;
    float *out;
    i64 lda, ldb, ldo, graphs, width, square, limit;
    const i64 *rows, *row, *columns, *column; /* of each graph: how many, and the first */
} Products;

/* For all graphs whose block has at most `limit` multiplications; out is zero before. */
FAST static void products(void *context, int rank, int threads) {
    const Products *p = context;
    (void)rank, (void)threads;
    for (i64 g = 0; g < p->graphs; g++) {
        const i64 n = p->rows[g], k = p->columns[g], d = p->square ? k : p->width, r = p->row[g], c = p->column[g];
        if (n * k * d <= p->limit) {
            const float *a = p->a + r * p->lda;
            if (p->form == 0)
                gemm(by_rows(a, p->lda), by_rows(p->b + c * p->ldb, p->ldb), p->out + r * p->ldo, p->ldo, n, d, k, NULL, 1);
            else if (p->form == 1)
                gemm(transposed(a, p->lda), by_rows(p->b + r * p->ldb, p->ldb), p->out + c * p->ldo, p->ldo, k, d, n, NULL, 1);
            else
                gemm(by_rows(a, p->lda), transposed(p->b + c * p->ldb, p->ldb), p->out + r * p->ldo, p->ldo, n, k, d, NULL, 1);
        }
    }
}

/* --- numbers in text -------------------------------------------------------------------------------------------------
 * Lines of `columns` numbers separated by a comma or blanks; blank lines do not count. Nothing but numbers or the line of
 * the first fault comes back: table.py, which has a slow twin of this, makes the message. The text ends in a NUL, which
 * no rule accepts, so that the end needs no test inside a number. */

typedef struct {
    const char *at, *end;
    i64 columns, real; /* float64 instead of int64 */
    void *out;
    i64 room, rows, lines; /* numbers that fit; rows and lines read */
    PyThreadState *thread; /* while the interpreter is released */
} Text;

INLINE int is_digit(char c) { return (unsigned char)(c - '0') < 10; }

INLINE void skip_blanks(Text *t) {
    while (*t->at == ' ' || *t->at == '\t') t->at++;
}

/* Whether a line ends here: \n, \r\n, or the end of the text. */
INLINE int at_line_end(const Text *t) {
    const char *p = t->at;
    if (*p == '\r') p++;
    return p == t->end || *p == '\n';
}

/* [+-] digits, and perhaps a point and zeros */
INLINE int parse_integer(Text *t, i64 *out) {
    const char *p = t->at;
    const int negative = *p == '-';
    if (*p == '-' || *p == '+') p++;
    if (!is_digit(*p)) return 0;
    const uint64_t limit = (uint64_t)INT64_MAX + negative;
    uint64_t value = 0;
    for (int i = 0; i < 18 && is_digit(*p); i++, p++) value = value * 10 + (uint64_t)(*p - '0');
    for (; is_digit(*p); p++) { /* only here can it become too large */
        const uint64_t digit = (uint64_t)(*p - '0');
        if (value > (limit - digit) / 10) return 0;
        value = value * 10 + digit;
    }
    if (*p == '.')
        for (p++; *p == '0'; p++) {}
    *out = (i64)(negative ? 0 - value : value);
    t->at = p;
    return 1;
}

/* With at most 2^53 as the digits and a power of ten that is exact, one operation rounds correctly (Clinger, 1990);
 * Python converts the rest. */
static int parse_real(Text *t, double *out) {
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *const start = t->at, *p = start;
    const int negative = *p == '-';
    if (*p == '-' || *p == '+') p++;
    uint64_t digits = 0; /* may wrap around; then more than 19 count */
    i64 given = 0, count = 0, exponent = 0;
    for (; is_digit(*p); p++, given++) {
        digits = digits * 10 + (uint64_t)(*p - '0');
        count += count || *p != '0';
    }
    if (*p == '.')
        for (p++; is_digit(*p); p++, given++, exponent--) {
            digits = digits * 10 + (uint64_t)(*p - '0');
            count += count || *p != '0';
        }
    if (!given) return 0;
    if (*p == 'e' || *p == 'E') {
        p++;
        const int below = *p == '-';
        i64 more = 0;
        if (*p == '-' || *p == '+') p++;
        if (!is_digit(*p)) return 0;
        for (; is_digit(*p); p++)
            if (more < (i64)1e15) more = more * 10 + (*p - '0'); /* that is more than the digits of any text */
        exponent += below ? -more : more;
    }
    t->at = p;
    if (FLT_EVAL_METHOD == 0 && count <= 19 && digits <= (uint64_t)1 << 53 && exponent >= -22 && exponent <= 22) {
        const double value = exponent < 0 ? (double)digits / power[-exponent] : (double)digits * power[exponent];
        *out = negative ? -value : value;
        return 1;
    }
    char *stop = NULL;
    PyEval_RestoreThread(t->thread);
    *out = PyOS_string_to_double(start, &stop, NULL);
    const int well = !PyErr_Occurred() && stop == p && isfinite(*out);
    PyErr_Clear();
    t->thread = PyEval_SaveThread();
    return well;
}

/* One row, from its first number to the end of its line; whether it is well. */
INLINE int parse_row(Text *t, i64 filled) {
    if (filled + t->columns > t->room) return 0;
    for (i64 column = 0; column < t->columns; column++) {
        if (column) {
            const char *const after = t->at;
            skip_blanks(t);
            if (*t->at == ',') {
                t->at++;
                skip_blanks(t);
            } else if (t->at == after)
                return 0;
        }
        const i64 place = filled + column;
        if (!(t->real ? parse_real(t, (double *)t->out + place) : parse_integer(t, (i64 *)t->out + place))) return 0;
    }
    skip_blanks(t);
    return at_line_end(t);
}

/* Whether all is well; if not, `lines` ends with the line of the fault. */
static int parse_lines(Text *t) {
    while (t->at < t->end) {
        t->lines++;
        skip_blanks(t);
        if (!at_line_end(t)) {
            if (!parse_row(t, t->rows * t->columns)) return 0;
            t->rows++;
        }
        if (*t->at == '\r') t->at++;
        if (t->at < t->end) t->at++;
    }
    return 1;
}

/* --- Python: arguments are integers (addresses, sizes) and floats, in the order of the structures above -------------- */

typedef struct {
    PyObject *const *next;
    Py_ssize_t left;
} Arguments;

static PyObject *take(Arguments *from) {
    if (from->left-- <= 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "too few arguments");
        return NULL;
    }
    return *from->next++;
}

static i64 integer(Arguments *from) {
    PyObject *value = take(from);
    return value ? (i64)PyLong_AsLongLong(value) : 0;
}

static double number(Arguments *from) {
    PyObject *value = take(from);
    return value ? PyFloat_AsDouble(value) : 0;
}

static void *pointer(Arguments *from) { return (void *)(intptr_t)integer(from); }

/* Whether all arguments have been read and are well. */
static int complete(const Arguments *from) {
    if (!PyErr_Occurred() && from->left != 0) PyErr_SetString(PyExc_TypeError, "too many arguments");
    return !PyErr_Occurred();
}

static void take_graphs(Arguments *from, Graphs *graphs) {
    graphs->n = integer(from);
    graphs->graphs = integer(from);
    graphs->sizes = pointer(from);
    graphs->starts = pointer(from);
    graphs->indptr = pointer(from);
    graphs->indices = pointer(from);
    graphs->values = pointer(from);
    graphs->adj = pointer(from);
    graphs->lda = integer(from);
    graphs->inverse_degree = pointer(from);
}

/* The encoders of all models: what they share, then their parameters, each with the distance between models. */
static int take_models(Arguments *from, Models *m) {
    Encoder e;
    memset(&e, 0, sizeof e);
    memset(m, 0, sizeof *m);
    m->threads = (int)integer(from);
    m->models = integer(from);
    m->rows = integer(from);
    const i64 *used = pointer(from);
    take_graphs(from, &e.graphs);
    const float *x = pointer(from);
    const i64 d = integer(from);
    const i64 *columns = pointer(from);
    e.concat = integer(from);
    e.kept = pointer(from);
    e.out = pointer(from);
    e.final = pointer(from);
    e.inputs = integer(from);
    e.full = integer(from);
    e.width = integer(from);
    e.count = integer(from);
    if (e.count < 1 || e.count > MOST_LAYERS || m->models < 1) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "too many layers");
        return 0;
    }
    for (i64 i = 0; i < e.count; i++) {
        Layer *layer = e.layers + i;
        layer->training = integer(from);
        layer->momentum = number(from);
        layer->eps = number(from);
        layer->full = integer(from);
        layer->width = integer(from);
        if (layer->width > e.widest) e.widest = layer->width;
    }
    e.layers[e.count - 1].columns = columns;
    arrange(&e, x, d, m->models);
    m->encoders = malloc(sizeof(Encoder) * m->models);
    e.partial = malloc(sizeof(double) * 3 * (e.widest + 1) * MOST_THREADS);
    if (!m->encoders || !e.partial) {
        free(m->encoders);
        free(e.partial);
        PyErr_NoMemory();
        return 0;
    }
    for (i64 k = 0; k < m->models; k++) {
        m->encoders[k] = e;
        m->encoders[k].begin = k * m->rows;
        m->encoders[k].end = k * m->rows + (used ? used[k] : m->rows);
        for (i64 i = 0; i < e.count; i++) m->encoders[k].layers[i].statistics += k * 3 * e.layers[i].width;
    }
    return 1;
}

static void free_models(Models *m) {
    if (m->encoders) free(m->encoders[0].partial);
    free(m->encoders);
}

/* An address and a distance between models, into a field of the encoder or of one of its layers. */
#define TAKE(from, m, field)                                                                      \
    do {                                                                                          \
        float *start_ = pointer(from);                                                            \
        const i64 distance_ = integer(from);                                                      \
        for (i64 k_ = 0; k_ < (m)->models; k_++) (m)->encoders[k_].field = start_ ? start_ + k_ * distance_ : NULL; \
    } while (0)

static void take_parameters(Arguments *from, Models *m) {
    for (i64 i = 0; i < m->encoders[0].count; i++) {
        TAKE(from, m, layers[i].weight);
        TAKE(from, m, layers[i].bias);
        TAKE(from, m, layers[i].scale);
        TAKE(from, m, layers[i].shift);
        TAKE(from, m, layers[i].running_mean);
        TAKE(from, m, layers[i].running_var);
    }
    if (m->encoders[0].final) {
        TAKE(from, m, weight);
        TAKE(from, m, bias);
    }
}

static void run_all(Models *m, int forward) {
    m->forward = forward;
    double *partial = m->encoders[0].partial;
    Py_BEGIN_ALLOW_THREADS
    if (m->models == 1) run(forward ? layers_forward : layers_backward, m->encoders, m->threads);
    else run(run_models, m, m->threads);
    Py_END_ALLOW_THREADS
    m->encoders[0].partial = partial;
}

static PyObject *py_layers_room(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Arguments from = {args, count};
    Encoder e;
    (void)self;
    memset(&e, 0, sizeof e);
    e.graphs.n = integer(&from);
    const i64 models = integer(&from), d = integer(&from);
    e.concat = integer(&from);
    e.count = MIN(from.left, MOST_LAYERS);
    for (i64 i = 0; i < e.count; i++) e.layers[i].width = integer(&from);
    return complete(&from) ? PyLong_FromLongLong(arrange(&e, NULL, d, models)) : NULL;
}

static PyObject *py_layers_forward(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Arguments from = {args, count};
    Models m;
    (void)self;
    if (!take_models(&from, &m)) return NULL;
    take_parameters(&from, &m);
    if (complete(&from)) run_all(&m, 1);
    free_models(&m);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_layers_backward(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Arguments from = {args, count};
    Models m;
    (void)self;
    if (!take_models(&from, &m)) return NULL;
    take_parameters(&from, &m);
    const float *grad = pointer(&from);
    float *grad_x = pointer(&from), *grad_adj = pointer(&from), *grad_inverse = pointer(&from);
    const Encoder *e = m.encoders;
    i64 deepest = 0;
    for (i64 i = 0; i < e->count; i++) {
        TAKE(&from, &m, layers[i].grad_weight);
        TAKE(&from, &m, layers[i].grad_bias);
        TAKE(&from, &m, layers[i].grad_scale);
        TAKE(&from, &m, layers[i].grad_shift);
        if (e->layers[i].d > deepest) deepest = e->layers[i].d;
    }
    if (e->final) {
        TAKE(&from, &m, grad_weight);
        TAKE(&from, &m, grad_bias);
    }
    if (complete(&from)) {
        const i64 n = e->graphs.n, wide = e->ldo, widest = e->widest;
        float *work = malloc(sizeof(float) * (n * (wide + widest + 3 * deepest) + 1));
        if (work) {
            for (i64 k = 0; k < m.models; k++) {
                Encoder *each = m.encoders + k;
                each->grad = grad;
                each->grad_x = grad_x;
                each->grad_adj = grad_adj;
                each->grad_inverse = grad_inverse;
                each->grad_out = work;
                each->grad_h = work + n * wide;
                each->grad_beside = each->grad_h + n * widest;
                each->later = each->grad_beside + n * 2 * deepest;
                each->deepest = deepest;
            }
            run_all(&m, 0);
        } else
            PyErr_NoMemory();
        free(work);
    }
    free_models(&m);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static void take_pooling(Arguments *from, Pooling *p) {
    memset(p, 0, sizeof *p);
    take_graphs(from, &p->graphs);
    p->clusters = pointer(from);
    p->cluster = pointer(from);
    p->width = integer(from);
    p->d = integer(from);
    p->logits = pointer(from);
    p->z = pointer(from);
    p->squared_norm = pointer(from);
    p->s = pointer(from);
    p->out_x = pointer(from);
    p->out_adj = pointer(from);
    p->degree = pointer(from);
    p->inverse = pointer(from);
    p->link = pointer(from);
    p->entropy = pointer(from);
    p->propagated = pointer(from);
    p->gram = pointer(from);
    p->log_sum = pointer(from);
}

/* Run the task with working space for each thread. */
static PyObject *run_pooling(Task task, Pooling *p, int threads, i64 blocks) {
    threads = MIN(threads, MOST_THREADS);
    for (i64 g = 0; g < p->graphs.graphs; g++) {
        if (p->graphs.sizes[g] > p->most) p->most = p->graphs.sizes[g];
        if (p->clusters[g] > p->most) p->most = p->clusters[g];
    }
    p->work = malloc(sizeof(float) * (blocks * p->most * p->width * threads + 1));
    if (p->work) {
        Py_BEGIN_ALLOW_THREADS
        run(task, p, threads);
        Py_END_ALLOW_THREADS
    } else
        PyErr_NoMemory();
    free(p->work);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_pool_forward(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Arguments from = {args, count};
    Pooling p;
    (void)self;
    const int threads = (int)integer(&from);
    take_pooling(&from, &p);
    return complete(&from) ? run_pooling(pool_forward, &p, threads, 0) : NULL;
}

static PyObject *py_pool_backward(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Arguments from = {args, count};
    Pooling p;
    (void)self;
    const int threads = (int)integer(&from);
    take_pooling(&from, &p);
    p.indptr_t = pointer(&from);
    p.indices_t = pointer(&from);
    p.values_t = pointer(&from);
    p.of_s = pointer(&from);
    p.of_x = pointer(&from);
    p.of_adj = pointer(&from);
    p.of_degree = pointer(&from);
    p.of_inverse = pointer(&from);
    p.of_link = pointer(&from);
    p.of_entropy = pointer(&from);
    p.grad_logits = pointer(&from);
    p.grad_z = pointer(&from);
    p.grad_adj = pointer(&from);
    return complete(&from) ? run_pooling(pool_backward, &p, threads, 3) : NULL;
}

static PyObject *py_products(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Arguments from = {args, count};
    Products p;
    (void)self;
    p.form = integer(&from);
    p.a = pointer(&from);
    p.lda = integer(&from);
    p.b = pointer(&from);
    p.ldb = integer(&from);
    p.out = pointer(&from);
    p.ldo = integer(&from);
    p.rows = pointer(&from);
    p.row = pointer(&from);
    p.columns = pointer(&from);
    p.column = pointer(&from);
    p.graphs = integer(&from);
    p.width = integer(&from);
    p.square = integer(&from);
    p.limit = integer(&from);
    if (!complete(&from)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    products(&p, 0, 1);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* text (bytes), columns, whether float64, out, room in numbers -> rows and lines; rows -1: a fault in the last line */
static PyObject *py_parse_lines(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Arguments from = {args, count};
    Text t;
    char *start = NULL;
    Py_ssize_t size = 0;
    (void)self;
    memset(&t, 0, sizeof t);
    PyObject *bytes = take(&from);
    if (!bytes || PyBytes_AsStringAndSize(bytes, &start, &size) < 0) return NULL;
    t.at = start;
    t.end = start + size;
    t.columns = integer(&from);
    t.real = integer(&from);
    t.out = pointer(&from);
    t.room = integer(&from);
    if (!complete(&from)) return NULL;
    t.thread = PyEval_SaveThread();
    const int well = parse_lines(&t);
    PyEval_RestoreThread(t.thread);
    return Py_BuildValue("LL", (long long)(well ? t.rows : -1), (long long)t.lines);
}

#define ENTRY(name) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, NULL}
static PyMethodDef methods[] = {ENTRY(layers_room),  ENTRY(layers_forward), ENTRY(layers_backward), ENTRY(pool_forward),
                                ENTRY(pool_backward), ENTRY(products),       ENTRY(parse_lines),    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_kernels", "Kernels for the CPU.", 0, methods,
                                    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernels(void) {
    find_openmp();
    return PyModule_Create(&module);
}
