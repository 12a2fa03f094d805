package clientmetadata

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
)

const (
	// fetchTimeout bounds a fetch, from the look-up of the host to the end of the answer.
	fetchTimeout = 5 * time.Second
	// maxDocument is the largest document in bytes. A longer one is refused.
	maxDocument = 64 << 10
)

// errAway marks an error that says nothing of the document: its host did not answer, or answered that it cannot.
var errAway = errors.New("the host of the document does not answer")

// fetcher fetches documents.
type fetcher struct {
	transport *trust.Transport
	http      *http.Client
	timeout   time.Duration
}

// newFetcher returns a fetcher that reaches the internet alone, or private networks too. It follows no redirect: the document would
// be that of another URL, and the redirect of whoever controls the first.
func newFetcher(privateNetwork bool) *fetcher {
	reach := trust.Internet
	if privateNetwork {
		reach = trust.PrivateNetwork
	}
	transport := trust.NewTransport(reach)
	return &fetcher{transport: transport, timeout: fetchTimeout, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// get fetches the document at a URL. Its host is asked for nothing else for a while, so that no connection stays open.
func (f *fetcher) get(ctx context.Context, address string) (http.Header, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	defer f.transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, err
	}
	request.Close = true
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Accept-Encoding", "identity")
	request.Header.Set("User-Agent", trust.UserAgent)
	response, err := f.http.Do(request)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errAway, withoutURL(err))
	}
	defer func() { _ = response.Body.Close() }()
	if err := checkResponse(response); err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("%w: %w", errAway, err)
	case len(body) > maxDocument:
		return nil, nil, fmt.Errorf("it is larger than %d bytes", maxDocument)
	}
	return response.Header, body, nil
}

// checkResponse refuses a response that is no document.
func checkResponse(response *http.Response) error {
	switch status := response.StatusCode; {
	case status >= http.StatusInternalServerError, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
		return fmt.Errorf("%w: status %d", errAway, status)
	case status >= 300 && status < 400:
		return errors.New("its URL redirects, which is not followed")
	case status != http.StatusOK:
		return fmt.Errorf("its host answers with status %d", status)
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return errors.New("it is compressed, which nobody asked for")
	}
	media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil || media != "application/json" && (!strings.HasPrefix(media, "application/") || !strings.HasSuffix(media, "+json")) {
		return errors.New("its media type is not application/json")
	}
	return nil
}

// withoutURL takes the URL out of an error: it is in the audit line already.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
