// SPDX-License-Identifier: Apache-2.0

// `peer serve PORT CERT KEY TRUTH [h2]` answers over TLS and writes a line of JSON per request of what it saw.
// `peer get CA COUNT [cache] [h2] [close] URL…` asks each URL COUNT times with one client; SSLKEYLOGFILE is obeyed.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
)

func main() {
	if os.Args[1] == "serve" {
		serve(os.Args[2:])
		return
	}
	get(os.Args[2:])
}

func serve(args []string) {
	file, err := os.OpenFile(args[3], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	var lock sync.Mutex
	handler := http.HandlerFunc(func(answer http.ResponseWriter, asked *http.Request) {
		status := 200
		if strings.HasPrefix(asked.URL.Path, "/status/") {
			status, _ = strconv.Atoi(asked.URL.Path[len("/status/"):])
		}
		_, clientPort, _ := net.SplitHostPort(asked.RemoteAddr)
		from, _ := strconv.Atoi(clientPort)
		port, _ := strconv.Atoi(args[0])
		line, _ := json.Marshal(map[string]any{
			"server_port": port, "client_port": from, "method": asked.Method, "path": asked.URL.Path, "status": status,
			"protocol": asked.Proto, "version": asked.TLS.Version, "cipher": asked.TLS.CipherSuite,
			"reused": asked.TLS.DidResume, "sni": asked.TLS.ServerName, "alpn": asked.TLS.NegotiatedProtocol,
		})
		lock.Lock()
		fmt.Fprintln(file, string(line))
		lock.Unlock()
		answer.WriteHeader(status)
		io.WriteString(answer, strings.Repeat("answer ", 300))
	})
	server := http.Server{Addr: "127.0.0.1:" + args[0], Handler: handler}
	if len(args) < 5 {
		server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	log.Fatal(server.ListenAndServeTLS(args[1], args[2]))
}

func get(args []string) {
	pem, err := os.ReadFile(args[0])
	if err != nil {
		log.Fatal(err)
	}
	count, _ := strconv.Atoi(args[1])
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	if name := os.Getenv("SSLKEYLOGFILE"); name != "" {
		config.KeyLogWriter, _ = os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	}
	transport := &http.Transport{TLSClientConfig: config}
	var urls []string
	for _, word := range args[2:] {
		switch word {
		case "cache":
			config.ClientSessionCache = tls.NewLRUClientSessionCache(32)
		case "h2":
			transport.ForceAttemptHTTP2 = true
		case "close":
			transport.DisableKeepAlives = true
		default:
			urls = append(urls, word)
		}
	}
	client := http.Client{Transport: transport}
	for _, url := range urls {
		for turn := 0; turn < count; turn++ {
			answer, err := client.Get(url)
			if err != nil {
				fmt.Println(err)
				continue
			}
			io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
	}
}
