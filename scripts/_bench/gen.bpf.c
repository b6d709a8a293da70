// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Fills the ring of the tcp probe's reads and writes as fast as it is told to, with records like the real ones. */
#include "netdiag/event.h"
#include "netdiag/ring.h"

char LICENSE[] SEC("license") = "GPL v2";

ND_RING(io_events, 1 << 21); /* the reader's ring takes its place */

struct order {
	__u32 count;
};

static long write_one(__u32 index, void *unused)
{
	struct tcp_io_event *e = nd_reserve(io_events, struct tcp_io_event);

	if (!e)
		return 0;
	e->time = e->began = e->ended = bpf_ktime_get_ns();
	e->cookie = index;
	e->arrived = 0;
	e->max_lag = 0;
	e->bytes = e->first_bytes = 100;
	e->calls = 1;
	e->tgid = e->tid = 0;
	e->direction = ND_SEND;
	e->flags = 0;
	e->out_of_order = e->missing = 0;
	e->sent_tick = 0;
	e->reserved[0] = e->reserved[1] = e->reserved[2] = 0;
	nd_submit(io_events, e);
	return 0;
}

SEC("syscall")
int generate(struct order *order)
{
	bpf_loop(order->count, write_one, 0, 0);
	return 0;
}
