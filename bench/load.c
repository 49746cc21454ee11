/* The load: members of one group, one connection each, driven by one epoll loop.
 *
 *     load HOST PORT GROUP MEMBERS TOPIC:PARTITIONS[,TOPIC:PARTITIONS...]
 *
 * Reads commands from standard input, one a line, and answers each with one line of JSON:
 *
 *     form SECONDS            members join until all are in one generation, or the time is up
 *     heartbeat SECONDS RATE  heartbeats; RATE a second over all members, or 0: the next as soon as one is answered
 *     commit SECONDS RATE     the same with commits of every partition named above
 *     own SECONDS RATE        the same, each member with as many partitions of its own: the topics have more of them
 *     moved SECONDS RATE      commits of some of the partitions, others in every request, as librdkafka's are, which
 *                             commits only what has moved
 *     fetch SECONDS RATE      fetches of twenty partitions of the first topic in a session (KIP-227): records of a few
 *                             partitions, until all are read and one fetch waits in vain; then a few are read again from
 *                             their start. Now and then a partition is forgotten, and comes back
 *     idle SECONDS RATE       fetches that all wait in vain, in a session at the end of twenty partitions
 *     base SECONDS            connections open, nothing sent
 *
 * Latency is from the send of a request to the arrival of its answer. "p99_turns" is how many answers others got
 * meanwhile: with N members that ask again at once, N is a fair round, whatever else the machine does. It knows nothing
 * of the server but Kafka's protocol, in versions that every target serves: JoinGroup 5, SyncGroup 3, Heartbeat 3,
 * OffsetCommit 7, FindCoordinator 2, Fetch 11. A server without fetch sessions gets all partitions in each fetch.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FETCH = 1, OFFSET_COMMIT = 8, FIND_COORDINATOR = 10, JOIN_GROUP = 11, HEARTBEAT = 12, SYNC_GROUP = 14 };
enum { INVALID_REQUEST = 42, MEMBER_ID_REQUIRED = 79 };
enum { SESSION_MS = 300000, FORMING_HEARTBEAT_NS = 100000000, BUCKETS = 64 * 64 };
enum { FETCHED = 20, READ_AGAIN = 3, ONE_BATCH = 200, WAIT_MS = 5 };
enum { SAME, MOVED, FORGOTTEN, GONE };

struct member {
    int fd;
    int synced;           /* has the assignment of `generation` */
    int pending;          /* key of the request not yet answered, or -1 */
    int32_t generation;
    int32_t correlation;
    int64_t sent_at;
    int64_t asked_after;  /* how many answers there had been, to anybody */
    char id[256];
    int32_t session, epoch; /* of its fetches */
    int64_t offsets[FETCHED];
    char changes[FETCHED]; /* what the next fetch tells of a partition */
    unsigned char *in;    /* received and not yet read as a frame */
    size_t in_size, in_room;
    unsigned char *out;   /* built and not yet taken by the socket */
    size_t out_size, out_sent, out_room;
};

static struct member *members;
static int member_count, epoll;
static const char *group;
static char topics[16][64];
static int partitions[16], topic_count, own, moved, idle;
static int64_t buckets[BUCKETS], turns[BUCKETS], answered, failed, waited;
static uint32_t chance = 2463534242u;
static int last_error;
static void (*again)(struct member *); /* what to send as soon as an answer is there, if anything */

static void die(const char *what) {
    perror(what);
    exit(2);
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Numbers in buckets of 1/64 of a power of two: under 2% wide. */
static void note(int64_t *counts, int64_t value) {
    int power = 63 - __builtin_clzll((uint64_t)value | 1) - 6;
    counts[power < 0 ? value : (power + 1) * 64 + (value >> power) - 64]++;
}

static double quantile(const int64_t *counts, double q) {
    int64_t seen = 0, rank = (int64_t)(q * (double)answered);
    for (int i = 0; i < BUCKETS; i++) {
        seen += counts[i];
        if (seen > rank) return (double)(i < 64 ? i : (int64_t)(i % 64 + 64) << (i / 64 - 1));
    }
    return 0;
}

/* Building a request */

static void need(struct member *m, size_t more) {
    if (m->out_size + more > m->out_room) {
        m->out_room = (m->out_size + more) * 2;
        m->out = realloc(m->out, m->out_room);
        if (!m->out) die("realloc");
    }
}

static void put(struct member *m, const void *bytes, size_t size) {
    need(m, size);
    memcpy(m->out + m->out_size, bytes, size);
    m->out_size += size;
}

static void put16(struct member *m, int value) {
    uint16_t v = htons((uint16_t)value);
    put(m, &v, 2);
}

static void put32(struct member *m, int32_t value) {
    uint32_t v = htonl((uint32_t)value);
    put(m, &v, 4);
}

static void put64(struct member *m, int64_t value) {
    put32(m, (int32_t)(value >> 32));
    put32(m, (int32_t)value);
}

static void put_text(struct member *m, const char *text, size_t size) {
    put16(m, (int)size);
    put(m, text, size);
}

static void flush(struct member *m) {
    while (m->out_sent < m->out_size) {
        ssize_t sent = send(m->fd, m->out + m->out_sent, m->out_size - m->out_sent, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno != EAGAIN) die("send");
            struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.ptr = m};
            epoll_ctl(epoll, EPOLL_CTL_MOD, m->fd, &e);
            return;
        }
        m->out_sent += (size_t)sent;
    }
}

static void begin(struct member *m, int key, int version) {
    m->out_size = m->out_sent = 0;
    m->pending = key;
    put32(m, 0);
    put16(m, key);
    put16(m, version);
    put32(m, ++m->correlation);
    put_text(m, "bench", 5);
}

static void finish(struct member *m) {
    uint32_t size = htonl((uint32_t)(m->out_size - 4));
    memcpy(m->out, &size, 4);
    m->sent_at = now();
    m->asked_after = answered;
    flush(m);
}

static void put_identity(struct member *m) {
    put_text(m, group, strlen(group));
    put32(m, m->generation);
    put_text(m, m->id, strlen(m->id));
    put16(m, -1);
}

static void find_coordinator(struct member *m) {
    begin(m, FIND_COORDINATOR, 2);
    put_text(m, group, strlen(group));
    put(m, "", 1);
    finish(m);
}

static void join(struct member *m) {
    m->synced = 0;
    begin(m, JOIN_GROUP, 5);
    put_text(m, group, strlen(group));
    put32(m, SESSION_MS);
    put32(m, SESSION_MS);
    put_text(m, m->id, strlen(m->id));
    put16(m, -1);
    put_text(m, "consumer", 8);
    put32(m, 1);
    put_text(m, "range", 5);
    size_t named = strlen(topics[0]);
    put32(m, (int32_t)(2 + 4 + 2 + named + 4));
    put16(m, 0);
    put32(m, 1);
    put_text(m, topics[0], named);
    put32(m, -1);
    finish(m);
}

static void heartbeat(struct member *m) {
    begin(m, HEARTBEAT, 3);
    put_identity(m);
    finish(m);
}

static uint32_t random_bits(void) {
    chance ^= chance << 13;
    chance ^= chance >> 17;
    return chance ^= chance << 5;
}

/* Which partitions of a topic the next commit has: all, or each with a chance of one in two, but one at least. */
static uint32_t chosen(int count) {
    uint32_t all = count < 32 ? (1u << count) - 1 : ~0u;
    if (!moved) return all;
    while (!(random_bits() & all)) continue;
    return chance & all;
}

static void commit(struct member *m) {
    begin(m, OFFSET_COMMIT, 7);
    put_identity(m);
    put32(m, topic_count);
    for (int t = 0; t < topic_count; t++) {
        uint32_t has = chosen(partitions[t]);
        put_text(m, topics[t], strlen(topics[t]));
        put32(m, moved ? __builtin_popcount(has) : partitions[t]);
        for (int p = 0; p < partitions[t]; p++) {
            if (moved && !(has >> p & 1)) continue;
            put32(m, own ? (int32_t)(m - members) * partitions[t] + p : p);
            put64(m, m->correlation);
            put32(m, -1);
            put_text(m, "", 0);
        }
    }
    finish(m);
}

/* The partition of a member's place, and back: members share partitions if there are too few. */
static int fetched(struct member *m, int place) {
    return ((int)(m - members) * FETCHED + place) % partitions[0];
}

static int place_of(struct member *m, int partition) {
    return ((partition - fetched(m, 0)) % partitions[0] + partitions[0]) % partitions[0];
}

static int told(struct member *m, char change) {
    int count = 0;
    for (int i = 0; i < FETCHED && i < partitions[0]; i++) count += m->changes[i] == change;
    return count;
}

static void fetch(struct member *m) {
    int places = partitions[0] < FETCHED ? partitions[0] : FETCHED;
    for (int i = 0; i < places; i++)
        if (!m->session || m->changes[i] == GONE) m->changes[i] = MOVED;
    if (m->session && !idle && random_bits() % 8 == 0) m->changes[random_bits() % places] = FORGOTTEN;
    begin(m, FETCH, 11);
    put32(m, -1);
    put32(m, WAIT_MS);
    put32(m, 1);
    put32(m, 1 << 20);
    put(m, "", 1);
    put32(m, m->session);
    put32(m, m->epoch);
    for (char change = MOVED; change <= FORGOTTEN; change++) {
        int count = told(m, change);
        put32(m, count > 0);
        if (!count) continue;
        put_text(m, topics[0], strlen(topics[0]));
        put32(m, count);
        for (int i = 0; i < places; i++) {
            if (m->changes[i] != change) continue;
            put32(m, fetched(m, i));
            m->changes[i] = change == FORGOTTEN ? GONE : SAME;
            if (change == FORGOTTEN) continue;
            put32(m, -1);
            put64(m, m->offsets[i]);
            put64(m, -1);
            put32(m, ONE_BATCH);
        }
    }
    put_text(m, "", 0);
    finish(m);
}

/* Reading an answer */

struct reader {
    const unsigned char *at, *end;
};

static int32_t get(struct reader *r, size_t size) {
    if (r->at + size > r->end) {
        fprintf(stderr, "an answer was shorter than it claimed\n");
        exit(2);
    }
    int64_t value = size == 2 ? (int16_t)(r->at[0] << 8 | r->at[1])
                              : (int32_t)((uint32_t)r->at[0] << 24 | r->at[1] << 16 | r->at[2] << 8 | r->at[3]);
    r->at += size;
    return (int32_t)value;
}

static const unsigned char *get_text(struct reader *r, size_t width, int *size) {
    *size = get(r, width);
    const unsigned char *text = r->at;
    if (*size > 0) r->at += *size;
    return text;
}

static int64_t get64(struct reader *r) {
    int64_t high = get(r, 4);
    return high << 32 | (uint32_t)get(r, 4);
}

/* The rest of an answer to a fetch, after its time of throttling. Returns its error. */
static int was_fetched(struct member *m, struct reader *r) {
    int size, error = get(r, 2), records = 0;
    int32_t session = get(r, 4);
    for (int topic = get(r, 4); topic > 0; topic--) {
        get_text(r, 2, &size);
        for (int partition = get(r, 4); partition > 0; partition--) {
            int place = place_of(m, get(r, 4)), code = get(r, 2);
            int64_t end = get64(r);
            get64(r);
            get64(r);
            for (int aborted = get(r, 4); aborted > 0; aborted--) {
                get64(r);
                get64(r);
            }
            get(r, 4);
            const unsigned char *batch = get_text(r, 4, &size);
            if (code) error = code;
            if (size < 61 || place >= FETCHED) continue;
            struct reader offset = {batch, batch + 8}, last = {batch + 23, batch + 27};
            m->offsets[place] = idle ? end : get64(&offset) + get(&last, 4) + 1;
            if (m->changes[place] == SAME) m->changes[place] = MOVED;
            records++;
        }
    }
    for (int i = 0; !records && !idle && i < READ_AGAIN; i++) {
        int place = (int)(random_bits() % FETCHED);
        m->offsets[place] = 0;
        if (m->changes[place] == SAME) m->changes[place] = MOVED;
    }
    m->epoch = error || !session ? 0 : m->session == session ? m->epoch + 1 : 1;
    m->session = error ? 0 : session;
    return error;
}

static void joined(struct member *m, struct reader *r) {
    int size, leader_size;
    get(r, 4);
    int error = get(r, 2), generation = get(r, 4);
    get_text(r, 2, &size);
    const unsigned char *leader = get_text(r, 2, &leader_size);
    const unsigned char *id = get_text(r, 2, &size);
    if (error == 0 || error == MEMBER_ID_REQUIRED) {
        memcpy(m->id, id, (size_t)size);
        m->id[size] = 0;
    } else {
        last_error = error;
    }
    if (error) {
        join(m);
        return;
    }
    m->generation = generation;
    int leads = leader_size == size && !memcmp(leader, id, (size_t)size);
    begin(m, SYNC_GROUP, 3);
    put_identity(m);
    int others = leads ? get(r, 4) : 0;
    put32(m, others);
    for (int i = 0; i < others; i++) {
        const unsigned char *other = get_text(r, 2, &size);
        put_text(m, (const char *)other, (size_t)size);
        get_text(r, 2, &size);
        get_text(r, 4, &size);
        put32(m, 10);
        put16(m, 0);
        put32(m, 0);
        put32(m, -1);
    }
    finish(m);
}

/* One frame. While forming, what it says decides the next request; under load, only whether it was an error counts. */
static void answer(struct member *m, struct reader r, int forming) {
    int pending = m->pending, error = 0;
    int64_t latency = now() - m->sent_at;
    get(&r, 4);
    m->pending = -1;
    if (pending == JOIN_GROUP) {
        joined(m, &r);
        return;
    }
    get(&r, 4);
    if (pending == FETCH) {
        error = was_fetched(m, &r);
    } else if (pending == OFFSET_COMMIT) {
        int size;
        for (int topic = get(&r, 4); topic > 0; topic--) {
            get_text(&r, 2, &size);
            for (int partition = get(&r, 4); partition > 0; partition--) {
                get(&r, 4);
                int code = get(&r, 2);
                if (code) error = code;
            }
        }
    } else {
        error = get(&r, 2);
    }
    if (error) last_error = error;
    if (forming) {
        /* librdkafka's mock so refuses a follower that syncs after the leader, and counts it as a member all the same. */
        if (pending == SYNC_GROUP && (!error || error == INVALID_REQUEST)) m->synced = 1;
        else if (pending != FIND_COORDINATOR && error) join(m);
        else if (pending == FIND_COORDINATOR) m->synced = !error;
        return;
    }
    answered++;
    if (error) failed++;
    waited += latency;
    note(buckets, latency);
    note(turns, answered - m->asked_after);
    if (again) again(m);
}

static void receive(struct member *m, int forming) {
    for (;;) {
        if (m->in_room - m->in_size < 65536) {
            m->in_room = m->in_room * 2 + 131072;
            m->in = realloc(m->in, m->in_room);
            if (!m->in) die("realloc");
        }
        ssize_t got = recv(m->fd, m->in + m->in_size, m->in_room - m->in_size, 0);
        if (got == 0) {
            fprintf(stderr, "the server closed a connection\n");
            exit(2);
        }
        if (got < 0) {
            if (errno == EAGAIN) break;
            die("recv");
        }
        m->in_size += (size_t)got;
        size_t read = 0;
        while (m->in_size - read >= 4) {
            struct reader r = {m->in + read, m->in + m->in_size};
            size_t frame = (size_t)(uint32_t)get(&r, 4);
            if (m->in_size - read - 4 < frame) break;
            r.end = r.at + frame;
            read += 4 + frame;
            answer(m, r, forming);
        }
        memmove(m->in, m->in + read, m->in_size - read);
        m->in_size -= read;
        if (m->in_size == 0 && m->in_room > 1 << 20) {
            free(m->in);
            m->in = NULL;
            m->in_room = 0;
        }
        if (got < 65536) break;
    }
}

static int turn(int timeout_ms, int forming) {
    struct epoll_event ready[1024];
    int count = epoll_wait(epoll, ready, 1024, timeout_ms);
    for (int i = 0; i < count; i++) {
        struct member *m = ready[i].data.ptr;
        if (ready[i].events & EPOLLOUT) {
            struct epoll_event e = {.events = EPOLLIN, .data.ptr = m};
            epoll_ctl(epoll, EPOLL_CTL_MOD, m->fd, &e);
            flush(m);
        }
        if (ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(m, forming);
    }
    return count;
}

static int all_in_one_generation(void) {
    for (int i = 0; i < member_count; i++)
        if (!members[i].synced || members[i].generation != members[0].generation) return 0;
    return 1;
}

static void form(double seconds) {
    int64_t start = now(), limit = start + (int64_t)(seconds * 1e9);
    /* A broker that has just started makes its offsets topic on the first question. */
    while (!members[0].synced && now() < limit) {
        if (members[0].pending < 0) find_coordinator(&members[0]);
        if (!turn(20, 1) || members[0].pending < 0) turn(50, 1);
    }
    start = now();
    for (int i = 0; i < member_count; i++) join(&members[i]);
    int formed = 0;
    while (!formed && now() < limit) {
        turn(10, 1);
        int64_t late = now() - FORMING_HEARTBEAT_NS;
        for (int i = 0; i < member_count; i++)
            if (members[i].pending < 0 && members[i].sent_at < late) heartbeat(&members[i]);
        formed = all_in_one_generation();
    }
    printf("{\"formed\": %s, \"seconds\": %.4f, \"generation\": %d, \"last_error\": %d}\n", formed ? "true" : "false",
           (double)(now() - start) / 1e9, members[0].generation, last_error);
}

static void work(void (*request)(struct member *), double seconds, double rate) {
    memset(buckets, 0, sizeof buckets);
    memset(turns, 0, sizeof turns);
    answered = failed = waited = last_error = 0;
    int64_t start = now(), limit = start + (int64_t)(seconds * 1e9), sent = 0;
    int next = 0;
    again = rate > 0 ? NULL : request;
    for (int i = 0; again && i < member_count; i++)
        if (members[i].pending < 0) again(&members[i]);
    while (now() < limit) {
        int64_t due = (int64_t)((double)(now() - start) / 1e9 * rate);
        for (int tried = 0; sent < due && tried < member_count; tried++, next = (next + 1) % member_count)
            if (members[next].pending < 0) {
                request(&members[next]);
                sent++;
            }
        turn(1, 0);
    }
    again = NULL;
    double elapsed = (double)(now() - start) / 1e9;
    printf("{\"answered\": %lld, \"failed\": %lld, \"last_error\": %d, \"seconds\": %.4f, \"p50_us\": %.1f, "
           "\"p99_us\": %.1f, \"p999_us\": %.1f, \"mean_us\": %.1f, \"p99_turns\": %.0f}\n",
           (long long)answered, (long long)failed, last_error, elapsed, quantile(buckets, 0.5) / 1e3,
           quantile(buckets, 0.99) / 1e3, quantile(buckets, 0.999) / 1e3,
           answered ? (double)waited / 1e3 / (double)answered : 0.0, quantile(turns, 0.99));
    /* What is still under way belongs to nobody's figures. */
    for (int64_t patience = now() + 2000000000LL; now() < patience;) {
        int waiting = 0;
        for (int i = 0; i < member_count; i++) waiting += members[i].pending >= 0;
        if (!waiting) break;
        turn(20, 0);
    }
}

static void open_connections(const char *host, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, host, &address.sin_addr);
    epoll = epoll_create1(0);
    for (int i = 0; i < member_count; i++) {
        struct member *m = &members[i];
        int one = 1;
        m->fd = socket(AF_INET, SOCK_STREAM, 0);
        m->pending = -1;
        m->generation = -1;
        /* A full queue of connections not yet accepted costs a second a time; librdkafka's mock has room for few. */
        usleep(300);
        if (m->fd < 0 || connect(m->fd, (struct sockaddr *)&address, sizeof address)) die("connect");
        setsockopt(m->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        fcntl(m->fd, F_SETFL, O_NONBLOCK);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = m};
        epoll_ctl(epoll, EPOLL_CTL_ADD, m->fd, &e);
    }
}

int main(int count, char **arguments) {
    if (count != 6) {
        fprintf(stderr, "usage: load HOST PORT GROUP MEMBERS TOPIC:PARTITIONS[,...]\n");
        return 2;
    }
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    group = arguments[3];
    member_count = atoi(arguments[4]);
    members = calloc((size_t)member_count, sizeof *members);
    for (char *part = strtok(arguments[5], ","); part && topic_count < 16; part = strtok(NULL, ","), topic_count++)
        if (sscanf(part, "%63[^:]:%d", topics[topic_count], &partitions[topic_count]) != 2) return 2;
    open_connections(arguments[1], atoi(arguments[2]));
    char line[128], command[16];
    while (fgets(line, sizeof line, stdin)) {
        double seconds = 0, rate = 0;
        if (sscanf(line, "%15s %lf %lf", command, &seconds, &rate) < 2) return 2;
        if (!strcmp(command, "form")) form(seconds);
        else if (!strcmp(command, "heartbeat")) work(heartbeat, seconds, rate);
        else if ((own = !strcmp(command, "own")) | (moved = !strcmp(command, "moved")) || !strcmp(command, "commit"))
            work(commit, seconds, rate);
        else if ((idle = !strcmp(command, "idle")) || !strcmp(command, "fetch")) work(fetch, seconds, rate);
        else if (!strcmp(command, "base")) printf("{\"connections\": %d}\n", member_count);
        else return 2;
        fflush(stdout);
    }
    return 0;
}
