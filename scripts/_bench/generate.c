// SPDX-License-Identifier: Apache-2.0
/*
 * generate OBJECT RING_ID PER_SECOND SECONDS: writes records into the ring with that map id at a steady rate.
 *
 * Prints: records asked for, records lost because the ring was full, nanoseconds that it took. Time in which this
 * program itself was kept from running is not made up for beyond 5 ms: it would only measure the scheduler.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define SECOND 1000000000LL
#define TICK 200000LL
#define MOST_BEHIND 5000000LL

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

static struct bpf_object *load(const char *path, int ring)
{
	struct bpf_object *object = bpf_object__open_file(path, NULL);
	struct bpf_map *map = object ? bpf_object__find_map_by_name(object, "io_events") : NULL;

	if (!map || bpf_map__reuse_fd(map, ring) || bpf_object__load(object)) {
		fprintf(stderr, "the generator of records cannot be loaded\n");
		exit(1);
	}
	return object;
}

static void write_records(int program, __u32 count)
{
	LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = &count, .ctx_size_in = sizeof(count));

	if (bpf_prog_test_run_opts(program, &options)) {
		perror("BPF_PROG_TEST_RUN");
		exit(1);
	}
}

/* Where a variable of the object lies: the counters are all 64 bits wide. */
static unsigned long long lost(struct bpf_object *object, int bss)
{
	const struct btf *btf = bpf_object__btf(object);
	const struct btf_type *section = btf__type_by_id(btf, btf__find_by_name_kind(btf, ".bss", BTF_KIND_DATASEC));
	const struct btf_var_secinfo *variable = btf_var_secinfos(section);
	char values[4096] = {};
	unsigned int zero = 0;

	bpf_map_lookup_elem(bss, &zero, values);
	for (int i = 0; i < btf_vlen(section); i++, variable++) {
		const struct btf_type *type = btf__type_by_id(btf, variable->type);

		if (!strcmp(btf__name_by_offset(btf, type->name_off), "io_events_lost"))
			return *(unsigned long long *)(values + variable->offset);
	}
	fprintf(stderr, "the generator has no counter of lost records\n");
	exit(1);
}

int main(int argc, char **argv)
{
	long long start, next, end, made = 0;
	struct bpf_object *object;
	double rate, seconds;
	int program, bss;

	if (argc != 5)
		return 2;
	prctl(PR_SET_TIMERSLACK, 1UL);
	rate = atof(argv[3]);
	seconds = atof(argv[4]);
	object = load(argv[1], bpf_map_get_fd_by_id(atoi(argv[2])));
	program = bpf_program__fd(bpf_object__find_program_by_name(object, "generate"));
	bss = bpf_map__fd(bpf_object__find_map_by_name(object, ".bss"));
	start = next = now();
	end = start + (long long)(seconds * SECOND);
	while (next < end) {
		long long behind = now() - next;

		if (behind > MOST_BEHIND) {
			next += behind - MOST_BEHIND;
			behind = MOST_BEHIND;
		}
		if (behind >= TICK) {
			__u32 count = rate * behind / SECOND;

			write_records(program, count);
			made += count;
			next += behind;
		} else {
			struct timespec until = { .tv_sec = (next + TICK) / SECOND, .tv_nsec = (next + TICK) % SECOND };

			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		}
	}
	printf("%lld %llu %lld\n", made, lost(object, bss), now() - start);
	return 0;
}
