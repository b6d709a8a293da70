// SPDX-License-Identifier: Apache-2.0

// Both ends in Go: `matrix serve CERT KEY LOG`, `matrix h1|h2 URL CA PLAN`.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

var (
	log   *os.File
	mutex sync.Mutex
)

func say(r *http.Request, status, sent int) {
	mutex.Lock()
	defer mutex.Unlock()
	_, port, _ := net.SplitHostPort(r.RemoteAddr)
	line, _ := json.Marshal(map[string]any{
		"port": port, "method": r.Method, "path": r.URL.Path, "status": status, "sent": sent, "protocol": r.Proto,
	})
	log.Write(append(line, '\n'))
}

func answer(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Stream bool }
	data, _ := io.ReadAll(r.Body)
	json.Unmarshal(data, &asked)
	status, text := 200, `{"data": []}`
	switch {
	case strings.HasPrefix(r.URL.Path, "/v1/chat/") && asked.Stream:
		w.Header().Set("Content-Type", "text/event-stream")
		sent := 0
		for number := 0; number < 5; number++ {
			count, _ := fmt.Fprintf(w, "data: {\"model\": \"m-1\", \"choices\": [{\"index\": 0, \"delta\": {\"content\": \"planted-answer %d\"}}]}\n\n", number)
			sent += count
			w.(http.Flusher).Flush()
			time.Sleep(15 * time.Millisecond)
		}
		count, _ := fmt.Fprint(w, "data: [DONE]\n\n")
		say(r, 200, sent+count)
		return
	case strings.HasPrefix(r.URL.Path, "/v1/chat/"):
		text = `{"model": "m-1", "choices": [{"index": 0, "message": {"role": "assistant", "content": "planted-answer"}}], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}`
	case r.URL.Path == "/nothing":
		w.WriteHeader(204)
		say(r, 204, 0)
		return
	case r.URL.Path == "/missing":
		status, text = 404, "no"
	case r.URL.Path == "/large":
		text = strings.Repeat("x", 300000)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	w.WriteHeader(status)
	if r.Method != "HEAD" {
		io.WriteString(w, text)
	} else {
		text = ""
	}
	say(r, status, len(text))
}

func serve() {
	log, _ = os.OpenFile(os.Args[4], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	panic(http.ServeTLS(listener, http.HandlerFunc(answer), os.Args[2], os.Args[3]))
}

func ask() {
	pem, _ := os.ReadFile(os.Args[3])
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: os.Args[1] == "h2"}
	client := &http.Client{Transport: transport}
	var plan [][]any
	json.Unmarshal([]byte(os.Args[4]), &plan)
	for _, call := range plan {
		target := call[1].(string)
		var body io.Reader
		if strings.HasPrefix(target, "/v1/chat/") {
			body = strings.NewReader(fmt.Sprintf(
				`{"model": "m-1", "stream": %v, "messages": [{"role": "user", "content": "planted-prompt-7f3a"}]}`, call[2]))
		}
		request, _ := http.NewRequest(call[0].(string), os.Args[2]+target, body)
		request.Header.Set("Authorization", "Bearer planted-key-7f3a")
		request.Header.Set("Cookie", "session=planted-cookie-7f3a")
		answer, err := client.Do(request)
		if err != nil {
			panic(err)
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
	transport.CloseIdleConnections()
}

func main() {
	if os.Args[1] == "serve" {
		serve()
	} else {
		ask()
	}
}
