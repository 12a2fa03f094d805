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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/machine"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// These tests cover size, framing and time at the token endpoint, on raw sockets: rows T36, T41, T42, T45 and T46.

// dial opens a connection whose deadline is limit from now.
func (d *door) dial(t *testing.T, limit time.Duration) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", d.addr)
	if err != nil {
		t.Fatal(err)
	}
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

// crlf converts line ends to CR LF.
func crlf(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }

func (d *door) head(more string) string {
	return crlf("POST /oauth/token HTTP/1.1\nHost: " + d.addr + "\n" + more)
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
				for _, chunked := range []bool{false, true} {
					connection := d.dial(t, patience)
					framing, payload := fmt.Sprintf("Content-Length: %d", size), body
					if chunked {
						framing, payload = "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", size, body)
					}
					sent := make(chan struct{})
					go func() { // the server stops reading before everything is written
						defer close(sent)
						_, _ = io.WriteString(connection, d.head("Content-Type: "+contentType+"\n"+framing+"\n\n")+payload)
					}()
					answers, closed := responses(connection, 1)
					_ = connection.Close()
					<-sent
					if len(answers) != 1 {
						t.Fatalf("%d answers", len(answers))
					}
					want := granted()
					if size > 64<<10 {
						want = tooLarge
						if !closed {
							t.Error("the connection is still open")
						}
					}
					d.hold(t, answers[0], want)
				}
			})
		}
	}

	// A Content-Length of 10 GB is refused before the first byte of the body, and costs nothing.
	before := allocated()
	for _, e := range encodings {
		_, contentType := e.body()
		connection := d.dial(t, patience)
		_, _ = io.WriteString(connection, d.head("Content-Type: "+contentType+"\nContent-Length: 10737418240\n\n"))
		answers, closed := responses(connection, 1)
		if len(answers) != 1 || !closed {
			t.Fatalf("10 GB, %s: %d answers, closed %t", e.name, len(answers), closed)
		}
		d.hold(t, answers[0], tooLarge)
	}

	// Endless chunks are cut off, whatever their size.
	for _, e := range encodings {
		for _, chunk := range []string{"1\r\nx\r\n", "1000\r\n" + strings.Repeat("x", 4096) + "\r\n", "1;" + strings.Repeat("e", 1000) + "\r\nx\r\n"} {
			_, contentType := e.body()
			connection := d.dial(t, patience)
			stream := strings.Repeat(chunk, 1+(64<<10)/len(chunk))
			_, err := io.WriteString(connection, d.head("Content-Type: "+contentType+"\nTransfer-Encoding: chunked\n\n"))
			sent := 0
			for err == nil {
				var n int
				n, err = io.WriteString(connection, stream)
				sent += n
			}
			// This includes what the kernel buffers.
			if sent > 32<<20 || d.isTimeout(err) {
				t.Errorf("endless chunks, %s: %d bytes were taken, %v", e.name, sent, err)
			}
			_ = connection.Close()
			for _, line := range d.decisions(t) {
				if reason := line["reason"]; reason != "body_too_large" && reason != "body_incomplete" {
					t.Errorf("audited %v", reason)
				}
			}
		}
	}
	if grown := allocated() - before; grown > 64<<20 {
		t.Errorf("%d MiB were allocated", grown>>20)
	}
	d.hold(t, d.ask(t, "/oauth/token", ccGrant+"&"+asConf), granted())
}

func (*door) isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestT41NobodySmugglesARequest: Content-Length beside Transfer-Encoding, two lengths, bare LF, folded lines, chunk
// extensions, wrong lengths in HTTP/2 and 3 → 400 or 501, and the embedded request is never executed. The embedded
// request would issue a token, so no answer may come except the expected ones.
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
		"length list":                 {d.head(media+length+", 0\n\n") + form + inner, []int{400}},
		"length +":                    {d.head(media+"Content-Length: +5\n\n") + form + inner, []int{400}},
		"length hex":                  {d.head(media+"Content-Length: 0x5\n\n") + form + inner, []int{400}},
		"length -":                    {d.head(media+"Content-Length: -1\n\n") + form + inner, []int{400}},
		"length empty":                {d.head(media+"Content-Length: \n\n") + form + inner, []int{400}},
		"length beyond 64 bits":       {d.head(media+"Content-Length: 18446744073709551617\n\n") + form + inner, []int{400}},
		"xchunked":                    {d.head(media+"Transfer-Encoding: xchunked\n\n") + "0\r\n\r\n" + inner, []int{501}},
		"chunked, identity":           {d.head(media+"Transfer-Encoding: chunked, identity\n\n") + "0\r\n\r\n" + inner, []int{501}},
		"gzip, chunked":               {d.head(media+"Transfer-Encoding: gzip, chunked\n\n") + "0\r\n\r\n" + inner, []int{501}},
		"chunked twice":               {d.head(media+"Transfer-Encoding: chunked\nTransfer-Encoding: chunked\n\n") + "0\r\n\r\n" + inner, []int{501}},
		"chunked, then identity":      {d.head(media+"Transfer-Encoding: chunked\nTransfer-Encoding: identity\n\n") + "0\r\n\r\n" + inner, []int{501}},
		"vertical tab before":         {d.head(media+"Transfer-Encoding: \vchunked\n\n") + "0\r\n\r\n" + inner, []int{400, 501}},
		"space before the colon":      {d.head(media+"Transfer-Encoding : chunked\n\n") + "0\r\n\r\n" + inner, []int{400}},
		"space before the length's":   {d.head(media+"Content-Length : 5\n\n") + form + inner, []int{400}},
		"obs-fold":                    {d.head(media+"Transfer-Encoding:\n chunked\n\n") + "0\r\n\r\n" + inner, []int{400, 501}},
		"obs-fold length":             {d.head(media+"X: y\n "+length+"\n\n") + form, []int{400}},
		"line without a colon":        {d.head(media+"Transfer-Encoding\n\n") + inner, []int{400}},
		"NUL in a name":               {d.head(media+"Content-Length\x00: 5\n\n") + inner, []int{400}},
		"CR within a line":            {d.head(media+"X: y\rTransfer-Encoding: chunked\n\n") + inner, []int{400}},
		"two hosts":                   {d.head("Host: evil.example\n"+media+length+"\n\n") + form, []int{400}},
		"no host":                     {crlf("POST /oauth/token HTTP/1.1\n"+media+length+"\n\n") + form, []int{400}},
		"HTTP/1.0 and chunked":        {crlf("POST /oauth/token HTTP/1.0\nHost: "+d.addr+"\n"+media+"Transfer-Encoding: chunked\n\n") + "0\r\n\r\n" + inner, []int{400}},
		"HTTP/3.0":                    {crlf("POST /oauth/token HTTP/3.0\nHost: "+d.addr+"\n"+media+length+"\n\n") + form, []int{400, 505}},
		"chunk size with 0x":          {d.head(media+"Transfer-Encoding: chunked\n\n") + "0x5\r\nabcde\r\n0\r\n\r\n" + inner, []int{400}},
		"chunk size with -":           {d.head(media+"Transfer-Encoding: chunked\n\n") + "-1\r\n\r\n" + inner, []int{400}},
		"chunk size of 17 digits":     {d.head(media+"Transfer-Encoding: chunked\n\n") + "10000000000000005\r\nabcde\r\n0\r\n\r\n" + inner, []int{400}},
		"chunk size empty":            {d.head(media+"Transfer-Encoding: chunked\n\n") + "\r\n\r\n" + inner, []int{400}},
		"chunk longer than its size":  {d.head(media+"Transfer-Encoding: chunked\n\n") + "1\r\nabc\r\n0\r\n\r\n" + inner, []int{400}},
		"chunk line with bare LF":     {d.head(media+"Transfer-Encoding: chunked\n\n") + "5\nabcde\r\n0\r\n\r\n" + inner, []int{400}},
		"trailer names a length":      {d.head(media+"Transfer-Encoding: chunked\n\n") + chunkOf("a=b") + "0\r\nContent-Length: 5\r\n\r\n" + inner, []int{400}},
		"extension with bare LF":      {d.head(media+"Transfer-Encoding: chunked\n\n") + "5;a\nb\r\nabcde\r\n0\r\n\r\n" + inner, []int{400}},
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
			connection := d.dial(t, patience)
			go func() { _, _ = io.WriteString(connection, test.request) }()
			answers, _ := responses(connection, 1)
			_ = connection.Close()
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
		connection := d.dial(t, patience)
		_, _ = io.WriteString(connection, inner+inner+d.head("Content-Type: text/plain\nContent-Length: 3\n\n")+"a=b"+inner)
		answers, _ := responses(connection, 4)
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
		connection := d.dial(t, patience)
		_, _ = io.WriteString(connection, d.head(media+"Transfer-Encoding: chunked\n\n")+
			fmt.Sprintf("%x;a=b;c\r\n%s\r\n%x\r\n%s\r\n0;x\r\n\r\n", 5, form[:5], len(form)-5, form[5:]))
		if answers, _ := responses(connection, 1); len(answers) != 1 || answers[0].status != http.StatusOK {
			t.Errorf("answers %v", answers)
		}
	})
}

// TestT42SlowBodiesAreCut: a body that never comes after `Expect: 100-continue`, or one byte in five seconds → cut within ten seconds,
// other clients unaffected.
func TestT42SlowBodiesAreCut(t *testing.T) {
	d := openDoor(t, patient)
	const limit = 10*time.Second + time.Second // the row's limit, and a second that a connection may wait to be read
	const media = "Content-Type: " + urlEncoded + "\n"
	form := ccGrant + "&" + asConf
	at := func(method, path, head string) string {
		return crlf(method + " " + path + " HTTP/1.1\nHost: " + d.addr + "\n" + head + "\n")
	}
	// Some of these endpoints never read the body. A server that waited for it first would still hang.
	slow := map[string]string{
		"Expect":                       at("POST", "/oauth/token", media+"Expect: 100-continue\nContent-Length: 100\n"),
		"nothing":                      at("POST", "/oauth/token", media+"Content-Length: 100\n"),
		"chunked":                      at("POST", "/oauth/token", media+"Transfer-Encoding: chunked\n"),
		"one byte short":               at("POST", "/oauth/token", media+fmt.Sprintf("Content-Length: %d\n", len(form)+1)) + form,
		"revoke":                       at("POST", "/oauth/revoke", media+"Content-Length: 100\n"),
		"wrong media type":             at("POST", "/oauth/token", "Content-Type: text/plain\nContent-Length: 100\n"),
		"405":                          at("PUT", "/oauth/token", media+"Content-Length: 100\n"),
		"GET jwks":                     at("GET", "/oauth/jwks", "Content-Length: 100\n"),
		"an operation that is to come": at("POST", "/api/v1/organisations/me/users/u/access_tokens", "Content-Length: 100\n"),
	}
	var all sync.WaitGroup
	var closed atomic.Int64
	began := time.Now()
	for name, request := range slow {
		for _, dripping := range []bool{false, true} {
			all.Go(func() {
				connection, err := net.Dial("tcp", d.addr)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = connection.Close() }()
				start := time.Now()
				_ = connection.SetDeadline(start.Add(limit + patience))
				_, _ = io.WriteString(connection, request)
				defer closed.Add(1)
				ended := make(chan struct{})
				defer close(ended)
				if dripping && name != "one byte short" {
					go func() { // one byte in two seconds keeps any deadline between bytes from passing
						for {
							select {
							case <-ended:
								return
							case <-time.After(2 * time.Second):
								_, _ = io.WriteString(connection, "1")
							}
						}
					}()
				}
				answered, _ := io.ReadAll(connection)
				if took := time.Since(start); machine.Fair(took) > limit {
					t.Errorf("%s, dripping %t: open for %s, answered %q", name, dripping, took.Round(time.Second), answered)
				}
				if strings.Contains(string(answered), "access_token\"") {
					t.Errorf("%s: a token for half a request", name)
				}
			})
		}
	}
	// All other clients are served meanwhile.
	const others = 20
	for range others {
		d.token()
	}
	if n := closed.Load(); n > 0 && time.Since(began) < 10*time.Second {
		t.Errorf("%d of the slow connections were closed before %d tokens were issued beside them", n, others)
	}
	all.Wait()
	d.token()
}

// TestT45EarlyDataIsRefused: a POST in TLS 1.3 early data or with `Early-Data: 1` → 425; repeated after the handshake → served.
func TestT45EarlyDataIsRefused(t *testing.T) {
	d := openDoor(t, patient)
	form := ccGrant + "&" + asConf
	early := outcome{status: 425, code: "invalid_request", reason: "early_data"}
	d.decisions(t)
	for _, path := range []string{"/oauth/token", "/oauth/revoke", "/oauth/introspect"} {
		d.hold(t, d.ask(t, path, form+"&token=x", "Early-Data", "1"), early)
		// RFC 8470 §5.1: several or invalid values count as 1.
		d.hold(t, d.ask(t, path, form+"&token=x", "Early-Data", "0", "Early-Data", "1"), early)
		d.hold(t, d.ask(t, path, form+"&token=x", "Early-Data", "1, 1"), early)
		d.hold(t, d.ask(t, path, form+"&token=x", "Early-Data", "true"), early)
		d.hold(t, d.ask(t, path, form+"&token=x", "Early-Data", ""), early)
	}
	// Requests that change nothing may be replayed.
	if a := d.send(t, http.MethodGet, "/oauth/jwks", "", "Early-Data", "1"); a.status != http.StatusOK {
		t.Errorf("GET: %d", a.status)
	}
	d.hold(t, d.ask(t, "/oauth/token", form), granted())
}

// TestT46AClientThatLeaves: a client that disconnects in mid-request → its grant is done entirely or not at all, with no alarm in the log.
func TestT46AClientThatLeaves(t *testing.T) {
	d := openDoor(t, onDisk)
	secret := d.register(t, store.Client{ID: "app"})
	before := runtime.NumGoroutine()
	form := ccGrant + "&client_id=app&client_secret=" + secret
	request := d.head(fmt.Sprintf("Content-Type: %s\nContent-Length: %d\n\n", urlEncoded, len(form))) + form
	d.decisions(t)
	for i := range 100 {
		connection := d.dial(t, patience)
		// The client sends all of it and reads no answer, or stops within it.
		text := request
		if i%2 == 1 {
			text = request[:len(request)*i/100]
		}
		_, _ = io.WriteString(connection, text)
		_ = connection.(*net.TCPConn).SetLinger(0) // reset instead of closed
		time.Sleep(time.Duration(i%5) * 100 * time.Microsecond)
		_ = connection.Close()
		d.app().issuer.Clients.Authenticated.Forget("app") // makes every request query the store
	}
	if a := d.ask(t, "/oauth/token", form); a.status != http.StatusOK {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
	d.client.CloseIdleConnections()
	if after := settled(before + 5); after > before+5 {
		t.Errorf("%d goroutines, %d before", after, before)
	}
	for _, line := range d.decisions(t) { // of all, because no request is served any longer
		if line["level"] == "error" {
			t.Errorf("an alarm: %v", line)
		}
		if line["msg"] != "token issued" && line["reason"] == "internal_error" {
			t.Errorf("audited %v", line)
		}
	}
}
