/* pool.c: the threads of a context. Workers sleep on a condition between jobs; a job is a range that is
 * handed out in pieces by one atomic counter. Which worker takes which piece never shows in a result. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "kernel/internal.h"

typedef struct worker {
    kernel_pool *pool;
    unsigned index;
    pthread_t thread;
} worker;

struct kernel_pool {
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    worker *workers; /* [threads - 1] */
    unsigned threads, started;
    uint64_t job; /* number of the present job, under the lock */
    unsigned running;
    bool stop;

    kernel_fn *fn;
    void *arg;
    size_t n, grain;
    atomic_size_t next;
};

static void pool_work(kernel_pool *p, unsigned index) {
    for (;;) {
        size_t b = atomic_fetch_add(&p->next, p->grain);
        if (b >= p->n) return;
        p->fn(p->arg, b, p->n - b > p->grain ? b + p->grain : p->n, index);
    }
}

static void *pool_main(void *arg) {
    worker *w = arg;
    kernel_pool *p = w->pool;
    uint64_t seen = 0;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->job == seen && !p->stop) pthread_cond_wait(&p->start, &p->lock);
        if (p->stop) break;
        seen = p->job;
        pthread_mutex_unlock(&p->lock);
        pool_work(p, w->index);
        pthread_mutex_lock(&p->lock);
        if (--p->running == 0) pthread_cond_signal(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

status kernel_pool_open(kernel_pool **out, unsigned threads, err *e) {
    *out = NULL;
    if (threads == 0) {
        cpu_set_t set;
        threads = sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
        if (threads == 0) threads = 1;
    }
    if (threads > 1024) return err_set(e, ST_USAGE, "%u threads: at most 1024", threads);
    kernel_pool *p = mem_zero(1, sizeof *p);
    if (!p) return err_memory(e, sizeof *p);
    p->threads = threads;
    p->workers = mem_zero(threads, sizeof *p->workers);
    if (!p->workers) {
        free(p);
        return err_memory(e, threads * sizeof *p->workers);
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->start, NULL);
    pthread_cond_init(&p->done, NULL);
    for (unsigned i = 0; i + 1 < threads; i++) {
        worker *w = &p->workers[i];
        w->pool = p;
        w->index = i + 1;
        if (pthread_create(&w->thread, NULL, pool_main, w) != 0) {
            kernel_pool_close(p);
            return err_set(e, ST_INCOMPLETE, "cannot start thread %u of %u", i + 2, threads);
        }
        p->started++;
    }
    *out = p;
    return ST_OK;
}

void kernel_pool_close(kernel_pool *p) {
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->start);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; i < p->started; i++) pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->start);
    pthread_mutex_destroy(&p->lock);
    free(p->workers);
    free(p);
}

unsigned kernel_pool_threads(const kernel_pool *p) { return p->threads; }

void kernel_pool_run(kernel_pool *p, size_t n, size_t grain, kernel_fn *fn, void *arg) {
    if (n == 0) return;
    if (grain == 0) grain = 1;
    if (p->threads == 1 || n <= grain) {
        for (size_t b = 0; b < n; b += grain) {
            fn(arg, b, n - b > grain ? b + grain : n, 0);
            if (n - b <= grain) break;
        }
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->fn = fn;
    p->arg = arg;
    p->n = n;
    p->grain = grain;
    atomic_store(&p->next, 0);
    p->running = p->threads - 1;
    p->job++;
    pthread_cond_broadcast(&p->start);
    pthread_mutex_unlock(&p->lock);
    pool_work(p, 0);
    pthread_mutex_lock(&p->lock);
    while (p->running > 0) pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}
