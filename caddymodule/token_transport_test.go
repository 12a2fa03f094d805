package caddymodule

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// These tests cover size, framing and time at the token endpoint, on raw sockets: rows T36 and T41.

// dial opens a connection whose deadline is limit from now.
func (d *door) dial(t *testing.T, limit time.Duration) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", d.addr)
	check(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	_ = connection.SetDeadline(time.Now().Add(limit))
	return connection
}

// responses reads least answers on a connection, and further ones until the connection is closed or nothing arrives
// for a tenth of a second. After an answer with Connection: close, it waits for the end of the
// connection.
func responses(connection net.Conn, least int) (answers []answer, closed bool) {
	reader, last := bufio.NewReader(connection), false
	for {
		_ = connection.SetReadDeadline(time.Now().Add(patience))
		if len(answers) >= least && !last {
			_ = connection.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		}
		if _, err := reader.Peek(1); err != nil {
			var timeout net.Error
			return answers, !errors.As(err, &timeout) || !timeout.Timeout()
		}
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			return answers, false
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		last = response.Close
		answers = append(answers, answer{response.StatusCode, response.Header, string(body)})
	}
}

// sends writes a request to a new connection, whatever the server reads of it, and returns responses.
func (d *door) sends(t *testing.T, request string, least int) (answers []answer, closed bool) {
	t.Helper()
	connection := d.dial(t, patience)
	sent := make(chan struct{})
	go func() { // the server may stop reading before everything is written
		defer close(sent)
		_, _ = io.WriteString(connection, request)
	}()
	answers, closed = responses(connection, least)
	_ = connection.Close()
	<-sent
	return answers, closed
}

func (d *door) head(more string) string {
	return strings.ReplaceAll("POST /oauth/token HTTP/1.1\nHost: "+d.addr+"\n"+more, "\n", "\r\n")
}

// TestT36BodiesAreBounded: a body over 64 KiB, a Content-Length of 10 GB, an endless chunked body → 413 and a closed connection, without
// reading or allocating more.
func TestT36BodiesAreBounded(t *testing.T) {
	d := openDoor(t, patient)
	tooLarge := outcome{status: 413, code: "invalid_request", reason: "body_too_large"}
	for _, e := range encodings {
		for _, size := range []int{64 << 10, 64<<10 + 1, 10 << 20} {
			empty, contentType := e.body(confFields("filler", "")...)
			body, _ := e.body(confFields("filler", strings.Repeat("x", size-len(empty)))...)
			if len(body) != size {
				t.Fatalf("%d bytes, want %d", len(body), size)
			}
			t.Run(fmt.Sprint(e.name, size), func(t *testing.T) {
				for framing, payload := range map[string]string{
					fmt.Sprintf("Content-Length: %d", size): body, "Transfer-Encoding: chunked": fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", size, body),
				} {
					answers, closed := d.sends(t, d.head("Content-Type: "+contentType+"\n"+framing+"\n\n")+payload, 1)
					want := granted()
					if size > 64<<10 {
						want = tooLarge
					}
					if len(answers) != 1 || size > 64<<10 && !closed {
						t.Fatalf("%d answers, closed %t", len(answers), closed)
					}
					d.hold(t, answers[0], want)
				}
			})
		}
	}

	// A Content-Length of 10 GB is refused before the first byte of the body, and costs nothing.
	before := allocated()
	answers, closed := d.sends(t, d.head("Content-Type: "+urlEncoded+"\nContent-Length: 10737418240\n\n"), 1)
	if len(answers) != 1 || !closed {
		t.Fatalf("10 GB: %d answers, closed %t", len(answers), closed)
	}
	d.hold(t, answers[0], tooLarge)

	// Endless chunks are cut off, whatever their size.
	for _, chunk := range []string{"1\r\nx\r\n", "1000\r\n" + strings.Repeat("x", 4096) + "\r\n", "1;" + strings.Repeat("e", 1000) + "\r\nx\r\n"} {
		connection := d.dial(t, patience)
		stream, sent := strings.Repeat(chunk, 1+(64<<10)/len(chunk)), 0
		_, err := io.WriteString(connection, d.head("Content-Type: "+urlEncoded+"\nTransfer-Encoding: chunked\n\n"))
		for err == nil {
			var n int
			n, err = io.WriteString(connection, stream)
			sent += n
		}
		var timeout net.Error
		if sent > 32<<20 || errors.As(err, &timeout) && timeout.Timeout() { // what the kernel buffers included
			t.Errorf("endless chunks: %d bytes were taken, %v", sent, err)
		}
		_ = connection.Close()
		for _, line := range d.decisions(t) {
			if reason := line["reason"]; reason != "body_too_large" && reason != "body_incomplete" {
				t.Errorf("audited %v", reason)
			}
		}
	}
	if grown := allocated() - before; grown > 64<<20 {
		t.Errorf("%d MiB were allocated", grown>>20)
	}
	d.hold(t, d.ask(t, "/oauth/token", ccGrant+"&"+asConf), granted())
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestT41NobodySmugglesARequest: Content-Length beside Transfer-Encoding, two lengths, folded lines, an unread body → 400 or 501, and the
// embedded request is never executed. It would issue a token, so no answer may come except the expected ones. The other malformed heads are
// those of net/http's own tests.
func TestT41NobodySmugglesARequest(t *testing.T) {
	d := openDoor(t, patient)
	form := ccGrant + "&" + asConf
	length := fmt.Sprint("Content-Length: ", len(form))
	inner := d.head("Content-Type: "+urlEncoded+"\n"+length+"\n\n") + form
	const media = "Content-Type: " + urlEncoded + "\n"
	chunkOf := func(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }
	for name, test := range map[string]struct {
		request  string
		statuses []int // permitted statuses; the first answer is the only one unless it is a 200
	}{
		"CL.TE":                       {d.head(media+"Content-Length: "+fmt.Sprint(5+len(inner))+"\nTransfer-Encoding: chunked\n\n") + "0\r\n\r\n" + inner, []int{400}},
		"TE.CL":                       {d.head(media+"Transfer-Encoding: chunked\nContent-Length: 4\n\n") + chunkOf(inner) + "0\r\n\r\n", []int{400}},
		"two lengths":                 {d.head(media+length+"\nContent-Length: 0\n\n") + form + inner, []int{400}},
		"xchunked":                    {d.head(media+"Transfer-Encoding: xchunked\n\n") + "0\r\n\r\n" + inner, []int{501}},
		"obs-fold":                    {d.head(media+"Transfer-Encoding:\n chunked\n\n") + "0\r\n\r\n" + inner, []int{400, 501}},
		"two hosts":                   {d.head("Host: evil.example\n"+media+length+"\n\n") + form, []int{400}},
		"chunk size of 17 digits":     {d.head(media+"Transfer-Encoding: chunked\n\n") + "10000000000000005\r\nabcde\r\n0\r\n\r\n" + inner, []int{400}},
		"refusal with an unread body": {d.head("Content-Type: text/plain\n"+fmt.Sprint("Content-Length: ", len(inner))+"\n\n") + inner, []int{400}},
		"too large, inner behind":     {d.head(media+"Content-Length: 100000\n\n") + strings.Repeat("x", 100000-len(inner)) + inner, []int{413}},
		"405, inner in the body":      {strings.Replace(d.head(media+fmt.Sprint("Content-Length: ", len(inner))+"\n\n"), "POST", "PUT", 1) + inner, []int{405}},
		"404, inner in the body":      {strings.Replace(d.head(media+fmt.Sprint("Content-Length: ", len(inner))+"\n\n"), "/oauth/token", "/oauth/none", 1) + inner, []int{404}},
		"GET with a body":             {strings.Replace(d.head(media+fmt.Sprint("Content-Length: ", len(inner))+"\n\n"), "POST /oauth/token", "GET /oauth/jwks", 1) + inner, []int{200}},
		"Expect, inner behind":        {d.head(media+"Expect: 100-continue\nContent-Length: 10737418240\n\n") + inner, []int{413, 417}},
		"upgrade to h2c":              {d.head(media+"Connection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\nContent-Length: 3\n\n") + "a=b", []int{400}},
		"h2 with prior knowledge":     {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + inner, []int{0, 400, 505}},
	} {
		t.Run(name, func(t *testing.T) {
			d.decisions(t)
			answers, _ := d.sends(t, test.request, 1)
			if len(answers) > 1 {
				t.Errorf("%d answers", len(answers))
			}
			status := 0
			if len(answers) > 0 {
				status = answers[0].status
			}
			if !slices.Contains(test.statuses, status) {
				t.Errorf("status %d, want %d", status, test.statuses)
			}
			for _, a := range answers {
				if strings.Contains(a.body, "access_token\"") {
					t.Errorf("a token: %s", a.body)
				}
			}
			for _, line := range d.decisions(t) {
				if line["msg"] == "token issued" {
					t.Error("the request inside was executed")
				}
			}
		})
	}
	d.upstream.none(t)

	// Well-formed requests are answered, once each and in order.
	t.Run("pipelined", func(t *testing.T) {
		d.decisions(t)
		answers, _ := d.sends(t, inner+inner+d.head("Content-Type: text/plain\nContent-Length: 3\n\n")+"a=b"+inner, 4)
		var statuses []int
		for _, a := range answers {
			statuses = append(statuses, a.status)
		}
		if fmt.Sprint(statuses) != "[200 200 400 200]" {
			t.Errorf("answers %v", statuses)
		}
		if lines := d.decisions(t); len(lines) != 4 {
			t.Errorf("%d audit lines", len(lines))
		}
	})
	t.Run("chunk extensions", func(t *testing.T) {
		chunks := fmt.Sprintf("%x;a=b;c\r\n%s\r\n%x\r\n%s\r\n0;x\r\n\r\n", 5, form[:5], len(form)-5, form[5:])
		if answers, _ := d.sends(t, d.head(media+"Transfer-Encoding: chunked\n\n")+chunks, 1); len(answers) != 1 || answers[0].status != http.StatusOK {
			t.Errorf("answers %v", answers)
		}
	})
}
