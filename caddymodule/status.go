package caddymodule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// showStatus says how this node stands, whatever state the issuer is in.
func showStatus(t *Target, r *http.Request) (int, any, error) {
	return http.StatusOK, t.status(r.Context()), nil
}

// showRoutes says what protects what. It needs no store, and no issuer.
func showRoutes(t *Target, _ *http.Request) (int, any, error) { return http.StatusOK, t.Routes(), nil }

// nodeStatus is how a node stands.
type nodeStatus struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons,omitzero"`
	Streams int      `json:"open_streams"`
	// Own is how its issuer stands; nil: it is a gate for tokens of others alone.
	Own *issuerStatus `json:",embed"`
	// Trust is what is wrong with a trusted issuer, by its name: why its tokens cannot be judged now, or how the last question
	// about one failed; empty: nothing.
	Trust map[string]string `json:"trust,omitzero"`
	// TrustKeys says which keys of a trusted issuer are used, and why others are not.
	TrustKeys trustKeys `json:"trust_keys,omitzero"`
}

// issuerStatus is how an issuer stands.
type issuerStatus struct {
	Issuer      string `json:"issuer"`
	Store       string `json:"store"`
	Revocations int    `json:"revocations"`
	// Staleness is how long ago the revocations were known to be complete, in seconds; nil: never.
	Staleness *float64       `json:"revocation_staleness_seconds"`
	Keys      map[string]int `json:"keys"`
	// ClockSkew is how far the store's clock is ahead, in seconds.
	ClockSkew   float64 `json:"clock_skew_seconds"`
	Verified    int     `json:"verified_tokens"`
	Housekeeper bool    `json:"housekeeper"`
	// Stored is how many records there are, by table, as counted now; when the store takes too long, as the housekeeper counted
	// last. Nil: this node does not know.
	Stored map[string]int64 `json:"stored_rows,omitzero"`
}

func (t *Target) status(ctx context.Context) nodeStatus {
	s := nodeStatus{Reasons: t.Unreadiness(), Streams: t.OpenStreams(), TrustKeys: t.trustKeys()}
	s.Ready = len(s.Reasons) == 0
	if t.Issuer != nil {
		s.Own = t.issuerStatus(ctx)
	}
	if len(t.Trusted) > 0 {
		s.Trust = make(map[string]string, len(t.Trusted))
	}
	for _, other := range t.Trusted {
		s.Trust[other.Name] = ""
		if err := other.Issuer.Trouble(); err != nil {
			s.Trust[other.Name] = err.Error()
		}
	}
	return s
}

func (t *Target) issuerStatus(ctx context.Context) *issuerStatus {
	of := t.Node.Status()
	s := &issuerStatus{
		Issuer: t.Issuer.URL, Store: of.Store, Revocations: of.Revocations,
		Keys: make(map[string]int), ClockSkew: of.ClockSkew.Seconds(), Verified: of.Verified,
		Housekeeper: of.Housekeeper, Stored: of.Rows,
	}
	if of.Staleness >= 0 {
		age := of.Staleness.Seconds()
		s.Staleness = &age
	}
	for state, n := range of.Keys {
		s.Keys[string(state)] = n
	}
	ctx, cancel := context.WithTimeout(ctx, glanceTimeout)
	defer cancel()
	if rows, err := t.Node.CountRows(ctx); err == nil { // else those of before are better than none
		s.Stored = rows
	}
	return s
}

// statusCommand prints how a node stands. A node that is not ready makes it fail, for whoever asks in a script.
func statusCommand(admin *adminClient) *cobra.Command {
	ready := false
	cmd := queryCommand("status", "Shows whether this node can serve, and how it stands", cobra.NoArgs,
		func(_ *cobra.Command, _ []string, s *nodeStatus) error {
			err := admin.call(http.MethodGet, "/oauth/status", nil, s)
			ready = s.Ready
			return err
		},
		func(out io.Writer, s *nodeStatus) error { return printRows(out, s.rows()) })
	cmd.PostRunE = func(*cobra.Command, []string) error {
		if !ready {
			return errors.New("the node is not ready")
		}
		return nil
	}
	return cmd
}

// rows are what the command prints.
func (s nodeStatus) rows() [][]string {
	rows := [][]string{{"ready", yesOrNo(s.Ready)}}
	for _, reason := range s.Reasons {
		rows = append(rows, []string{"because", reason})
	}
	if s.Own != nil {
		rows = append(rows, s.Own.rows()...)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Trust)) {
		rows = append(rows, []string{"trust " + name, cmp.Or(s.Trust[name], "good")})
	}
	rows = append(rows, s.TrustKeys.rows()...)
	return append(rows, []string{"open streams", strconv.Itoa(s.Streams)})
}

func (s *issuerStatus) rows() (rows [][]string) {
	read := "never read"
	if s.Staleness != nil {
		read = fmt.Sprintf("read %.0f s ago", *s.Staleness)
	}
	rows = append(rows, [][]string{
		{"issuer", s.Issuer}, {"store", s.Store},
		{"revocations", fmt.Sprintf("%d, %s", s.Revocations, read)},
		{"keys", inWordsOf(s.Keys)},
		{"store's clock", fmt.Sprintf("%+.3f s", s.ClockSkew)},
		{"verified tokens", strconv.Itoa(s.Verified)},
		{"housekeeper", yesOrNo(s.Housekeeper)},
	}...)
	for _, table := range slices.Sorted(maps.Keys(s.Stored)) {
		rows = append(rows, []string{"stored " + table, strconv.FormatInt(s.Stored[table], 10)})
	}
	return rows
}

func yesOrNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// inWordsOf lists counts by name, but for those of nothing.
func inWordsOf(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, name))
		}
	}
	return strings.Join(parts, ", ")
}
