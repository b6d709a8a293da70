// SPDX-License-Identifier: Apache-2.0

// Many short connections, one after another: `shorts PORT COUNT` prints `pid port sent received closer how` for each.
package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strconv"
	"strings"
)

type mode struct{ path, closer, how string }

var modes = []mode{{"/keep", "local", "fin"}, {"/close", "remote", "fin"}, {"/keep", "local", "rst"}}

func one(address string, turn int) {
	m := modes[turn%3]
	conn, err := net.Dial("tcp4", address)
	if err != nil {
		log.Fatal(err)
	}
	message := "GET " + m.path + "?" + strings.Repeat("x", turn%50) + " HTTP/1.1\r\nHost: t\r\n\r\n"
	if _, err := conn.Write([]byte(message)); err != nil {
		log.Fatal(err)
	}
	var received []byte
	buffer := make([]byte, 4096)
	for m.closer == "remote" || !bytes.HasSuffix(received, []byte("END\n")) {
		n, err := conn.Read(buffer)
		received = append(received, buffer[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	local := conn.LocalAddr().(*net.TCPAddr).Port
	if m.how == "rst" {
		if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
			log.Fatal(err)
		}
	}
	conn.Close()
	fmt.Println(os.Getpid(), local, len(message), len(received), m.closer, m.how)
}

func main() {
	count, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	for turn := 0; turn < count; turn++ {
		one("127.0.0.1:"+os.Args[1], turn)
	}
}
