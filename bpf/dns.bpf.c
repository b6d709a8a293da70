// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Names: calls into the C library that look them up, and DNS messages on the wire for programs that ask by themselves.
 *
 * On the wire only messages are taken that a traced process sends to port 53 or gets from there, and only such as look
 * like DNS: what else a program may send to that port is never copied. They are read in user space, without privileges.
 */

#include "netdiag/core_fixes.h"
#include "netdiag/dns.h"
#include "netdiag/filter.h"
#include "netdiag/packet.h"
#include "netdiag/process.h"
#include "netdiag/regs.h"
#include "netdiag/ring.h"
#include "netdiag/sock.h"

/* The kernel knows no word for Apache-2.0 OR GPL-2.0: this names the half that it needs. */
char LICENSE[] SEC("license") = "GPL v2";

/* Emit the layouts into BTF. */
const struct name_lookup_event *nd_layout_name_lookup_event __attribute__((unused));
const struct dns_message_event *nd_layout_dns_message_event __attribute__((unused));

ND_RING(lookup_events, 1 << 19);
ND_RING(message_events, 1 << 20);

#define DNS_PORT 53
#define DNS_HEADER_BYTES 12
#define UDP_HEADER_BYTES 8
#define NI_NUMERICHOST 1 /* netdb.h of glibc and musl */

/* --- calls into the C library -------------------------------------------------------------------------------- */

/* Cookie: enum nd_lookup_kind, library, enum result, eight bits each. */
#define KIND(cookie) ((__u8)(cookie))
#define RESULT(cookie) ((__u8)((cookie) >> 16))

/* What a function returns when it worked, and where the addresses then are. */
enum result {
	RETURNS_ZERO = 2,
	RETURNS_ADDRINFO = 5,
	RETURNS_HOSTENT = 6,
	RETURNS_HOSTENT_5 = 7,
	RETURNS_HOSTENT_6 = 8,
	RETURNS_HOSTENT_OF = 9, /* of the family that the second argument names */
};

struct lookup {
	__u64 started;
	__u64 stack;
	__u64 out; /* where the function puts its result */
	__u32 family;
	__u8 kind;
	__u8 given; /* an address was given, and kept in `address` */
	__u8 reserved[2];
	nd_addr address;
	char name[ND_LOOKUP_NAME_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 2048);
	__type(key, __u64);
	__type(value, struct lookup);
} name_lookups SEC(".maps");

/* struct addrinfo of glibc and musl alike, on machines of 64 bits. */
struct user_addrinfo {
	__s32 flags, family, socktype, protocol;
	__u32 addrlen, hole;
	__u64 addr;
	__u64 canonname;
	__u64 next;
};

struct user_hostent {
	__u64 name;
	__u64 aliases;
	__s32 addrtype;
	__s32 length;
	__u64 list;
};

static __always_inline bool read_sockaddr(nd_addr *to, __u64 at)
{
	__u16 family = 0;
	__be32 v4;

	if (bpf_probe_read_user(&family, sizeof(family), (void *)at))
		return false;
	if (family == AF_INET) {
		if (bpf_probe_read_user(&v4, sizeof(v4), (void *)(at + 4)))
			return false;
		nd_map_v4(to, v4);
		return true;
	}
	return family == AF_INET6 && !bpf_probe_read_user(to, sizeof(*to), (void *)(at + 8));
}

static __always_inline bool read_address(nd_addr *to, __u64 at, __s32 family)
{
	__be32 v4;

	if (family == AF_INET) {
		if (bpf_probe_read_user(&v4, sizeof(v4), (void *)at))
			return false;
		nd_map_v4(to, v4);
		return true;
	}
	return family == AF_INET6 && !bpf_probe_read_user(to, sizeof(*to), (void *)at);
}

static __always_inline void enter_by_name(struct pt_regs *ctx, __u64 cookie, struct lookup *l)
{
	bpf_probe_read_user_str(l->name, sizeof(l->name), (void *)nd_first_argument(ctx));
	switch (RESULT(cookie)) {
	case RETURNS_ADDRINFO:
		/* struct addrinfo has the family behind the flags */
		if (nd_third_argument(ctx))
			bpf_probe_read_user(&l->family, sizeof(l->family), (void *)(nd_third_argument(ctx) + 4));
		l->out = nd_fourth_argument(ctx);
		break;
	case RETURNS_HOSTENT_5:
		l->family = AF_INET;
		l->out = nd_fifth_argument(ctx);
		break;
	case RETURNS_HOSTENT_6:
		l->family = (__u32)nd_second_argument(ctx);
		l->out = nd_sixth_argument(ctx);
		break;
	case RETURNS_HOSTENT_OF:
		l->family = (__u32)nd_second_argument(ctx);
		break;
	default:
		l->family = AF_INET;
	}
}

/* The caller wants the number as it is: nothing is looked up. */
static __always_inline bool wants_number(struct pt_regs *ctx)
{
	__s32 flags = 0;

#if ND_ARGUMENTS_IN_REGISTERS > 6
	flags = (__s32)nd_seventh_argument(ctx);
#else
	bpf_probe_read_user(&flags, sizeof(flags), (void *)(nd_stack(ctx) + ND_RETURN_BYTES));
#endif
	return flags & NI_NUMERICHOST;
}

SEC("uprobe/enter")
int name_enter(struct pt_regs *ctx)
{
	static const struct lookup none;
	__u64 cookie = bpf_get_attach_cookie(ctx), id = bpf_get_current_pid_tgid();
	struct lookup *l = bpf_map_lookup_elem(&name_lookups, &id);

	if (!nd_first_argument(ctx) || !nd_wanted_task())
		return 0; /* getaddrinfo() without a name is for servers */
	if (KIND(cookie) == ND_LOOKUP_SOCKADDR && wants_number(ctx))
		return 0;
	if (l && nd_stack(ctx) <= l->stack)
		return 0; /* a call inside the one that is timed */
	bpf_map_update_elem(&name_lookups, &id, &none, BPF_ANY);
	l = bpf_map_lookup_elem(&name_lookups, &id);
	if (!l)
		return 0;
	l->stack = nd_stack(ctx);
	l->kind = KIND(cookie);
	if (l->kind == ND_LOOKUP_NAME) {
		enter_by_name(ctx, cookie, l);
	} else if (l->kind == ND_LOOKUP_SOCKADDR) {
		l->given = read_sockaddr(&l->address, nd_first_argument(ctx));
	} else {
		l->family = (__u32)nd_third_argument(ctx);
		l->given = read_address(&l->address, nd_first_argument(ctx), l->family);
	}
	l->started = bpf_ktime_get_ns();
	return 0;
}

static __always_inline nd_addr *addresses_of(struct name_lookup_event *e)
{
	return (void *)e + __builtin_offsetof(struct name_lookup_event, address_1);
}

/* A walk along the list of getaddrinfo(). */
struct walk {
	struct name_lookup_event *e;
	__u64 at;
	__u64 last[2];
	__u32 count;
};

/* Take one entry; returns whether there may be more. */
static __always_inline bool take_addrinfo(struct walk *w)
{
	struct user_addrinfo info;
	nd_addr address;
	__u64 this[2];

	if (!w->at || w->count >= ND_LOOKUP_ADDRESSES || bpf_probe_read_user(&info, sizeof(info), (void *)w->at))
		return false;
	w->at = info.next;
	if (!info.addr || !read_sockaddr(&address, info.addr))
		return true;
	__builtin_memcpy(this, &address, sizeof(this));
	if (this[0] == w->last[0] && this[1] == w->last[1])
		return true; /* each address comes once per kind of socket */
	w->last[0] = this[0];
	w->last[1] = this[1];
	addresses_of(w->e)[w->count & (ND_LOOKUP_ADDRESSES - 1)] = address;
	w->e->count = ++w->count;
	return true;
}

static long take_once(__u32 turn, void *context)
{
	return !take_addrinfo(context);
}

static __always_inline void read_addrinfo(struct name_lookup_event *e, __u64 at)
{
	struct walk w = { .e = e, .at = at };

	if (nd_has_loop())
		bpf_loop(3 * ND_LOOKUP_ADDRESSES, take_once, &w, 0);
	else
		for (int i = 0; i < ND_LOOKUP_ADDRESSES; i++)
			if (!take_addrinfo(&w))
				break;
}

static __always_inline void read_hostent(struct name_lookup_event *e, __u64 at)
{
	struct user_hostent host;
	__u64 address = 0;

	if (!at || bpf_probe_read_user(&host, sizeof(host), (void *)at))
		return;
	for (int i = 0; i < ND_LOOKUP_ADDRESSES; i++) {
		if (bpf_probe_read_user(&address, sizeof(address), (void *)(host.list + i * 8)) || !address)
			return;
		if (!read_address(&addresses_of(e)[i], address, host.addrtype))
			return;
		e->count = i + 1;
	}
}

static __always_inline __u64 pointer_at(__u64 at)
{
	__u64 value = 0;

	if (at)
		bpf_probe_read_user(&value, sizeof(value), (void *)at);
	return value;
}

static __always_inline void read_answers(struct name_lookup_event *e, __u64 cookie, __u64 out, long returned)
{
	if (!e->ok)
		return;
	switch (RESULT(cookie)) {
	case RETURNS_ADDRINFO:
		read_addrinfo(e, pointer_at(out));
		break;
	case RETURNS_HOSTENT:
	case RETURNS_HOSTENT_OF:
		read_hostent(e, returned);
		break;
	case RETURNS_HOSTENT_5:
	case RETURNS_HOSTENT_6:
		read_hostent(e, pointer_at(out));
		break;
	}
}

SEC("uretprobe/leave")
int name_leave(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), id = bpf_get_current_pid_tgid();
	struct lookup *l = bpf_map_lookup_elem(&name_lookups, &id);
	struct name_lookup_event *e;
	long returned = nd_returned(ctx);

	if (!l || nd_stack(ctx) - ND_RETURN_BYTES < l->stack)
		return 0;
	e = nd_reserve(lookup_events, struct name_lookup_event);
	if (!e) {
		bpf_map_delete_elem(&name_lookups, &id);
		return 0;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->time = bpf_ktime_get_ns();
	e->started = l->started;
	e->tgid = nd_current_tgid();
	e->tid = nd_current_tid();
	e->family = l->family;
	e->kind = l->kind;
	if (RESULT(cookie) == RETURNS_HOSTENT || RESULT(cookie) == RETURNS_HOSTENT_OF) {
		e->result = e->ok = returned != 0;
	} else {
		e->result = (__s32)returned;
		e->ok = (__s32)returned == 0;
	}
	__builtin_memcpy(e->name, l->name, sizeof(e->name));
	if (l->kind == ND_LOOKUP_NAME) {
		read_answers(e, cookie, l->out, returned);
	} else if (l->given) {
		e->address_1 = l->address;
		e->count = 1;
	}
	nd_submit(lookup_events, e);
	bpf_map_delete_elem(&name_lookups, &id);
	return 0;
}

/* --- on the wire --------------------------------------------------------------------------------------------- */

/* A socket of a traced process that talks to port 53. */
struct dns_sock {
	__u64 netns;
	__u32 tgid;
	__u32 tid;
	__u32 start[2]; /* TCP: sequence number of the first byte sent, received */
	__u8 started[2];
	__u8 is_dns; /* TCP: the first bytes that were sent looked like it */
	__u8 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct dns_sock);
} dns_sockets SEC(".maps");

static __always_inline void take_socket(struct bpf_sock_addr *ctx)
{
	struct dns_sock *s;

	if (ctx->user_port != bpf_htons(DNS_PORT) || !ctx->sk)
		return;
	if ((ctx->protocol != IPPROTO_UDP && ctx->protocol != IPPROTO_TCP) || !nd_wanted_task())
		return;
	s = bpf_sk_storage_get(&dns_sockets, ctx->sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!s)
		return;
	s->netns = bpf_get_netns_cookie(ctx);
	s->tgid = nd_current_tgid();
	s->tid = nd_current_tid();
	nd_meet_process(s->tgid);
}

SEC("cgroup/connect4")
int dns_connect4(struct bpf_sock_addr *ctx)
{
	take_socket(ctx);
	return 1;
}

SEC("cgroup/connect6")
int dns_connect6(struct bpf_sock_addr *ctx)
{
	take_socket(ctx);
	return 1;
}

SEC("cgroup/sendmsg4")
int dns_sendmsg4(struct bpf_sock_addr *ctx)
{
	take_socket(ctx);
	return 1;
}

SEC("cgroup/sendmsg6")
int dns_sendmsg6(struct bpf_sock_addr *ctx)
{
	take_socket(ctx);
	return 1;
}

struct packet {
	__u32 payload; /* offset */
	__u32 length;
	__u32 seq; /* TCP */
	__u16 source; /* ports, host order */
	__u16 target;
};

static __always_inline bool find_payload(struct __sk_buff *skb, struct packet *p, __u8 protocol)
{
	__u32 at = nd_transport(skb, protocol);
	__u8 head[14];

	if (!at)
		return false;
	if (protocol == IPPROTO_UDP) {
		if (bpf_skb_load_bytes(skb, at, head, UDP_HEADER_BYTES))
			return false;
		p->payload = at + UDP_HEADER_BYTES;
		p->seq = 0;
	} else {
		if (bpf_skb_load_bytes(skb, at, head, 14))
			return false;
		p->payload = at + (head[12] >> 4) * 4;
		p->seq = ((__u32)head[4] << 24 | head[5] << 16 | head[6] << 8 | head[7]) + !!(head[13] & 2);
	}
	p->source = (__u16)head[0] << 8 | head[1];
	p->target = (__u16)head[2] << 8 | head[3];
	if (skb->len <= p->payload)
		return false;
	p->length = skb->len - p->payload;
	return true;
}

/* One question, an ordinary one: opcode and the reserved bit are 0 (RFC 1035 section 4.1.1). */
static __always_inline bool looks_like_dns(struct __sk_buff *skb, __u32 at)
{
	__u8 h[6];

	return !bpf_skb_load_bytes(skb, at, h, sizeof(h)) && !(h[2] & 0x78) && !(h[3] & 0x40) && !h[4] && h[5] == 1;
}

static __always_inline bool is_dns_stream(struct __sk_buff *skb, struct dns_sock *s, const struct packet *p, __u32 offset)
{
	if (s->is_dns)
		return true;
	if (offset == 0 && p->length == 2)
		return true; /* the length of a message, on its own: nothing else yet */
	if (offset == 0 && p->length >= 2 + DNS_HEADER_BYTES)
		s->is_dns = looks_like_dns(skb, p->payload + 2);
	else if (offset == 2 && p->length >= DNS_HEADER_BYTES)
		s->is_dns = looks_like_dns(skb, p->payload);
	return s->is_dns;
}

static __always_inline void remote_of(struct __sk_buff *skb, nd_addr *to, bool sent)
{
	__be32 v4 = 0;
	__u8 first = 0;

	bpf_skb_load_bytes(skb, 0, &first, 1);
	if (first >> 4 == 4) {
		bpf_skb_load_bytes(skb, sent ? 16 : 12, &v4, sizeof(v4));
		nd_map_v4(to, v4);
	} else {
		bpf_skb_load_bytes(skb, sent ? 24 : 8, to, sizeof(*to));
	}
}

static __always_inline void write_message(struct __sk_buff *skb, const struct dns_sock *s, const struct packet *p,
					  __u8 direction, __u8 transport, __u32 offset)
{
	struct dns_message_event *e = nd_reserve(message_events, struct dns_message_event);
	__u32 size = p->length;

	if (!e)
		return;
	__builtin_memset(e, 0, sizeof(*e));
	e->time = bpf_ktime_get_ns();
	e->cookie = bpf_get_socket_cookie(skb);
	e->netns = s->netns;
	e->tgid = s->tgid;
	e->tid = s->tid;
	e->offset = offset;
	e->length = p->length > 0xffff ? 0xffff : p->length;
	e->direction = direction;
	e->transport = transport;
	e->local_port = direction == ND_SEND ? p->source : p->target;
	e->remote_port = DNS_PORT;
	remote_of(skb, &e->remote, direction == ND_SEND);
	if (size > ND_DNS_BYTES)
		size = ND_DNS_BYTES;
	if (size > 0 && size <= ND_DNS_BYTES && !bpf_skb_load_bytes(skb, p->payload, e->data, size))
		e->copied = size;
	nd_submit(message_events, e);
}

static __always_inline void handle_packet(struct __sk_buff *skb, __u8 direction)
{
	struct bpf_sock *sk = skb->sk;
	struct dns_sock *s;
	struct packet p;
	__u32 offset = 0, way = direction == ND_SEND ? 0 : 1;

	if (!sk)
		return;
	sk = bpf_sk_fullsock(sk);
	if (!sk || (sk->protocol != IPPROTO_UDP && sk->protocol != IPPROTO_TCP))
		return;
	if (sk->protocol == IPPROTO_TCP && sk->dst_port != bpf_htons(DNS_PORT))
		return; /* most packets of a machine */
	s = bpf_sk_storage_get(&dns_sockets, sk, 0, 0);
	if (!s || !find_payload(skb, &p, sk->protocol))
		return;
	if ((direction == ND_SEND ? p.target : p.source) != DNS_PORT)
		return;
	if (sk->protocol == IPPROTO_UDP) {
		if (looks_like_dns(skb, p.payload))
			write_message(skb, s, &p, direction, ND_TRANSPORT_UDP, 0);
		return;
	}
	if (!s->started[way]) {
		s->started[way] = 1;
		s->start[way] = p.seq;
	}
	offset = p.seq - s->start[way];
	if (direction == ND_SEND ? is_dns_stream(skb, s, &p, offset) : s->is_dns)
		write_message(skb, s, &p, direction, ND_TRANSPORT_TCP, offset);
}

SEC("cgroup_skb/egress")
int dns_egress(struct __sk_buff *skb)
{
	handle_packet(skb, ND_SEND);
	return 1;
}

SEC("cgroup_skb/ingress")
int dns_ingress(struct __sk_buff *skb)
{
	handle_packet(skb, ND_RECEIVE);
	return 1;
}
