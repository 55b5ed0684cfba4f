/* Small kernels for the CPU, float32, one thread: what costs more to call than to compute.
 *
 * A training step on small graphs is a thousand PyTorch operations of a few microseconds each. These kernels do the
 * work between two matrix products in one pass. They are optional: without a compiler the package installs without
 * them and computes the same with PyTorch. Pointers come from Tensor.data_ptr(); the callers in fused.py and segment.py
 * check types and shapes. Matrices are row-major; "ld" is the distance between rows.
 */
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && defined(__x86_64__) && !defined(__clang__)
#define FAST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FAST
#endif

typedef int64_t i64;

/* out[0:d] += Σ_{t < count} coefficient[t * step] · rows[t * ld : t * ld + d] */
static inline __attribute__((always_inline)) void add_rows(float *restrict out, const float *coefficient, i64 step, const float *rows, i64 ld, i64 count,
                            i64 d) {
    i64 t = 0;
    for (; t + 4 <= count; t += 4) {
        const float a0 = coefficient[t * step], a1 = coefficient[(t + 1) * step];
        const float a2 = coefficient[(t + 2) * step], a3 = coefficient[(t + 3) * step];
        const float *r0 = rows + t * ld, *r1 = r0 + ld, *r2 = r1 + ld, *r3 = r2 + ld;
#pragma omp simd
        for (i64 j = 0; j < d; j++) out[j] += a0 * r0[j] + a1 * r1[j] + a2 * r2[j] + a3 * r3[j];
    }
    for (; t < count; t++) {
        const float a0 = coefficient[t * step];
        const float *r0 = rows + t * ld;
#pragma omp simd
        for (i64 j = 0; j < d; j++) out[j] += a0 * r0[j];
    }
}

static inline __attribute__((always_inline)) float dot(const float *a, const float *b, i64 d) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (i64 j = 0; j < d; j++) sum += a[j] * b[j];
    return sum;
}

/* One block of n rows and k columns; out is zero before. */
static inline __attribute__((always_inline)) void block_nn(const float *a, i64 lda, const float *b, i64 ldb, float *out, i64 ldo, i64 n, i64 k, i64 d) {
    for (i64 i = 0; i < n; i++) add_rows(out + i * ldo, a + i * lda, 1, b, ldb, k, d);
}

static inline __attribute__((always_inline)) void block_tn(const float *a, i64 lda, const float *b, i64 ldb, float *out, i64 ldo, i64 n, i64 k, i64 d) {
    for (i64 c = 0; c < k; c++) add_rows(out + c * ldo, a + c, lda, b, ldb, n, d);
}

static inline __attribute__((always_inline)) void block_nt(const float *a, i64 lda, const float *b, i64 ldb, float *out, i64 ldo, i64 n, i64 k, i64 d) {
    for (i64 i = 0; i < n; i++)
        for (i64 c = 0; c < k; c++) out[i * ldo + c] = dot(a + i * lda, b + c * ldb, d);
}

/* The products of segment.py for all graphs whose block has at most `limit` multiplications; out is zero before. */
FAST static void product(i64 form, const float *a, i64 lda, const float *b, i64 ldb, float *out, i64 ldo, const i64 *rows,
                         const i64 *columns, i64 graphs, i64 width, i64 square, i64 limit) {
    i64 r = 0, c = 0;
    for (i64 g = 0; g < graphs; g++) {
        const i64 n = rows[g], k = columns[g], d = square ? k : width;
        if (n * k * d <= limit) {
            if (form == 0) block_nn(a + r * lda, lda, b + c * ldb, ldb, out + r * ldo, ldo, n, k, d);
            else if (form == 1) block_tn(a + r * lda, lda, b + r * ldb, ldb, out + c * ldo, ldo, n, k, d);
            else block_nt(a + r * lda, lda, b + c * ldb, ldb, out + r * ldo, ldo, n, k, d);
        }
        r += n;
        c += k;
    }
}

/* beside = [X, D⁻¹AX] for a sparse A: [N, 2d]. values may be NULL (all ones). */
FAST static void beside_sparse(const float *x, i64 ldx, i64 n, i64 d, const i64 *indptr, const i64 *indices,
                               const float *values, const float *inverse_degree, float *beside) {
    for (i64 i = 0; i < n; i++) {
        float *own = beside + i * 2 * d, *mean = own + d;
        memcpy(own, x + i * ldx, d * sizeof(float));
        memset(mean, 0, d * sizeof(float));
        for (i64 e = indptr[i]; e < indptr[i + 1]; e++) {
            const float v = values ? values[e] : 1.0f;
            const float *row = x + indices[e] * ldx;
#pragma omp simd
            for (i64 j = 0; j < d; j++) mean[j] += v * row[j];
        }
        const float inverse = inverse_degree[i];
#pragma omp simd
        for (i64 j = 0; j < d; j++) mean[j] *= inverse;
    }
}

/* The gradient of X from that of beside, with Aᵀ by rows. */
FAST static void beside_sparse_backward(const float *grad, i64 n, i64 d, const i64 *indptr, const i64 *indices,
                                        const float *values, const float *inverse_degree, float *grad_x) {
    for (i64 i = 0; i < n; i++) {
        float *out = grad_x + i * d;
        memcpy(out, grad + i * 2 * d, d * sizeof(float));
        for (i64 e = indptr[i]; e < indptr[i + 1]; e++) {
            const i64 t = indices[e];
            const float v = (values ? values[e] : 1.0f) * inverse_degree[t];
            const float *row = grad + t * 2 * d + d;
#pragma omp simd
            for (i64 j = 0; j < d; j++) out[j] += v * row[j];
        }
    }
}

/* The same for dense blocks. */
FAST static void beside_dense(const float *x, i64 ldx, i64 d, const float *adj, i64 lda, const i64 *sizes, i64 graphs,
                              const float *inverse_degree, float *beside) {
    i64 start = 0;
    for (i64 g = 0; g < graphs; g++) {
        const i64 n = sizes[g];
        for (i64 i = start; i < start + n; i++) {
            float *own = beside + i * 2 * d, *mean = own + d;
            memcpy(own, x + i * ldx, d * sizeof(float));
            memset(mean, 0, d * sizeof(float));
            add_rows(mean, adj + i * lda, 1, x + start * ldx, ldx, n, d);
            const float inverse = inverse_degree[i];
#pragma omp simd
            for (i64 j = 0; j < d; j++) mean[j] *= inverse;
        }
        start += n;
    }
}

/* The gradient of X, and those of A and the inverse degrees added to what is there. scaled has room for [N, d]. */
FAST static void beside_dense_backward(const float *grad, const float *x, i64 ldx, i64 d, const float *adj, i64 lda,
                                       const i64 *sizes, i64 graphs, const float *inverse_degree, const float *beside,
                                       float *scaled, float *grad_x, float *grad_adj, float *grad_inverse) {
    i64 start = 0;
    for (i64 g = 0; g < graphs; g++) {
        const i64 n = sizes[g];
        for (i64 i = start; i < start + n; i++) {
            const float inverse = inverse_degree[i];
            const float *of_mean = grad + i * 2 * d + d;
            memcpy(grad_x + i * d, grad + i * 2 * d, d * sizeof(float));
#pragma omp simd
            for (i64 j = 0; j < d; j++) scaled[i * d + j] = inverse * of_mean[j];
            /* beside holds inverse · AX */
            if (inverse > 0) grad_inverse[i] += dot(of_mean, beside + i * 2 * d + d, d) / inverse;
        }
        for (i64 i = start; i < start + n; i++) {
            for (i64 c = 0; c < n; c++) grad_adj[i * lda + c] += dot(scaled + i * d, x + (start + c) * ldx, d);
            add_rows(grad_x + i * d, adj + start * lda + (i - start), lda, scaled + start * d, d, n, d);
        }
        start += n;
    }
}

/* l2, ReLU and batch normalisation of h [N, d], which becomes the unit vectors. Row i has the first columns[i] columns
 * (NULL: all); the rest of h and out is zero. A column that fewer than two rows have is normalised by the running
 * statistics. statistics becomes mean, 1/sd and count of each column: [3, d]; work has room for 2 d doubles. */
FAST static void norm_forward(float *h, i64 n, i64 d, const i64 *columns, const float *scale, const float *shift,
                              float *running_mean, float *running_var, double momentum, double eps, float *length,
                              float *out, i64 ldo, float *statistics, double *work) {
    float *mean = statistics, *inverse_sd = mean + d, *count = inverse_sd + d;
    double *sum = work, *square = work + d;
    memset(work, 0, 2 * d * sizeof(double));
    memset(count, 0, d * sizeof(float));
    for (i64 i = 0; i < n; i++) {
        float *row = h + i * d;
        const i64 width = columns ? columns[i] : d;
        for (i64 j = width; j < d; j++) row[j] = 0;
        const float size = sqrtf(dot(row, row, width));
        length[i] = size > 1e-12f ? size : 1e-12f;
        const float inverse = 1 / length[i];
#pragma omp simd
        for (i64 j = 0; j < width; j++) {
            row[j] *= inverse;
            const double p = row[j] > 0 ? row[j] : 0;
            sum[j] += p;
            square[j] += p * p;
        }
        if (columns)
            for (i64 j = 0; j < width; j++) count[j] += 1;
    }
    for (i64 j = 0; j < d; j++) {
        if (!columns) count[j] = (float)n;
        double m = running_mean[j], v = running_var[j];
        if (count[j] > 1) {
            m = sum[j] / count[j];
            v = square[j] / count[j] - m * m;
            v = v > 0 ? v : 0;
            running_mean[j] += momentum * (m - running_mean[j]);
            running_var[j] += momentum * (v * count[j] / (count[j] - 1) - running_var[j]);
        }
        mean[j] = (float)m;
        inverse_sd[j] = (float)(1 / sqrt(v + eps));
    }
    for (i64 i = 0; i < n; i++) {
        const float *row = h + i * d;
        float *to = out + i * ldo;
        const i64 width = columns ? columns[i] : d;
#pragma omp simd
        for (i64 j = 0; j < width; j++)
            to[j] = ((row[j] > 0 ? row[j] : 0) - mean[j]) * inverse_sd[j] * scale[j] + shift[j];
        for (i64 j = width; j < d; j++) to[j] = 0;
    }
}

/* Gradients of h (before the normalisation), its column sums, scale and shift. The gradient of the output is the sum of
 * two: first [N, d] with distance ldf between rows, and second [N, d]; either may be NULL. factor has room for d. */
FAST static void norm_backward(const float *first, i64 ldf, const float *second, const float *unit, i64 n, i64 d,
                               const i64 *columns, const float *scale, const float *length, const float *statistics,
                               float *grad_h, float *grad_bias, float *grad_scale, float *grad_shift, float *factor) {
    const float *mean = statistics, *inverse_sd = mean + d, *count = inverse_sd + d;
    memset(grad_bias, 0, d * sizeof(float));
    memset(grad_scale, 0, d * sizeof(float));
    memset(grad_shift, 0, d * sizeof(float));
    for (i64 i = 0; i < n; i++) {
        float *g = grad_h + i * d; /* holds the gradient of the output until the second pass */
        const float *u = unit + i * d;
        const i64 width = columns ? columns[i] : d;
        if (first) memcpy(g, first + i * ldf, width * sizeof(float));
        else memset(g, 0, width * sizeof(float));
        if (second) {
            const float *more = second + i * d;
#pragma omp simd
            for (i64 j = 0; j < width; j++) g[j] += more[j];
        }
#pragma omp simd
        for (i64 j = 0; j < width; j++) {
            grad_shift[j] += g[j];
            grad_scale[j] += g[j] * (((u[j] > 0 ? u[j] : 0) - mean[j]) * inverse_sd[j]);
        }
    }
    /* statistics of the batch have a gradient, running ones have none */
    for (i64 j = 0; j < d; j++) factor[j] = count[j] > 1 ? 1 / count[j] : 0;
    for (i64 i = 0; i < n; i++) {
        float *g = grad_h + i * d;
        const float *u = unit + i * d;
        const i64 width = columns ? columns[i] : d;
        float along = 0;
#pragma omp simd reduction(+ : along)
        for (i64 j = 0; j < width; j++) {
            const float p = u[j] > 0 ? u[j] : 0;
            const float normal = (p - mean[j]) * inverse_sd[j];
            const float v = scale[j] * inverse_sd[j] * (g[j] - factor[j] * (grad_shift[j] + normal * grad_scale[j]));
            g[j] = u[j] > 0 ? v : 0;
            along += g[j] * u[j];
        }
        const float inverse = 1 / length[i];
        if (length[i] <= 1e-12f) along = 0; /* the length was too small to divide by and counts as a constant */
#pragma omp simd
        for (i64 j = 0; j < width; j++) {
            g[j] = (g[j] - u[j] * along) * inverse;
            grad_bias[j] += g[j];
        }
        for (i64 j = width; j < d; j++) g[j] = 0;
    }
}

/* --- Python: arguments are integers (addresses, sizes) and floats ------------------------------------------------- */

#define P(type, k) ((type *)(intptr_t)PyLong_AsVoidPtr(args[k]))
#define I(k) ((i64)PyLong_AsLongLong(args[k]))
#define D(k) PyFloat_AsDouble(args[k])
#define WRAP(name, arguments, call)                                                              \
    static PyObject *py_##name(PyObject *self, PyObject *const *args, Py_ssize_t count) {        \
        (void)self;                                                                              \
        if (count != (arguments)) {                                                              \
            PyErr_SetString(PyExc_TypeError, #name " takes " #arguments " arguments");           \
            return NULL;                                                                         \
        }                                                                                        \
        call;                                                                                    \
        if (PyErr_Occurred()) return NULL;                                                       \
        Py_RETURN_NONE;                                                                          \
    }

WRAP(product, 13,
     product(I(0), P(float, 1), I(2), P(float, 3), I(4), P(float, 5), I(6), P(i64, 7), P(i64, 8), I(9), I(10), I(11),
             I(12)))
WRAP(beside_sparse, 9,
     beside_sparse(P(float, 0), I(1), I(2), I(3), P(i64, 4), P(i64, 5), P(float, 6), P(float, 7), P(float, 8)))
WRAP(beside_sparse_backward, 8,
     beside_sparse_backward(P(float, 0), I(1), I(2), P(i64, 3), P(i64, 4), P(float, 5), P(float, 6), P(float, 7)))
WRAP(beside_dense, 9,
     beside_dense(P(float, 0), I(1), I(2), P(float, 3), I(4), P(i64, 5), I(6), P(float, 7), P(float, 8)))
WRAP(beside_dense_backward, 14,
     beside_dense_backward(P(float, 0), P(float, 1), I(2), I(3), P(float, 4), I(5), P(i64, 6), I(7), P(float, 8),
                           P(float, 9), P(float, 10), P(float, 11), P(float, 12), P(float, 13)))
WRAP(norm_forward, 15,
     norm_forward(P(float, 0), I(1), I(2), P(i64, 3), P(float, 4), P(float, 5), P(float, 6), P(float, 7), D(8), D(9),
                  P(float, 10), P(float, 11), I(12), P(float, 13), P(double, 14)))
WRAP(norm_backward, 15,
     norm_backward(P(float, 0), I(1), P(float, 2), P(float, 3), I(4), I(5), P(i64, 6), P(float, 7), P(float, 8),
                   P(float, 9), P(float, 10), P(float, 11), P(float, 12), P(float, 13), P(float, 14)))

#define ENTRY(name) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, NULL}
static PyMethodDef methods[] = {
    ENTRY(product),       ENTRY(beside_sparse), ENTRY(beside_sparse_backward), ENTRY(beside_dense),
    ENTRY(beside_dense_backward), ENTRY(norm_forward),  ENTRY(norm_backward),  {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", "Small kernels for the CPU.", 0, methods,
                                    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void) { return PyModule_Create(&module); }
