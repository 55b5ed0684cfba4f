/* Arguments from Python. Arrays come as tensors, and every one is checked before use: device, type, contiguity, and the
 * number of elements that the kernel is going to read or write. A wrong one raises an error. */

/* Bounds on sizes, so that products of them do not overflow. */
#define MAX_ROWS ((i64)1 << 40)
#define MAX_WIDTH ((i64)1 << 20)

static struct {
    /* names of attributes of a tensor */
    PyObject *is_cpu, *dtype, *is_neg, *is_contiguous, *numel, *data_ptr, *stride;
    PyObject *float32, *int64, *boolean;                                  /* types */
} torch;

static int load_torch(void) {
    PyObject *module = PyImport_ImportModule("torch");
    if (!module) return 0;
    torch.float32 = PyObject_GetAttrString(module, "float32");
    torch.int64 = PyObject_GetAttrString(module, "int64");
    torch.boolean = PyObject_GetAttrString(module, "bool");
    Py_DECREF(module);
    torch.is_cpu = PyUnicode_InternFromString("is_cpu");
    torch.dtype = PyUnicode_InternFromString("dtype");
    torch.is_neg = PyUnicode_InternFromString("is_neg");
    torch.is_contiguous = PyUnicode_InternFromString("is_contiguous");
    torch.numel = PyUnicode_InternFromString("numel");
    torch.data_ptr = PyUnicode_InternFromString("data_ptr");
    torch.stride = PyUnicode_InternFromString("stride");
    return !PyErr_Occurred();
}

typedef struct {
    PyObject *const *next;
    Py_ssize_t left;
} Arguments;

/* Set an error unless there is one already. */
static void refuse(const char *reason, i64 expected, i64 got) {
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, reason, (long long)expected, (long long)got);
}

static PyObject *take(Arguments *from) {
    if (from->left-- <= 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "too few arguments");
        return NULL;
    }
    return *from->next++;
}

static i64 integer(Arguments *from) {
    PyObject *value = take(from);
    return value && !PyErr_Occurred() ? (i64)PyLong_AsLongLong(value) : 0;
}

static double number(Arguments *from) {
    PyObject *value = take(from);
    return value && !PyErr_Occurred() ? PyFloat_AsDouble(value) : 0;
}

/* A number of rows, columns or models. */
static i64 size(Arguments *from, i64 bound) {
    const i64 value = integer(from);
    if (value >= 0 && value < bound) return value;
    refuse("expected a size below %lld, got %lld", bound, value);
    return 0;
}

static i64 rows(Arguments *from) { return size(from, MAX_ROWS); }
static i64 width(Arguments *from) { return size(from, MAX_WIDTH); }

/* Whether all arguments have been read and are valid. */
static int complete(const Arguments *from) {
    if (!PyErr_Occurred() && from->left != 0) PyErr_SetString(PyExc_TypeError, "too many arguments");
    return !PyErr_Occurred();
}

static i64 call(PyObject *tensor, PyObject *name) {
    PyObject *value = PyObject_CallMethodObjArgs(tensor, name, NULL);
    if (!value) return 0;
    const i64 result = (i64)PyLong_AsLongLong(value);
    Py_DECREF(value);
    return result;
}

static int has(PyObject *tensor, PyObject *name, PyObject *wanted) {
    PyObject *value = PyObject_GetAttr(tensor, name);
    Py_XDECREF(value); /* the types and truth values outlive it */
    return value == wanted;
}

static int says(PyObject *tensor, PyObject *name, PyObject *wanted) {
    PyObject *value = PyObject_CallMethodObjArgs(tensor, name, NULL);
    Py_XDECREF(value);
    return value == wanted;
}

/* The elements of a tensor of this type on the CPU, and their number. */
static void *elements(PyObject *tensor, PyObject *dtype, i64 *count) {
    static double empty; /* the address of a tensor without elements is 0 */
    *count = 0;
    if (!tensor || PyErr_Occurred()) return &empty;
    if (!has(tensor, torch.is_cpu, Py_True) || !has(tensor, torch.dtype, dtype)) {
        PyErr_Clear(); /* no tensor at all */
        PyErr_Format(PyExc_TypeError, "expected a tensor of type %R on the CPU", dtype);
        return &empty;
    }
    if (!says(tensor, torch.is_neg, Py_False)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "expected a tensor whose elements are stored as they are");
        return &empty;
    }
    void *start = (void *)(intptr_t)call(tensor, torch.data_ptr);
    *count = call(tensor, torch.numel);
    if (start && !PyErr_Occurred()) return start;
    if (*count) refuse("expected a tensor with memory for its %lld elements", *count, 0);
    *count = 0;
    return &empty;
}

static void *contiguous(PyObject *tensor, PyObject *dtype, i64 *count) {
    void *start = elements(tensor, dtype, count);
    if (!tensor || PyErr_Occurred()) return start;
    if (!says(tensor, torch.is_contiguous, Py_True)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "expected a contiguous tensor");
        *count = 0;
    }
    return start;
}

static void *array(PyObject *tensor, PyObject *dtype, i64 expected) {
    i64 count;
    void *start = contiguous(tensor, dtype, &count);
    if (count != expected) refuse("expected a tensor with %lld elements, got %lld", expected, count);
    return start;
}

static float *floats(Arguments *from, i64 count) { return array(take(from), torch.float32, count); }
static i64 *integers(Arguments *from, i64 count) { return array(take(from), torch.int64, count); }
static unsigned char *flags(Arguments *from, i64 count) { return array(take(from), torch.boolean, count); }

/* The same, or NULL for None. */
static float *maybe_floats(Arguments *from, i64 count) {
    PyObject *tensor = take(from);
    return tensor == Py_None ? NULL : array(tensor, torch.float32, count);
}

static i64 *maybe_integers(Arguments *from, i64 count) {
    PyObject *tensor = take(from);
    return tensor == Py_None ? NULL : array(tensor, torch.int64, count);
}

/* A tensor [models, rows, columns] (rows 1: [models, columns]) in which the part of each model is contiguous; `distance`
 * receives the stride between models. */
static float *by_models(Arguments *from, i64 models, i64 rows, i64 columns, i64 *distance) {
    PyObject *tensor = take(from);
    i64 count;
    float *start = elements(tensor, torch.float32, &count);
    *distance = 0;
    if (PyErr_Occurred()) return start;
    if (count != models * rows * columns) {
        refuse("expected parameters with %lld elements, got %lld", models * rows * columns, count);
        return start;
    }
    PyObject *strides = PyObject_CallMethodObjArgs(tensor, torch.stride, NULL);
    const Py_ssize_t axes = strides ? PyTuple_Size(strides) : -1;
    i64 stride[3] = {0, 0, 0};
    for (Py_ssize_t i = 0; i < axes && i < 3; i++) stride[i] = (i64)PyLong_AsLongLong(PyTuple_GetItem(strides, i));
    Py_XDECREF(strides);
    if (PyErr_Occurred()) return start;
    const int plain = axes == 3 ? (stride[2] == 1 || columns <= 1) && (stride[1] == columns || rows <= 1)
                                : axes == 2 && rows == 1 && (stride[1] == 1 || columns <= 1);
    if (count && (!plain || (models > 1 && stride[0] < rows * columns)))
        PyErr_SetString(PyExc_ValueError, "expected parameters in which the part of each model is contiguous");
    *distance = stride[0];
    return start;
}
