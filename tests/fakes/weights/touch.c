// SPDX-License-Identifier: Apache-2.0
/* Brings a file into memory in one of the ways that loaders have: touch MODE FILE [TIMES]. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096UL
#define MIB (1UL << 20)

static volatile uint64_t sum;
static size_t size;
static int fd;

static uint64_t random_number(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void read_all(size_t piece, int fresh)
{
	char *reused = 0;

	for (size_t at = 0; at < size; at += piece) {
		char *to = fresh || !reused ? mmap(0, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) :
					      reused;

		reused = to;
		if (pread(fd, to, piece, at) < 0) {
			perror("read");
			exit(1);
		}
		sum += to[0];
		if (fresh)
			munmap(to, piece);
	}
}

static unsigned char *map(int protection)
{
	unsigned char *found = mmap(0, size, protection, MAP_PRIVATE, fd, 0);

	if (found == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return found;
}

static void *half(void *which)
{
	unsigned char *from = *(unsigned char **)which;
	size_t part = size / 4, first = ((size_t *)which)[1] * part;

	for (size_t at = first; at < first + part; at += PAGE)
		sum += from[at];
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argv[1];
	uint64_t state = 88172645463325252ULL;
	unsigned char *from;
	struct stat status;

	if (argc < 3)
		return 2;
	fd = open(argv[2], O_RDONLY | (strncmp(mode, "direct", 6) ? 0 : O_DIRECT));
	if (fd < 0 || fstat(fd, &status)) {
		perror(argv[2]);
		return 1;
	}
	size = status.st_size / MIB * MIB;
	if (!strcmp(mode, "forward") || !strcmp(mode, "twice")) {
		from = map(PROT_READ);
		for (int pass = 0; pass < (mode[0] == 't' ? 3 : 1); pass++)
			for (size_t at = 0; at < size; at += PAGE)
				sum += from[at];
	} else if (!strcmp(mode, "backward")) {
		from = map(PROT_READ);
		for (size_t at = size; at >= PAGE; at -= PAGE)
			sum += from[at - PAGE];
	} else if (!strcmp(mode, "random")) {
		from = map(PROT_READ);
		for (int i = 0; i < 3000; i++)
			sum += from[random_number(&state) % (size / PAGE) * PAGE];
	} else if (!strcmp(mode, "madvised")) {
		from = map(PROT_READ);
		madvise(from, size, MADV_RANDOM);
		for (size_t at = 0; at < size; at += PAGE)
			sum += from[at];
	} else if (!strcmp(mode, "strided")) {
		from = map(PROT_READ);
		for (size_t at = 0; at < size; at += 8 * PAGE)
			sum += from[at];
	} else if (!strcmp(mode, "shuffled")) {
		size_t parts = size / (8 * MIB), order[4096];

		from = map(PROT_READ);
		for (size_t i = 0; i < parts; i++)
			order[i] = i;
		for (size_t i = parts - 1; i; i--) {
			size_t j = random_number(&state) % (i + 1), kept = order[i];

			order[i] = order[j];
			order[j] = kept;
		}
		for (size_t i = 0; i < parts; i++)
			for (size_t at = 0; at < 8 * MIB; at += PAGE)
				sum += from[order[i] * 8 * MIB + at];
	} else if (!strcmp(mode, "populated")) { /* as llama.cpp maps a model */
		posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
		from = mmap(0, size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
		if (from == MAP_FAILED)
			return 1;
		madvise(from, size, MADV_WILLNEED);
		for (size_t at = 0; at < size; at += PAGE)
			sum += from[at];
	} else if (!strcmp(mode, "cow")) {
		from = map(PROT_READ | PROT_WRITE);
		for (size_t at = 0; at < size; at += PAGE)
			from[at]++;
	} else if (!strcmp(mode, "threads")) {
		pthread_t threads[4];
		struct {
			unsigned char *from;
			size_t which;
		} parts[4];

		from = map(PROT_READ);
		for (size_t i = 0; i < 4; i++) {
			parts[i].from = from;
			parts[i].which = i;
			pthread_create(&threads[i], 0, half, &parts[i]);
		}
		for (size_t i = 0; i < 4; i++)
			pthread_join(threads[i], 0);
	} else if (!strcmp(mode, "read4k")) {
		for (int left = argc > 3 ? atoi(argv[3]) : 1; left > 0; left--)
			read_all(4096, 0);
	} else if (!strcmp(mode, "read1m")) {
		read_all(MIB, 0);
	} else if (!strcmp(mode, "fresh")) {
		for (int left = argc > 3 ? atoi(argv[3]) : 1; left > 0; left--)
			read_all(MIB, 1);
	} else if (!strcmp(mode, "direct")) {
		read_all(128 * 1024, 0);
	} else if (!strcmp(mode, "direct-large")) {
		read_all(16 * MIB, 0);
	} else {
		return 2;
	}
	return 0;
}
