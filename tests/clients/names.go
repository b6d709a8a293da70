// SPDX-License-Identifier: Apache-2.0
// Looks names up with Go's own resolver and connects to each: `names NAME…`.
package main

import (
	"fmt"
	"net"
	"os"
	"time"
)

func main() {
	port := os.Getenv("PORT")
	for _, name := range os.Args[1:] {
		found, err := net.LookupHost(name)
		fmt.Println(name, found, err != nil)
		if err == nil && port != "" {
			if conn, err := net.DialTimeout("tcp", net.JoinHostPort(name, port), time.Second); err == nil {
				conn.Close()
			}
		}
	}
}
