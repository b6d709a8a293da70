# SPDX-License-Identifier: Apache-2.0
"""Programs that talk TLS in one way each, for the tests of plaintext."""

from __future__ import annotations

__all__ = ["ASYNC", "CALLED_BACK", "CROSSED", "GO_CLIENT", "LIBRARY", "MOMENT", "NODE", "PAIR", "SYNC"]

SYNC = """
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
for round in range(2):
    plain = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    with context.wrap_socket(plain, server_hostname="localhost") as s:
        for size in (1, 200, 3000, 9000):
            s.sendall(b"GET /%d HTTP/1.1\\r\\nHost: localhost\\r\\nX-Round: %d\\r\\n\\r\\n" % (size, round))
            answer = b""
            while not answer.endswith(b"END"):
                answer += s.recv(65536)
"""
MOMENT = """
import ssl, socket, sys
context = ssl.create_default_context(cafile=sys.argv[2])
s = context.wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[1]))), server_hostname="localhost")
s.sendall(b"GET /10 HTTP/1.1\\r\\n\\r\\n")
while not s.recv(4096).endswith(b"END"):
    pass
"""
ASYNC = """
import asyncio, ssl, sys
async def one(number):
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", int(sys.argv[1]), ssl=context, server_hostname="localhost"
    )
    await asyncio.sleep(float(sys.argv[4]))
    for turn in range(4):
        writer.write(b"GET /%d HTTP/1.1\\r\\nHost: localhost\\r\\nX-Number: %d/%d\\r\\n\\r\\n" % (number, number, turn))
        await writer.drain()
        await reader.readuntil(b"END")
    writer.close()
async def main():
    await asyncio.gather(*(one(number) for number in range(int(sys.argv[3]))))
context = ssl.create_default_context(cafile=sys.argv[2])
asyncio.run(main())
"""
NODE = """
const https = require("https"), fs = require("fs");
const agent = new https.Agent({keepAlive: true, ca: fs.readFileSync(process.argv[3])});
const to = {host: "localhost", family: 4, port: +process.argv[2], agent};
const get = size => new Promise(done => https.get(
  {...to, path: "/" + size}, answer => { answer.resume(); answer.on("end", done); }));
(async () => {
  for (let turn = 0; turn < 3; turn++) await Promise.all([1, 200, 3000, 9000].map(get));
  agent.destroy();
})();
"""
CALLED_BACK = """
const tls = require("tls"), fs = require("fs");
const to = {host: "localhost", family: 4, port: +process.argv[2], ca: fs.readFileSync(process.argv[3])};
const ask = (socket, size) => new Promise(done => {
  let got = "";
  const take = data => { got += data; if (got.endsWith("END")) { socket.off("data", take); done(); } };
  socket.on("data", take);
  socket.write(`GET /${size} HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n`);
});
(async () => {
  const other = tls.connect(to);
  await new Promise(done => other.once("secureConnect", done));
  await ask(other, 5);
  for (let turn = 0; turn < 3; turn++) {
    const socket = tls.connect(to);
    await new Promise(done => socket.once("secureConnect", () => {  // in the middle of SSL_read()
      Promise.all([ask(socket, 200), ask(other, 300)]).then(done);
    }));
    await ask(socket, 3000);
    socket.end();
  }
  other.end();
})();
"""
GO_CLIENT = """
package main
import ("crypto/tls"; "crypto/x509"; "io"; "net/http"; "os"; "sync")
func main() {
	pem, _ := os.ReadFile(os.Args[2])
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	secure := &tls.Config{RootCAs: pool}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: secure, MaxIdleConnsPerHost: 9}}
	for turn := 0; turn < 3; turn++ {
		var all sync.WaitGroup
		for _, size := range []string{"1", "200", "3000", "9000"} {
			all.Add(1)
			go func(size string) {
				defer all.Done()
				answer, err := client.Get("https://localhost:" + os.Args[1] + "/" + size)
				if err != nil { panic(err) }
				io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}(size)
		}
		all.Wait()
	}
}
"""
LIBRARY = """
import ctypes, socket, ssl, sys
library = ctypes.CDLL(sys.argv[3])
for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new"):
    getattr(library, name).restype = ctypes.c_void_p
for name in ("SSL_CTX_new", "SSL_new", "SSL_connect", "SSL_free"):
    getattr(library, name).argtypes = [ctypes.c_void_p]
library.SSL_set_fd.argtypes = [ctypes.c_void_p, ctypes.c_int]
for name in ("read", "write", "peek"):
    getattr(library, "SSL_" + name).argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
    extended = getattr(library, f"SSL_{name}_ex")
    extended.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)]
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
tls = library.SSL_new(library.SSL_CTX_new(library.TLS_client_method()))
library.SSL_set_fd(tls, sock.fileno())
assert library.SSL_connect(tls) == 1
buffer, moved = ctypes.create_string_buffer(65536), ctypes.c_size_t()
def read(extended):
    if not extended:
        return library.SSL_read(tls, buffer, 1000)
    assert library.SSL_read_ex(tls, buffer, 1000, moved) == 1
    return moved.value
for turn in range(4):
    request = b"GET /%d HTTP/1.1\\r\\nX-Turn: %d\\r\\n\\r\\n" % (1500 * turn, turn)
    if turn % 2:
        assert library.SSL_write_ex(tls, request, len(request), moved) == 1
    else:
        assert library.SSL_write(tls, request, len(request)) == len(request)
    answer, looks = b"", 0
    while not answer.endswith(b"END"):
        assert library.SSL_peek(tls, buffer, 500) > 0
        assert library.SSL_peek_ex(tls, buffer, 2000, moved) == 1
        answer += buffer.raw[:read(turn % 2)]
library.SSL_free(tls)
"""
PAIR = """
import ssl, sys, time
client, server = ssl.create_default_context(cafile=sys.argv[1]), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
server.load_cert_chain(sys.argv[1], sys.argv[2])
count, rate = int(sys.argv[3]), float(sys.argv[4])
a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
ends = [client.wrap_bio(a, b, server_hostname="localhost"), server.wrap_bio(b, a, True)]
left = list(ends)
while left:
    for end in list(left):
        try:
            end.do_handshake()
            left.remove(end)
        except ssl.SSLWantReadError:
            pass
began = time.monotonic()
for number in range(count):
    ends[number % 2].write(b"message %d" % number)
    ends[1 - number % 2].read(65536)
    time.sleep(max(0, began + number / rate - time.monotonic()))
"""
CROSSED = """
import socket, ssl, sys, time
context = ssl.create_default_context(cafile=sys.argv[2])
secure = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
while True:
    try:
        tls.do_handshake()
        break
    except ssl.SSLWantReadError:
        secure.sendall(outgoing.read())
        incoming.write(secure.recv(65536))
secure.sendall(outgoing.read())
listener = socket.create_server(("127.0.0.1", 0))
plain, other = socket.create_connection(listener.getsockname()), listener.accept()[0]
time.sleep(4)
for turn in range(5):
    request = b"GET /1 HTTP/1.1\\r\\nX-Turn: %d\\r\\n\\r\\n" % turn
    tls.write(request)
    plain.sendall(bytes(len(request) + 22))  # as many as the record has that is sent next
    secure.sendall(outgoing.read())
    answer = b""
    while not answer.endswith(b"END"):
        try:
            answer += tls.read(65536)
        except ssl.SSLWantReadError:
            incoming.write(secure.recv(65536))
"""
