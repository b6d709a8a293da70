/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Calls into the C library that look names up: what was sought, how long it took, the first addresses found. */
#ifndef NETDIAG_NAME_CALLS_H
#define NETDIAG_NAME_CALLS_H

#include "core_fixes.h"
#include "dns.h"
#include "filter.h"
#include "regs.h"
#include "ring.h"
#include "sock.h"

ND_RING(lookup_events, 1 << 19);

#define NI_NUMERICHOST 1 /* netdb.h of glibc and musl */

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
	if (l && nd_stack(ctx) < l->stack)
		return 0; /* a call inside the one that is timed; in its very place, the program had jumped out of that one */
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

#endif
