// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * TLS on the wire: record headers of the traced connections, and the handshake
 * messages that pass in the clear. Works for any TLS library, since nothing but
 * packets is looked at. No fragment of application data is ever copied.
 *
 * Each direction's byte stream is followed from header to header by sequence
 * number, so retransmissions, segmentation offload and headers split over
 * packets make no difference; where the thread is lost, that is said.
 */

#include "netdiag/core_fixes.h"
#include "netdiag/event.h"
#include "netdiag/packet.h"
#include "netdiag/ring.h"
#include "netdiag/tcp_sock.h"

/* The kernel knows no word for Apache-2.0 OR GPL-2.0: this names the half that it needs. */
char LICENSE[] SEC("license") = "GPL v2";

/* Emit the layouts into BTF. */
const struct tls_record_event *nd_layout_tls_record_event __attribute__((unused));
const struct tls_hello_event *nd_layout_tls_hello_event __attribute__((unused));

ND_RING(record_events, 1 << 20);
ND_RING(hello_events, 1 << 20); /* two hundred handshakes at once, chains of certificates included */

#define HEADER_BYTES 5
#define PEEK_BYTES 7 /* the header and the first two bytes of the fragment */
#define MAX_FRAGMENT (16384 + 2048) /* RFC 5246 section 6.2.3: the most that any version allows */
#define MAX_RECORDS 32 /* per packet: a full 64 KiB one holds as many of 2 KiB; each costs the verifier time */
#define MAX_HELLO_BYTES 8192 /* per direction: a ClientHello with a key share of ML-KEM, a chain of certificates */
#define PIECE_BYTES 480
#define MAX_PIECES 17 /* per packet */
#define MAX_UNKNOWN_PACKETS 8 /* CONNECT and STARTTLS come before a handshake */

struct follow {
	struct __sk_buff *skb;
	struct nd_sock *s;
	struct nd_wire *w;
	struct nd_segment seg;
	__u64 now;
	__u64 cookie;
	__u8 direction;
};

static __always_inline __u16 fragment_length(const __u8 *h)
{
	return (__u16)h[3] << 8 | h[4];
}

static __always_inline bool is_header(const __u8 *h)
{
	__u16 length = fragment_length(h);

	return h[0] >= ND_TLS_CHANGE_CIPHER_SPEC && h[0] <= ND_TLS_APPLICATION_DATA && h[1] == 3 && h[2] <= 4 &&
	       length <= MAX_FRAGMENT && length;
}

static __always_inline void write_record(const struct follow *f, __u8 type, __u8 first, __u8 second, __u16 length)
{
	struct tls_record_event *e = nd_reserve(record_events, struct tls_record_event);

	if (!e)
		return;
	e->time = f->now;
	e->cookie = f->cookie;
	e->length = length;
	e->type = type;
	e->direction = f->direction;
	e->first = first;
	e->second = second;
	e->flags = f->w->resynced ? ND_TLS_RESYNCED : 0;
	e->version = f->w->header[2];
	nd_submit(record_events, e);
}

static __always_inline bool starts(const __u8 *b, __u8 b0, __u8 b1, __u8 b2, __u8 b3)
{
	return b[0] == b0 && b[1] == b1 && b[2] == b2 && b[3] == b3;
}

static __always_inline __u8 classify(const __u8 *b)
{
	if (starts(b, 'C', 'O', 'N', 'N'))
		return ND_WIRE_CONNECT;
	if (starts(b, 'P', 'R', 'I', ' '))
		return ND_WIRE_HTTP2;
	/* the methods that are in use: "EHLO " of SMTP, for one, looks like a method as well */
	if (starts(b, 'G', 'E', 'T', ' ') || starts(b, 'P', 'O', 'S', 'T') || starts(b, 'P', 'U', 'T', ' ') ||
	    starts(b, 'H', 'E', 'A', 'D') || starts(b, 'P', 'A', 'T', 'C') || starts(b, 'D', 'E', 'L', 'E') ||
	    starts(b, 'O', 'P', 'T', 'I'))
		return ND_WIRE_HTTP1;
	return ND_WIRE_OTHER;
}

static __always_inline void say_class(const struct follow *f, __u8 class)
{
	if (f->s->wire_class == class)
		return;
	f->s->wire_class = class;
	write_record(f, ND_TLS_CLASS, class, 0, 0);
}

/* What begins here? Returns whether records can be followed from the start of this packet on. */
static __always_inline bool begin(const struct follow *f)
{
	__u8 b[PEEK_BYTES];

	if (f->seg.length < PEEK_BYTES || bpf_skb_load_bytes(f->skb, f->seg.payload, b, PEEK_BYTES))
		return false;
	/* records start with a handshake; a connection that is older than the trace is met in the middle */
	if (is_header(b) && (b[0] == ND_TLS_HANDSHAKE || f->s->flags & ND_TCP_PREEXISTING || f->w->lost)) {
		f->s->wire_mode = ND_MODE_TLS;
		say_class(f, ND_WIRE_TLS);
		f->w->resynced = f->w->lost || b[0] != ND_TLS_HANDSHAKE;
		f->w->lost = 0;
		f->w->next = f->w->hello_done = f->w->hello_until = f->seg.seq;
		f->w->have = 0;
		return true;
	}
	if (f->s->wire_mode == ND_MODE_UNKNOWN) {
		__u8 class = classify(b);

		if (f->direction == ND_SEND || class != ND_WIRE_OTHER || f->w->packets)
			say_class(f, class);
		if (++f->w->packets >= MAX_UNKNOWN_PACKETS || class == ND_WIRE_HTTP1 || class == ND_WIRE_HTTP2)
			f->s->wire_mode = ND_MODE_DONE;
	}
	return false;
}

static __always_inline void lose(const struct follow *f)
{
	if (f->w->lost)
		return;
	write_record(f, ND_TLS_GAP, 0, 0, 0);
	f->w->lost = 1;
}

/*
 * A handshake record in the clear? After a ChangeCipherSpec only a hello is: that of a client or server that was
 * asked to retry (RFC 8446 appendix D.4); the rest is encrypted.
 */
static __always_inline bool in_the_clear(const struct nd_wire *w, bool peeked)
{
	if (w->header[0] != ND_TLS_HANDSHAKE)
		return false;
	return !w->ciphered || (peeked && (w->header[5] == 1 || w->header[5] == 2) && w->header[6] == 0);
}

/* Hand on one piece of the handshake bytes of this packet; returns whether there may be more. */
static __always_inline bool copy_piece(const struct follow *f)
{
	struct nd_wire *w = f->w;
	__u32 at = w->hello_done - f->seg.seq, size = w->hello_until - w->hello_done;
	struct tls_hello_event *e;

	if ((__s32)at < 0) { /* skipped: a ChangeCipherSpec on its own, or a piece for which there was no room */
		w->hello_done = f->seg.seq;
		at = 0;
		size = w->hello_until - w->hello_done;
	}
	if ((__s32)size <= 0 || at >= f->seg.length || w->hello_done - w->start >= MAX_HELLO_BYTES)
		return false;
	if (size > f->seg.length - at)
		size = f->seg.length - at;
	if (size > PIECE_BYTES)
		size = PIECE_BYTES;
	e = nd_reserve(hello_events, struct tls_hello_event);
	if (!e)
		return false;
	__builtin_memset(e, 0, sizeof(*e));
	e->time = f->now;
	e->cookie = f->cookie;
	e->offset = w->hello_done - w->start;
	e->direction = f->direction;
	if (size > 0 && size <= PIECE_BYTES && !bpf_skb_load_bytes(f->skb, f->seg.payload + at, e->data, size))
		e->length = size;
	nd_submit(hello_events, e);
	w->hello_done += size;
	return true;
}

static long copy_once(__u32 turn, void *context)
{
	return !copy_piece(context);
}

static __always_inline void copy_hello(struct follow *f)
{
	if (f->w->hello_done == f->w->hello_until)
		return;
	if (nd_has_loop())
		bpf_loop(MAX_PIECES, copy_once, f, 0);
	else
		for (int i = 0; i < MAX_PIECES; i++)
			if (!copy_piece(f))
				break;
}

/* Take the next header from this packet; returns whether there may be another one in it. */
static __always_inline bool step(const struct follow *f)
{
	struct nd_wire *w = f->w;
	__u32 have = w->have, at = w->next + have - f->seg.seq, wanted;
	bool peeked;

	if (at >= f->seg.length || have >= PEEK_BYTES)
		return false;
	/* as much of it as lies here: the rest may be in the next packet */
	wanted = f->seg.length - at;
	if (wanted > PEEK_BYTES - have)
		wanted = PEEK_BYTES - have;
	if (!wanted || wanted > PEEK_BYTES ||
	    bpf_skb_load_bytes(f->skb, f->seg.payload + at, &w->header[have], wanted))
		return false;
	have += wanted;
	if (have < HEADER_BYTES) {
		w->have = have;
		return false;
	}
	if (!is_header(w->header)) {
		lose(f);
		return false;
	}
	peeked = have == PEEK_BYTES && w->header[0] != ND_TLS_APPLICATION_DATA;
	write_record(f, w->header[0], peeked ? w->header[5] : 0, peeked ? w->header[6] : 0, fragment_length(w->header));
	w->resynced = 0;
	w->next += HEADER_BYTES + fragment_length(w->header);
	w->have = 0;
	if (in_the_clear(w, peeked))
		w->hello_until = w->next;
	else if (w->header[0] == ND_TLS_CHANGE_CIPHER_SPEC) {
		w->ciphered = 1;
		if (w->hello_done != w->hello_until)
			w->hello_until = w->next; /* behind a request to retry, and another hello follows: no gap */
	}
	return true;
}

static long step_once(__u32 turn, void *context)
{
	return !step(context);
}

static __always_inline void handle_segment(struct follow *f)
{
	struct nd_wire *w = f->w;
	__s32 ahead;

	if (!w->started) {
		w->started = 1;
		w->start = w->next = w->hello_done = w->hello_until = f->seg.seq;
	}
	ahead = w->next + w->have - f->seg.seq;
	if (f->s->wire_mode == ND_MODE_TLS && !w->lost) {
		if (ahead >= (__s32)f->seg.length) {
			copy_hello(f); /* inside a record, or sent before */
			return;
		}
		if (ahead < 0)
			lose(f); /* the header was in a packet that did not come (yet) */
	} else if (ahead > 0) {
		return; /* sent before */
	}
	if ((f->s->wire_mode != ND_MODE_TLS || w->lost) && !begin(f)) {
		if (f->s->wire_mode != ND_MODE_TLS)
			w->next = f->seg.seq + f->seg.length;
		return;
	}
	if (nd_has_loop())
		bpf_loop(MAX_RECORDS, step_once, f, 0);
	else
		for (int i = 0; i < MAX_RECORDS; i++)
			if (!step(f))
				break;
	copy_hello(f);
	if (!w->lost && w->next + w->have - f->seg.seq < f->seg.length)
		lose(f); /* more records than are looked at in one packet */
}

#define MAX_LEFT_OUT 64 /* more at once is another way of numbering */

/* Note the number of a packet of the peer: struct nd_numbers. Offloads join packets whose numbers follow each other. */
static __always_inline void note_number(struct __sk_buff *skb, struct nd_numbers *n)
{
	__u32 joined = skb->gso_segs;
	__u8 head[6];
	__u16 number;
	__s16 ahead;

	if (bpf_skb_load_bytes(skb, 0, head, sizeof(head)) || head[0] >> 4 != 4)
		return;
	number = (__u16)head[4] << 8 | head[5];
	ahead = number - n->next;
	if (!n->started || !ahead) {
		n->started = 1;
		if (n->usual < 0xffff)
			n->usual++;
	} else {
		if (n->odd < 0xffff)
			n->odd++;
		if (ahead < -1 && ahead >= -MAX_LEFT_OUT) {
			if (n->missing)
				n->missing--; /* it was late, not missing */
			return;
		}
		if (ahead > 0 && ahead <= MAX_LEFT_OUT)
			n->missing += ahead;
	}
	n->next = number + (joined ? joined : 1);
}

/*
 * Nothing in it can be read before what is missing in front of it has come. TCP itself may know less: while the program
 * holds the socket, packets wait for it.
 */
static __always_inline bool out_of_order(struct bpf_sock *sk, struct nd_wire *w, const struct nd_segment *seg)
{
	const struct bpf_tcp_sock *tp;

	if (w->started && (__s32)(seg->seq - w->came) > 0) {
		tp = bpf_tcp_sock(sk);
		if (tp && (__s32)(seg->seq - tp->rcv_nxt) > 0)
			return true;
	}
	if (!w->started || (__s32)(seg->seq + seg->length - w->came) > 0)
		w->came = seg->seq + seg->length;
	return false;
}

static __always_inline void handle_packet(struct __sk_buff *skb, __u8 direction)
{
	struct follow f = { .skb = skb, .direction = direction };
	struct bpf_sock *sk = skb->sk;

	if (!sk)
		return;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return;
	f.s = bpf_sk_storage_get(&tcp_sockets, sk, 0, 0);
	if (!f.s)
		return;
	if (direction == ND_RECEIVE)
		note_number(skb, &f.s->numbers);
	if (f.s->wire_mode == ND_MODE_DONE)
		return;
	if (!nd_segment(skb, &f.seg))
		return;
	f.w = direction == ND_SEND ? &f.s->wire[0] : &f.s->wire[1];
	if (direction == ND_RECEIVE && out_of_order(sk, f.w, &f.seg))
		return;
	f.now = bpf_ktime_get_ns();
	f.cookie = bpf_get_socket_cookie(skb);
	handle_segment(&f);
}

SEC("cgroup_skb/egress")
int tls_egress(struct __sk_buff *skb)
{
	handle_packet(skb, ND_SEND);
	return 1;
}

SEC("cgroup_skb/ingress")
int tls_ingress(struct __sk_buff *skb)
{
	handle_packet(skb, ND_RECEIVE);
	return 1;
}
