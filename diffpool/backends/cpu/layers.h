/* The layers of an encoder: [X, D⁻¹AX] W + b, then l2, ReLU (both optional) and batch normalization.
 *
 * Rows are divided into chunks. Sums over rows add up the chunks in order, so that they are deterministic. A call runs the
 * networks of a level for all models: either in parallel, or in sequence with their chunks in parallel. */

#define MAX_LAYERS 32
#define CHUNK 256       /* rows */
#define WEIGHT_ROWS 64  /* rows of a weight gradient per task */

typedef struct { /* A by rows: dense blocks, or an edge list (values NULL: all ones) */
    i64 n, graphs, dense;
    const i64 *sizes, *starts; /* rows of each graph */
    const i64 *indptr, *indices;
    const float *values;
    const float *adj;
    i64 lda;
    const float *inverse_degree;
} Graphs;

typedef struct {
    i64 training; /* normalize by batch statistics; otherwise by running statistics */
    i64 l2, relu;
    i64 d, width, full; /* columns of input, output and weight; the first `width` columns of the weight are used */
    const float *x;
    i64 ldx;
    float *out;
    i64 ldo;
    const float *weight, *bias, *scale, *shift;
    float *running_mean, *running_var;
    double momentum, eps;
    const i64 *columns; /* row i has the first columns[i] of the output (NULL: all); the rest is zero */
    const i64 *reach;   /* for each panel of columns, the number of rows up to the last one that has any of them */
    /* saved for backward: D⁻¹AX; values before ReLU; their norms; mean, 1/sd and 1/count of each column */
    float *mean, *unit, *length, *statistics;
    float *grad_weight, *grad_bias, *grad_scale, *grad_shift;
} Layer;

typedef struct { /* one network of one model */
    Graphs graphs;
    i64 begin, end, last; /* the rows of this model that belong to graphs, and the end of all its rows */
    Layer layers[MAX_LAYERS];
    i64 count, concat;
    float *kept;
    float *out; /* output of the last layer, or of all layers concatenated */
    i64 ldo;
    /* the final linear layer, if there is one */
    const float *weight, *bias;
    i64 full, width, has_final;
    float *final;
    /* backward */
    const float *grad; /* gradient of final or out */
    float *grad_weight, *grad_bias;
    i64 inputs; /* rows of the final weight; the first ldo are used */
    float *grad_x, *grad_adj, *grad_inverse;
    float *work;                          /* workspace for the rows of this model */
    float *grad_out, *grad_h, *grad_mean; /* in it */
    double *partial;                              /* three sums per column, for each chunk */
    i64 widest, deepest; /* the largest width and d of all layers */
    int threads;
    i64 current;            /* the layer that the tasks work on */
    const float *direct;    /* the gradient of its output from outside, or NULL */
    const float *grad_next; /* the gradient of its output from the next layer, or NULL */
    float *grad_input;      /* receives the gradient of its input, or NULL */
} Encoder;

/* Set the widths that follow from those of the layers; returns the number of floats saved for the backward pass. */
static i64 measure(Encoder *e, i64 d, i64 models) {
    i64 kept = 0;
    e->ldo = e->widest = e->deepest = 0;
    for (i64 i = 0; i < e->count; i++) {
        Layer *layer = e->layers + i;
        const i64 width = layer->width;
        layer->d = d;
        e->ldo = e->concat ? e->ldo + width : width;
        e->widest = MAX(e->widest, width);
        e->deepest = MAX(e->deepest, d);
        kept += e->graphs.n * (d + width + 1) + models * 3 * width;
        if (!e->concat && i < e->count - 1) kept += e->graphs.n * width;
        d = width;
    }
    return kept;
}

/* Divide `kept` and `out` among the layers. */
static void arrange(Encoder *e, const float *x, i64 models) {
    const i64 n = e->graphs.n;
    float *next = e->kept, *column = e->out;
    const float *from = x;
    i64 ldx = e->layers[0].d;
    for (i64 i = 0; i < e->count; i++) {
        Layer *layer = e->layers + i;
        const i64 width = layer->width;
        layer->x = from;
        layer->ldx = ldx;
        layer->mean = next, next += n * layer->d;
        layer->unit = next, next += n * width;
        layer->length = next, next += n;
        layer->statistics = next, next += models * 3 * width;
        layer->ldo = e->concat ? e->ldo : width;
        if (e->concat) layer->out = column, column += width;
        else if (i == e->count - 1) layer->out = e->out;
        else layer->out = next, next += n * width;
        from = layer->out, ldx = layer->ldo;
    }
}

static i64 panels_of(i64 columns) { return (columns + PANEL - 1) / PANEL; }

/* The columns that any of the rows [r0, r1) has: products need no others. */
static i64 columns_of(const Layer *layer, i64 r0, i64 r1) {
    if (!layer->columns) return layer->width;
    i64 most = 0;
    for (i64 r = r0; r < r1; r++) most = MAX(most, layer->columns[r]);
    return most;
}

/* Fill in `reach`, for the rows of one model. */
static void find_reach(const Layer *layer, i64 begin, i64 end, i64 *reach) {
    const i64 panels = panels_of(layer->width);
    for (i64 p = 0; p < panels; p++) reach[p] = 0;
    for (i64 r = end, known = 0; r > begin && known < panels; r--)
        for (; known < panels && layer->columns[r - 1] > known * PANEL; known++) reach[known] = r - begin;
}

static i64 chunks_of(const Encoder *e) { return (e->end - e->begin + CHUNK - 1) / CHUNK; }

INLINE float dot(const float *a, const float *b, i64 d) {
    Vector even = {0}, odd = {0};
    i64 j = 0;
    for (; j + 16 <= d; j += 16) {
        even += *(const Vector *)(a + j) * *(const Vector *)(b + j);
        odd += *(const Vector *)(a + j + 8) * *(const Vector *)(b + j + 8);
    }
    even += odd;
    float sum = ((even[0] + even[4]) + (even[2] + even[6])) + ((even[1] + even[5]) + (even[3] + even[7]));
    for (; j < d; j++) sum += a[j] * b[j];
    return sum;
}

/* max(x, 0); NaN stays NaN. */
INLINE float positive(float x) { return x < 0 ? 0 : x; }

/* The first graph that ends after this row. */
static i64 graph_at(const Graphs *graphs, i64 row) {
    i64 low = 0, high = graphs->graphs;
    while (low < high) {
        const i64 middle = (low + high) / 2;
        if (graphs->starts[middle] + graphs->sizes[middle] <= row) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Run `body` for each graph with rows in [r0, r1): its start and size, and its rows from first to last. */
#define FOR_BLOCKS(graphs_, r0, r1, body)                                                                               \
    for (i64 g_ = graph_at(graphs_, r0); g_ < (graphs_)->graphs && (graphs_)->starts[g_] < (r1); g_++) {                 \
        const i64 start = (graphs_)->starts[g_], size = (graphs_)->sizes[g_];                                           \
        const i64 first = start > (r0) ? start : (r0), last = MIN(start + size, (r1));                                  \
        if (first < last) body                                                                                          \
    }

/* out[j] += Σ value · from[source][j] over the edges of row r, for 8 · `vectors` columns whose sums stay in registers */
INLINE void add_vectors(const Graphs *graphs, i64 r, const float *from, i64 ld, float *out, const int vectors) {
    Vector sum[8];
    for (int j = 0; j < vectors; j++) sum[j] = *(const Vector *)(out + 8 * j);
    for (i64 e = graphs->indptr[r]; e < graphs->indptr[r + 1]; e++) {
        const float value = graphs->values ? graphs->values[e] : 1.0f;
        const float *row = from + graphs->indices[e] * ld;
#pragma GCC unroll 8
        for (int j = 0; j < vectors; j++) sum[j] += value * *(const Vector *)(row + 8 * j);
    }
    for (int j = 0; j < vectors; j++) *(Vector *)(out + 8 * j) = sum[j];
}

/* The same for d columns. */
INLINE void add_edges(const Graphs *graphs, i64 r, const float *from, i64 ld, float *out, i64 d) {
    i64 j = 0;
    for (; j + 64 <= d; j += 64) add_vectors(graphs, r, from + j, ld, out + j, 8);
    for (; j + 16 <= d; j += 16) add_vectors(graphs, r, from + j, ld, out + j, 2);
    for (; j + 8 <= d; j += 8) add_vectors(graphs, r, from + j, ld, out + j, 1);
    for (; j < d; j++)
        for (i64 e = graphs->indptr[r]; e < graphs->indptr[r + 1]; e++)
            out[j] += (graphs->values ? graphs->values[e] : 1.0f) * from[graphs->indices[e] * ld + j];
}

/* mean = D⁻¹AX */
INLINE void make_mean(const Graphs *graphs, const Layer *layer, i64 r0, i64 r1) {
    const i64 d = layer->d, ldx = layer->ldx;
    const float *x = layer->x;
    if (graphs->dense)
        FOR_BLOCKS(graphs, r0, r1, {
            gemm(by_rows(graphs->adj + first * graphs->lda, graphs->lda), by_rows(x + start * ldx, ldx),
                 layer->mean + first * d, d, last - first, d, size, NULL, 0);
        })
    for (i64 i = r0; i < r1; i++) {
        float *mean = layer->mean + i * d;
        if (!graphs->dense) {
            memset(mean, 0, d * sizeof(float));
            add_edges(graphs, i, x, ldx, mean, d);
        }
        const float inverse = graphs->inverse_degree[i];
#pragma omp simd
        for (i64 j = 0; j < d; j++) mean[j] *= inverse;
    }
}

/* Divide the rows of unit by their norms (l2). Sum over rows the result of l2 and ReLU, its square, and 1. */
INLINE void make_unit(const Layer *layer, i64 r0, i64 r1, double *sum) {
    const i64 d = layer->width, relu = layer->relu;
    double *square = sum + d, *count = square + d;
    memset(sum, 0, 3 * d * sizeof(double));
    for (i64 i = r0; i < r1; i++) {
        float *row = layer->unit + i * d;
        const i64 width = layer->columns ? layer->columns[i] : d;
        for (i64 j = width; j < d; j++) row[j] = 0;
        if (layer->l2) {
            const float size = sqrtf(dot(row, row, width));
            layer->length[i] = size < 1e-12f ? 1e-12f : size;
            const float length = layer->length[i];
            /* a division, so that a row with one column becomes exactly 1 or −1: batch normalization amplifies the rest */
#pragma omp simd
            for (i64 j = 0; j < width; j++) row[j] /= length;
        }
        if (relu) {
#pragma omp simd
            for (i64 j = 0; j < width; j++) {
                const double p = positive(row[j]);
                sum[j] += p;
                square[j] += p * p;
            }
        } else {
#pragma omp simd
            for (i64 j = 0; j < width; j++) {
                const double p = row[j];
                sum[j] += p;
                square[j] += p * p;
            }
        }
        if (layer->columns)
            for (i64 j = 0; j < width; j++) count[j] += 1;
    }
    if (!layer->columns)
        for (i64 j = 0; j < d; j++) count[j] = (double)(r1 - r0);
}

/* Mean, 1/sd and 1/count of each column, from the sums of all chunks. A column that fewer than two rows have is normalized
 * by the running statistics, which do not change and have no gradient: its 1/count is 0. */
static void make_statistics(const Encoder *e, const Layer *layer) {
    const i64 d = layer->width, chunks = chunks_of(e), stride = 3 * e->widest;
    float *mean = layer->statistics, *inverse_sd = mean + d, *inverse_count = inverse_sd + d;
    for (i64 j = 0; j < d; j++) {
        double sum = 0, square = 0, count = 0;
        for (i64 c = 0; c < chunks; c++) {
            sum += e->partial[c * stride + j];
            square += e->partial[c * stride + d + j];
            count += e->partial[c * stride + 2 * d + j];
        }
        double m = layer->running_mean[j], v = layer->running_var[j];
        if (!layer->training) count = 0;
        if (count > 1) {
            m = sum / count;
            v = square / count - m * m;
            v = v < 0 ? 0 : v;
            layer->running_mean[j] += layer->momentum * (m - layer->running_mean[j]);
            layer->running_var[j] += layer->momentum * (v * count / (count - 1) - layer->running_var[j]);
        }
        mean[j] = (float)m;
        inverse_sd[j] = (float)(1 / sqrt(v + layer->eps));
        inverse_count[j] = count > 1 ? (float)(1 / count) : 0;
    }
}

INLINE void make_out(const Layer *layer, i64 r0, i64 r1) {
    const i64 d = layer->width, relu = layer->relu;
    const float *mean = layer->statistics, *inverse_sd = mean + d, *scale = layer->scale, *shift = layer->shift;
    for (i64 i = r0; i < r1; i++) {
        const float *row = layer->unit + i * d;
        float *to = layer->out + i * layer->ldo;
        const i64 width = layer->columns ? layer->columns[i] : d;
        if (relu) {
#pragma omp simd
            for (i64 j = 0; j < width; j++) to[j] = (positive(row[j]) - mean[j]) * inverse_sd[j] * scale[j] + shift[j];
        } else {
#pragma omp simd
            for (i64 j = 0; j < width; j++) to[j] = (row[j] - mean[j]) * inverse_sd[j] * scale[j] + shift[j];
        }
        for (i64 j = width; j < d; j++) to[j] = 0;
    }
}

/* Declare the range [r0, r1) of the rows of a chunk. */
#define ROWS_OF(e, chunk)                                                                                               \
    const i64 r0 = (e)->begin + (chunk) * CHUNK, r1 = MIN(r0 + CHUNK, (e)->end);

FAST static void forward_sums(void *context, i64 chunk, int rank) {
    const Encoder *e = context;
    const Layer *layer = e->layers + e->current;
    ROWS_OF(e, chunk)
    (void)rank;
    make_mean(&e->graphs, layer, r0, r1);
    const i64 d = layer->d, width = layer->width, columns = columns_of(layer, r0, r1);
    float *unit = layer->unit + r0 * width;
    gemm(by_rows(layer->x + r0 * layer->ldx, layer->ldx), by_rows(layer->weight, layer->full), unit, width, r1 - r0, columns,
         d, layer->bias, 0);
    gemm(by_rows(layer->mean + r0 * d, d), by_rows(layer->weight + d * layer->full, layer->full), unit, width, r1 - r0,
         columns, d, NULL, 1);
    make_unit(layer, r0, r1, e->partial + chunk * 3 * e->widest);
}

FAST static void forward_out(void *context, i64 chunk, int rank) {
    const Encoder *e = context;
    ROWS_OF(e, chunk)
    (void)rank;
    make_out(e->layers + e->current, r0, r1);
}

FAST static void forward_final(void *context, i64 chunk, int rank) {
    const Encoder *e = context;
    ROWS_OF(e, chunk)
    (void)rank;
    const Layer *layer = e->layers + e->count - 1;
    const i64 columns = columns_of(layer, r0, r1), spare = layer->width - columns; /* the last layer's, also of its input */
    const i64 width = layer->columns ? MIN(columns, e->width) : e->width;
    float *final = e->final + r0 * e->width;
    gemm(by_rows(e->out + r0 * e->ldo, e->ldo), by_rows(e->weight, e->full), final, e->width, r1 - r0, width,
         e->ldo - spare, e->bias, 0);
    if (layer->columns)
        for (i64 r = r0; r < r1; r++, final += e->width)
            for (i64 j = layer->columns[r]; j < e->width; j++) final[j] = 0;
}

/* Set the padding rows at the end of a model to zero. */
static void clear_rows(const Encoder *e, int forward) {
    const i64 rows = e->last - e->end;
    if (rows <= 0) return;
    if (forward) {
        memset(e->out + e->end * e->ldo, 0, rows * e->ldo * sizeof(float));
        if (e->has_final) memset(e->final + e->end * e->width, 0, rows * e->width * sizeof(float));
    } else if (e->grad_x)
        memset(e->grad_x + e->end * e->layers[0].d, 0, rows * e->layers[0].d * sizeof(float));
}

static void encoder_forward(Encoder *e) {
    const i64 chunks = chunks_of(e);
    for (e->current = 0; e->current < e->count; e->current++) {
        parallel(forward_sums, e, chunks, e->threads);
        make_statistics(e, e->layers + e->current);
        parallel(forward_out, e, chunks, e->threads);
    }
    if (e->has_final) parallel(forward_final, e, chunks, e->threads);
    clear_rows(e, 1);
}

/* Write the gradient of the layer's output to grad_h; sum it, and its product with the normalized values, over rows. */
INLINE void sum_gradients(const Encoder *e, const Layer *layer, i64 r0, i64 r1, double *shift, const int relu) {
    const i64 d = layer->width;
    const float *mean = layer->statistics, *inverse_sd = mean + d;
    double *scale = shift + d;
    memset(shift, 0, 3 * d * sizeof(double));
    for (i64 i = r0; i < r1; i++) {
        float *g = e->grad_h + i * d;
        const float *u = layer->unit + i * d;
        const i64 width = layer->columns ? layer->columns[i] : d;
        if (e->direct) memcpy(g, e->direct + i * e->ldo, width * sizeof(float));
        else memset(g, 0, width * sizeof(float));
        if (e->grad_next) {
            const float *more = e->grad_next + i * d;
#pragma omp simd
            for (i64 j = 0; j < width; j++) g[j] += more[j];
        }
#pragma omp simd
        for (i64 j = 0; j < width; j++) {
            shift[j] += g[j];
            scale[j] += g[j] * (((relu ? positive(u[j]) : u[j]) - mean[j]) * inverse_sd[j]);
        }
    }
}

/* Add up sum number `which` of all chunks, into out[0:d]. */
static void gather_sums(const Encoder *e, i64 which, i64 d, float *out) {
    const i64 chunks = chunks_of(e), stride = 3 * e->widest;
    for (i64 j = 0; j < d; j++) {
        double sum = 0;
        for (i64 c = 0; c < chunks; c++) sum += e->partial[c * stride + which * d + j];
        out[j] = (float)sum;
    }
}

/* Turn grad_h into the gradient before normalization; write its sums over rows to bias. */
INLINE void through_normalization(const Layer *layer, float *grad_h, i64 r0, i64 r1, double *bias, const int relu) {
    const i64 d = layer->width;
    const float *mean = layer->statistics, *inverse_sd = mean + d, *inverse_count = inverse_sd + d, *scale = layer->scale;
    const float *grad_shift = layer->grad_shift, *grad_scale = layer->grad_scale;
    for (i64 i = r0; i < r1; i++) {
        float *g = grad_h + i * d;
        const float *u = layer->unit + i * d;
        const i64 width = layer->columns ? layer->columns[i] : d;
#pragma omp simd
        for (i64 j = 0; j < width; j++) {
            const float normal = ((relu ? positive(u[j]) : u[j]) - mean[j]) * inverse_sd[j];
            float v = scale[j] * inverse_sd[j] * (g[j] - inverse_count[j] * (grad_shift[j] + normal * grad_scale[j]));
            if (relu) v = u[j] <= 0 ? 0 : v;
            g[j] = v;
        }
        if (layer->l2) {
            const float inverse = 1 / layer->length[i];
            /* a row too short to normalize: the norm counts as a constant */
            const float along = layer->length[i] <= 1e-12f ? 0 : dot(g, u, width);
#pragma omp simd
            for (i64 j = 0; j < width; j++) {
                g[j] = (g[j] - u[j] * along) * inverse;
                bias[j] += g[j];
            }
        } else {
#pragma omp simd
            for (i64 j = 0; j < width; j++) bias[j] += g[j];
        }
        for (i64 j = width; j < d; j++) g[j] = 0;
    }
}

/* One piece of XᵀG, the gradient of a weight with `rows` rows and `full` columns, of which the first `width` are used.
 *
 * The columns of X are copied block by block, because reading them in place costs a cache line per element. */
INLINE void weight_gradient(const float *x, i64 ldx, const float *g, i64 width, i64 n, const i64 *reach, float *out, i64 full,
                            i64 rows, i64 piece) {
    float block[DEPTH * WEIGHT_ROWS] __attribute__((aligned(64)));
    const i64 k0 = piece * WEIGHT_ROWS, own = MIN(WEIGHT_ROWS, rows - k0);
    out += k0 * full;
    for (i64 k = 0; k < own; k++) memset(out + k * full, 0, full * sizeof(float));
    for (i64 t = 0; t < n; t += DEPTH, g += DEPTH * width) {
        const i64 depth = MIN(n - t, DEPTH);
        for (i64 i = 0; i < depth; i++) memcpy(block + i * own, x + (t + i) * ldx + k0, own * sizeof(float));
        for (i64 j = 0; j < width; j += PANEL) {
            const i64 used = reach ? MIN(reach[j / PANEL] - t, depth) : depth;
            if (used > 0) gemm(transposed(block, own), by_rows(g + j, width), out + j, full, own, MIN(PANEL, width - j), used, NULL, 1);
        }
    }
}

static i64 weight_pieces(i64 rows) { return (rows + WEIGHT_ROWS - 1) / WEIGHT_ROWS; }

FAST static void backward_final(void *context, i64 piece, int rank) {
    const Encoder *e = context;
    const Layer *layer = e->layers + e->count - 1;
    const i64 pieces = weight_pieces(e->ldo), n = e->end - e->begin;
    (void)rank;
    if (piece < pieces) {
        weight_gradient(e->out + e->begin * e->ldo, e->ldo, e->grad + e->begin * e->width, e->width, n, layer->reach,
                        e->grad_weight, e->full, e->ldo, piece);
        return;
    }
    ROWS_OF(e, piece - pieces)
    const i64 columns = columns_of(layer, r0, r1), spare = layer->width - columns;
    gemm(by_rows(e->grad + r0 * e->width, e->width), transposed(e->weight, e->full), e->grad_out + r0 * e->ldo, e->ldo,
         r1 - r0, e->ldo - spare, layer->columns ? MIN(columns, e->width) : e->width, NULL, 0);
}

FAST static void backward_sums(void *context, i64 chunk, int rank) {
    const Encoder *e = context;
    ROWS_OF(e, chunk)
    (void)rank;
    const Layer *layer = e->layers + e->current;
    double *sums = e->partial + chunk * 3 * e->widest;
    if (layer->relu) sum_gradients(e, layer, r0, r1, sums, 1);
    else sum_gradients(e, layer, r0, r1, sums, 0);
}

/* Backward through the normalization to X and D⁻¹AX; then turn the gradient of D⁻¹AX into that of AX. */
FAST static void backward_linear(void *context, i64 chunk, int rank) {
    const Encoder *e = context;
    const Graphs *graphs = &e->graphs;
    const Layer *layer = e->layers + e->current;
    const i64 d = layer->d, width = layer->width, full = layer->full;
    ROWS_OF(e, chunk)
    (void)rank;
    double *bias = e->partial + chunk * 3 * e->widest + 2 * width;
    if (layer->relu) through_normalization(layer, e->grad_h, r0, r1, bias, 1);
    else through_normalization(layer, e->grad_h, r0, r1, bias, 0);
    if (!e->grad_input) return;
    const Matrix grad_h = by_rows(e->grad_h + r0 * width, width);
    const i64 columns = columns_of(layer, r0, r1);
    gemm(grad_h, transposed(layer->weight, full), e->grad_input + r0 * d, d, r1 - r0, d, columns, NULL, 0);
    gemm(grad_h, transposed(layer->weight + d * full, full), e->grad_mean + r0 * d, d, r1 - r0, d, columns, NULL, 0);
    for (i64 r = r0; r < r1; r++) {
        float *grad_mean = e->grad_mean + r * d;
        const float inverse = graphs->inverse_degree[r];
        if (e->grad_inverse && inverse > 0) /* mean is inverse · AX */
            e->grad_inverse[r] += dot(grad_mean, layer->mean + r * d, d) / inverse;
#pragma omp simd
        for (i64 j = 0; j < d; j++) grad_mean[j] *= inverse;
    }
}

/* The gradients of the weight, of A, and the part of X's that comes through A. */
FAST static void backward_edges(void *context, i64 piece, int rank) {
    const Encoder *e = context;
    const Graphs *graphs = &e->graphs; /* Aᵀ by rows if A is an edge list */
    const Layer *layer = e->layers + e->current;
    const i64 d = layer->d, width = layer->width, full = layer->full, pieces = weight_pieces(d), n = e->end - e->begin;
    const float *grad_h = e->grad_h + e->begin * width, *grad_mean = e->grad_mean;
    (void)rank;
    if (piece < pieces) {
        weight_gradient(layer->x + e->begin * layer->ldx, layer->ldx, grad_h, width, n, layer->reach, layer->grad_weight, full,
                        d, piece);
        return;
    }
    if (piece < 2 * pieces) {
        weight_gradient(layer->mean + e->begin * d, d, grad_h, width, n, layer->reach, layer->grad_weight + d * full, full, d,
                        piece - pieces);
        return;
    }
    ROWS_OF(e, piece - 2 * pieces)
    if (!graphs->dense) {
        for (i64 r = r0; r < r1; r++) add_edges(graphs, r, grad_mean, d, e->grad_input + r * d, d);
        return;
    }
    FOR_BLOCKS(graphs, r0, r1, {
        gemm(transposed(graphs->adj + start * graphs->lda + (first - start), graphs->lda), by_rows(grad_mean + start * d, d),
             e->grad_input + first * d, d, last - first, d, size, NULL, 1);
        if (e->grad_adj)
            gemm(by_rows(grad_mean + first * d, d), transposed(layer->x + start * layer->ldx, layer->ldx),
                 e->grad_adj + first * graphs->lda, graphs->lda, last - first, size, d, NULL, 1);
    })
}

/* The number of floats of workspace for `rows` rows. */
static i64 workspace(const Encoder *e, i64 rows) { return rows * (e->ldo + e->widest + 2 * e->deepest); }

static void encoder_backward(Encoder *e) {
    const i64 chunks = chunks_of(e), rows = e->last - e->begin;
    /* each minus the rows before this model's, because rows are numbered across models */
    float *grad_h = e->work + rows * e->ldo, *grad_mean = grad_h + rows * e->widest, *later = grad_mean + rows * e->deepest;
    const i64 *columns = e->layers[e->count - 1].columns;
    e->grad_out = e->work - e->begin * e->ldo;
    if (e->has_final && columns) { /* columns that a row does not have have no gradient */
        float *own = grad_h - e->begin * e->width;
        for (i64 i = e->begin; i < e->end; i++) {
            memcpy(own + i * e->width, e->grad + i * e->width, columns[i] * sizeof(float));
            memset(own + i * e->width + columns[i], 0, (e->width - columns[i]) * sizeof(float));
        }
        e->grad = own;
    }
    const float *grad = e->grad;
    if (e->has_final) {
        parallel(backward_final, e, weight_pieces(e->ldo) + chunks, e->threads);
        memset(e->grad_weight + e->ldo * e->full, 0, (e->inputs - e->ldo) * e->full * sizeof(float));
        memset(e->grad_bias, 0, e->full * sizeof(float));
        for (i64 i = e->begin; i < e->end; i++)
            for (i64 j = 0; j < e->width; j++) e->grad_bias[j] += grad[i * e->width + j];
        grad = e->grad_out;
    }
    i64 column = e->ldo;
    e->grad_next = NULL;
    for (e->current = e->count - 1; e->current >= 0; e->current--) {
        Layer *layer = e->layers + e->current;
        const i64 d = layer->d, width = layer->width;
        column -= width;
        e->grad_h = grad_h - e->begin * width;
        e->grad_mean = grad_mean - e->begin * d;
        e->direct = e->concat ? grad + column : e->current == e->count - 1 ? grad : NULL;
        e->grad_input = e->current > 0 ? later - e->begin * d : e->grad_x;
        parallel(backward_sums, e, chunks, e->threads);
        gather_sums(e, 0, width, layer->grad_shift);
        gather_sums(e, 1, width, layer->grad_scale);
        parallel(backward_linear, e, chunks, e->threads);
        gather_sums(e, 2, width, layer->grad_bias);
        parallel(backward_edges, e, 2 * weight_pieces(d) + (e->grad_input ? chunks : 0), e->threads);
        if (width < layer->full) {
            const i64 rest = (layer->full - width) * sizeof(float);
            memset(layer->grad_bias + width, 0, rest);
            memset(layer->grad_scale + width, 0, rest);
            memset(layer->grad_shift + width, 0, rest);
        }
        e->grad_next = e->grad_input;
    }
    clear_rows(e, 0);
}
