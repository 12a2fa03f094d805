package proc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Heap holds counters of the Go runtime of a process.
type Heap struct {
	// Mallocs is the number of allocated objects and TotalAlloc their bytes, since the process started.
	Mallocs, TotalAlloc uint64
	// HeapAlloc is the size of the objects that are live or not yet collected, in bytes.
	HeapAlloc uint64
	NumGC     uint32
}

// admin is the client for the admin endpoints of the gateways.
var admin = &http.Client{Timeout: time.Minute}

// ReadHeap reads the runtime's counters from the expvar page of a Caddy's admin endpoint.
func ReadHeap(ctx context.Context, addr string) (Heap, error) {
	var page struct {
		Memory Heap `json:"memstats"`
	}
	err := Admin(ctx, addr, "/debug/vars", func(body io.Reader) error { return json.NewDecoder(body).Decode(&page) })
	return page.Memory, err
}

// Admin requests a page of a Caddy's admin endpoint and passes its body to read.
func Admin(ctx context.Context, addr, path string, read func(io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return err
	}
	return askAdmin(request, read)
}

// Ask posts to a Caddy's admin endpoint and passes the response body to read.
func Ask(ctx context.Context, addr, path string, body []byte, read func(io.Reader) error) error {
	return post(ctx, addr, path, "application/json", body, read)
}

// Tell sends a configuration or a command to a Caddy's admin endpoint.
func Tell(ctx context.Context, addr, path, contentType string, body []byte) error {
	return post(ctx, addr, path, contentType, body, func(io.Reader) error { return nil })
}

func post(ctx context.Context, addr, path, contentType string, body []byte, read func(io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", contentType)
	// Without this header, Caddy does not load a configuration that it already runs.
	request.Header.Set("Cache-Control", "must-revalidate")
	return askAdmin(request, read)
}

func askAdmin(request *http.Request, read func(io.Reader) error) error {
	response, err := admin.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 500))
		return fmt.Errorf("the admin endpoint answers %s with %s: %s", request.URL.Path, response.Status, text)
	}
	return read(response.Body)
}
