package caddymodule

import (
	"maps"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
)

// trustKeys is what is known of the keys of each trusted issuer, by its name.
type trustKeys map[string]trust.KeysReport

func (t *Target) trustKeys() trustKeys {
	if len(t.Trusted) == 0 {
		return nil
	}
	reports := make(trustKeys, len(t.Trusted))
	for _, other := range t.Trusted {
		reports[other.Name] = other.Issuer.Keys()
	}
	return reports
}

// rows has a line for each key, and one when they could not be fetched again.
func (k trustKeys) rows() (rows [][]string) {
	for _, name := range slices.Sorted(maps.Keys(k)) {
		report := k[name]
		if report.Failed != "" {
			rows = append(rows, []string{"trust " + name + " keys", "the last fetch failed: " + report.Failed})
		}
		for _, key := range report.Keys {
			said := "unusable: " + key.Unusable
			if key.Unusable == "" {
				var algorithms []string
				for _, algorithm := range key.Algorithms {
					algorithms = append(algorithms, string(algorithm))
				}
				said = key.Type + " for " + strings.Join(algorithms, ", ")
			}
			keyID := "without a kid"
			if key.ID != "" {
				keyID = accesstoken.Printable(key.ID)
			}
			rows = append(rows, []string{"trust " + name + " key " + keyID, said})
		}
	}
	return rows
}
