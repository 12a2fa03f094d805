//go:build failpoint

package caddymodule

import (
	"net/http"

	"github.com/gatehouse-auth/gatehouse/internal/failpoint"
)

// failing lets a test end the process before the first byte of an answer, and in the middle of it.
func failing(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	return &failingWriter{ResponseWriter: w, of: r.Method + " " + r.URL.Path}
}

type failingWriter struct {
	http.ResponseWriter
	of    string
	begun bool
}

// Unwrap is for http.ResponseController.
func (w *failingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *failingWriter) WriteHeader(status int) {
	w.begin()
	w.ResponseWriter.WriteHeader(status)
}

func (w *failingWriter) begin() {
	if !w.begun {
		w.begun = true
		failpoint.Hit("before response", w.of)
	}
}

func (w *failingWriter) Write(body []byte) (int, error) {
	w.begin()
	if !failpoint.Is("mid-response", w.of) {
		return w.ResponseWriter.Write(body)
	}
	half, err := w.ResponseWriter.Write(body[:len(body)/2])
	if err == nil {
		err = http.NewResponseController(w.ResponseWriter).Flush()
	}
	if err != nil {
		return half, err
	}
	failpoint.Hit("mid-response", w.of)
	rest, err := w.ResponseWriter.Write(body[half:])
	return half + rest, err
}
