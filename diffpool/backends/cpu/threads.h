/* Threads that do not spin for each other.
 *
 * A call divides its work into pieces; the calling thread and a few workers claim them one by one. A caller that finds no
 * piece left waits only for workers that are in the middle of one, and it sleeps while it waits. So a worker that the
 * operating system keeps off its core (a busy machine, a container with a small quota) delays a call by one piece at most,
 * and costs nothing if it never starts. A result does not depend on the number of threads. */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define MAX_THREADS 64
#define SPINS 2000 /* checks before sleeping: about 20 µs */

typedef void (*Piece)(void *context, i64 piece, int rank);

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    int workers;          /* that were started */
    atomic_int places;    /* workers that may still join the current call */
    atomic_int active;    /* workers in the current call */
    atomic_flag taken;    /* whether a call is running */
    Piece piece;
    void *context;
    i64 pieces;
    atomic_llong next;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static _Thread_local int inside; /* whether this thread is working on a piece */

static void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void work(int rank) {
    inside = 1;
    for (i64 i; (i = atomic_fetch_add(&pool.next, 1)) < pool.pieces;) pool.piece(pool.context, i, rank);
    inside = 0;
}

static void *worker(void *unused) {
    (void)unused;
    for (;;) {
        for (int i = 0; i < SPINS && !atomic_load(&pool.places); i++) pause_briefly();
        pthread_mutex_lock(&pool.lock);
        while (!atomic_load(&pool.places)) pthread_cond_wait(&pool.wake, &pool.lock);
        const int rank = atomic_fetch_sub(&pool.places, 1);
        atomic_fetch_add(&pool.active, 1);
        pthread_mutex_unlock(&pool.lock);
        work(rank);
        pthread_mutex_lock(&pool.lock);
        if (atomic_fetch_sub(&pool.active, 1) == 1) pthread_cond_signal(&pool.done);
        pthread_mutex_unlock(&pool.lock);
    }
    return NULL;
}

/* A forked process has none of its parent's workers. */
static void forget_workers(void) {
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.wake, NULL);
    pthread_cond_init(&pool.done, NULL);
    pool.workers = 0;
    atomic_store(&pool.places, 0);
    atomic_store(&pool.active, 0);
    atomic_flag_clear(&pool.taken);
}

static void start_workers(int count) {
    static int registered;
    if (!registered) registered = !pthread_atfork(NULL, NULL, forget_workers);
    while (pool.workers < count) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, worker, NULL)) return; /* fewer will do */
        pthread_detach(thread);
        pool.workers++;
    }
}

/* Call piece(context, i, rank) for each i below `pieces`, in any order; ranks are below `threads`. Inside another call, or
 * while another thread of the process has the workers, the pieces are done here one after the other. */
static void parallel(Piece piece, void *context, i64 pieces, int threads) {
    threads = (int)MIN(MIN(threads, MAX_THREADS), pieces);
    if (threads <= 1 || inside || atomic_flag_test_and_set(&pool.taken)) {
        for (i64 i = 0; i < pieces; i++) piece(context, i, 0);
        return;
    }
    start_workers(threads - 1);
    pthread_mutex_lock(&pool.lock);
    pool.piece = piece;
    pool.context = context;
    pool.pieces = pieces;
    atomic_store(&pool.next, 0);
    atomic_store(&pool.places, MIN(threads - 1, pool.workers));
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
    work(0);
    pthread_mutex_lock(&pool.lock);
    atomic_store(&pool.places, 0); /* nobody joins any more */
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < SPINS && atomic_load(&pool.active); i++) pause_briefly();
    pthread_mutex_lock(&pool.lock);
    while (atomic_load(&pool.active)) pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    atomic_flag_clear(&pool.taken);
}
