#include "gate.h"

#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool closed;
static int arrived_count;
static pthread_t opener;

static void pass(uint64_t program)
{
    (void)program;
    pthread_mutex_lock(&lock);
    arrived_count++;
    pthread_cond_broadcast(&changed);
    while (closed)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

void gate_close(struct world *world)
{
    pthread_mutex_lock(&lock);
    closed = true;
    arrived_count = 0;
    pthread_mutex_unlock(&lock);
    world->nvrtc->compiling = pass;
}

void gate_wait_for(int arrived)
{
    pthread_mutex_lock(&lock);
    while (arrived_count < arrived)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

int gate_arrived(void)
{
    pthread_mutex_lock(&lock);
    const int count = arrived_count;
    pthread_mutex_unlock(&lock);
    return count;
}

void gate_open(void)
{
    pthread_mutex_lock(&lock);
    closed = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void *open_later(void *user)
{
    usleep(50000);
    gate_open();
    return user;
}

void gate_open_later(void)
{
    assert_int_equal(pthread_create(&opener, NULL, open_later, NULL), 0);
}

void gate_join(void)
{
    assert_int_equal(pthread_join(opener, NULL), 0);
}
