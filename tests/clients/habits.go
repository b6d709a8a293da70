// SPDX-License-Identifier: Apache-2.0

// Habits of programs on net/http: `habits PLAN.json`.
package main

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

type plan struct {
	Habit string   `json:"habit"`
	URLs  []string `json:"urls"`
	Calls int      `json:"calls"`
	Gap   float64  `json:"gap_s"`
}

func transport() *http.Transport {
	return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the certificate is a throw-away one
}

func call(client *http.Client, url string, read bool) {
	answer, err := client.Post(url, "application/json", strings.NewReader(`{"model":"lab"}`))
	if err != nil {
		return // counted by the server; real loops go on
	}
	if read {
		io.Copy(io.Discard, answer.Body)
	}
	answer.Body.Close()
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	p := plan{Calls: 6, Gap: 0.05}
	if err := json.Unmarshal(text, &p); err != nil {
		log.Fatal(err)
	}
	shared := &http.Client{Transport: transport()}
	for turn := 0; turn < p.Calls; turn++ {
		client := shared
		if p.Habit == "per_call" {
			client = &http.Client{Transport: transport()}
		}
		call(client, p.URLs[turn%len(p.URLs)], p.Habit != "unread_closed")
		if p.Habit == "per_call" {
			client.CloseIdleConnections()
		}
		time.Sleep(time.Duration(p.Gap * float64(time.Second)))
	}
}
