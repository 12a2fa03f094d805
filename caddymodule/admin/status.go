package admin

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// nodeOperations need neither store nor issuer.
var nodeOperations = map[Route]operation{
	ShowStatus:   shows[NodeStatus]("Shows how this node does", bare(showStatus)).by(reflect.TypeFor[statusQuery]()),
	ShowWarnings: shows[[]string]("Lists likely mistakes in what protects the routes, as they are logged at a start", bare(showWarnings)),
	ShowRoutes:   shows[[]coverage.Route]("Shows what protects each route to an upstream", bare(showRoutes)),
	ExplainToken: shows[Explanation]("Says which checks a token passes", withBody(explainToken)),
}

// countTimeout bounds the counting of records.
const countTimeout = time.Second

// statusQuery says what of the state is asked for.
type statusQuery struct {
	Uncounted bool `json:"uncounted" help:"Without a new count of the records, which takes longer than all the rest"`
}

// showStatus shows the state of this node. It needs no issuer.
func showStatus(t *Target, r *http.Request) (int, any, error) {
	asked, err := queryOf[statusQuery](r)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, t.status(r.Context(), asked), nil
}

// showRoutes shows what protects each route. It needs neither store nor issuer.
func showRoutes(t *Target, _ *http.Request) (int, any, error) { return http.StatusOK, t.Routes(), nil }

// showWarnings lists likely mistakes. It needs neither store nor issuer.
func showWarnings(t *Target, _ *http.Request) (int, any, error) {
	return listed(t.Warnings(), nil, func(warning string) string { return warning })
}

// NodeStatus is the state of a node.
type NodeStatus struct {
	// Version is that of Gatehouse in the program.
	Version string   `json:"version"`
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons,omitzero"`
	Streams int      `json:"open_streams"`
	// Own is the state of its issuer; nil: it is only a gate for tokens of other issuers.
	Own *IssuerStatus `json:",embed"`
	// Trust is the error of each trusted issuer by name: why its tokens cannot be verified now, or the last error of an introspection;
	// empty: none.
	Trust map[string]string `json:"trust,omitzero"`
	// TrustKeys are the keys of each trusted issuer that are used, and the reasons why others are not.
	TrustKeys map[string]fetch.KeysReport `json:"trust_keys,omitzero"`
	// Providers is the error of each identity provider by name; empty: none is known.
	Providers map[string]string `json:"providers,omitzero"`
	// UntriedProviders are the names of providers without a success or failure since the start.
	UntriedProviders []string `json:"untried_providers,omitzero"`
}

// IssuerStatus is the state of an issuer.
type IssuerStatus struct {
	Issuer      string `json:"issuer,omitempty"`
	Store       string `json:"store"`
	Revocations int    `json:"revocations"`
	// Staleness is how long ago the revocations were known to be complete, in seconds; nil: never.
	Staleness *float64       `json:"revocation_staleness_seconds"`
	Keys      map[string]int `json:"keys"`
	// Signing are the kids of the signing keys by algorithm.
	Signing map[oauth.Algorithm]string `json:"signing_keys"`
	// ClockSkew is how far the store's clock is ahead, in seconds.
	ClockSkew   float64 `json:"clock_skew_seconds"`
	Verified    int     `json:"verified_tokens"`
	Housekeeper bool    `json:"housekeeper"`
	// Stored is the number of records by table, as counted now or, if that was not asked for or takes too long, by the housekeeper; nil: unknown.
	Stored map[string]int64 `json:"stored_rows,omitzero"`
	// AuditDropped is the number of events of the audit log that the store did not get, since this node started.
	AuditDropped int64 `json:"audit_events_dropped,omitzero"`
	// Mail is the state of the mail server; nil: there is no mail.
	Mail *MailStatus `json:"mail,omitzero"`
}

// MailStatus is how the mail server has answered since the configuration began to run.
type MailStatus struct {
	// Trouble is the last error while letters are not sent; empty: none is known.
	Trouble string `json:"trouble,omitzero"`
	// DownSince is since when.
	DownSince   time.Time `json:"down_since,omitzero"`
	LastSuccess time.Time `json:"last_success,omitzero"`
}

func (t *Target) status(ctx context.Context, asked statusQuery) NodeStatus {
	s := NodeStatus{Version: t.Version, Reasons: t.Unreadiness(), Streams: t.OpenStreams()}
	s.Ready = len(s.Reasons) == 0
	if t.OwnIssuer != nil {
		s.Own = t.issuerStatus()
		if !asked.Uncounted {
			ctx, cancel := context.WithTimeout(ctx, countTimeout)
			defer cancel()
			if rows, err := t.Node.CountRows(ctx); err == nil { // else those of before are better than none
				s.Own.Stored = rows
			}
		}
	}
	if len(t.Trusted) > 0 {
		s.Trust, s.TrustKeys = make(map[string]string), make(map[string]fetch.KeysReport)
	}
	for _, other := range t.Trusted {
		s.Trust[other.Name], s.TrustKeys[other.Name] = "", other.Issuer.Keys()
		if err := other.Issuer.Trouble(); err != nil {
			s.Trust[other.Name] = err.Error()
		}
	}
	if len(t.Providers) > 0 {
		s.Providers = make(map[string]string)
	}
	for _, p := range t.Providers {
		s.Providers[p.Name] = p.trouble()
		if state := p.State(); state.LastSuccess.IsZero() && state.LastFailure.IsZero() {
			s.UntriedProviders = append(s.UntriedProviders, p.Name)
		}
	}
	return s
}

func (t *Target) issuerStatus() *IssuerStatus {
	of := t.Node.Status()
	s := &IssuerStatus{
		Issuer: t.Issuer.URL, Store: of.Store, Revocations: of.Revocations,
		Keys: make(map[string]int), Signing: of.Signing, ClockSkew: of.ClockSkew.Seconds(), Verified: of.Verified,
		Housekeeper: of.Housekeeper, Stored: of.Rows, AuditDropped: t.Node.Audit.Dropped(),
	}
	if t.MailState != nil {
		state := t.MailState()
		s.Mail = &MailStatus{DownSince: state.DownSince, LastSuccess: state.LastSuccess}
		if !state.DownSince.IsZero() {
			s.Mail.Trouble = state.LastError
		}
	}
	if t.SessionsOnly {
		s.Issuer = ""
	}
	if of.Staleness >= 0 {
		age := of.Staleness.Seconds()
		s.Staleness = &age
	}
	for state, n := range of.Keys {
		s.Keys[string(state)] = n
	}
	return s
}
