/* SPDX-License-Identifier: Apache-2.0 */
/* Looks names up with the C library, by getaddrinfo() and by gethostbyname(): `names NAME…`. */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	usleep(200000); /* a program without libraries is met when it has begun */
	for (int i = 1; i < argc; i++) {
		struct addrinfo hints, *found = 0;
		struct hostent *host;
		int code;

		memset(&hints, 0, sizeof(hints));
		hints.ai_socktype = SOCK_STREAM;
		code = getaddrinfo(argv[i], "80", &hints, &found);
		host = gethostbyname(argv[i]);
		printf("%s %d %s\n", argv[i], code, host ? "found" : "none");
		if (!code)
			freeaddrinfo(found);
	}
	return 0;
}
