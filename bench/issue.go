package main

// tokenGoals are the tokens a second that two processors should give.
var tokenGoals = []struct {
	algorithm string
	rate      float64
}{{"ES256", 18_000}, {"EdDSA", 20_000}, {"RS256", 1900}}

// issue asks for tokens.
func (b *bench) issue() error {
	var sides []side
	for _, goal := range tokenGoals {
		ours, err := b.ours(setup{algorithm: goal.algorithm})
		if err != nil {
			return err
		}
		requests := b.requests
		if goal.algorithm == "RS256" {
			requests = max(100, requests/4)
		}
		token := clientCredentials(ours.Issuer)
		sides = append(sides,
			side{name: goal.algorithm, on: ours, load: token, requests: requests},
			side{name: goal.algorithm + " again (control)", against: goal.algorithm, on: ours, load: token, requests: requests})
	}
	outs, err := b.compare(sides...)
	if err != nil {
		return err
	}
	for _, goal := range tokenGoals {
		b.atLeast("client_credentials, "+goal.algorithm, goal.rate, outs.named(goal.algorithm).rate(), 0, "a second")
	}
	return nil
}
