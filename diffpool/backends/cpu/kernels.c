/* Kernels for the CPU, float32: the layers of an encoder and the pooling of a level.
 *
 * With PyTorch, a training step on small graphs takes about a thousand operations of a few microseconds each. Here all
 * layers of the networks of a level take one call, and so does a pooling. The kernels are optional: without a compiler the
 * package is installed without them and computes the same results with PyTorch. Pointers come from Tensor.data_ptr(); the
 * callers in encoder.py, pooling.py and adam.py check types and shapes. Matrices are row-major; "ld" is the stride between rows. */
#define _GNU_SOURCE
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <math.h>
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
#define MAX(a, b) ((a) > (b) ? (a) : (b))

typedef int64_t i64;

#include "threads.h"

#include "gemm.h"

#include "layers.h"

#include "pooling.h"

#include "adam.h"

/* --- Python: arguments are integers (addresses, sizes) and floats, in the order of the structures ------------------- */

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

/* Whether all arguments have been read and are valid. */
static int complete(const Arguments *from) {
    if (!PyErr_Occurred() && from->left != 0) PyErr_SetString(PyExc_TypeError, "too many arguments");
    return !PyErr_Occurred();
}

static void take_graphs(Arguments *from, Graphs *graphs) {
    graphs->n = integer(from);
    graphs->graphs = integer(from);
    graphs->dense = integer(from);
    graphs->sizes = pointer(from);
    graphs->starts = pointer(from);
    graphs->indptr = pointer(from);
    graphs->indices = pointer(from);
    graphs->values = pointer(from);
    graphs->adj = pointer(from);
    graphs->lda = integer(from);
    graphs->inverse_degree = pointer(from);
}

/* The networks of a call, each with all its models: first the rows of model 0, then those of model 1, and so on. */
typedef struct {
    Encoder *encoders; /* [count] */
    i64 count;
    int forward, threads;
    i64 chunked; /* run the networks in sequence, one task per chunk; otherwise one task per network */
    float *work; /* workspace of each thread */
    i64 share;   /* floats of it */
} Networks;

/* Read one network and create an encoder for each of its models. */
static int take_network(Arguments *from, Networks *networks, i64 *models) {
    Encoder e;
    memset(&e, 0, sizeof e);
    e.threads = networks->chunked ? networks->threads : 1;
    *models = integer(from);
    const i64 rows = integer(from);
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
    if (e.count < 1 || e.count > MAX_LAYERS || *models < 1) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "too many layers");
        return 0;
    }
    for (i64 i = 0; i < e.count; i++) {
        Layer *layer = e.layers + i;
        layer->training = integer(from);
        layer->momentum = number(from);
        layer->eps = number(from);
        layer->l2 = integer(from);
        layer->relu = integer(from);
        layer->full = integer(from);
        layer->width = integer(from);
        e.widest = MAX(e.widest, layer->width);
    }
    e.layers[e.count - 1].columns = columns;
    arrange(&e, x, d, *models);
    for (i64 i = 0; i < e.count; i++) e.deepest = MAX(e.deepest, e.layers[i].d);
    Encoder *grown = realloc(networks->encoders, sizeof(Encoder) * (networks->count + *models));
    if (!grown) {
        PyErr_NoMemory();
        return 0;
    }
    networks->encoders = grown;
    for (i64 k = 0; k < *models; k++) {
        Encoder *own = grown + networks->count + k;
        *own = e;
        own->begin = k * rows;
        own->end = k * rows + (used ? used[k] : rows);
        own->last = (k + 1) * rows;
        for (i64 i = 0; i < e.count; i++) own->layers[i].statistics += k * 3 * e.layers[i].width;
    }
    networks->count += *models;
    return 1;
}

/* Read an address and a stride between models; set a field of each model's encoder. */
#define TAKE(from, encoders_, models_, field)                                                                           \
    do {                                                                                                                \
        float *start_ = pointer(from);                                                                                  \
        const i64 distance_ = integer(from);                                                                            \
        for (i64 k_ = 0; k_ < (models_); k_++) (encoders_)[k_].field = start_ ? start_ + k_ * distance_ : NULL;           \
    } while (0)

static void take_parameters(Arguments *from, Encoder *e, i64 models) {
    for (i64 i = 0; i < e->count; i++) {
        TAKE(from, e, models, layers[i].weight);
        TAKE(from, e, models, layers[i].bias);
        TAKE(from, e, models, layers[i].scale);
        TAKE(from, e, models, layers[i].shift);
        TAKE(from, e, models, layers[i].running_mean);
        TAKE(from, e, models, layers[i].running_var);
    }
    if (e->final) {
        TAKE(from, e, models, weight);
        TAKE(from, e, models, bias);
    }
}

static void take_gradients(Arguments *from, Encoder *e, i64 models) {
    const float *grad = pointer(from);
    float *grad_x = pointer(from), *grad_adj = pointer(from), *grad_inverse = pointer(from);
    for (i64 k = 0; k < models; k++) {
        Encoder *own = e + k;
        own->grad = grad;
        own->grad_x = grad_x;
        own->grad_adj = grad_adj;
        own->grad_inverse = grad_inverse;
    }
    for (i64 i = 0; i < e->count; i++) {
        TAKE(from, e, models, layers[i].grad_weight);
        TAKE(from, e, models, layers[i].grad_bias);
        TAKE(from, e, models, layers[i].grad_scale);
        TAKE(from, e, models, layers[i].grad_shift);
    }
    if (e->final) {
        TAKE(from, e, models, grad_weight);
        TAKE(from, e, models, grad_bias);
    }
}

static void run_network(void *context, i64 number, int rank) {
    Networks *networks = context;
    Encoder *e = networks->encoders + number;
    e->work = networks->work + rank * networks->share;
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

/* Arguments: threads, whether networks are divided into chunks, backward: the workspace of each thread and its size, the
 * number of networks, then the words of each network. */
static PyObject *run_layers(PyObject *const *args, Py_ssize_t count, int forward) {
    Arguments from = {args, count};
    Networks networks = {.forward = forward, .threads = (int)integer(&from), .chunked = integer(&from)};
    if (!forward) networks.work = pointer(&from), networks.share = integer(&from);
    const i64 given = integer(&from);
    i64 models = 0;
    for (i64 k = 0; k < given && !PyErr_Occurred() && take_network(&from, &networks, &models); k++) {
        Encoder *first = networks.encoders + networks.count - models;
        take_parameters(&from, first, models);
        if (!forward) take_gradients(&from, first, models);
    }
    if (complete(&from)) {
        double *sums = allocate_sums(&networks);
        if (sums) {
            Py_BEGIN_ALLOW_THREADS
            if (networks.chunked)
                for (i64 k = 0; k < networks.count; k++) run_network(&networks, k, 0);
            else parallel(run_network, &networks, networks.count, networks.threads);
            Py_END_ALLOW_THREADS
        } else
            PyErr_NoMemory();
        free(sums);
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

/* rows, models, d, concat, widths of the layers -> number of floats saved for the backward pass, and of the workspace of a model */
static PyObject *py_layers_buffers(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Arguments from = {args, count};
    Encoder e;
    (void)self;
    memset(&e, 0, sizeof e);
    e.graphs.n = integer(&from);
    const i64 models = integer(&from), d = integer(&from);
    e.concat = integer(&from);
    e.count = MIN(from.left, MAX_LAYERS);
    for (i64 i = 0; i < e.count; i++) e.layers[i].width = integer(&from);
    if (!complete(&from)) return NULL;
    const i64 kept = arrange(&e, NULL, d, models);
    for (i64 i = 0; i < e.count; i++) {
        e.widest = MAX(e.widest, e.layers[i].width);
        e.deepest = MAX(e.deepest, e.layers[i].d);
    }
    return Py_BuildValue("LL", (long long)kept, (long long)workspace(&e, e.graphs.n / MAX(models, 1)));
}

static void take_pooling(Arguments *from, Pooling *p) {
    memset(p, 0, sizeof *p);
    take_graphs(from, &p->graphs);
    p->clusters = pointer(from);
    p->cluster = pointer(from);
    p->k = integer(from);
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

/* Process all graphs, with a workspace for each thread. */
static PyObject *run_pooling(Piece piece, void (*clear)(const Pooling *), Pooling *p, int threads, i64 blocks) {
    threads = MIN(MAX(threads, 1), MAX_THREADS);
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
    const int threads = (int)integer(&from);
    take_pooling(&from, &p);
    return complete(&from) ? run_pooling(pool_forward, clear_outputs, &p, threads, 0) : NULL;
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
    p.d_s = pointer(&from);
    p.d_x = pointer(&from);
    p.d_adj = pointer(&from);
    p.d_degree = pointer(&from);
    p.d_inverse = pointer(&from);
    p.d_link = pointer(&from);
    p.d_entropy = pointer(&from);
    p.grad_logits = pointer(&from);
    p.grad_z = pointer(&from);
    p.grad_adj = pointer(&from);
    return complete(&from) ? run_pooling(pool_backward, clear_gradients, &p, threads, 3) : NULL;
}

/* Arguments: threads, the fields of Adam, the number of parameters, then the address and the number of columns of the
 * gradient of each, and the columns up to the next. */
static PyObject *py_adam(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Arguments from = {args, count};
    Adam a;
    (void)self;
    const int threads = (int)integer(&from);
    a.models = integer(&from);
    a.columns = integer(&from);
    a.parameters = pointer(&from);
    a.mean = pointer(&from);
    a.square = pointer(&from);
    a.decay = pointer(&from);
    a.clip = pointer(&from);
    a.rate = pointer(&from);
    a.steps = pointer(&from);
    a.present = pointer(&from);
    a.first = number(&from);
    a.second = number(&from);
    a.eps = number(&from);
    a.parts = integer(&from);
    if (!PyErr_Occurred() && MIN(a.parts, a.models) < 0) PyErr_SetString(PyExc_ValueError, "negative sizes");
    if (PyErr_Occurred()) return NULL;
    Part *parts = malloc(sizeof(Part) * (a.parts + 1));
    a.factors = malloc(sizeof *a.factors * (a.models + 1));
    a.part = parts;
    i64 begin = 0;
    for (i64 p = 0; parts && p < a.parts; p++) {
        parts[p].gradient = pointer(&from);
        parts[p].count = integer(&from);
        parts[p].begin = begin;
        begin += parts[p].count + integer(&from);
    }
    if (!parts || !a.factors) PyErr_NoMemory();
    if (complete(&from) && begin != a.columns) PyErr_SetString(PyExc_ValueError, "the gradients do not fit the parameters");
    if (!PyErr_Occurred()) {
        Py_BEGIN_ALLOW_THREADS
        parallel(adam_factors, &a, a.models, threads);
        parallel(adam_piece, &a, a.models * a.parts, threads);
        Py_END_ALLOW_THREADS
    }
    free(parts);
    free(a.factors);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

#define ENTRY(name) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, NULL}
static PyMethodDef methods[] = {ENTRY(layers_buffers), ENTRY(layers_forward), ENTRY(layers_backward),
                                ENTRY(pool_forward),   ENTRY(pool_backward),  ENTRY(adam),
                                {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_kernels", "Kernels for the CPU.", 0, methods,
                                    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernels(void) { return PyModule_Create(&module); }
