package tokenissuer

// Finding is what one check says of a token.
type Finding struct {
	Check   string `json:"check"`
	Promise string `json:"promise"`
	// Outcome is "passed", "failed" or "not reached".
	Outcome string `json:"outcome"`
	// Reason is the audit log's word for the failure.
	Reason string `json:"reason,omitempty"`
}

// Explanation tells how a token fares.
type Explanation struct {
	// Accepted tells whether Verify accepts the token.
	Accepted bool      `json:"accepted"`
	Findings []Finding `json:"findings"`
	// Claims are what a token says whose signature is good; nil for any other, since anybody can write anything.
	Claims *AccessToken `json:"-"`
}

// Explain runs the checks of Verify on a token, past the cache, and says which pass and which fail. Checks that need
// something that an earlier one could not provide are not reached; the others run, so that one look shows every fault.
func (v *Verifier) Explain(token string, audiences []string) Explanation {
	c := &candidate{verifier: v, token: token, audience: audience{wanted: audiences}}
	x := Explanation{Accepted: true}
	record := func(s step, reachable bool) bool {
		f := Finding{Check: s.name, Promise: s.promise, Outcome: "not reached"}
		passed := false
		if reachable {
			err := s.run(c)
			passed = err == nil
			f.Outcome = "passed"
			if !passed {
				f.Outcome, f.Reason = "failed", AsError(err).Reason
			}
		}
		x.Accepted = x.Accepted && passed
		x.Findings = append(x.Findings, f)
		return passed
	}
	for _, s := range verification {
		passed := record(s, c.reaches(s.name))
		if s.name == "signature" && passed {
			x.Claims = c.claims
		}
	}
	record(step{"revocation", "neither the token nor its family, user, client, organisation or key is revoked",
		func(c *candidate) error {
			if err := v.checkFresh(v.now()); err != nil {
				return err
			}
			return v.checkRevoked(c.claims)
		}}, c.claims != nil)
	return x
}

// reaches tells whether what a check reads is there.
func (c *candidate) reaches(check string) bool {
	switch check {
	case "form":
		return true
	case "type", "key":
		return c.jws != nil
	case "signature":
		return c.jws != nil && c.key != nil
	case "claims":
		return c.key != nil
	default:
		return c.claims != nil
	}
}
