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
	Tries int      `json:"tries"`
	Pause float64  `json:"pause_s"`
}

func transport() *http.Transport {
	return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the certificate is a throw-away one
}

// again asks until there is no error, with pauses that double.
func again(client *http.Client, url string, tries int, pause float64) {
	for attempt := 0; attempt < tries; attempt++ {
		if attempt > 0 {
			time.Sleep(time.Duration(pause * float64(int(1)<<(attempt-1)) * float64(time.Second)))
		}
		if call(client, url, true) < 500 {
			return
		}
	}
}

// call returns the status, 0 where there was no answer.
func call(client *http.Client, url string, read bool) int {
	answer, err := client.Post(url, "application/json", strings.NewReader(`{"model":"lab"}`))
	if err != nil {
		return 0 // counted by the server; real loops go on
	}
	if read {
		io.Copy(io.Discard, answer.Body)
	}
	answer.Body.Close()
	return answer.StatusCode
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
		if p.Habit == "retries" {
			again(client, p.URLs[turn%len(p.URLs)], p.Tries, p.Pause)
		} else {
			call(client, p.URLs[turn%len(p.URLs)], p.Habit != "unread_closed")
		}
		if p.Habit == "per_call" {
			client.CloseIdleConnections()
		}
		time.Sleep(time.Duration(p.Gap * float64(time.Second)))
	}
}
