// SPDX-License-Identifier: Apache-2.0
/* Copies a file to a GPU that is none: copy mapped|staged|tiny FILE. It waits a moment once the library is loaded. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes);

int main(int argc, char **argv)
{
	struct stat status;
	size_t piece;
	char *from;
	int fd;

	if (argc < 3 || (fd = open(argv[2], O_RDONLY)) < 0 || fstat(fd, &status))
		return 2;
	piece = strcmp(argv[1], "tiny") ? 1 << 20 : 1 << 16;
	usleep(800000);
	from = strcmp(argv[1], "mapped") ? malloc(piece) : mmap(0, status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	for (off_t at = 0; at + (off_t)piece <= status.st_size; at += piece) {
		if (strcmp(argv[1], "mapped") && pread(fd, from, piece, at) < 0)
			return 1;
		if (cuMemcpyHtoD_v2(1, strcmp(argv[1], "mapped") ? from : from + at, piece))
			return 1;
	}
	return 0;
}
