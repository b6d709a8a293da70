// SPDX-License-Identifier: Apache-2.0
/*
 * A FUSE file system with one file, `model`, whose every read takes a while: slowfs FILE FOLDER MICROSECONDS. Serves
 * one request at a time from FILE until FOLDER is unmounted. Speaks the protocol itself (uapi/linux/fuse.h).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST (1 << 20)
#define MODEL 2

static int device;
static struct stat model;

static void answer(uint64_t unique, int error, const void *data, size_t bytes)
{
	static char out[MOST + 64];
	struct fuse_out_header head = { .len = sizeof(head) + bytes, .error = -error, .unique = unique };

	memcpy(out, &head, sizeof(head));
	if (bytes)
		memcpy(out + sizeof(head), data, bytes);
	if (write(device, out, head.len) < 0 && errno != ENOENT)
		perror("answer");
}

static struct fuse_attr attributes(uint64_t node)
{
	struct fuse_attr a = { .ino = node, .nlink = 1, .blksize = 4096 };

	a.mode = node == MODEL ? S_IFREG | 0444 : S_IFDIR | 0555;
	a.size = node == MODEL ? model.st_size : 0;
	return a;
}

int main(int argc, char **argv)
{
	static char in[MOST], data[MOST];
	char options[128];
	ssize_t got;
	int file;

	if (argc < 4)
		return 2;
	file = open(argv[1], O_RDONLY);
	device = open("/dev/fuse", O_RDWR);
	if (file < 0 || device < 0 || fstat(file, &model)) {
		perror(argv[1]);
		return 1;
	}
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", device);
	if (mount("slowfs", argv[2], "fuse.slowfs", MS_NODEV | MS_NOSUID, options)) {
		perror(argv[2]);
		return 1;
	}
	while ((got = read(device, in, sizeof(in))) > 0 || errno == EINTR) {
		struct fuse_in_header *head = (void *)in;
		void *body = in + sizeof(*head);

		if (got <= 0)
			continue;
		switch (head->opcode) {
		case FUSE_INIT: {
			struct fuse_init_in *asked = body;
			struct fuse_init_out out = { .major = 7, .minor = 31, .max_readahead = 131072, .max_write = 131072,
						     .max_background = 12, .congestion_threshold = 9, .time_gran = 1 };

			out.flags = asked->flags & FUSE_ASYNC_READ;
			answer(head->unique, 0, &out, sizeof(out));
			break;
		}
		case FUSE_GETATTR: {
			struct fuse_attr_out out = { .attr_valid = 60, .attr = attributes(head->nodeid) };

			answer(head->unique, 0, &out, sizeof(out));
			break;
		}
		case FUSE_LOOKUP: {
			struct fuse_entry_out out = { .nodeid = MODEL, .entry_valid = 60, .attr_valid = 60,
						      .attr = attributes(MODEL) };

			if (strcmp(body, "model"))
				answer(head->unique, ENOENT, 0, 0);
			else
				answer(head->unique, 0, &out, sizeof(out));
			break;
		}
		case FUSE_OPEN: {
			struct fuse_open_out out = { .open_flags = FOPEN_KEEP_CACHE };

			answer(head->unique, 0, &out, sizeof(out));
			break;
		}
		case FUSE_READ: {
			struct fuse_read_in *asked = body;
			size_t bytes = asked->size < MOST ? asked->size : MOST;

			usleep(atoi(argv[3]));
			got = pread(file, data, bytes, asked->offset);
			answer(head->unique, got < 0 ? EIO : 0, data, got < 0 ? 0 : got);
			break;
		}
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
			break;
		case FUSE_RELEASE:
		case FUSE_FLUSH:
			answer(head->unique, 0, 0, 0);
			break;
		default:
			answer(head->unique, ENOSYS, 0, 0);
		}
	}
	return 0;
}
