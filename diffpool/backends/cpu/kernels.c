/* Kernels for the CPU, float32: the layers of an encoder, the pooling of a level, Adam, and the rows and edges of a batch.
 *
 * With PyTorch, a training step on small graphs takes about a thousand operations of a few microseconds each. Here all
 * layers of the networks of a level take one call, and so does a pooling. The kernels are optional: without a compiler the
 * package is installed without them and computes the same results with PyTorch. The callers are encoder.py, pooling.py, adam.py
 * and batch.py. Matrices are row-major; "ld" is the stride between rows. */
#define _GNU_SOURCE
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(FAST)
/* chosen by the compiler's options: the sanitizers take one version */
#elif defined(__GNUC__) && defined(__x86_64__) && !defined(__clang__)
#define FAST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FAST
#endif
#define INLINE static inline __attribute__((always_inline))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

typedef int64_t i64;

#include "threads.h"

#include "gemm.h"

#include "layers.h"

#include "pooling.h"

#include "adam.h"

#include "batch.h"

/* --- Python: arguments in the order of the structures --------------------------------------------------------------- */

#include "arguments.h"

/* Check that the parts [start, start + size) follow each other within n rows. */
static void check_parts(const i64 *sizes, const i64 *starts, i64 count, i64 n) {
    i64 end = 0;
    for (i64 g = 0; g < count; g++) {
        if (starts[g] < end || starts[g] > n || sizes[g] < 0 || sizes[g] > n - starts[g]) {
            refuse("expected the rows of a graph between %lld and the end, got a start or size of %lld", end, starts[g]);
            return;
        }
        end = starts[g] + sizes[g];
    }
}

/* Check the edges of all rows: sources in the graph of their target. */
static void check_edges(const Graphs *graphs, const i64 *indptr, const i64 *indices, i64 edges) {
    if (PyErr_Occurred()) return;
    i64 before = 0;
    for (i64 r = 0; r <= graphs->n; r++) {
        if (indptr[r] < before || indptr[r] > edges) {
            refuse("expected the first edge of a row up to %lld, got %lld", edges, indptr[r]);
            return;
        }
        before = indptr[r];
    }
    if (before != edges || indptr[0]) {
        refuse("expected %lld edges, got %lld", before - indptr[0], edges);
        return;
    }
    for (i64 g = 0; g < graphs->graphs; g++) {
        const i64 start = graphs->starts[g], count = graphs->sizes[g];
        int outside = 0;
        for (i64 e = indptr[start]; e < indptr[start + count]; e++) outside |= (uint64_t)(indices[e] - start) >= (uint64_t)count;
        if (outside) {
            refuse("expected the edges of graph %lld within its %lld nodes", g, count);
            return;
        }
    }
}

static void take_edges(Arguments *from, const Graphs *graphs, const i64 **indptr, const i64 **indices, const float **values) {
    i64 edges;
    *indptr = integers(from, graphs->n + 1);
    *indices = contiguous(take(from), torch.int64, &edges);
    *values = maybe_floats(from, edges);
    check_edges(graphs, *indptr, *indices, edges);
}

static void take_graphs(Arguments *from, Graphs *graphs) {
    graphs->n = rows(from);
    graphs->graphs = rows(from);
    graphs->sizes = integers(from, graphs->graphs);
    graphs->starts = integers(from, graphs->graphs);
    graphs->inverse_degree = floats(from, graphs->n);
    if (!PyErr_Occurred()) check_parts(graphs->sizes, graphs->starts, graphs->graphs, graphs->n);
    graphs->dense = integer(from);
    if (graphs->dense) {
        graphs->lda = width(from);
        graphs->adj = floats(from, graphs->n * graphs->lda);
        for (i64 g = 0; g < graphs->graphs && !PyErr_Occurred(); g++)
            if (graphs->sizes[g] > graphs->lda) refuse("expected blocks of up to %lld nodes, got %lld", graphs->lda, graphs->sizes[g]);
    } else
        take_edges(from, graphs, &graphs->indptr, &graphs->indices, &graphs->values);
}

/* The networks of a call, each with all its models: first the rows of model 0, then those of model 1, and so on. All read
 * the same input. */
typedef struct {
    Graphs graphs;
    i64 models, d; /* d: columns of x */
    const float *x;
    Encoder *encoders; /* [count] */
    i64 count;
    int forward, threads;
    i64 chunked; /* run the networks in sequence, one task per chunk; otherwise one task per network */
    float *work; /* workspace of each thread */
    i64 share;   /* floats of it */
} Networks;

static void take_input(Arguments *from, Networks *networks) {
    Graphs *graphs = &networks->graphs;
    const i64 models = networks->models = width(from);
    take_graphs(from, graphs);
    networks->d = width(from);
    networks->x = floats(from, graphs->n * networks->d);
    if (models < 1 || graphs->n % models || graphs->graphs % models)
        refuse("expected %lld models with the same number of rows, got %lld rows", models, graphs->n);
}

/* Read one network and create an encoder for each model; returns the first of them, NULL after an error. */
static Encoder *take_network(Arguments *from, Networks *networks) {
    Encoder e;
    memset(&e, 0, sizeof e);
    e.threads = networks->chunked ? networks->threads : 1;
    e.graphs = networks->graphs;
    const i64 n = e.graphs.n, models = networks->models;
    const i64 *columns = maybe_integers(from, n);
    e.concat = integer(from);
    e.count = integer(from);
    if (e.count < 1 || e.count > MAX_LAYERS) refuse("expected up to %lld layers, got %lld", MAX_LAYERS, e.count);
    if (PyErr_Occurred()) return NULL;
    for (i64 i = 0; i < e.count; i++) {
        Layer *layer = e.layers + i;
        layer->training = integer(from);
        layer->momentum = number(from);
        layer->eps = number(from);
        layer->l2 = integer(from);
        layer->relu = integer(from);
        layer->full = width(from);
        layer->width = width(from);
        if (i < e.count - 1 ? layer->width != layer->full : layer->width > layer->full)
            refuse("expected %lld columns (fewer only in the last layer), got %lld", layer->full, layer->width);
    }
    e.layers[e.count - 1].columns = columns;
    for (i64 r = 0; columns && r < n && !PyErr_Occurred(); r++)
        if (columns[r] < 0 || columns[r] > e.layers[e.count - 1].width)
            refuse("expected up to %lld columns in a row, got %lld", e.layers[e.count - 1].width, columns[r]);
    if (PyErr_Occurred()) return NULL;
    e.kept = floats(from, measure(&e, networks->d, models));
    e.out = floats(from, n * e.ldo);
    arrange(&e, networks->x, models);
    e.has_final = integer(from);
    if (e.has_final) {
        e.inputs = width(from);
        e.full = width(from);
        e.width = width(from);
        e.final = floats(from, n * e.width);
        if (columns && e.width != e.layers[e.count - 1].width)
            refuse("expected a last layer with %lld columns, got %lld", e.layers[e.count - 1].width, e.width);
        if (e.width > e.full || e.ldo > e.inputs) refuse("expected a last layer for %lld columns, got %lld", e.ldo, e.inputs);
    }
    Encoder *grown = PyErr_Occurred() ? NULL : realloc(networks->encoders, sizeof(Encoder) * (networks->count + models));
    if (!grown) {
        if (!PyErr_Occurred()) PyErr_NoMemory();
        return NULL;
    }
    networks->encoders = grown;
    Encoder *first = grown + networks->count;
    const i64 own_rows = n / models, own_graphs = e.graphs.graphs / models;
    for (i64 k = 0; k < models; k++) {
        Encoder *own = first + k;
        *own = e;
        own->begin = own->end = k * own_rows;
        own->last = (k + 1) * own_rows;
        for (i64 g = k * own_graphs; g < (k + 1) * own_graphs; g++) {
            if (e.graphs.starts[g] != own->end && e.graphs.sizes[g])
                refuse("expected a graph from row %lld on, got %lld", own->end, e.graphs.starts[g]);
            own->end += e.graphs.sizes[g];
        }
        if (own->end > own->last) refuse("expected the graphs of a model in %lld rows, got %lld", own_rows, own->end - own->begin);
        for (i64 i = 0; i < e.count; i++) own->layers[i].statistics += k * 3 * e.layers[i].width;
    }
    networks->count += models;
    return PyErr_Occurred() ? NULL : first;
}

/* Read a tensor of parameters; set a field of each model's encoder. */
#define TAKE(from, encoders_, models_, field, rows_, columns_)                                                          \
    do {                                                                                                                \
        i64 distance_;                                                                                                  \
        float *start_ = by_models(from, models_, rows_, columns_, &distance_);                                           \
        for (i64 k_ = 0; k_ < (models_); k_++) (encoders_)[k_].field = start_ + k_ * distance_;                          \
    } while (0)

static void take_parameters(Arguments *from, Encoder *e, i64 models) {
    for (i64 i = 0; i < e->count; i++) {
        const i64 d = e->layers[i].d, full = e->layers[i].full;
        TAKE(from, e, models, layers[i].weight, 2 * d, full);
        TAKE(from, e, models, layers[i].bias, 1, full);
        TAKE(from, e, models, layers[i].scale, 1, full);
        TAKE(from, e, models, layers[i].shift, 1, full);
        TAKE(from, e, models, layers[i].running_mean, 1, full);
        TAKE(from, e, models, layers[i].running_var, 1, full);
    }
    if (e->has_final) {
        TAKE(from, e, models, weight, e->inputs, e->full);
        TAKE(from, e, models, bias, 1, e->full);
    }
}

static void take_gradients(Arguments *from, Encoder *e, i64 models) {
    const i64 n = e->graphs.n;
    const float *grad = floats(from, n * (e->has_final ? e->width : e->ldo));
    float *grad_x = maybe_floats(from, n * e->layers[0].d);
    float *grad_adj = maybe_floats(from, n * e->graphs.lda), *grad_inverse = maybe_floats(from, n);
    for (i64 k = 0; k < models; k++) {
        Encoder *own = e + k;
        own->grad = grad;
        own->grad_x = grad_x;
        own->grad_adj = grad_adj;
        own->grad_inverse = grad_inverse;
    }
    for (i64 i = 0; i < e->count; i++) {
        const i64 d = e->layers[i].d, full = e->layers[i].full;
        TAKE(from, e, models, layers[i].grad_weight, 2 * d, full);
        TAKE(from, e, models, layers[i].grad_bias, 1, full);
        TAKE(from, e, models, layers[i].grad_scale, 1, full);
        TAKE(from, e, models, layers[i].grad_shift, 1, full);
    }
    if (e->has_final) {
        TAKE(from, e, models, grad_weight, e->inputs, e->full);
        TAKE(from, e, models, grad_bias, 1, e->full);
    }
}

static void run_network(void *context, i64 number, int rank) {
    Networks *networks = context;
    Encoder *e = networks->encoders + number;
    if (!networks->forward) e->work = networks->work + rank * networks->share;
    (networks->forward ? encoder_forward : encoder_backward)(e);
}

/* Allocate the sums of every chunk of every network. */
static double *allocate_sums(Networks *networks) {
    i64 total = 1;
    for (i64 k = 0; k < networks->count; k++) total += chunks_of(networks->encoders + k) * 3 * networks->encoders[k].widest;
    double *sums = malloc(sizeof(double) * total), *next = sums;
    for (i64 k = 0; sums && k < networks->count; k++) {
        networks->encoders[k].partial = next;
        next += chunks_of(networks->encoders + k) * 3 * networks->encoders[k].widest;
    }
    return sums;
}

/* Allocate the reach of the last layer's columns in every network. */
static i64 *allocate_reach(Networks *networks) {
    i64 total = 1;
    for (i64 k = 0; k < networks->count; k++) {
        const Encoder *e = networks->encoders + k;
        total += panels_of(e->layers[e->count - 1].width);
    }
    i64 *reach = malloc(sizeof(i64) * total), *next = reach;
    for (i64 k = 0; reach && k < networks->count; k++) {
        Encoder *e = networks->encoders + k;
        Layer *layer = e->layers + e->count - 1;
        if (!layer->columns) continue;
        find_reach(layer, e->begin, e->end, next);
        layer->reach = next;
        next += panels_of(layer->width);
    }
    return reach;
}

static int threads_of(Arguments *from) {
    const i64 threads = integer(from);
    return (int)MAX(MIN(threads, MAX_THREADS), 1);
}

/* Arguments: threads, whether networks are divided into chunks, backward: the workspace of all threads, then the input, the
 * number of networks, and the networks. */
static PyObject *run_layers(PyObject *const *args, Py_ssize_t count, int forward) {
    Arguments from = {args, count};
    Networks networks = {.forward = forward, .threads = threads_of(&from)};
    networks.chunked = integer(&from);
    i64 space = 0, tasks = 0;
    if (!forward) networks.work = contiguous(take(&from), torch.float32, &space);
    take_input(&from, &networks);
    const i64 given = width(&from);
    for (i64 k = 0; k < given && !PyErr_Occurred(); k++) {
        Encoder *first = take_network(&from, &networks);
        if (!first) break;
        take_parameters(&from, first, networks.models);
        if (!forward) take_gradients(&from, first, networks.models);
        networks.share = MAX(networks.share, workspace(first, first->last - first->begin));
    }
    tasks = networks.chunked ? 1 : MIN(networks.threads, networks.count);
    if (!forward && space < tasks * networks.share)
        refuse("expected a workspace of %lld floats, got %lld", tasks * networks.share, space);
    if (complete(&from)) {
        double *sums = allocate_sums(&networks);
        i64 *reach = allocate_reach(&networks);
        if (sums && reach) {
            Py_BEGIN_ALLOW_THREADS
            if (networks.chunked)
                for (i64 k = 0; k < networks.count; k++) run_network(&networks, k, 0);
            else parallel(run_network, &networks, networks.count, networks.threads);
            Py_END_ALLOW_THREADS
        } else
            PyErr_NoMemory();
        free(sums);
        free(reach);
    }
    free(networks.encoders);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_layers_forward(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    return run_layers(args, count, 1);
}

static PyObject *py_layers_backward(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    return run_layers(args, count, 0);
}

/* rows, models, d, concat, widths of the layers -> number of floats saved for the backward pass, and of the workspace of a
 * model */
static PyObject *py_layers_buffers(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Arguments from = {args, count};
    Encoder e;
    (void)self;
    memset(&e, 0, sizeof e);
    e.graphs.n = rows(&from);
    const i64 models = width(&from), d = width(&from);
    e.concat = integer(&from);
    e.count = MIN(from.left, MAX_LAYERS);
    for (i64 i = 0; i < e.count; i++) e.layers[i].width = width(&from);
    if (!complete(&from)) return NULL;
    const i64 kept = measure(&e, d, models);
    return Py_BuildValue("LL", (long long)kept, (long long)workspace(&e, e.graphs.n / MAX(models, 1)));
}

static void take_pooling(Arguments *from, Pooling *p) {
    memset(p, 0, sizeof *p);
    take_graphs(from, &p->graphs);
    const i64 n = p->graphs.n, graphs = p->graphs.graphs, k = rows(from), w = width(from), d = width(from);
    p->k = k;
    p->width = w;
    p->d = d;
    p->clusters = integers(from, graphs);
    p->cluster = integers(from, graphs);
    if (!PyErr_Occurred()) check_parts(p->clusters, p->cluster, graphs, k);
    for (i64 g = 0; g < graphs && !PyErr_Occurred(); g++)
        if (p->clusters[g] > w) refuse("expected up to %lld clusters, got %lld", w, p->clusters[g]);
    p->logits = floats(from, n * w);
    p->z = floats(from, n * d);
    p->squared_norm = maybe_floats(from, graphs);
    if (!p->graphs.dense && !p->squared_norm) refuse("expected the norms of %lld graphs", graphs, 0);
    p->s = floats(from, n * w);
    p->out_x = floats(from, k * d);
    p->out_adj = floats(from, k * w);
    p->degree = floats(from, k);
    p->inverse = floats(from, k);
    p->link = floats(from, graphs);
    p->entropy = floats(from, graphs);
    p->propagated = floats(from, n * w);
    p->gram = floats(from, k * w);
    p->log_sum = floats(from, n);
}

/* Process all graphs, with a workspace for each thread. */
static PyObject *run_pooling(Piece piece, void (*clear)(const Pooling *), Pooling *p, int threads, i64 blocks) {
    for (i64 g = 0; g < p->graphs.graphs; g++) {
        p->largest = MAX(p->largest, p->graphs.sizes[g]);
        p->largest = MAX(p->largest, p->clusters[g]);
    }
    p->work = malloc(sizeof(float) * (blocks * p->largest * p->width * threads + 1));
    if (p->work) {
        Py_BEGIN_ALLOW_THREADS
        clear(p);
        parallel(piece, p, p->graphs.graphs, threads);
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
    const int threads = threads_of(&from);
    take_pooling(&from, &p);
    return complete(&from) ? run_pooling(pool_forward, clear_outputs, &p, threads, 0) : NULL;
}

static PyObject *py_pool_backward(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Arguments from = {args, count};
    Pooling p;
    (void)self;
    const int threads = threads_of(&from);
    take_pooling(&from, &p);
    const i64 n = p.graphs.n, graphs = p.graphs.graphs, k = p.k, w = p.width, d = p.d;
    if (!p.graphs.dense) take_edges(&from, &p.graphs, &p.indptr_t, &p.indices_t, &p.values_t);
    p.d_s = maybe_floats(&from, n * w);
    p.d_x = maybe_floats(&from, k * d);
    p.d_adj = maybe_floats(&from, k * w);
    p.d_degree = maybe_floats(&from, k);
    p.d_inverse = maybe_floats(&from, k);
    p.d_link = maybe_floats(&from, graphs);
    p.d_entropy = maybe_floats(&from, graphs);
    p.grad_logits = floats(&from, n * w);
    p.grad_z = floats(&from, n * d);
    p.grad_adj = maybe_floats(&from, n * p.graphs.lda);
    if (p.grad_adj && !p.graphs.dense) refuse("expected no gradient of %lld edges", p.graphs.n, 0);
    return complete(&from) ? run_pooling(pool_backward, clear_gradients, &p, threads, 3) : NULL;
}

/* Arguments: threads, the fields of Adam, the number of parameters, then the gradient of each, and the columns between it
 * and the next. */
static PyObject *py_adam(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Arguments from = {args, count};
    Adam a;
    (void)self;
    const int threads = threads_of(&from);
    const i64 models = a.models = width(&from), columns = a.columns = rows(&from);
    a.parameters = floats(&from, models * columns);
    a.mean = floats(&from, models * columns);
    a.square = floats(&from, models * columns);
    a.decay = maybe_floats(&from, models * columns);
    a.clip = floats(&from, models);
    a.rate = floats(&from, models);
    a.steps = floats(&from, models);
    a.present = flags(&from, models);
    a.first = number(&from);
    a.second = number(&from);
    a.eps = number(&from);
    a.parts = width(&from);
    if (PyErr_Occurred()) return NULL;
    Part *parts = malloc(sizeof(Part) * (a.parts + 1));
    a.factors = malloc(sizeof *a.factors * (models + 1));
    a.part = parts;
    if (!parts || !a.factors) PyErr_NoMemory();
    i64 begin = 0;
    for (i64 p = 0; p < a.parts && !PyErr_Occurred(); p++) {
        i64 total;
        parts[p].gradient = contiguous(take(&from), torch.float32, &total);
        parts[p].count = total / MAX(models, 1);
        parts[p].begin = begin;
        begin += parts[p].count + rows(&from);
        if (parts[p].count * models != total) refuse("expected the gradients of %lld models, got %lld elements", models, total);
    }
    if (begin != columns) refuse("expected the gradients of %lld parameters, got %lld", columns, begin);
    if (complete(&from)) {
        Py_BEGIN_ALLOW_THREADS
        parallel(adam_factors, &a, models, threads);
        parallel(adam_piece, &a, models * a.parts, threads);
        Py_END_ALLOW_THREADS
    }
    free(parts);
    free(a.factors);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* Arguments: the fields of Tables. */
static PyObject *py_row_tables(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Arguments from = {args, count};
    Tables t;
    (void)self;
    t.models = width(&from);
    t.rows = rows(&from);
    t.graphs = rows(&from);
    const i64 n = t.models * t.rows, own = t.graphs / MAX(t.models, 1);
    t.sizes = integers(&from, t.graphs);
    t.starts = integers(&from, t.graphs);
    t.graph = integers(&from, 3 * n);
    t.index = t.graph + n;
    t.slot = t.index + n;
    if (own * t.models != t.graphs) refuse("expected graphs of %lld models, got %lld graphs", t.models, t.graphs);
    for (i64 m = 0; m < t.models && !PyErr_Occurred(); m++) {
        i64 left = t.rows;
        for (i64 g = m * own; g < (m + 1) * own; left -= t.sizes[g++])
            if (t.sizes[g] < 0 || t.sizes[g] > left) {
                refuse("expected a graph with up to %lld rows, got %lld", left, t.sizes[g]);
                break;
            }
    }
    if (!complete(&from)) return NULL;
    fill_tables(&t);
    Py_RETURN_NONE;
}

/* Read and check everything but the result. */
static void take_selection(Arguments *from, Selection *s) {
    s->all = rows(from);
    s->indptr = integers(from, s->all + 1);
    s->indices = contiguous(take(from), torch.int64, &s->entries);
    s->n = rows(from);
    s->graphs = rows(from);
    s->sizes = integers(from, s->graphs);
    s->starts = integers(from, s->graphs);
    s->first = integers(from, s->graphs);
    if (PyErr_Occurred()) return;
    check_parts(s->sizes, s->starts, s->graphs, s->n);
    if (s->indptr[s->all] != s->entries) refuse("expected %lld entries, got %lld", s->indptr[s->all], s->entries);
    if (!s->all && s->n) refuse("expected at least %lld row, got %lld", 1, s->all);
    const i64 last = s->all ? s->indptr[s->all - 1] : 0;
    if (last < 0 || last > s->entries) refuse("expected the first entry of a row up to %lld, got %lld", s->entries, last);
    for (i64 g = 0; g < s->graphs && !PyErr_Occurred(); g++) {
        const i64 first = s->first[g], size = s->sizes[g];
        if (first < 0 || first > s->all - size) {
            refuse("expected the rows of a graph among %lld rows, got a start of %lld", s->all, first);
            return;
        }
        i64 before = 0;
        for (i64 r = first; r <= first + size; r++) {
            if (s->indptr[r] < before || s->indptr[r] > s->entries) {
                refuse("expected the first entry of a row up to %lld, got %lld", s->entries, s->indptr[r]);
                return;
            }
            before = s->indptr[r];
        }
        int outside = 0;
        for (i64 e = s->indptr[first]; e < before; e++) outside |= (uint64_t)(s->indices[e] - first) >= (uint64_t)size;
        if (outside) refuse("expected the entries of graph %lld within its %lld columns", g, size);
    }
}

/* The number of entries in the rows of the selected graphs. Arguments: the fields of Selection up to `first`. */
static PyObject *py_count_entries(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Arguments from = {args, count};
    Selection s;
    (void)self;
    take_selection(&from, &s);
    return complete(&from) ? PyLong_FromLongLong(count_entries(&s)) : NULL;
}

/* Arguments: the fields of Selection. */
static PyObject *py_select_rows(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Arguments from = {args, count};
    Selection s;
    (void)self;
    take_selection(&from, &s);
    const i64 entries = PyErr_Occurred() ? 0 : count_entries(&s);
    s.row = integers(&from, s.n);
    s.entry = integers(&from, entries);
    s.ends = integers(&from, s.n + 1);
    s.columns = integers(&from, entries);
    if (!complete(&from)) return NULL;
    select_rows(&s);
    Py_RETURN_NONE;
}

#define ENTRY(name) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, NULL}
static PyMethodDef methods[] = {ENTRY(layers_buffers), ENTRY(layers_forward), ENTRY(layers_backward),
                                ENTRY(pool_forward),   ENTRY(pool_backward),  ENTRY(adam),
                                ENTRY(row_tables),     ENTRY(count_entries),  ENTRY(select_rows),
                                {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_kernels", "Kernels for the CPU.", 0, methods,
                                    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernels(void) { return load_torch() ? PyModule_Create(&module) : NULL; }
