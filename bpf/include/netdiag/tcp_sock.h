/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What is remembered of a TCP socket while it lives; shared by the tcp and the tls probe. */
#ifndef NETDIAG_TCP_SOCK_H
#define NETDIAG_TCP_SOCK_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

struct nd_burst {
	__u64 began;
	__u64 ended;
	__u64 arrived;
	__u64 max_lag;
	__u32 bytes;
	__u32 calls;
	__u32 first_bytes;
	__u32 tgid;
	__u32 tid;
	__u32 sent_tick;
	__u32 out_of_order;
	__u32 missing;
	__u32 direction; /* 0 = none pending; taken by exchange, so that it is written once */
};

/* How far one direction's TLS records were followed. */
struct nd_wire {
	__u32 start; /* sequence number of the first payload byte */
	__u32 next; /* sequence number of the next byte of a record header */
	__u32 came; /* received: sequence number up to which all came */
	__u32 hello_done; /* sequence number up to which handshake bytes were handed on */
	__u32 hello_until; /* and up to which there are some in the clear */
	__u8 header[16]; /* five bytes, and the first two of the fragment; longer, for the verifier's arithmetic */
	__u8 have; /* of these seven bytes so far */
	__u8 started;
	__u8 packets; /* looked at without finding TLS */
	__u8 lost; /* the thread is lost: look for a header at the start of a packet */
	__u8 resynced;
	__u8 ciphered; /* a ChangeCipherSpec passed */
};

/*
 * Numbers of the peer's packets. Linux numbers those of each connection one by one (IPv4's id, net/ipv4/ip_output.c,
 * ip_select_ident_segs()), whether they carry data or not, and one that is sent again has a number of its own: a number
 * that was left out is a packet that did not come. Others number at random, over all connections, or not at all.
 */
struct nd_numbers {
	__u16 next;
	__u16 usual; /* packets with the number that was next */
	__u16 odd; /* and with any other */
	__u8 started;
	__u32 missing; /* numbers left out so far */
};

enum nd_wire_mode { ND_MODE_UNKNOWN = 0, ND_MODE_TLS = 1, ND_MODE_DONE = 2 };

struct nd_sock {
	__u64 opened;
	__u64 established;
	__u64 closing;
	__u64 first_sent;
	__u64 last_sent;
	__u64 first_received;
	__u64 last_received;
	__u64 last_read;
	__u64 arrived; /* first data that still lies unread */
	__u64 received_seen;
	__u64 zero_since;
	__u64 zero_window;
	__u64 cgroup;
	__u64 written; /* when a tcp_event was last written */
	struct nd_burst burst;
	__u32 tgid;
	__u32 tid;
	__u32 first_io_tgid;
	__u32 first_io_tid;
	__u32 last_io_tid;
	__u32 io_tids;
	__u32 sends;
	__u32 receives;
	__u32 syn_retransmits;
	__u32 arrived_tick; /* time stamp on the segment of `arrived` */
	__u32 out_of_order; /* segments, as counted at the last read */
	__u32 missing; /* packets, as counted at the last read */
	struct nd_numbers numbers;
	__s32 error;
	__u8 role;
	__u8 closed_by;
	__u8 close;
	__u8 flags;
	__u8 reset_received;
	__u8 done;
	__u8 wire_mode; /* enum nd_wire_mode */
	__u8 wire_class; /* enum nd_wire_class, once said */
	__u16 wanted_port; /* what connect() asked for, while no SYN has left */
	nd_addr wanted;
	struct nd_wire wire[2]; /* sent, received */
	char comm[16];
};

/* F_CLONE: an accepted socket starts with its listener's owner. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct nd_sock);
} tcp_sockets SEC(".maps");

#endif
