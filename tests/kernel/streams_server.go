// SPDX-License-Identifier: Apache-2.0

// The streams of streams_server.py from a server that stamps right after its system calls: `… CERT KEY HOST STAMPS`.
//
// Each answer is a line of JSON in STAMPS: its path, when the whole request had been read, when the head was written,
// and when each token was; ns of the monotonic clock.
package main

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

type answer struct {
	Path   string  `json:"path"`
	Asked  int64   `json:"asked"`
	Head   int64   `json:"head"`
	Tokens []int64 `json:"tokens"`
}

func now() int64 {
	var at syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&at)), 0)
	return at.Nano()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func event() string {
	said := `data: {"model": "m", "choices": [{"index": 0, "delta": {"content": "` +
		strings.Repeat("x", 1+rand.Intn(9)) + `"}}]}` + "\n\n"
	return fmt.Sprintf("%x\r\n%s\r\n", len(said), said)
}

func stream(conn *tls.Conn, path string, asked int64) answer {
	part := make([]int, 4)
	for i, text := range strings.Split(path, "/")[3:7] {
		value, err := strconv.Atoi(text)
		must(err)
		part[i] = value
	}
	done := answer{Path: path, Asked: asked}
	write := func(text string) int64 {
		conn.Write([]byte(text)) // who is gone gets nothing
		return now()
	}
	done.Head = write(head)
	gap := time.Duration(part[1]) * time.Millisecond
	due := time.Now().Add(time.Duration(rand.Float64() * float64(gap)))
	for number := 0; number < part[0]; number++ {
		if number == part[2] {
			due = due.Add(time.Duration(part[3]) * time.Millisecond)
		}
		time.Sleep(time.Until(due))
		due = due.Add(gap)
		done.Tokens = append(done.Tokens, write(event()))
	}
	write("e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
	return done
}

func serve(conn *tls.Conn, lock *sync.Mutex, log *os.File) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for {
		path := ""
		for {
			line, err := reader.ReadString('\n')
			if err != nil {
				return
			}
			if path == "" {
				path = strings.Split(line, " ")[1]
			} else if line == "\r\n" {
				break
			}
		}
		done, err := json.Marshal(stream(conn, path, now()))
		must(err)
		lock.Lock()
		fmt.Fprintf(log, "%s\n", done)
		lock.Unlock()
	}
}

func main() {
	pair, err := tls.LoadX509KeyPair(os.Args[1], os.Args[2])
	must(err)
	log, err := os.Create(os.Args[4])
	must(err)
	listener, err := tls.Listen("tcp", os.Args[3]+":0", &tls.Config{Certificates: []tls.Certificate{pair}})
	must(err)
	address := listener.Addr().String()
	fmt.Println(address[strings.LastIndex(address, ":")+1:])
	var lock sync.Mutex
	for {
		conn, err := listener.Accept()
		must(err)
		go serve(conn.(*tls.Conn), &lock, log)
	}
}
