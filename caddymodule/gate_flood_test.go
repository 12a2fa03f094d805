package caddymodule

import (
	"io"
	"net/http"
)

// floodScene is a node, and clients at any address, as a trusted proxy names them.
type floodScene struct{ *gateway }

// send asks as a client at that address, on a connection that may be kept.
func (s *floodScene) send(address, path, token string) (status int, closed bool) {
	request, err := http.NewRequest(http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Error(err)
		return 0, false
	}
	request.Header.Set("X-Forwarded-For", address)
	request.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		s.t.Error(err)
		return 0, false
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Close
}

const stranger = "192.0.2.8"
