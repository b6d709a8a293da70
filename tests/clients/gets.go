// SPDX-License-Identifier: Apache-2.0

// `gets MODE CA COUNT URL…`: COUNT requests to each URL in turn with one client; MODE is plain, cache (it keeps sessions)
// or http2 (also offers that). A body in which s_server says what was agreed is printed.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
)

func main() {
	mode, authority, times, urls := os.Args[1], os.Args[2], os.Args[3], os.Args[4:]
	pem, err := os.ReadFile(authority)
	if err != nil {
		log.Fatal(err)
	}
	count, err := strconv.Atoi(times)
	if err != nil {
		log.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	if mode == "cache" {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(32)
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: mode == "http2"}}
	for _, url := range urls {
		for turn := 0; turn < count; turn++ {
			answer, err := client.Get(url)
			if err != nil {
				log.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err != nil {
				log.Fatal(err)
			}
			if strings.Contains(string(body), "Cipher is") {
				fmt.Println(string(body))
			}
		}
	}
}
