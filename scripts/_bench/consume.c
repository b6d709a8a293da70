// SPDX-License-Identifier: Apache-2.0
/*
 * consume FILE RING_BYTES: the reader that C programs use, libbpf's ring_buffer__poll, on a ring of its own.
 * Prints the map id of the ring, then copies each record into FILE until its standard input ends; prints their number.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <signal.h>

static unsigned long long seen;

static int take(void *file, void *data, size_t size)
{
	seen++;
	return fwrite(data, size, 1, file) == 1 ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	struct bpf_map_info info = {};
	__u32 length = sizeof(info);
	struct ring_buffer *ring;
	FILE *file;
	int map;

	if (argc != 3)
		return 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	file = fopen(argv[1], "w");
	map = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "io_events", 0, 0, atoi(argv[2]), NULL);
	ring = ring_buffer__new(map, take, file, NULL);
	if (!file || !ring || bpf_obj_get_info_by_fd(map, &info, &length)) {
		perror("consume");
		return 1;
	}
	setvbuf(file, NULL, _IOFBF, 1 << 18);
	printf("%u\n", info.id);
	fflush(stdout);
	while (!poll(&input, 1, 0)) {
		ring_buffer__poll(ring, 20);
		ring_buffer__consume(ring);
	}
	ring_buffer__consume(ring);
	printf("%llu\n", seen);
	return 0;
}
