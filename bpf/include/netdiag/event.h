/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The records that the kernel programs write. These structs are the only place
 * where a layout is written down: user space learns offsets, widths and the
 * semantic types from the BTF of the objects.
 *
 * Rules: fixed width, no holes, instants in CLOCK_MONOTONIC nanoseconds,
 * 0 = not known / did not happen.
 */
#ifndef NETDIAG_EVENT_H
#define NETDIAG_EVENT_H

#include "types.h"

/* Why a tcp_event was written. Every one is a full cumulative picture. */
enum nd_tcp_kind {
	ND_TCP_ESTABLISHED = 1, /* the three-way handshake ended well */
	ND_TCP_FAILED = 2, /* the connect attempt ended without a connection */
	ND_TCP_CLOSED = 3, /* the full socket left the TCP state machine */
	ND_TCP_SNAPSHOT = 4, /* still there: periodic, or the last look at the end */
	ND_TCP_LISTENER = 5, /* a listening socket and its accept queue */
};

enum nd_role { ND_ROLE_UNKNOWN = 0, ND_ROLE_CLIENT = 1, ND_ROLE_SERVER = 2 };

/* Who sent the first FIN or RST. */
enum nd_side { ND_SIDE_NONE = 0, ND_SIDE_LOCAL = 1, ND_SIDE_REMOTE = 2 };

enum nd_close {
	ND_CLOSE_NONE = 0,
	ND_CLOSE_FIN = 1,
	ND_CLOSE_RST = 2,
	ND_CLOSE_TIMEOUT = 3, /* retransmissions or keep-alive probes gave up */
};

enum nd_tcp_flags {
	ND_TCP_PREEXISTING = 1, /* older than the trace: role and open time unknown */
	ND_TCP_KEEPALIVE = 2, /* SO_KEEPALIVE was set */
	ND_TCP_MPTCP = 4, /* a subflow of an MPTCP connection */
	ND_TCP_NEVER_SENT = 8, /* connect() failed before a SYN could leave */
	ND_TCP_SHARED = 16, /* more than one process did I/O on it */
	ND_TCP_UNREAD_CLOSE = 32, /* the program closed while data lay unread */
	ND_TCP_ADOPTED = 64, /* first seen by I/O of a traced process */
};

struct tcp_event {
	nd_ktime_ns time; /* when this record was written */
	nd_cookie cookie;
	nd_cgroup cgroup; /* of the owner */
	nd_netns netns; /* net cookie */
	nd_ktime_ns opened; /* SYN sent, or SYN's child made */
	nd_ktime_ns established;
	nd_ktime_ns closing; /* first FIN or RST of either side */
	nd_ktime_ns first_sent; /* return of the first send that moved data */
	nd_ktime_ns last_sent;
	nd_ktime_ns first_received; /* data queued on the socket */
	nd_ktime_ns last_received;
	nd_ktime_ns last_read; /* return of the last receive that moved data */
	nd_duration_ns zero_window; /* time our receive window was shut */
	nd_bytes bytes_sent; /* payload, each byte once */
	nd_bytes bytes_received;
	nd_micros srtt;
	nd_micros min_rtt;
	__u32 retransmits; /* segments, SYN included */
	__u32 syn_retransmits;
	__u32 unread; /* bytes in the receive queue */
	__u32 unacked; /* bytes written and not acknowledged */
	__u32 sends; /* calls that moved data */
	__u32 receives;
	__u32 mss;
	nd_jiffies rwnd_limited; /* the peer's window held us back */
	__u32 drops; /* sk_drops; on a listener: refused SYNs and ACKs */
	__u32 accept_queue; /* listener only */
	__u32 accept_queue_max;
	nd_pid tgid;
	nd_tid tid;
	nd_pid first_io_tgid; /* the process that first moved data */
	nd_tid first_io_tid;
	__u32 io_tids; /* distinct-thread changes seen in I/O, 0 = one thread */
	nd_errno error; /* sk_err when the connect failed or the socket broke */
	nd_port sport; /* host order */
	nd_port dport;
	nd_family family; /* AF_INET also for v4-mapped addresses */
	__u8 kind; /* enum nd_tcp_kind */
	__u8 state; /* TCP_* of include/net/tcp_states.h */
	__u8 role; /* enum nd_role */
	__u8 closed_by; /* enum nd_side */
	__u8 close; /* enum nd_close */
	__u8 flags; /* enum nd_tcp_flags */
	char comm[16]; /* of the owning thread */
	nd_addr saddr; /* v4 as v4-mapped */
	nd_addr daddr;
};

enum nd_direction { ND_SEND = 1, ND_RECEIVE = 2, ND_RETRANSMIT = 3 };

enum nd_io_flags {
	ND_IO_CONTINUED = 1, /* flushed while it may still grow: join with the next */
	ND_IO_ORDER = 2, /* receive: segments out of order were counted */
	ND_IO_NUMBERED = 4, /* receive: the sender numbers its packets, so those that never came were counted */
	ND_IO_PEER = 8, /* retransmit: of the other side, which only the packets of a capture show */
};

/*
 * A run of calls in one direction with pauses shorter than nd_burst_gap_ns.
 * ND_RETRANSMIT: one retransmitted segment; began = ended = time.
 */
struct tcp_io_event {
	nd_ktime_ns time;
	nd_cookie cookie;
	nd_ktime_ns began; /* return of the first call */
	nd_ktime_ns ended; /* return of the last call */
	nd_ktime_ns arrived; /* receive: when its first byte was queued, 0 = not known */
	nd_micros max_lag; /* receive: longest wait of queued data for the read */
	__u32 bytes;
	__u32 calls;
	__u32 first_bytes; /* size of the first call */
	nd_pid tgid;
	nd_tid tid;
	__u8 direction; /* enum nd_direction */
	__u8 flags; /* enum nd_io_flags */
	__u16 out_of_order; /* receive: segments that came before others that were missing, since the last burst */
	__u32 sent_tick; /* receive: the sender's time stamp on its first byte's segment (RFC 7323), 0 = none */
	__u16 missing; /* receive: packets that were numbered and never came, since the last burst */
	__u16 reserved[3];
};

enum nd_process_kind {
	ND_PROCESS_SEEN = 1, /* first socket of this process */
	ND_PROCESS_FORK = 2,
	ND_PROCESS_EXEC = 3,
	ND_PROCESS_EXIT = 4,
	ND_PROCESS_STOPPED = 5, /* by a signal */
	ND_PROCESS_CONTINUED = 6, /* a signal that lets it go on; also where it was not stopped */
	ND_PROCESS_FROZEN = 7, /* all of its cgroup: tgid is 0 */
	ND_PROCESS_THAWED = 8,
	ND_PROCESS_MOVED = 9, /* into another cgroup */
};

struct process_event {
	nd_ktime_ns time;
	nd_cgroup cgroup;
	nd_pid tgid;
	nd_pid parent;
	__u32 exit_code; /* wait status: signal in the low 7 bits, status << 8 */
	__u8 kind; /* enum nd_process_kind */
	__u8 reserved[3];
	char comm[16];
	char filename[128]; /* exec only: as the kernel resolved it, cut */
};

/* What the first bytes of a connection look like; in tls_record_event.first when type is ND_TLS_CLASS. */
enum nd_wire_class {
	ND_WIRE_TLS = 1,
	ND_WIRE_HTTP1 = 2, /* a request line of HTTP/1 */
	ND_WIRE_HTTP2 = 3, /* the preface of HTTP/2 */
	ND_WIRE_CONNECT = 4, /* a request to a proxy to connect */
	ND_WIRE_OTHER = 5,
};

enum nd_tls_type {
	ND_TLS_CLASS = 0, /* no record: what the connection speaks */
	ND_TLS_GAP = 1, /* no record: the thread of records was lost here */
	ND_TLS_CHANGE_CIPHER_SPEC = 20,
	ND_TLS_ALERT = 21,
	ND_TLS_HANDSHAKE = 22,
	ND_TLS_APPLICATION_DATA = 23,
};

enum nd_tls_flags {
	ND_TLS_RESYNCED = 1, /* found again in mid-stream: earlier records were not seen */
};

/* The header of one TLS record as it passed the socket: RFC 8446 section 5.1. */
struct tls_record_event {
	nd_ktime_ns time; /* when its header passed */
	nd_cookie cookie;
	__u16 length; /* of the fragment that follows */
	__u8 type; /* enum nd_tls_type */
	__u8 direction; /* enum nd_direction */
	__u8 first; /* first two bytes of a fragment that is not application data */
	__u8 second;
	__u8 flags; /* enum nd_tls_flags */
	__u8 version; /* minor version of the record header: 1 to 4 */
};

/* Raw bytes of a direction's stream from its start to the end of the handshake messages in the clear, in pieces. */
struct tls_hello_event {
	nd_ktime_ns time;
	nd_cookie cookie;
	__u32 offset; /* in the direction's byte stream */
	__u16 length; /* of data */
	__u8 direction; /* enum nd_direction */
	__u8 reserved;
	__u8 data[480];
};

/* What a call into a TLS library was for. */
enum nd_tls_call_kind {
	ND_TLS_CALL_HANDSHAKE = 1,
	ND_TLS_CALL_CONTEXT = 2, /* a new context: SSL_CTX_new() */
	ND_TLS_CALL_TRUST = 3, /* certificates to trust were loaded */
	ND_TLS_CALL_FREE = 4, /* the end of an object; never recorded by itself */
};

enum nd_tls_library { ND_TLS_OPENSSL = 1, ND_TLS_BORINGSSL = 2, ND_TLS_GNUTLS = 3, ND_TLS_GO = 4 };

/* How it is known which socket a handshake belongs to. */
enum nd_tls_binding {
	ND_TLS_BOUND_NOT = 0,
	ND_TLS_BOUND_INSIDE = 1, /* its calls read and wrote that socket */
	ND_TLS_BOUND_AFTER = 2, /* its thread sent that socket's first bytes right after the first call */
};

/* A handshake over all calls that it took, or one call that makes a context or loads certificates. */
struct tls_call_event {
	nd_ktime_ns time;
	nd_ktime_ns first; /* entry of the first call */
	nd_ktime_ns done; /* return of the last call */
	nd_cookie cookie;
	nd_duration_ns inside; /* from entry to return, over all calls */
	nd_duration_ns cpu; /* of the thread, inside; 0 = not known */
	__u32 calls;
	__s32 result; /* of the last call, as the library returned it */
	nd_pid tgid;
	nd_tid tid; /* of the first call */
	__u8 kind; /* enum nd_tls_call_kind */
	__u8 library; /* enum nd_tls_library */
	__u8 binding; /* enum nd_tls_binding */
	__u8 ok; /* it worked */
	__u32 reserved;
};

#endif
