package caddymodule

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
)

// trustKeys is what is known of the keys of each trusted issuer, by its name.
type trustKeys map[string]trust.KeysReport

func (a *App) trustKeys() trustKeys {
	if len(a.trusted) == 0 {
		return nil
	}
	reports := make(trustKeys, len(a.trusted))
	for _, t := range a.trusted {
		reports[t.name] = t.issuer.Keys()
	}
	return reports
}

// rows has a line for each key, and one when they could not be fetched again.
func (k trustKeys) rows() (rows [][2]string) {
	for _, name := range slices.Sorted(maps.Keys(k)) {
		report := k[name]
		if report.Failed != "" {
			rows = append(rows, [2]string{"trust " + name + " keys", "the last fetch failed: " + report.Failed})
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
			rows = append(rows, [2]string{"trust " + name + " key " + shownKeyID(key.ID), said})
		}
	}
	return rows
}

// maxShownKeyID is how much of a kid is shown in a table.
const maxShownKeyID = 64

// shownKeyID is a kid for a terminal. Somebody else has written it.
func shownKeyID(id string) string {
	if id == "" {
		return "without a kid"
	}
	if len(id) > maxShownKeyID {
		id = id[:maxShownKeyID] + "…"
	}
	if quoted := strconv.QuoteToASCII(id); quoted != `"`+id+`"` || strings.Contains(id, " ") {
		return quoted
	}
	return id
}
