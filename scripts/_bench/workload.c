// SPDX-License-Identifier: Apache-2.0
/*
 * Traffic whose own cost is small and steady, to see what a tracer adds to it.
 *
 *   workload serve                       prints its port; answers each read with one small HTTP response
 *   workload connect PORT COUNT          COUNT times connect, ask, read the answer, close
 *   workload full PORT SECONDS           asks on one connection as fast as it can
 *   workload rate PORT PER_SECOND        asks at a steady rate until killed; a line of counters every 50 ms
 *   workload drip PORT PER_SECOND        connects, asks and closes at a steady rate until killed
 *   workload now FILE                    writes the monotonic clock into FILE
 *
 * connect and full print: count, nanoseconds that it took. rate prints: monotonic ns, requests, own CPU ns.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const char request[] = "GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n";
static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 94\r\n\r\n"
			     "{\"object\":\"list\",\"data\":[{\"id\":\"small\",\"object\":\"model\"},"
			     "{\"id\":\"large\",\"object\":\"model\"}]}    ";

static long long now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void no_delay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void serve_one(int epoll, int fd)
{
	char buffer[4096];
	ssize_t got = read(fd, buffer, sizeof(buffer));

	if (got <= 0 || write(fd, answer, sizeof(answer) - 1) < 0) {
		epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
		close(fd);
	}
}

static void add(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		fail("epoll_ctl");
}

static void serve(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0);

	if (bind(listener, (void *)&address, length) || listen(listener, 512))
		fail("listen");
	getsockname(listener, (void *)&address, &length);
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	add(epoll, listener);
	for (;;) {
		struct epoll_event events[64];
		int count = epoll_wait(epoll, events, 64, -1);

		for (int i = 0; i < count; i++) {
			if (events[i].data.fd != listener) {
				serve_one(epoll, events[i].data.fd);
				continue;
			}
			int fd = accept(listener, NULL, NULL);

			if (fd >= 0) {
				no_delay(fd);
				add(epoll, fd);
			}
		}
	}
}

static int open_connection(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				       .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (connect(fd, (void *)&address, sizeof(address)))
		fail("connect");
	no_delay(fd);
	return fd;
}

static void ask(int fd)
{
	size_t left = sizeof(answer) - 1;
	char buffer[4096];

	if (write(fd, request, sizeof(request) - 1) < 0)
		fail("write");
	while (left) {
		ssize_t got = read(fd, buffer, left);

		if (got <= 0)
			fail("read");
		left -= got;
	}
}

static void run_connect(int port, long count)
{
	long long start = now(CLOCK_MONOTONIC);

	for (long i = 0; i < count; i++) {
		int fd = open_connection(port);

		ask(fd);
		close(fd);
	}
	printf("%ld %lld\n", count, now(CLOCK_MONOTONIC) - start);
}

static void run_full(int port, double seconds)
{
	long long start = now(CLOCK_MONOTONIC), end = start + (long long)(seconds * SECOND);
	int fd = open_connection(port);
	long count = 0;

	while (now(CLOCK_MONOTONIC) < end) {
		for (int i = 0; i < 32; i++)
			ask(fd);
		count += 32;
	}
	printf("%ld %lld\n", count, now(CLOCK_MONOTONIC) - start);
}

static void run_drip(int port, long rate)
{
	for (;;) {
		run_connect(port, 1);
		usleep(1000000 / rate);
	}
}

static void write_now(const char *path)
{
	FILE *file = fopen(path, "w");

	if (!file)
		fail(path);
	fprintf(file, "%lld\n", now(CLOCK_MONOTONIC));
	fclose(file);
}

static void run_rate(int port, long rate)
{
	long long next = now(CLOCK_MONOTONIC), said = 0;
	int fd = open_connection(port);
	long count = 0;

	prctl(PR_SET_TIMERSLACK, 1UL);
	for (;;) {
		struct timespec until = { .tv_sec = next / SECOND, .tv_nsec = next % SECOND };

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		ask(fd);
		count++;
		next += SECOND / rate;
		if (next - said >= SECOND / 20) {
			said = next;
			printf("%lld %ld %lld\n", now(CLOCK_MONOTONIC), count, now(CLOCK_PROCESS_CPUTIME_ID));
			fflush(stdout);
		}
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	if (!strcmp(mode, "serve"))
		serve();
	else if (argc == 4 && !strcmp(mode, "connect"))
		run_connect(atoi(argv[2]), atol(argv[3]));
	else if (argc == 4 && !strcmp(mode, "full"))
		run_full(atoi(argv[2]), atof(argv[3]));
	else if (argc == 4 && !strcmp(mode, "rate"))
		run_rate(atoi(argv[2]), atol(argv[3]));
	else if (argc == 4 && !strcmp(mode, "drip"))
		run_drip(atoi(argv[2]), atol(argv[3]));
	else if (argc == 3 && !strcmp(mode, "now"))
		write_now(argv[2]);
	else
		return 2;
	return 0;
}
